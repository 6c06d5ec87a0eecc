"""`torchacc_grad` where functions have kinks and poles: at 0, at ±1, at whole numbers.

Against torch.autograd on the CPU, in f64. What a trace computes is the same, bit by bit, whether
it takes gradients or not.
"""

import itertools

import numpy as np
import pytest
import torch
from test_gradients import Context, Number, check, in_torch

INF = float("inf")
LINE = np.array([-3.0, -2.5, -2, -1, -0.5, 0, 0.5, 1, 1.5, 2, 2.5, 3, 6, 7, 10, 20, 21])
FRACTIONS = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
LARGE = np.array([-800.0, -90, 90, 800, 1e10, 1e160])


def pairs(a, b):
    """All of one with all of the other."""
    return tuple(np.array(side) for side in zip(*itertools.product(a, b), strict=True))


def unary(name, *arguments):
    return lambda op, x: op(f"aten::{name}", x, *arguments)


def binary(name):
    return lambda op, x, y: op(f"aten::{name}", x, y)


SIGNED = np.array([-2.0, -1, 0, 1, 2])
OF_ONE = {
    "relu": LINE,
    "hardtanh": LINE,
    "hardswish": LINE,
    "leaky_relu": LINE,
    "elu": np.append(LINE, LARGE),
    "silu": LINE,
    "mish": LINE,
    "gelu": LINE,
    "softplus": np.append(LINE, LARGE),
    "abs": LINE,
    "sign": LINE,
    "frac": LINE,
    "nan_to_num": np.array([-1.0, 0, INF, -INF, np.nan]),
    "sqrt": LINE,
    "rsqrt": LINE,
    "reciprocal": LINE,
    "log": LINE[LINE >= 0],
    "log2": LINE[LINE >= 0],
    "log10": LINE[LINE >= 0],
    "log1p": LINE[LINE >= -1],
    "expm1": LINE,
    "sinc": LINE,
    "tan": LINE,
    "asin": LINE,
    "acos": LINE,
    "atan": LINE,
    "sinh": np.append(LINE, [-700, 700.0]),
    "cosh": np.append(LINE, [-700, 700.0]),
    "asinh": np.append(LINE, LARGE),
    # Below 0 PyTorch has slopes of what is no number.
    "acosh": np.append(LINE[LINE >= 0], LARGE[2:]),
    "atanh": LINE[np.abs(LINE) <= 1],
    "logit": LINE,
    "special_entr": LINE,
    "erfinv": LINE[np.abs(LINE) <= 1],
    "lgamma": np.append(LINE, -0.0),
    "digamma": np.append(LINE[(LINE >= 0) | (LINE % 1 != 0)], -0.0),
}
BETWEEN = pairs(SIGNED, SIGNED)
OF_TWO = {
    "maximum": BETWEEN,
    "minimum": BETWEEN,
    "logaddexp": BETWEEN,
    "logaddexp2": BETWEEN,
    "atan2": BETWEEN,
    "hypot": tuple(side[1:] for side in pairs([0.0, 1, -1, 2], [0.0, 1, -1, 2])),
    "copysign.Tensor": BETWEEN,
    "pow.Tensor_Tensor": pairs([-2.0, -1, 0, 0.5, 1, 2], [-1.0, 0, 0.5, 1, 1.5, 2]),
    "xlogy.Tensor": BETWEEN,
    "special_xlog1py": BETWEEN,
    "huber_loss": BETWEEN,
    "smooth_l1_loss": BETWEEN,
    "mse_loss": BETWEEN,
}
CASES = {name: (unary(name), x) for name, x in OF_ONE.items()}
CASES |= {name: (binary(name), *both) for name, both in OF_TWO.items()}
CASES["log_sigmoid"] = (
    lambda op, x: op("aten::log_sigmoid_forward", x, outs=2)[0],
    np.append(LINE, LARGE),
)
CASES["pow of a number"] = lambda op, x: op("aten::pow.Scalar", Number(2.5), x), LINE
CASES["logit of what is clamped"] = unary("logit", 0.25), LINE
CASES["softplus of tenths"] = unary("softplus", Number(0.1), Number(20.0)), LINE
CASES["hardtanh of six"] = unary("hardtanh", Number(0.0), Number(6.0)), LINE
CASES["smooth_l1_loss without a curve"] = (
    lambda op, x, y: op("aten::smooth_l1_loss", x, y, 1, Number(0.0)),
    np.array([1.0, 3.0]),
    np.array([2.0, 0.5]),
)
for exponent in (-2.0, -1.5, -1.0, -0.5, 0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 3.5):
    CASES[f"pow of {exponent}"] = unary("pow.Tensor_Scalar", exponent), LINE
    CASES[f"pow of a number like {exponent}"] = unary("pow.Tensor_Scalar", Number(exponent)), LINE

