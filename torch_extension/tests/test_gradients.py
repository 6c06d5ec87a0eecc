"""`torchacc_grad` against torch.autograd, in f64.

A formula is written once, as operators by name: recorded through the C ABI on one side, called in
PyTorch on the other.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "ctypes"))

from binding import Context, Number, Tensor

RELU_LIKE = ["relu", "abs", "hardtanh", "hardsigmoid", "hardswish", "leaky_relu", "elu"]
SMOOTH = ["exp", "expm1", "sin", "cos", "tanh", "sigmoid", "erf", "gelu", "silu", "mish"]
POSITIVE = ["log", "log1p", "log2", "sqrt", "rsqrt", "reciprocal"]


def in_torch(name, *values, outs=1):
    """An `aten::` operator of PyTorch's, called as the C ABI calls it."""
    if name == "transpose":
        return values[0].permute(values[1])
    packet, _, overload = name.removeprefix("aten::").partition(".")
    function = getattr(getattr(torch.ops.aten, packet), overload or "default")
    plain = [v.value if isinstance(v, Number) else v for v in values]
    positional, named = [], {}
    for argument, value in zip(function._schema.arguments, plain, strict=False):
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    found = function(*positional, **named)
    return list(found[:outs]) if outs > 1 else found[0] if isinstance(found, tuple) else found


def weighted(op, y, weights):
    return op("aten::sum", op("aten::mul.Tensor", y, weights))


