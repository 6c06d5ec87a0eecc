"""What is said of results before they are computed, against what the CPU's kernels return."""

import pytest
import torch
import torchacc
from support import DEVICE, check, run_python

# Calls of the operator table, with gradients, each checked by a run of the CPU's kernel.
VERIFY = """
import sys, itertools, torch, torchacc
sys.path.insert(0, "torch_extension/tests")
from operators import EXPECTED_FAILURES, SAMPLE, dtype_of, move, name_of
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves
for op in op_db:
    if op.name not in SAMPLE or name_of(op) in EXPECTED_FAILURES or not op.supported_dtypes("cpu"):
        continue
    dtype = dtype_of(op)
    wanted = op.supports_autograd and dtype.is_floating_point
    for sample in itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=wanted), 0, 9, 4):
        try:
            op(sample.input, *sample.args, **sample.kwargs)
        except Exception:
            continue
        source, rest, keywords = move((sample.input, sample.args, sample.kwargs))
        for result in tree_leaves(op(source, *rest, **keywords)):
            if isinstance(result, torch.Tensor) and result.requires_grad:
                result.sum().abs().backward(retain_graph=True)
print(torch.ops.acc.wrong_shapes())
"""

# Of matrices in rows PyTorch's Meta kernels say rows, where the CPU's give columns; the second's of
# matrices without elements.
KNOWN = ("aten::linalg_eig", "aten::_linalg_svd")


def test_predictions_are_what_the_cpu_returns():
    result = run_python(VERIFY, TORCHACC_VERIFY_SHAPES="1")
    assert result.returncode == 0, result.stderr
    assert [
        line for line in result.stdout.splitlines() if line and not line.startswith(KNOWN)
    ] == []


def real(*sizes):
    return torch.arange(float(torch.Size(sizes).numel())).view(sizes)


def test_strides_of_one_element_are_passed_on():
    for column in (real(1, 2).t(), real(2).bool().logical_not().argwhere()):
        assert (column.to(DEVICE) + 0).stride() == (column + 0).stride()


@pytest.mark.parametrize("dims", [(1, 0), (0, 2), (2, 0), (2, 0, 1), (-1, 0, 1)])
def test_transforms_over_dimensions_in_any_order(dims):
    x = real(3, 4, 5)
    for transform in (torch.fft.fftn, torch.fft.ifftn, torch.fft.rfftn):
        check(lambda x, f=transform: torch.view_as_real(f(x, dim=dims)), x, rtol=1e-4, atol=1e-3)
    for transform in (torch.fft.irfftn, torch.fft.hfftn):
        check(lambda x, f=transform: f(x.to(torch.complex64), dim=dims), x, rtol=1e-4, atol=1e-2)


LAID_OUT = {
    "abs": torch.abs,
    "roll": lambda x: x.roll(1, 1),
    "logical_not": torch.logical_not,
    "isinf": torch.isinf,
    "floor division": lambda x: x // 2,
    "copysign": lambda x: torch.copysign(x, -x),
    "a convolution": lambda x: torch.conv2d(x, x.new_ones(2, x.shape[1], 1, 1)),
    "reflected edges": lambda x: torch.nn.functional.pad(x, (1, 1, 1, 1), "reflect"),
    "pixel_shuffle": lambda x: torch.pixel_shuffle(x, 2),
    "isin": lambda x: torch.isin(x, torch.tensor([1, 7], device=x.device)),
}


@pytest.mark.parametrize("name", LAID_OUT)
def test_results_lie_as_on_the_cpu(name):
    for x in (
        real(2, 4, 3, 5).contiguous(memory_format=torch.channels_last),
        real(5, 3, 4, 2).permute(3, 2, 1, 0),
    ):
        expected, actual = LAID_OUT[name](x), LAID_OUT[name](x.to(DEVICE))
        assert actual.stride() == expected.stride()
        torch.testing.assert_close(actual.cpu(), expected)


@pytest.mark.parametrize("dim", [-1, [-1], 1, 0, -2])
@pytest.mark.parametrize("keepdim", [False, True])
def test_norms_over_one_number(dim, keepdim):
    # PyTorch's Meta kernel keeps a dimension of size 1 that is counted from the end.
    for shape in ((3, 1), (0, 1), (1, 1)):
        x = torch.ones(shape)
        check(lambda x: torch.linalg.vector_norm(x, 2, dim, keepdim), x)
    check(lambda x: torch.linalg.vector_norm(x[:, 1:], 2, dim, keepdim), torch.ones(2, 2))


@pytest.mark.parametrize("dims", [(0, 1, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2), (1, 0, 2, 3)])
def test_attention_lies_as_on_the_cpu(dims):
    query = real(2, 3, 4, 5).div(100).permute(dims)
    attention = torch.nn.functional.scaled_dot_product_attention
    expected, actual = attention(query, query, query), attention(*[query.to(DEVICE)] * 3)
    assert actual.stride() == expected.stride()
    torch.testing.assert_close(actual.cpu(), expected)


def test_gradients_of_attention_lie_as_on_the_cpu():
    def run(device):
        q, k, v = (torch.ones(2, 3, n, 8, device=device, requires_grad=True) for n in (4, 5, 5))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return [x.stride() for x in (out, *torch.autograd.grad(out.sum(), (q, k, v)))]

    assert run(DEVICE) == run("cpu")


LOSSES = [
    torch.nn.functional.huber_loss,
    torch.nn.functional.smooth_l1_loss,
    torch.nn.functional.l1_loss,
]


# The gradient of Huber's is refused.
@pytest.mark.parametrize("loss", LOSSES[1:])
@pytest.mark.parametrize("types", [("half", "float"), ("float", "half"), ("float", "double")])
def test_losses_of_two_types(loss, types):
    def run(x, y):
        x = getattr(x, types[0])().detach().requires_grad_()
        value = loss(x, getattr(y, types[1])())
        return value, torch.autograd.grad(value, x)[0]

    x, y = torch.tensor([2.0, 0.5, -3.0]), torch.tensor([0.0, 1.0, 0.0])
    check(run, x, y, rtol=1e-3)


def test_no_loss_leaves_the_trace():
    torchacc.sync()
    before = torchacc.metrics()["host_calls"]
    for loss in LOSSES:
        x = torch.ones(3, device=DEVICE, requires_grad=True)
        loss(x, x.detach() * 2).backward()
        torchacc.sync()
    assert torchacc.metrics()["host_calls"] == before