# Rows of zeros, of equals, of ones and of all signs.
ROWS = np.array([[0.0, 0, 0], [1, 1, 1], [0, 0, 1], [0, 2, -2], [-1, 1, 3]])
for p in (-INF, -1.0, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF):
    CASES[f"linalg_vector_norm of {p}"] = unary("linalg_vector_norm", p, [1]), ROWS
    CASES[f"norm of {p}, of columns of one"] = unary("linalg_vector_norm", p, [1]), ROWS[:, :1]
for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, INF):
    CASES[f"cdist of {p}"] = (
        lambda op, x, y, p=p: op("aten::_cdist_forward", x, y, p, None),
        ROWS,
        ROWS[:3],
    )
for p in (0.5, 1.0, 2.0, 3.0):
    CASES[f"renorm of {p}"] = unary("renorm", p, 0, 1.5), ROWS
for name in ("std", "var"):
    CASES[name] = unary(f"{name}.correction", [1], Number(1), False), ROWS
    CASES[f"{name}_mean"] = (
        lambda op, x, name=name: op(
            "aten::add.Tensor",
            *op(f"aten::{name}_mean.correction", x, [1], Number(0), True, outs=2),
        ),
        ROWS,
    )
CASES |= {
    "logsumexp": (unary("logsumexp", [1]), ROWS),
    "logcumsumexp": (unary("logcumsumexp", 1), ROWS),
    "prod": (unary("prod.dim_int", 1, False), ROWS),
    "cumprod": (unary("cumprod", 1), ROWS),
    "amax": (unary("amax", [1], False), ROWS),
    "amin": (unary("amin", [1], False), ROWS),
    "cummax": (lambda op, x: op("aten::cummax", x, 1, outs=2)[0], ROWS),
    "multi_margin_loss": (
        lambda op, x, t: op("aten::multi_margin_loss", x, t, Number(1), Number(1.0), None, 0),
        ROWS,
        np.array([0, 1, 2, 0, 1]),
    ),
}

# PyTorch's gradient of targets is infinite where the loss, whose logarithms are bounded, is not.
PROBABILITIES, TARGETS = pairs(FRACTIONS, FRACTIONS)


@pytest.mark.parametrize("name", CASES)
def test_kinks(name):
    # PyTorch multiplies by one sixth as a float, whatever the dtype, and its trigamma is a series.
    rtol = {"hard": 1e-7, "diga": 1e-8}.get(name[:4], 1e-10)
    check(*CASES[name], rtol=rtol)


@pytest.mark.parametrize("name", CASES)
def test_taking_gradients_changes_no_bit(name):
    formula, *arrays = CASES[name]
    found = []
    for is_differentiated in (False, True):
        context = Context()
        tensors = [context.tensor(a) for a in arrays]
        y = formula(context.apply, *tensors)
        if is_differentiated:
            context.grad(context.apply("aten::sum", y), tensors[:1])
        found.append(y.numpy().view("i8"))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("reduction", range(3))