def check(formula, *arrays, rtol=1e-10, atol=1e-11):
    """The gradients of `formula(op, *tensors)`, weighted and summed, on both backends."""
    leaves = [torch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    y = formula(in_torch, *leaves)
    weights = np.sin(1.0 + np.arange(y.numel())).reshape(tuple(y.shape))
    loss = weighted(in_torch, y, torch.tensor(weights))
    wanted = [leaf for leaf in leaves if leaf.requires_grad]
    expected = torch.autograd.grad(loss, wanted, allow_unused=True, materialize_grads=True)
    for backend in ("cpu", "reference"):
        context = Context(backend)
        tensors = [context.tensor(a) for a in arrays]
        y = formula(context.apply, *tensors)
        loss = weighted(context.apply, y, context.tensor(weights))
        params = [t for t, leaf in zip(tensors, leaves, strict=True) if leaf.requires_grad]
        for found, correct in zip(context.grad(loss, params), expected, strict=True):
            np.testing.assert_allclose(found.numpy(), correct.numpy(), rtol, atol)


def normal(*sizes, seed=0):
    return np.random.default_rng(seed + sum(sizes)).normal(size=sizes)


def positive(*sizes):
    return np.abs(normal(*sizes)) + 0.3


def steps(*sizes, seed=0):
    """Small integers: many are equal, or stand where a function has a kink."""
    return np.random.default_rng(seed).integers(-3, 4, sizes).astype("f8")


@pytest.mark.parametrize("name", SMOOTH + RELU_LIKE)
def test_functions_of_one(name):
    # PyTorch multiplies by one sixth as a float, whatever the dtype.
    rtol = 1e-7 if name.startswith("hard") else 1e-10
    for x in (normal(3, 4), steps(5, 5), normal(0, 4)):
        check(lambda op, x: op(f"aten::{name}", x), x, rtol=rtol)


@pytest.mark.parametrize("name", POSITIVE)
def test_functions_of_a_positive_number(name):
    check(lambda op, x: op(f"aten::{name}", x), positive(3, 4))


@pytest.mark.parametrize("name", ["mul", "div", "maximum", "minimum", "atan2", "fmod", "remainder"])
def test_functions_of_two(name):
    name = f"aten::{name}" + ("" if name in ("maximum", "minimum", "atan2") else ".Tensor")
    check(lambda op, x, y: op(name, x, y), normal(3, 4), normal(3, 1) + 2)
    check(lambda op, x, y: op(name, x, y), steps(6, 6), np.abs(steps(6, seed=1)) + 1)


def test_powers():
    check(lambda op, x, y: op("aten::pow.Tensor_Tensor", x, y), positive(4), normal(4))
    both = np.array([0.0, 0, 0, 2, -2]), np.array([0.0, 2, 1, 0, 2])
    check(lambda op, x: op("aten::pow.Tensor_Scalar", x, Number(3.5)), positive(4))
    check(lambda op, x: op("aten::pow.Tensor_Scalar", x, Number(2.0)), steps(9))
    check(lambda op, x, y: op("aten::pow.Tensor_Tensor", x, y), both[0][:4], both[1][:4])


def test_bounds():
    def clamp(op, x):
        y = op("aten::clamp", x, Number(-1.0), Number(2.0))
        # At a bound itself the gradient is 1, as in PyTorch 2.11: in 2.15 it is 0.
        return torch.where((x == -1) | (x == 2), x, y) if op is in_torch else y

    def clamp_min(op, x):
        y = op("aten::clamp_min", x, Number(0.0))
        return torch.where(x == 0, x, y) if op is in_torch else y

    check(clamp, steps(20))
    check(clamp_min, steps(20))
    check(lambda op, x: op("aten::threshold", x, Number(1.0), Number(0.0)), steps(20))
    condition = steps(4, 4) > 0
    check(lambda op, c, x, y: op("aten::where.self", c, x, y), condition, normal(4, 4), normal(4))


REDUCTIONS = {
    "sum": lambda op, x: op("aten::sum.dim_IntList", x, [1], True),
    "mean": lambda op, x: op("aten::mean.dim", x, [0, 2], False),
    "prod": lambda op, x: op("aten::prod.dim_int", x, 1, False),
    "amax": lambda op, x: op("aten::amax", x, [0, 1], False),
    "max": lambda op, x: op("aten::max", x),
    "max.dim": lambda op, x: op("aten::max.dim", x, 1, True, outs=2)[0],
    "min.dim": lambda op, x: op("aten::min.dim", x, 2, False, outs=2)[0],
    "var": lambda op, x: op("aten::var.correction", x, [1], Number(1), False),
    "norm": lambda op, x: op("aten::linalg_vector_norm", x, 2.0, [0, 1, 2]),
    "cumsum": lambda op, x: op("aten::cumsum", x, 1),
    "logsumexp": lambda op, x: op("aten::logsumexp", x, [1]),
    "softmax": lambda op, x: op("aten::_softmax", x, 1, False),
    "log_softmax": lambda op, x: op("aten::_log_softmax", x, 2, False),
}


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    check(REDUCTIONS[name], normal(3, 4, 2))
    if name not in ("var", "norm"):
        check(REDUCTIONS[name], steps(3, 4, 2))


INDEX = np.array([[0, 2, 2], [1, 0, 3]])
MOVES = {
    "cat": lambda op, x: op("aten::cat", [x, x, op("aten::exp", x)], 1),
    "stack": lambda op, x: op("aten::stack", [x, op("aten::exp", x)], 1),
    "flip": lambda op, x: op("aten::flip", x, [0]),
    "roll": lambda op, x: op("aten::roll", x, [1], [1]),
    "tril": lambda op, x: op("aten::tril", x, 0),
    "repeat": lambda op, x: op("aten::repeat", x, [2, 3]),
}


@pytest.mark.parametrize("name", MOVES)
def test_moves(name):
    check(MOVES[name], normal(4, 3))


def test_indexing():
    check(lambda op, x, i: op("aten::embedding", x, i), normal(4, 3), INDEX)
    check(lambda op, x, i: op("aten::gather", x, 0, i), normal(4, 3), INDEX)
    check(lambda op, x, i: op("aten::index_select", x, 1, i), normal(4, 3), INDEX[0])
    check(lambda op, x, i: op("aten::index.Tensor", x, [i]), normal(4, 3), INDEX)
    check(
        lambda op, x, i, y: op("aten::scatter_add", x, 0, i, y), normal(4, 3), INDEX, normal(2, 3)
    )
    check(
        lambda op, x, i, y: op("aten::index_add", x, 0, i, y), normal(4, 3), INDEX[0], normal(3, 3)
    )


LOSSES = ["mse_loss", "smooth_l1_loss", "huber_loss"]


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    check(lambda op, x, y: op(f"aten::{name}", x, y), normal(3, 4), normal(3, 4, seed=1))
    check(lambda op, x, y: op(f"aten::{name}", x, y), steps(3, 4), steps(3, 4, seed=1))


# ---- networks


def cross_entropy(op, logits, target):
    scores = op("aten::_log_softmax", logits, 1, False)
    return op("aten::nll_loss_forward", scores, target, None, 1, -100, outs=2)[0]


def mlp(op, x, target, *params):
    for w, b in zip(params[:-2:2], params[1:-2:2], strict=True):
        x = op("aten::relu", op("aten::addmm", b, x, w))
    return cross_entropy(op, op("aten::addmm", params[-1], x, params[-2]), target)


def test_an_mlp():
    layers = [normal(5, 8), normal(8), normal(8, 6), np.zeros(6), normal(6, 4), np.zeros(4)]
    check(mlp, normal(7, 5), np.arange(7) % 4, *layers)


def attend(op, x, *weights):
    """softmax(q kᵀ) v, and the input again."""
    q, k, v = (op("aten::bmm", x, w) for w in weights)
    scores = op("aten::bmm", q, op("transpose", k, [0, 2, 1]))
    y = op("aten::bmm", op("aten::_softmax", scores, 2, False), v)
    return op("aten::add.Tensor", x, y)


def test_an_attention_of_parts():
    check(attend, normal(2, 4, 3), *(normal(2, 3, 3, seed=s) for s in range(3)))


def test_attention_whole():
    q, k, v = normal(2, 4, 5, 3), normal(2, 2, 5, 3, seed=1), normal(2, 2, 5, 6, seed=2)
    leaves = [torch.tensor(a, requires_grad=True) for a in (q, k, v)]
    y = torch.nn.functional.scaled_dot_product_attention(
        *leaves, is_causal=True, scale=0.7, enable_gqa=True
    )
    expected = torch.autograd.grad(y.sin().sum(), leaves)
    for backend in ("cpu", "reference"):
        context = Context(backend)
        params = [context.tensor(a) for a in (q, k, v)]
        values = (*params, None, 0.0, True, 0.7, Number(0), Number(0))
        out, _ = context.apply("torchacc::attention", *values, outs=2)
        loss = context.apply("aten::sum", context.apply("aten::sin", out))
        for found, correct in zip(context.grad(loss, params), expected, strict=True):
            np.testing.assert_allclose(found.numpy(), correct.numpy(), 1e-9, 1e-10)


def convnet(op, x, target, w1, b1, scale, shift, w2, head):
    spacing = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    x = op("aten::convolution", x, w1, b1, *spacing)
    x = op("aten::native_group_norm", x, scale, shift, 2, 4, 36, 2, 1e-5, outs=3)[0]
    x = op("aten::max_pool2d_with_indices", op("aten::relu", x), [2, 2], outs=2)[0]
    x = op("aten::avg_pool2d", op("aten::convolution", x, w2, None, *spacing), [3, 3])
    x = op("aten::sum.dim_IntList", x, [2, 3], False)
    return cross_entropy(op, op("aten::mm", x, head), target)


def test_a_convolutional_network():
    params = normal(4, 1, 3, 3), normal(4), normal(4, seed=1), normal(4, seed=2), normal(5, 4, 3, 3)
    check(convnet, normal(2, 1, 6, 6), np.array([1, 2]), *params, normal(5, 3))


def language_model(op, tokens, target, table, scale, shift, head):
    x = op("aten::embedding", table, tokens)
    x = op("aten::native_layer_norm", x, [5], scale, shift, 1e-5, outs=3)[0]
    return cross_entropy(op, op("aten::mm", op("aten::gelu", x), head), target)


def test_an_embedding_a_norm_and_cross_entropy():
    tokens = np.array([3, 0, 3, 6, 1, 3])
    params = normal(7, 5), normal(5), normal(5, seed=1), normal(5, 7)
    check(language_model, tokens, np.roll(tokens, 1), *params)


# ---- gradients as values


def test_a_gradient_has_gradients():
    """A gradient penalty: the loss is the squared norm of a gradient."""
    x, w, v = normal(4, 3), normal(3, 5), normal(5, 1)

    def inner(op, x, w, v):
        hidden = op("aten::tanh", op("aten::mm", x, w))
        return op("aten::sum", op("aten::mm", op("aten::mul.Tensor", hidden, hidden), v))

    def square(op, g):
        return op("aten::sum", op("aten::mul.Tensor", g, g))

    leaves = [torch.tensor(a, requires_grad=True) for a in (x, w, v)]
    (g,) = torch.autograd.grad(inner(in_torch, *leaves), leaves[:1], create_graph=True)
    expected = torch.autograd.grad(square(in_torch, g), leaves)
    context = Context()
    tensors = [context.tensor(a) for a in (x, w, v)]
    (g,) = context.grad(inner(context.apply, *tensors), tensors[:1])
    for found, correct in zip(
        context.grad(square(context.apply, g), tensors), expected, strict=True
    ):
        np.testing.assert_allclose(found.numpy(), correct.numpy(), 1e-9, 1e-11)


def test_equal_parameters_are_distinguished():
    """Zeros, copies of one another, and results of equal operations."""
    for make in ("zeros", "computed"):
        context = Context()
        if make == "zeros":
            a, b = context.zeros(3), context.zeros(3)
        else:
            start = context.tensor(np.zeros(3))
            a, b = (context.apply("aten::exp", start) for _ in range(2))
        x = context.tensor(np.arange(3.0))
        y = context.apply(
            "aten::add.Tensor", context.apply("aten::mul.Tensor", a, x), b, Number(5.0)
        )
        found = context.grad(context.apply("aten::sum", y), [a, b])
        np.testing.assert_array_equal(found[0].numpy(), [0, 1, 2])
        np.testing.assert_array_equal(found[1].numpy(), [5, 5, 5])


def test_views_have_the_gradients_of_their_elements():
    context = Context()
    x = context.tensor(np.arange(6.0).reshape(2, 3))
    column, turned = context.narrowed(x, [2], [3], 1), context.narrowed(x, [3, 2], [1, 3], 0)
    # Read as a whole, in part and turned.
    parts = [context.apply("aten::mul.Tensor", x, x), context.apply("aten::exp", column)]
    parts += [context.apply("aten::mul.Tensor", turned, Number(3.0))]
    total = [context.apply("aten::sum", part) for part in parts]
    loss = context.apply("aten::sum", context.apply("aten::stack", total, 0))
    full = 2 * np.arange(6.0).reshape(2, 3) + 3
    full[:, 1] += np.exp([1.0, 4.0])
    found = [g.numpy() for g in context.grad(loss, [x, column, turned])]
    for actual, expected in zip(found, [full, full[:, 1], full.T], strict=True):
        np.testing.assert_allclose(actual, expected, 1e-12)


def test_writes_in_place_are_seen():
    context = Context()
    x, w = context.tensor(np.arange(1.0, 5.0)), context.tensor(np.full(2, 3.0))
    y = context.apply("aten::mul.Tensor", x, x)
    middle = context.narrowed(y, [2], [1], 1)
    context.apply_into("aten::mul.Tensor", middle, w, outs=[middle])
    found = context.grad(context.apply("aten::sum", y), [x, w])
    np.testing.assert_allclose(found[0].numpy(), [2, 12, 18, 8])
    np.testing.assert_allclose(found[1].numpy(), [4, 9])


def test_what_the_loss_does_not_depend_on_has_zeros():
    context = Context()
    x, unused = context.tensor(np.ones(3)), context.tensor(np.ones((2, 2)))
    found = context.grad(context.apply("aten::sum", x), [unused])
    np.testing.assert_array_equal(found[0].numpy(), np.zeros((2, 2)))


def test_nothing_flows_through_detach():
    context = Context()
    x = context.tensor(np.arange(3.0))
    y = context.apply("aten::mul.Tensor", x, context.apply("detach", x))
    np.testing.assert_array_equal(
        context.grad(context.apply("aten::sum", y), [x])[0].numpy(), np.arange(3.0)
    )


# ---- refusals


def test_a_loss_of_before_the_cut_is_refused():
    context = Context()
    x = context.tensor(np.arange(3.0))
    loss = context.apply("aten::sum", x)
    context.cut()
    with pytest.raises(RuntimeError, match="not among what was recorded since the last cut"):
        context.grad(loss, [x])


def test_a_forward_that_was_cut_by_itself_is_refused():
    """The loss is in the trace, but not its way from the parameter."""
    context = Context(trace_limit=8)
    x = context.tensor(np.arange(3.0))
    y = x
    for _ in range(10):
        y = context.apply("aten::sin", y)
    loss = context.apply("aten::sum", context.apply("aten::mul.Tensor", y, x))
    with pytest.raises(RuntimeError, match="raise trace_limit"):
        context.grad(loss, [x])


def test_an_operator_without_a_gradient_is_named():
    context = Context()
    q = context.tensor(normal(1, 1, 3, 2))
    values = (q, q, q, None, 0.0, False, 1.0, Number(0), Number(0))
    out, _ = context.apply("torchacc::attention", *values, outs=2)
    (first,) = context.grad(context.apply("aten::sum", out), [q])
    loss = context.apply("aten::sum", first)
    with pytest.raises(RuntimeError, match="attention_grad has no gradient"):
        context.grad(loss, [q])
    assert first.numpy().shape == (1, 1, 3, 2)


# ---- training


def adamw(context, params, grads, means, squares, step, lr):
    numbers = [Number(float(n)) for n in (step, lr, 0.9, 0.99, 0.1, 1e-8)]
    lists = [params, grads, means, squares]
    context.apply_into("torchacc::adamw", *lists, *numbers, outs=params + means + squares)


def sgd(context, params, grads, velocities, _squares, _step, lr):
    numbers = [Number(float(n)) for n in (lr, 0.9, 0.1)]
    context.apply_into(
        "torchacc::sgd", params, grads, velocities, *numbers, True, outs=params + velocities
    )


@pytest.mark.parametrize("update", [adamw, sgd])
def test_training_follows_torch(update):
    x, target = normal(16, 5), np.arange(16) % 4
    arrays = [normal(5, 8), np.zeros(8), normal(8, 6), np.zeros(6), normal(6, 4), np.zeros(4)]
    params = [torch.tensor(a, requires_grad=True) for a in arrays]
    if update is adamw:
        optimizer = torch.optim.AdamW(params, betas=(0.9, 0.99), weight_decay=0.1)
    else:
        optimizer = torch.optim.SGD(params, 0.1, momentum=0.9, weight_decay=0.1, nesterov=True)
    context = Context()
    mine = [context.tensor(a) if a.any() else context.zeros(*a.shape) for a in arrays]
    means, squares = ([context.zeros(*a.shape) for a in arrays] for _ in range(2))
    inputs, targets = torch.tensor(x), torch.tensor(target)
    compiles = []
    for step in range(1, 21):
        lr = 0.1 / step
        optimizer.param_groups[0]["lr"] = lr
        optimizer.zero_grad()
        expected = mlp(in_torch, inputs, targets, *params)
        expected.backward()
        optimizer.step()
        loss = mlp(context.apply, context.tensor(x), context.tensor(target), *mine)
        update(context, mine, context.grad(loss, mine), means, squares, step, lr)
        context.cut()
        np.testing.assert_allclose(loss.numpy(), expected.item(), 1e-9)
        compiles.append(context.metrics()["compiles"])
    assert compiles[2] == compiles[-1]
    for tensor, param in zip(mine, params, strict=True):
        assert isinstance(tensor, Tensor)
        np.testing.assert_allclose(tensor.numpy(), param.detach().numpy(), 1e-7, 1e-9)
