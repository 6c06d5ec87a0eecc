"""PyTorch's own operator table on acc against the CPU: values, dtypes and gradients.

`pytest --sample-operators` runs the rows named in operators.py only.
"""

import itertools

import pytest
import torch
from operators import EXPECTED_FAILURES, RANDOM, SAMPLE
from support import DEVICE, to_device
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

MAX_SAMPLES = 3


def name_of(op):
    return f"{op.name}:{op.variant_test_name}" if op.variant_test_name else op.name


def dtype_of(op):
    supported = op.supported_dtypes("cpu")
    return torch.float32 if torch.float32 in supported else sorted(supported, key=str)[0]


def samples(op):
    """A few of the row's sample inputs, spread over the first dozen, that the CPU accepts."""
    dtype = dtype_of(op)
    differentiable = op.supports_autograd and dtype.is_floating_point
    generated = op.sample_inputs("cpu", dtype, requires_grad=differentiable)
    accepted = 0
    for sample in itertools.islice(generated, 0, 12, 12 // MAX_SAMPLES):
        torch.manual_seed(0)
        try:
            expected = op(sample.input, *sample.args, **sample.kwargs)
        except Exception:
            continue
        accepted += 1
        yield sample, expected
    if not accepted:
        pytest.skip("no sample that the CPU accepts")


def move(tree):
    """`tree` on acc, the names of devices in it too."""

    def rename(leaf):
        is_cpu = isinstance(leaf, str | torch.device) and str(leaf) == "cpu"
        return torch.device(DEVICE) if is_cpu else leaf

    return tree_map(rename, to_device(tree))


def comparable(leaf):
    return isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided


def gradient(output, source):
    """d(sum of output)/d(source) where that is a dense real tensor, else None."""
    if not (isinstance(source, torch.Tensor) and source.requires_grad):
        return None
    if not (comparable(output) and output.requires_grad and output.dtype.is_floating_point):
        return None
    (result,) = torch.autograd.grad(output.sum(), source, allow_unused=True)
    return result if result is not None and comparable(result) else None


@pytest.fixture(scope="module", autouse=True)
def _no_shape_rule_is_found_wrong():
    """Rules of the library say of all these calls what PyTorch's shape functions say."""
    before = torch.ops.acc.refuted_shape_rules()
    yield
    assert torch.ops.acc.refuted_shape_rules() == before


def pytest_generate_tests(metafunc):
    everything = not metafunc.config.getoption("--sample-operators")
    rows = [
        pytest.param(op, id=name_of(op), marks=marks(op))
        for op in op_db
        if (everything or op.name in SAMPLE) and op.supported_dtypes("cpu")
    ]
    metafunc.parametrize("op", rows)


def marks(op):
    reason = EXPECTED_FAILURES.get(name_of(op))
    return [pytest.mark.xfail(reason=reason, strict=True)] if reason else []


def test_operator(op):
    for sample, expected in samples(op):
        source, arguments, keywords = move((sample.input, sample.args, sample.kwargs))
        actual = op(source, *arguments, **keywords)
        # Of eigenvectors and the like that is what does not depend on their signs, which libraries
        # choose.
        defined = sample.output_process_fn_grad if op.name.startswith("linalg.") else tree_leaves
        pairs = zip(tree_leaves(defined(actual)), tree_leaves(defined(expected)), strict=True)
        for a, e in ((a, e) for a, e in pairs if comparable(e)):
            assert a.device.type == DEVICE
            assert (a.shape, a.dtype) == (e.shape, e.dtype)
            if op.name not in RANDOM:
                a, e, rtol = a.detach().cpu(), e.detach(), 1e-4
                if e.is_floating_point() and e.itemsize == 1:
                    # A sum may round to the neighbour, which is up to a quarter away.
                    a, e, rtol = a.float(), e.float(), 0.25
                torch.testing.assert_close(a, e, rtol=rtol, atol=1e-4, equal_nan=True)
        if op.name in RANDOM:
            continue
        wanted = gradient(expected, sample.input)
        if wanted is not None:
            found = gradient(actual, source).cpu()
            torch.testing.assert_close(found, wanted, rtol=1e-3, atol=1e-3, equal_nan=True)