def test_binary_cross_entropy(reduction):
    weights = np.linspace(0.5, 2, TARGETS.size)

    def loss(op, x):
        constant = torch.tensor if op is in_torch else op.__self__.tensor
        others = constant(TARGETS), constant(weights)
        return op("aten::binary_cross_entropy", x, *others, reduction)

    # PyTorch divides by 1e-12 as a float, whatever the dtype.
    check(loss, PROBABILITIES, rtol=1e-8)
    inside = slice(5, 20)
    check(
        lambda op, x, t: op("aten::binary_cross_entropy", x, t, None, reduction),
        PROBABILITIES[inside],
        TARGETS[inside],
    )


@pytest.mark.parametrize("name", ["maximum", "minimum", "logaddexp", "logaddexp2"])
def test_an_array_of_one_number_is_no_bound(name):
    def with_zeros(op, x):
        if op is in_torch:
            return op(f"aten::{name}", x, torch.zeros_like(x))
        return op(f"aten::{name}", x, op.__self__.zeros(*LINE.shape))

    check(with_zeros, LINE)


def test_a_number_is_a_bound():
    for name, expected in (("relu", 0), ("hardtanh", 1), ("softplus", 0.5)):
        context = Context()
        x = context.tensor(np.zeros(3, "f4"))
        y = context.apply(f"aten::{name}", x)
        (dx,) = context.grad(context.apply("aten::sum", y), [x])
        np.testing.assert_array_equal(dx.numpy(), np.full(3, expected, "f4"))


@pytest.mark.parametrize("scales", [False, True], ids=["plain", "by frequency"])
@pytest.mark.parametrize("padding", [-1, 2])
def test_embeddings(padding, scales):
    index = np.array([[0, 2, 2], [1, 0, 3], [2, 0, 5]])
    table = np.arange(-9.0, 9).reshape(6, 3)
    check(lambda op, x, i: op("aten::embedding", x, i, padding, scales), table, index)
    check(lambda op, x, i: op("aten::embedding", x, i, padding, scales), table, index[:0])


@pytest.mark.parametrize("scales", [False, True], ids=["plain", "by frequency"])
def test_bags(scales):
    index, offsets = np.array([0, 2, 2, 1, 0, 3, 0, 5]), np.array([0, 3, 3, 4])

    def bags(op, table, index, offsets):
        if op is in_torch and scales:
            # PyTorch's CPU kernel divides by the counts of other rows.
            rows = op("aten::embedding", table, index, 2, True) * (index != 2)[:, None]
            bag = torch.tensor([0, 0, 0, 2, 3, 3, 3, 3])
            return torch.zeros(4, 3, dtype=table.dtype).index_add(0, bag, rows)
        arguments = scales, 0, False, None, False, 2
        return op("aten::_embedding_bag", table, index, offsets, *arguments, outs=4)[0]

    check(bags, np.arange(-9.0, 9).reshape(6, 3), index, offsets)


def test_an_index_that_is_repeated_along_the_wrong_dimension():
    """A list that is repeated, as many times as it has elements, picks along its own dimension."""
    n = 3
    x, index = np.arange(9.0).reshape(n, n), np.array([2, 0, 0])

    def repeated(op, i):
        return i.expand(n, n) if op is in_torch else op("broadcast", i, [n, n])

    for dim in range(2):
        check(lambda op, x, i, d=dim: op("aten::gather", x, d, repeated(op, i)), x, index)
        check(
            lambda op, x, i, y, d=dim: op("aten::scatter_add", x, d, repeated(op, i), y),
            x,
            index,
            x + 1.0,
        )
        context = Context()
        y = context.apply(
            "aten::gather", context.tensor(x), dim, repeated(context.apply, context.tensor(index))
        )
        np.testing.assert_array_equal(
            y.numpy(), np.take_along_axis(x, np.broadcast_to(index, (n, n)), dim)
        )
