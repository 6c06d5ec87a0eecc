"""The operator table in other circumstances: layouts, out= views, numbers that change, early reads.

What acc makes of a call is what the CPU makes of it: values, strides, and whether it is refused.
`pytest --all-variants` runs all rows, not only those named in operators.py.
"""

import itertools
import math
from functools import partial

import pytest
import torch
from operators import EXPECTED_FAILURES, RANDOM, SAMPLE, comparable, dtype_of, move, name_of
from support import DEVICE, forget_errors
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_leaves, tree_map

pytestmark = pytest.mark.filterwarnings("ignore")

# Strides that differ from the CPU's, and why.
OWN_STRIDES = {
    "linalg.eig": "of rows PyTorch's Meta kernel says rows, the CPU columns",
    "linalg.svd": "the same, of matrices without elements",
    "svd": "the same, of matrices without elements",
    "nn.functional.max_pool1d": "PyTorch chooses another operator for the CPU",
    "nn.functional.max_unpool2d": "its Meta kernel says rows, and its indices cannot be made up",
}

# They draw random numbers, or look beyond the tensor that they are given.
NOT_REPEATABLE = {"nn.functional.scaled_dot_product_attention", "as_strided"}

# PyTorch's own CPU kernels write beyond a view, or to wrong places of it.
WRONG_ON_CPU = {"narrow_copy", "nn.functional.avg_pool3d", "nn.functional.gelu"}


def pytest_generate_tests(metafunc):
    everything = metafunc.config.getoption("--all-variants")
    rows = [
        pytest.param(op, id=name_of(op))
        for op in op_db
        if (everything or op.name in SAMPLE)
        and op.supported_dtypes("cpu")
        and name_of(op) not in EXPECTED_FAILURES
        and op.name not in RANDOM | NOT_REPEATABLE
    ]
    if "op" in metafunc.fixturenames:
        metafunc.parametrize("op", rows)


def calls(op, step=4, count=3):
    """Some of the row's calls, with what the CPU gives; none that it refuses."""
    generated = op.sample_inputs("cpu", dtype_of(op))
    for sample in itertools.islice(generated, 0, step * count, step):
        arguments = sample.input, sample.args, sample.kwargs
        if attempt(op, arguments)[1] is None:
            yield arguments


def attempt(op, arguments, **more):
    """What the call gives, and how it is refused, if only when it is read."""
    source, rest, keywords = tree_map(copied, arguments)
    try:
        result = op(source, *rest, **keywords, **more)
        for leaf in tree_leaves(result):
            if comparable(leaf) and leaf.device.type == DEVICE:
                leaf.cpu()
    except Exception as error:
        forget_errors()
        return None, type(error)
    return result, None


def copied(leaf):
    """Some operators write to their operands."""
    return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf


def assert_equal(actual, expected, strides=True):
    pairs = zip(tree_leaves(actual), tree_leaves(expected), strict=True)
    for a, e in ((a, e) for a, e in pairs if comparable(e)):
        assert (a.shape, a.dtype) == (e.shape, e.dtype)
        if strides and e.numel() != 0:
            found = [s for s, size in zip(a.stride(), a.shape, strict=True) if size > 1]
            assert found == [s for s, size in zip(e.stride(), e.shape, strict=True) if size > 1]
        a, e = a.detach().cpu(), e.detach()
        if e.is_floating_point() and e.itemsize == 1:
            a, e = a.float(), e.float()
        torch.testing.assert_close(a, e, rtol=1e-3, atol=1e-3, equal_nan=True)


def orders(tensor):
    """`tensor` with its dimensions in other orders in memory."""
    for order in itertools.islice(itertools.permutations(range(tensor.dim())), 1, 24):
        inverse = sorted(range(tensor.dim()), key=order.__getitem__)
        yield tensor.permute(order).contiguous().permute(inverse)
    if tensor.dim() == 4:
        yield tensor.contiguous(memory_format=torch.channels_last)


