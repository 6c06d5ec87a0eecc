"""`measure`: a model's parameters, FLOPs and activations, by running it on the device meta."""

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only

from torchacc.auto.model import Amount, Block, Model
from torchacc.parallel.modules import repeated as repeated_layers
from torchacc.parallel.tensor import STYLES, has_own_plan, models_own, planned


def measure(
    module: nn.Module,
    inputs: Sequence | Mapping[str, Any],
    *,
    heads: int | None = None,
    kv_heads: int | None = None,
    plan: Mapping[str, str] | None = None,
) -> Model:
    """The model that `module` is, by a dry run of it on the device meta. The module may be there or
    anywhere, and stays as it is.

    `inputs` are its arguments, by position or by name; their tensors have the batch first, and the
    first one's second size is the sequence. Blocks are the layers that the module repeats. What
    tensor parallel splits is said by `plan`, in the words of `dist.tp.plan`, or by the module's own
    plan; without one nothing is split. `heads` and `kv_heads` are those of its attention, which a
    Hugging Face model says itself. A loss that is computed outside of the module is not seen.
    Raises ValueError for a module without repeated layers, and for a plan that does not fit it.
    """
    args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else (tuple(inputs), {})
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    if not tensors or not tensors[0].ndim:
        raise ValueError("measure: inputs has no tensor whose first size is the batch")
    repeated = [*repeated_layers(module)]
    if not repeated:
        raise ValueError("measure: the module has no list of layers that it repeats")
    if plan is not None:
        styles = planned(module, dict(plan))
    else:
        styles = models_own(module) if has_own_plan(module) else {}
    about = getattr(module, "config", None)
    heads = heads or getattr(about, "num_attention_heads", None)
    kv_heads = kv_heads or getattr(about, "num_key_value_heads", None) or heads

    tensor_on_meta = functools.partial(torch.empty_like, device="meta")
    state = {name: tensor_on_meta(one) for name, one in module.named_buffers()}
    for name, one in module.named_parameters():
        state[name] = tensor_on_meta(one).requires_grad_(one.requires_grad)
    args, kwargs = tree_map_only(torch.Tensor, tensor_on_meta, (args, kwargs))
    run = _DryRun(module, repeated, styles, state.values(), batch=len(tensors[0]))
    with run, torch.device("meta"):
        result = torch.func.functional_call(module, state, args, kwargs)
    parts = run.parts(result)
    return Model(
        type(module).__name__,
        parts[0],
        tuple(parts[1:-1]),
        parts[-1],
        sequence=tensors[0].shape[1] if tensors[0].ndim > 1 else 1,
        heads=heads,
        kv_heads=kv_heads,
        tied=sum(part.parameters.total for part in parts)
        - sum(parameter.numel() for parameter in module.parameters()),
        split_sizes=_even_sizes(module, styles),
    )


def _even_sizes(module: nn.Module, styles: Mapping[str, str]) -> dict[str, int]:
    """One module of each size that tensor parallel must divide."""
    sizes: dict[int, str] = {}
    for name, style in styles.items():
        _, _, dim, is_even = STYLES[style]
        if is_even:
            sizes.setdefault(module.get_submodule(name).weight.shape[dim], name)
    return {name: size for size, name in sizes.items()}


class _Counts:
    """What a part of the model was seen to have, of the whole batch."""

    def __init__(self):
        self.parameters = self.matmul = self.saved = self.largest = Amount()
        self.attention = self.attention_computed = self.output = self.reduces = 0
        self.operations = 0
        self.storages: set[int] = set()

    def keep(self, numbers: float, is_split: bool) -> None:
        self.saved += _amount(numbers, is_split)
        self.see(numbers, is_split)

    def see(self, numbers: float, is_split: bool) -> None:
        if numbers > self.largest.total:
            self.largest = _amount(numbers, is_split)

    def own(self, module: nn.Module, style: str | None) -> None:
        """Parameters of a module itself, and what its style costs."""
        for name, parameter in module.named_parameters(recurse=False):
            is_split = style is not None and (name == "weight" or STYLES[style][2] == 0)
            self.parameters += _amount(parameter.numel(), is_split)
        # Sums of results, and of the gradients of inputs that were equal on all ranks: each module
        # that is split by columns has one of its own.
        self.reduces += {None: 0, "rowwise": 1, "colwise": 1}.get(style, 2)

    def block(self, name: str, batch: int) -> Block:
        def of_one(amount: Amount) -> Amount:
            return Amount(amount.whole / batch, amount.split / batch)

        return Block(
            name,
            parameters=self.parameters,
            matmul=of_one(self.matmul),
            attention=self.attention / batch,
            attention_computed=self.attention_computed / batch,
            saved=of_one(self.saved),
            largest=of_one(self.largest),
            output=self.output / batch,
            reduces=self.reduces,
            operations=self.operations,
        )


def _amount(number: float, is_split: bool) -> Amount:
    return Amount(0, number) if is_split else Amount(number, 0)


