"""PyTorch's own operator table on acc against the CPU: values, dtypes and gradients.

`pytest --sample-operators` runs the rows named in operators.py only.
"""

import pytest
import torch
from operators import EXPECTED_FAILURES, RANDOM, SAMPLE, comparable, move, name_of, samples
from support import DEVICE
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves


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
        # A sample of `to` names a GPU where PyTorch has one.
        if any(e.is_cuda for e in tree_leaves(expected) if comparable(e)):
            continue
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