def is_decomposition(op):
    """Its factors are not unique: their signs depend on how the kernel is called."""
    return op.name.startswith(("linalg.", "svd", "pca", "qr", "geqrf", "lu", "ormqr"))


def test_every_order_in_memory(op):
    for source, *rest in calls(op, step=6):
        if not isinstance(source, torch.Tensor) or source.layout != torch.strided:
            continue
        for laid in itertools.islice(
            orders(source.detach()), 0, None, 5 if source.dim() > 3 else 1
        ):
            expected, refused = attempt(op, (laid, *rest))
            if refused is not None:
                continue
            actual, refused = attempt(op, move((laid, *rest)))
            assert refused is None
            if not is_decomposition(op):
                assert_equal(actual, expected, strides=op.name not in OWN_STRIDES)


def gradient(op, source, *rest, **keywords):
    """That of a weighted sum of the results; None where there is none."""
    source = source.detach().requires_grad_()
    leaves = tree_leaves(op(source, *rest, **keywords))
    terms = [leaf for leaf in leaves if comparable(leaf) and leaf.requires_grad]
    if not terms or any(term.is_complex() for term in terms):
        return None
    weights = (torch.arange(1.0, t.numel() + 1).cos().view(t.shape).to(t) for t in terms)
    total = sum((term * weight).sum() for term, weight in zip(terms, weights, strict=True))
    return torch.autograd.grad(total, source, allow_unused=True)[0]


def test_gradients_in_every_order_in_memory(op):
    if not op.supports_autograd or dtype_of(op) != torch.float32 or is_decomposition(op):
        return
    for source, *rest in calls(op, step=6):
        if not isinstance(source, torch.Tensor) or source.layout != torch.strided:
            continue
        for laid in itertools.islice(orders(source.detach()), 3):
            expected, refused = attempt(partial(gradient, op), (laid, *rest))
            if refused is not None or expected is None:
                continue
            actual, refused = attempt(partial(gradient, op), move((laid, *rest)))
            assert refused is None
            assert_equal(actual, expected, strides=False)


def test_halves_have_one_value(op):
    """Whoever reads a result before the program runs sees what is read from it after."""
    if torch.float16 not in op.supported_dtypes("cpu") or is_decomposition(op):
        return
    for sample in itertools.islice(op.sample_inputs("cpu", torch.float16), 0, 12, 4):
        arguments = sample.input, sample.args, sample.kwargs
        if not isinstance(sample.input, torch.Tensor) or attempt(op, arguments)[1] is not None:
            continue
        source, rest, keywords = move(arguments)
        large = source * 1000.0
        halves = [
            leaf
            for leaf in (large, *tree_leaves(op(large, *rest, **keywords)))
            if comparable(leaf) and leaf.dtype == torch.float16
        ]
        seen = [(half.float(), half.isinf(), half * 0 == 0) for half in halves]
        for half, (wide, infinite, finite) in zip(halves, seen, strict=True):
            value = half.detach().cpu()
            assert_exact(wide.detach().cpu(), value.float())
            assert_exact(infinite.cpu(), value.isinf())
            assert_exact(finite.cpu(), value.isfinite())