def _storage(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _numbers(values: Any) -> float:
    """Of all tensors; what is no floating point number counts by its bytes, as if those had two
    each."""
    tensors = [one for one in tree_leaves(values) if isinstance(one, torch.Tensor)]
    return sum(
        one.numel() if one.is_floating_point() else one.numel() * one.element_size() / 2
        for one in tensors
    )


class _Attention(torch.autograd.Function):
    """Attention that computes nothing, and keeps what kernels without a matrix of scores keep:
    queries, keys, values, the result, and a number for each row."""

    @staticmethod
    def forward(ctx, query, key, value):
        result = query.new_empty(*query.shape[:-1], value.shape[-1])
        ctx.save_for_backward(query, key, value, result, query.new_empty(query.shape[:-1]))
        return result


class _DryRun(TorchDispatchMode):
    """Counts FLOPs and what is kept for the backward pass, by blocks.

    A tensor is split by tensor parallel from the result of a "colwise" module on, through all that
    is computed from it, up to the result of a "rowwise" one.
    """

    def __init__(self, module, repeated, styles, weights, batch):
        super().__init__()
        # Not with this module: it imports Triton.
        from torch.utils.flop_counter import flop_registry

        self.flops_of = flop_registry
        self.module, self.repeated, self.styles, self.batch = module, repeated, styles, batch
        self.weights = {_storage(one) for one in weights}
        self.names = {one: name for name, one in module.named_modules()}
        # Parts: before the blocks, each block in the order of their first calls, after the blocks.
        self.order: list[nn.Module] = []
        self.part = 0
        self.counts = [_Counts() for _ in range(len(repeated) + 2)]
        self.owners: dict[nn.Module, int] = {}
        self.split: set[int] = set()
        self.inside = 0
        self.alive: list[torch.Tensor] = []  # so that no storage gets another's address

    def __enter__(self):
        self.exits = contextlib.ExitStack()
        inner = {one for block in self.repeated for one in block.modules()}
        for one in self.module.modules():
            hooks = []
            if one in self.repeated:
                hooks.append(one.register_forward_pre_hook(self._enter_block))
                hooks.append(one.register_forward_hook(self._leave_block))
            if one not in inner and [*one.parameters(recurse=False)]:
                hooks.append(one.register_forward_pre_hook(self._own))
            if self.names[one] in self.styles:
                hooks.append(one.register_forward_pre_hook(self._enter_split, prepend=True))
                hooks.append(one.register_forward_hook(self._leave_split))
            for hook in hooks:
                self.exits.callback(hook.remove)
        # On the meta device, PyTorch's own attention has a matrix of scores.
        patch = mock.patch.object(F, "scaled_dot_product_attention", self._attention)
        self.exits.enter_context(patch)
        saved = torch.autograd.graph.saved_tensors_hooks(self._keep, lambda kept: kept)
        self.exits.enter_context(saved)
        self.exits.enter_context(torch.enable_grad())
        return super().__enter__()

    def __exit__(self, *error):
        super().__exit__(*error)
        self.exits.close()

    def _enter_block(self, block, inputs):
        if block not in self.order:
            self.order.append(block)
            if len(self.order) == 1:
                self.counts[0].output = _numbers(inputs)
        self.part = 1 + self.order.index(block)

    def _leave_block(self, block, inputs, output):
        self.counts[self.part].output = _numbers(output)
        if len(self.order) == len(self.repeated):
            self.part = len(self.repeated) + 1

    def _own(self, one, inputs):
        self.owners.setdefault(one, self.part)

    def _enter_split(self, one, inputs):
        self.inside += 1

    def _leave_split(self, one, inputs, output):
        self.inside -= 1
        is_split = self.styles[self.names[one]] == "colwise"
        for tensor in tree_leaves(output):
            (self.split.add if is_split else self.split.discard)(_storage(tensor))

    def _keep(self, tensor):
        storage, counts = _storage(tensor), self.counts[self.part]
        if storage not in self.weights and storage not in counts.storages:
            counts.storages.add(storage)
            self.alive.append(tensor.detach())
            counts.keep(_numbers(tensor), storage in self.split)
        return tensor

    def _attention(self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, **_):
        rows = query.shape[:-1].numel() * key.shape[-2]
        flops = 2 * rows * (query.shape[-1] + value.shape[-1])
        self.counts[self.part].attention += flops
        self.counts[self.part].attention_computed += flops / 2 if is_causal else flops
        return _Attention.apply(query, key, value)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, torch.Tensor)]
        is_split = any(_storage(one) in self.split for one in tensors)
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                self.alive.append(tensor)
                if is_split:
                    self.split.add(_storage(tensor))
        self.counts[self.part].operations += 1
        if count := self.flops_of.get(func._overloadpacket):
            flops = count(*args, **(kwargs or {}), out_val=result)
            self.counts[self.part].matmul += _amount(flops, is_split or self.inside > 0)
        return result

    def parts(self, result) -> list[Block]:
        """What was counted, of one element of the batch."""
        if len(self.order) < len(self.repeated):
            missing = next(one for one in self.repeated if one not in self.order)
            raise ValueError(f"measure: {self.names[missing]} is not called with these inputs")
        self.counts[-1].see(_numbers(result), False)
        owners = self.owners | {
            one: 1 + index for index, block in enumerate(self.order) for one in block.modules()
        }
        for one, name in self.names.items():
            style, part = self.styles.get(name), owners.get(one, 0)
            self.counts[part].own(one, style)
        labels = ["first", *(self.names[block] for block in self.order), "last"]
        return [
            counts.block(label, self.batch)
            for label, counts in zip(labels, self.counts, strict=True)
        ]
