"""PyTorch's own table of modules (module_db) on acc against the CPU: outputs, gradients, buffers.

Each module is made on the CPU and copied, so that both start from the same parameters.
"""

import copy

import pytest
import torch
from support import DEVICE, to_device
from torch.testing._internal.common_modules import module_db
from torch.utils._pytree import tree_leaves, tree_map

# Drawn numbers differ between devices: shapes and dtypes alone are compared.
RANDOM = {"FractionalMaxPool2d", "FractionalMaxPool3d"}
# What errors are at the most where the CPU has none; in f64 it is no more exact than acc.
ROUNDINGS = {torch.float64: 128, torch.float32: 16, torch.bfloat16: 32, torch.float16: 16}


def rows():
    for info in module_db:
        for training in (True, False) if info.train_and_eval_differ else (True,):
            mode = "-training" if info.train_and_eval_differ and training else ""
            yield pytest.param(info, training, id=info.formatted_name + mode)


def is_float(leaf):
    return isinstance(leaf, torch.Tensor) and leaf.is_floating_point()


def without_dropout(module):
    """Draws nothing: with p = 0 the same code runs."""
    for part in module.modules():
        for name in ("dropout", "p"):
            if isinstance(getattr(part, name, None), float) and "ropout" in (name + repr(part)):
                setattr(part, name, 0.0)


def leaves(tree, dtype):
    """A copy of every tensor, the floats in `dtype`, each a leaf that requires what it did."""

    def copied(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        value = leaf.detach().to(dtype if is_float(leaf) else leaf.dtype, copy=True)
        return value.requires_grad_(leaf.requires_grad)

    return tree_map(copied, tree)


def calls(info, training):
    """For each of the row's inputs the module on the CPU, with it the arguments of its call."""
    torch.manual_seed(0)
    how = {"device": "cpu", "dtype": torch.float32, "requires_grad": True, "training": training}
    inputs = info.module_inputs_func(info, **how)
    for given in inputs:
        arguments, keywords = given.constructor_input.args, given.constructor_input.kwargs
        module = info.module_cls(*arguments, **keywords).train(training)
        without_dropout(module)
        forward = given.forward_input
        call = ((), {}) if forward is None else (forward.args, forward.kwargs)
        if info.is_lazy:
            # It draws its parameters in its first call.
            module(*call[0], **call[1])
        yield module, call


def run(module, arguments):
    """The module's outputs and, by name, all gradients and buffers that follow from them."""
    positional, keywords = arguments
    outputs = module(*positional, **keywords)
    found = {f"output {i}": leaf for i, leaf in enumerate(tree_leaves(outputs))}
    wanted = [leaf for leaf in found.values() if is_float(leaf) and leaf.requires_grad]
    if wanted:
        # Weights that differ, so that no sum over a normalised dimension vanishes.
        weights = [torch.linspace(-1, 2, leaf.numel()).view_as(leaf) for leaf in wanted]
        weights = [w.to(leaf) for w, leaf in zip(weights, wanted, strict=True)]
        torch.autograd.backward(wanted, weights)
    named = dict(module.named_parameters())
    inputs = {f"input {i}": leaf for i, leaf in enumerate(tree_leaves(arguments))}
    for name, leaf in (named | inputs).items():
        if is_float(leaf) and leaf.is_leaf:
            found[f"gradient of {name}"] = leaf.grad
    return found | dict(module.named_buffers())


def deviation(value, exact):
    """The largest error of an element, as a part of the largest element."""
    if not (is_float(exact) and exact.numel()):
        return 0.0
    off = (value.detach().cpu().double() - exact.detach()).nan_to_num(0, 0, 0)
    return (off.abs().amax() / size(exact)).item()


def size(exact):
    return 1 + exact.detach().nan_to_num(0, 0, 0).abs().amax() if exact.numel() else torch.ones(())


def compare(name, actual, exact, eager, bound):
    if not isinstance(eager, torch.Tensor):
        assert actual == eager, name
        return
    assert actual.device.type == DEVICE, name
    assert (actual.shape, actual.dtype) == (eager.shape, eager.dtype), name
    found, exact = actual.detach().cpu().double(), exact.detach().double()
    bound = bound * size(exact).item() if is_float(eager) else 0.0
    torch.testing.assert_close(found, exact, rtol=0, atol=bound, equal_nan=True)


@pytest.mark.parametrize("dtype", list(ROUNDINGS), ids=lambda dtype: str(dtype)[6:])
@pytest.mark.parametrize("info, training", rows())
def test_module(info, training, dtype):
    runs = []
    for module, arguments in calls(info, training):
        module, arguments = module.to(dtype), leaves(arguments, dtype)
        wide = copy.deepcopy(module).double(), leaves(arguments, torch.float64)
        on_acc = copy.deepcopy(module).to(DEVICE), to_device(arguments)
        try:
            eager = run(module, arguments)
        except (NotImplementedError, RuntimeError) as error:
            if "not implemented for" not in str(error):
                raise
            continue
        runs.append((run(*on_acc), run(*wide), eager))
        assert runs[-1][0].keys() == runs[-1][1].keys() == eager.keys()
    if not runs:
        pytest.skip("the CPU computes none of this type")
    # As near to f64 as the type lets it be, or as PyTorch's CPU is.
    errors = [deviation(eager[n], exact[n]) for _, exact, eager in runs for n in eager]
    bound = ROUNDINGS[dtype] * torch.finfo(dtype).eps + 8 * max(errors)
    for actual, exact, eager in runs:
        for name, value in eager.items():
            if info.name.rpartition(".")[2] in RANDOM:
                assert actual[name].shape == value.shape
            else:
                compare(name, actual[name], exact[name], value, bound)