def assert_exact(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def with_other_dims(arguments):
    """The call with each list of dimensions in every order."""

    def is_dims(value):
        return (
            isinstance(value, (tuple, list))
            and 1 < len(value) < 4
            and all(type(one) is int for one in value)
        )

    source, rest, keywords = arguments
    for name in ("dim", "dims", "axes"):
        if is_dims(keywords.get(name)):
            for order in itertools.permutations(keywords[name]):
                yield source, rest, keywords | {name: type(keywords[name])(order)}
    for place, value in enumerate(rest):
        if is_dims(value):
            for order in itertools.permutations(value):
                yield source, (*rest[:place], type(value)(order), *rest[place + 1 :]), keywords


def test_lists_of_dimensions_in_every_order(op):
    for first in calls(op, step=2, count=8):
        for arguments in with_other_dims(first):
            expected, refused = attempt(op, arguments)
            if refused is None and not is_decomposition(op):
                actual, refused = attempt(op, move(arguments))
                assert refused is None
                assert_equal(actual, expected)


def out_views(like):
    """Memory and views of it that are not a tensor like `like`, or lie otherwise."""
    n = like.numel()
    memory = torch.full((2 * n + 8,), 7).to(like.dtype)
    back = tuple(range(like.dim()))[::-1]
    yield memory, lambda m: m[1 : 1 + n]
    yield memory, lambda m: m[:n].view(like.shape[::-1]).permute(back)
    yield memory, lambda m: m[2 : 2 + 2 * n : 2].unsqueeze(1)
    yield memory, lambda m: m[: 2 * ((n + 1) // 2)].view(2, -1)
    yield memory, lambda m: m[1 : n + 3]
    yield memory, lambda m: m[1 : max(n, 1)]
    yield memory.new_full((4, n + 3), 7), lambda m: m.narrow(1, 1, max((n + 3) // 4, 1))
    yield torch.full((n,), 7, dtype=torch.float64), lambda m: m.view(like.shape)
    yield torch.full((n,), 7), lambda m: m.view(like.shape)


def test_out_views_of_other_shapes(op):
    if not op.supports_out or op.name in WRONG_ON_CPU:
        return
    for arguments in calls(op):
        like, _ = attempt(op, arguments)
        if not (isinstance(like, torch.Tensor) and comparable(like) and like.numel() != 0):
            continue
        for memory, view in out_views(like):
            there = memory.clone().to(DEVICE)
            out, out_there = view(memory.clone()), view(there)
            _, refused = attempt(op, arguments, out=out)
            actual, refused_there = attempt(op, move(arguments), out=out_there)
            assert refused_there == refused
            if refused is None:
                assert actual is out_there
                assert_equal(out_there, out)
                assert_equal(there, out.new_tensor([]).set_(out.untyped_storage(), 0, there.shape))


# What comes of the largest ones is the library's affair: there only the refusal counts.
NUMBERS = (-1.0, 0.0, 2.5, 300.0, math.inf, math.nan)


def with_other_numbers(arguments):
    """The call with each of its numbers replaced in turn."""
    source, rest, keywords = arguments
    for place, value in enumerate(rest):
        if type(value) is float:
            for number in NUMBERS:
                yield number, (source, (*rest[:place], number, *rest[place + 1 :]), keywords)
    for name, value in keywords.items():
        if type(value) is float:
            for number in NUMBERS:
                yield number, (source, rest, keywords | {name: number})


def test_numbers_that_change_when_the_shapes_are_known(op):
    if op.name == "nn.functional.interpolate":
        return  # its numbers are sizes
    for first in calls(op, step=2, count=8):
        attempt(op, move(first))
        for number, arguments in with_other_numbers(first):
            expected, refused = attempt(op, arguments)
            actual, refused_there = attempt(op, move(arguments))
            assert refused_there == refused
            if refused is None and abs(number) < 300:
                assert_equal(actual, expected)


def test_read_at_once_and_at_the_end(op):
    """The same bits, though the programs are others."""
    # A power that is another in the next call is computed by the general function.
    if is_decomposition(op) or op.name == "nn.functional.local_response_norm":
        return
    given = [tree_map(copied, arguments) for arguments in calls(op)]
    there = [move(arguments) for arguments in given]
    late = [op(source, *rest, **keywords) for source, rest, keywords in there]
    early = [attempt(op, move(arguments))[0] for arguments in given]
    pairs = zip(tree_leaves(tree_map(read, late)), tree_leaves(tree_map(read, early)), strict=True)
    for a, e in pairs:
        if isinstance(e, torch.Tensor):
            assert torch.equal(bits(a), bits(e))


def read(leaf):
    return leaf.detach().cpu() if isinstance(leaf, torch.Tensor) and comparable(leaf) else leaf


def bits(tensor):
    return tensor.contiguous().flatten().view(torch.uint8) if comparable(tensor) else tensor
