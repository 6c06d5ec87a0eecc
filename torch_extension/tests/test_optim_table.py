"""PyTorch's own table of optimizers (optim_db) on acc against the CPU: parameters and states."""

import copy
import re

import pytest
import torch
from support import DEVICE
from torch.testing._internal.common_optimizers import optim_db
from torch.utils._pytree import tree_map

STEPS = 5
# Of gradients that are exact in f32, so that a difference is the optimizer's.
SHAPES = [(3, 4), (5,), (2, 3, 2), ()]


def variants(info):
    """Arguments of the optimizer, with how it goes through its parameters."""
    ways = [{"foreach": False}, *({way: True} for way in info.supported_impls)]
    if info.has_capturable_arg:
        ways.append({"capturable": True})
    if not info.supported_impls:
        ways = [{}]
    for given in info.optim_inputs_func("cpu"):
        for way in ways:
            yield given, way


def rows():
    for info in optim_db:
        for given, way in variants(info):
            label = f"{info.optim_cls.__name__}-{given.desc.replace(' ', '_')}-{'_'.join(way)}"
            yield pytest.param(info, given, way, id=label)


def values(info, dtype, seed):
    shapes = [s for s in SHAPES if len(s) == 2] if info.optim_cls.__name__ == "Muon" else SHAPES
    draw = torch.Generator().manual_seed(seed)
    numbers = [torch.randint(-64, 65, shape, generator=draw) / 32 for shape in shapes]
    return [n.to(dtype) * (1 + 0.5j if dtype.is_complex else 1) for n in numbers]


def train(info, given, way, dtype, device):
    """Parameters, and the optimizer's states of each, after some steps."""
    # An update that is differentiated is of no leaf.
    is_leaf = not way.get("differentiable")
    parameters = [v.to(device).requires_grad_(is_leaf) for v in values(info, dtype, 0)]
    keywords = copy.deepcopy(given.kwargs) | (way if device == DEVICE else on_the_cpu(way))
    optimizer = info.optim_cls(parameters, **keywords)
    # A line search needs something to find: where it is to go up, a function that has a maximum.
    sign = -1 if info.step_requires_closure and keywords.get("maximize") else 1
    for step in range(STEPS):
        # A line search remembers where it has been: what it searches stays.
        seed = 1 if info.step_requires_closure else step + 1
        pulls = [v.to(device) for v in values(info, dtype, seed)]

        def closure(pulls=pulls):
            with torch.no_grad():
                offs = [p - v for p, v in zip(parameters, pulls, strict=True)]
                for p, off in zip(parameters, offs, strict=True):
                    grad = sign * off
                    p.grad = grad.to_sparse() if info.only_supports_sparse_grads else grad
                return sign * sum(off.abs().square().sum() for off in offs)

        if info.step_requires_closure:
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    states = [optimizer.state[p] for p in parameters]
    return [p.detach() for p in parameters], states


def on_the_cpu(way):
    return {} if "capturable" in way else way


def on_cpu(tree):
    return tree_map(lambda leaf: leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf, tree)


def bound_of(info):
    """How far off parameters and states may be."""
    # Products of bfloat16, and a line search, which follows the last bits.
    return {"Muon": 2e-3, "LBFGS": 1e-3}.get(info.optim_cls.__name__, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("info, given, way", rows())
def test_optimizer(info, given, way, dtype):
    if dtype.is_complex and not info.supports_complex:
        pytest.skip("of real parameters")
    if info.only_supports_sparse_grads:
        with pytest.raises(NotImplementedError, match="torch.optim.Adam for SparseAdam"):
            train(info, given, way, dtype, DEVICE)
        return
    try:
        expected = train(info, given, way, dtype, "cpu")
    except RuntimeError as error:
        assert (dtype.is_complex, "fused" in way) == (True, True)
        with pytest.raises(RuntimeError, match=re.escape(str(error)[:40])):
            train(info, given, way, dtype, DEVICE)
        return
    found = train(info, given, way, dtype, DEVICE)
    assert all(p.device.type == DEVICE for p in found[0])
    # How many evaluations a line search takes hangs on the last bits.
    count = 1 if info.step_requires_closure else 2
    bound = bound_of(info)
    for actual, wanted in zip(found[:count], expected[:count], strict=True):
        torch.testing.assert_close(on_cpu(actual), on_cpu(wanted), rtol=bound, atol=bound)
