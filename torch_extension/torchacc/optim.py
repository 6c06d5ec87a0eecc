"""Optimizers that PyTorch has not. Nothing of a step is read by the host."""

from collections.abc import Callable, Iterable
from typing import Any

import torch


class AGD(torch.optim.Optimizer):
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
        # Without its bias; there is none before the first step.
        last = average / before if before else torch.zeros_like(average)
        average.lerp_(gradient, 1 - beta1)
        difference = average / now - last
        square.mul_(beta2).addcmul_(difference, difference, value=1 - beta2)
        divisor = square.sqrt().clamp_min_(group["delta"] * weight**0.5)
        parameter.mul_(1 - lr * group["weight_decay"])
        parameter.addcdiv_(average, divisor, value=-lr * weight**0.5 / now)


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
        # The same, so that a scheduler of either is one of both.
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
        # Of what has no gradient there it is not known how that differs.
        differences = [
            torch.zeros_like(here) if parameter.grad is None else parameter.grad - here
            for (parameter, _), here in zip(moved, gradients, strict=True)
        ]
        # What had no gradient here takes no step.
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
        # Of no gradient at all no direction is known.
        norm = torch.nn.utils.get_total_norm(scaled, foreach=False).clamp_min(1e-12)
        for (parameter, _), size, one in zip(moved, sizes, scaled, strict=True):
            parameter.add_(size * one * (self.rho / norm))

    def add_param_group(self, group: dict[str, Any]) -> None:
        # The constructor of the class above adds those of `base`.
        add = self.base.add_param_group if self._is_made else super().add_param_group
        add(group)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__.copy()

    def state_dict(self) -> dict[str, Any]:
        return self.base.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.base.load_state_dict(state)
        self.param_groups, self.state = self.base.param_groups, self.base.state
