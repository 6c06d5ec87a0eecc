"""Optimizers that PyTorch has not. Nothing of a step is read by the host."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F


class _OneByOne(torch.optim.Optimizer):
    """Steps parameter by parameter, by `_update`; the device runs all of it as one program."""

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group)
        return loss


class AGD(_OneByOne):
    """AGD: steps preconditioned by how gradients differ from one to the next.

    Yue et al., "AGD: an Auto-switchable Optimizer using Stepwise Gradient Difference for
    Preconditioning Matrix", NeurIPS 2023 (arXiv 2312.01658), algorithm 1. Where differences are
    below `delta` a step is one of SGD with momentum. The paper's learning rates are about a tenth
    of Adam's. Weight decay is decoupled, as in AdamW.

    Raises ValueError for what is out of range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        delta: float = 1e-5,
        weight_decay: float = 0.0,
    ) -> None:
        for name, value, is_fit in (
            ("lr", lr, lr >= 0),
            ("betas", betas, all(0 <= beta < 1 for beta in betas)),
            ("delta", delta, delta > 0),
            ("weight_decay", weight_decay, weight_decay >= 0),
        ):
            if not is_fit:
                raise ValueError(f"AGD: {name} is {value}")
        options = {"lr": lr, "betas": betas, "delta": delta, "weight_decay": weight_decay}
        super().__init__(params, options)

    def _update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        state, gradient = self.state[parameter], parameter.grad
        if not state:
            state["step"] = 0
            state["average"] = torch.zeros_like(parameter)
            state["square"] = torch.zeros_like(parameter)
        (beta1, beta2), lr = group["betas"], group["lr"]
        average, square = state["average"], state["square"]
        before = 1 - beta1 ** state["step"]
        state["step"] += 1
        now, weight = 1 - beta1 ** state["step"], 1 - beta2 ** state["step"]
        # The last average without its bias; zero before the first step.
        last = average / before if before else torch.zeros_like(average)
        average.lerp_(gradient, 1 - beta1)
        difference = average / now - last
        square.mul_(beta2).addcmul_(difference, difference, value=1 - beta2)
        divisor = square.sqrt().clamp_min_(group["delta"] * weight**0.5)
        parameter.mul_(1 - lr * group["weight_decay"])
        parameter.addcdiv_(average, divisor, value=-lr * weight**0.5 / now)


class AdamW8bit(_OneByOne):
    """AdamW whose averages take a byte an element instead of four.

    Dettmers et al., "8-bit Optimizers via Block-wise Quantization", ICLR 2022 (arXiv 2110.02861):
    codes of dynamic quantization, scaled in blocks of `block_size` elements of the last dimension.
    A step is computed in f32 (f64 for such parameters), and only what is kept of it is rounded.
    Parameters of fewer than `min_size` elements or than two dimensions keep f32 averages, and so do
    those that are sharded in the middle of a block.

    State of a parameter `[..., n]`: `average` and `square`, u8 `[..., n]`, and their `_scale`s, f32
    `[..., n / block_size rounded up]`. Sharded parameters have sharded state.

    Raises ValueError for what is out of range.
    """

    def __init__(
        self,
        params: Iterable,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        block_size: int = 256,
        min_size: int = 4096,
    ) -> None:
        for name, value, is_fit in (
            ("lr", lr, lr >= 0),
            ("betas", betas, all(0 <= beta < 1 for beta in betas)),
            ("eps", eps, eps >= 0),
            ("weight_decay", weight_decay, weight_decay >= 0),
            ("block_size", block_size, block_size > 0),
        ):
            if not is_fit:
                raise ValueError(f"AdamW8bit: {name} is {value}")
        self.block_size, self.min_size = block_size, min_size
        # By device, and by whether numbers may be negative.
        self._codes: dict[tuple[torch.device, bool], Codes] = {}
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, options)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        # The base class casts the whole state to the parameter's type.
        for group, saved in zip(self.param_groups, state_dict["param_groups"], strict=True):
            for parameter, number in zip(group["params"], saved["params"], strict=True):
                for name, value in state_dict["state"].get(number, {}).items():
                    if isinstance(value, torch.Tensor):
                        self.state[parameter][name] = value.to(parameter.device, copy=True)

    def _update(self, parameter: torch.Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            self._begin(parameter, state)
        state["step"] += 1
        (beta1, beta2), lr = group["betas"], group["lr"]
        here = _local(parameter)
        wide = torch.float64 if here.dtype == torch.float64 else torch.float32
        gradient = _local(parameter.grad).to(wide)
        average = self._read(state, "average", wide).lerp(gradient, 1 - beta1)
        square = self._read(state, "square", wide) * beta2
        square = square.addcmul(gradient, gradient, value=1 - beta2)
        self._write(state, "average", average)
        self._write(state, "square", square)
        divisor = (square / (1 - beta2 ** state["step"])).sqrt() + group["eps"]
        here.mul_(1 - lr * group["weight_decay"])
        here.sub_(average / divisor * (lr / (1 - beta1 ** state["step"])))

    def _begin(self, parameter: torch.Tensor, state: dict[str, Any]) -> None:
        state["step"] = 0
        is_large = parameter.ndim > 1 and parameter.numel() >= self.min_size
        for name in ("average", "square"):
            if not is_large or not self._has_whole_blocks(parameter):
                wide = torch.promote_types(parameter.dtype, torch.float32)
                state[name] = torch.zeros_like(parameter, dtype=wide)
                continue
            state[name] = torch.zeros_like(parameter, dtype=torch.uint8)
            state[f"{name}_scale"] = self._scales(parameter)

    def _scales(self, parameter: torch.Tensor) -> torch.Tensor:
        """Zeros, sharded as the parameter is."""

        def sizes(tensor):
            return *tensor.shape[:-1], -(-tensor.shape[-1] // self.block_size)

        here = _local(parameter)
        scales = here.new_zeros(sizes(here), dtype=torch.float32)
        if here is parameter:
            return scales
        from torch.distributed.tensor import DTensor

        whole = torch.empty(sizes(parameter), device="meta")
        mesh, placements = parameter.device_mesh, parameter.placements
        return DTensor.from_local(
            scales, mesh, placements, run_check=False, shape=whole.shape, stride=whole.stride()
        )

    def _has_whole_blocks(self, parameter: torch.Tensor) -> bool:
        """Whether no block is on two ranks."""
        last = parameter.ndim - 1
        is_split = any(p.is_shard(last) for p in getattr(parameter, "placements", ()))
        ranks = parameter.device_mesh.size() if is_split else 1
        return not is_split or parameter.shape[-1] % (ranks * self.block_size) == 0

    def _read(self, state: dict[str, Any], name: str, wide: torch.dtype) -> torch.Tensor:
        value = _local(state[name])
        if value.dtype != torch.uint8:
            return value
        scale = _local(state[f"{name}_scale"])
        return self._table(value, name).numbers_of(value, scale, self.block_size).to(wide)

    def _write(self, state: dict[str, Any], name: str, value: torch.Tensor) -> None:
        kept = _local(state[name])
        if kept.dtype != torch.uint8:
            kept.copy_(value)
            return
        codes, scale = self._table(kept, name).codes_of(value.float(), self.block_size)
        kept.copy_(codes)
        _local(state[f"{name}_scale"]).copy_(scale)

    def _table(self, value: torch.Tensor, name: str) -> "Codes":
        key = (value.device, name == "average")
        if key not in self._codes:
            self._codes[key] = Codes(*key)
        return self._codes[key]


class Codes:
    """Dynamic quantization: 256 numbers from -1, or 0, to 1. Below each power of ten down to 1e-6
    there are half as many as below the one above, evenly spaced."""

    def __init__(self, device: torch.device, is_signed: bool) -> None:
        numbers = [0.0, 1.0]
        for exponent in range(7):
            count = 2 ** (exponent + (0 if is_signed else 1))
            width = 0.9 / count
            tenths = [0.1 + width * (n + 0.5) for n in range(count)]
            decade = [10.0 ** (exponent - 6) * tenth for tenth in tenths]
            numbers += decade + ([-number for number in decade] if is_signed else [])
        table = torch.tensor(sorted(numbers), dtype=torch.float64)
        self.table = table.float().to(device)
        self.between = ((table[1:] + table[:-1]) / 2).float().to(device)

    def codes_of(self, numbers: torch.Tensor, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The nearest codes of numbers `[..., n]`, and the scale of each block `[..., blocks]`."""
        blocks = _blocks(numbers, size)
        scale = blocks.abs().amax(-1, keepdim=True)
        # A block of zeros has no scale.
        codes = torch.bucketize(blocks / scale.where(scale != 0, 1), self.between)
        codes = codes.to(torch.uint8).flatten(-2)[..., : numbers.shape[-1]]
        return codes, scale.squeeze(-1)

    def numbers_of(self, codes: torch.Tensor, scale: torch.Tensor, size: int) -> torch.Tensor:
        blocks = self.table[_blocks(codes, size).long()] * scale.unsqueeze(-1)
        return blocks.flatten(-2)[..., : codes.shape[-1]]


def _blocks(values: torch.Tensor, size: int) -> torch.Tensor:
    """`[..., n]` as `[..., blocks, size]`, the last one filled with zeros."""
    missing = -values.shape[-1] % size
    return (F.pad(values, (0, missing)) if missing else values).unflatten(-1, (-1, size))


def _local(tensor: torch.Tensor) -> torch.Tensor:
    """What this rank has of it."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


class WSAM(torch.optim.Optimizer):
    """WSAM: another optimizer's steps, drawn to where the loss is flat.

    Yue et al., "Sharpness-Aware Minimization Revisited: Weighted Sharpness as a Regularization
    Term", KDD 2023 (arXiv 2305.15817). The gradient is taken once more where the loss is largest
    within `rho`; by how much it differs weighs `gamma / (1 - gamma)`, beside the step of `base`
    (`decouple`) or in its gradient. `gamma` 0 is `base`, 0.5 without `decouple` is SAM. `adaptive`
    scales the distance by the parameters (ASAM).

    `step` needs a closure that makes gradients zero, computes the loss and its gradients, and gives
    the loss; it runs twice. Raises ValueError without one, and for what is out of range.
    """

    def __init__(
        self,
        base: torch.optim.Optimizer,
        rho: float = 0.05,
        gamma: float = 0.9,
        adaptive: bool = False,
        decouple: bool = True,
    ) -> None:
        if rho < 0:
            raise ValueError(f"WSAM: rho is {rho}")
        if not 0 <= gamma < 1:
            raise ValueError(f"WSAM: gamma is {gamma}: at least 0 and less than 1")
        self.base, self._is_made = base, False
        super().__init__(base.param_groups, {})
        # Shared, so that a scheduler of one optimizer acts on both.
        self.param_groups, self.state = base.param_groups, base.state
        self._is_made = True
        self.rho, self.weight = rho, gamma / (1 - gamma)
        self.adaptive, self.decouple = adaptive, decouple

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        if closure is None:
            raise ValueError("WSAM.step: a closure is needed, which computes the gradients twice")
        with torch.enable_grad():
            loss = closure()
        moved = [
            (parameter, group)
            for group in self.param_groups
            for parameter in group["params"]
            if parameter.grad is not None
        ]
        places = [parameter.clone() for parameter, _ in moved]
        gradients = [parameter.grad.clone() for parameter, _ in moved]
        try:
            self._climb(moved, gradients)
            with torch.enable_grad():
                closure()
        finally:
            for (parameter, _), place in zip(moved, places, strict=True):
                parameter.copy_(place)
        # Without a gradient at the moved point, the difference is unknown.
        differences = [
            torch.zeros_like(here) if parameter.grad is None else parameter.grad - here
            for (parameter, _), here in zip(moved, gradients, strict=True)
        ]
        # Parameters without a gradient here take no step.
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        for (parameter, _), here, more in zip(moved, gradients, differences, strict=True):
            parameter.grad = here if self.decouple else here + more * self.weight
        self.base.step()
        if self.decouple:
            for (parameter, group), more in zip(moved, differences, strict=True):
                parameter.sub_(more * (group["lr"] * self.weight))
        return loss

    def _climb(self, moved, gradients) -> None:
        # In f32: a half's squares overflow.
        wide = [one if one.dtype == torch.float64 else one.float() for one in gradients]
        sizes = [parameter.abs() if self.adaptive else 1 for parameter, _ in moved]
        scaled = [size * gradient for size, gradient in zip(sizes, wide, strict=True)]
        # Without any gradient, no direction is known.
        norm = torch.nn.utils.get_total_norm(scaled, foreach=False).clamp_min(1e-12)
        for (parameter, _), size, one in zip(moved, sizes, scaled, strict=True):
            parameter.add_(size * one * (self.rho / norm))

    def add_param_group(self, group: dict[str, Any]) -> None:
        # The base class's constructor adds the groups of `base`.
        add = self.base.add_param_group if self._is_made else super().add_param_group
        add(group)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def state_dict(self) -> dict[str, Any]:
        return self.base.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.base.load_state_dict(state_dict)
        self.param_groups, self.state = self.base.param_groups, self.base.state
