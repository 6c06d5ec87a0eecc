"""What PyTorch's CPU refuses whatever the values is refused where it is written, in its words."""

import pytest
import torch
import torch.nn.functional as F
from support import DEVICE, check

NAN = float("nan")


def floats(d):
    return torch.arange(6.0, device=d)


def whole(d):
    return torch.arange(6, device=d)


def flags(d):
    return torch.tensor([True, False] * 3, device=d)


def row(d):
    return torch.ones(1, device=d).expand(3)


TYPES = {
    "a float less a bool": lambda d: floats(d) - flags(d),
    "a bool less a number": lambda d: flags(d) - 1,
    "a number less a bool": lambda d: 1 - flags(d),
    "an integer less True": lambda d: whole(d) - True,
    "a bool from a float in place": lambda d: floats(d).sub_(flags(d)),
    "rsub of a bool": lambda d: torch.rsub(floats(d), flags(d)),
    "a half less a bool": lambda d: floats(d).half() - flags(d),
    "a bool alpha": lambda d: torch.add(floats(d), floats(d), alpha=True),
    "lerp of integers": lambda d: torch.lerp(whole(d), whole(d), 0.5),
    "lerp of integers by integers": lambda d: torch.lerp(whole(d), whole(d), whole(d)),
    "lerp of integers in place": lambda d: whole(d).lerp_(whole(d), 1),
    "logaddexp of integers": lambda d: torch.logaddexp(whole(d), whole(d)),
    "logaddexp2 of integers": lambda d: torch.logaddexp2(whole(d), whole(d)),
    "relu of bools": lambda d: torch.relu(flags(d)),
    "softmax of integers": lambda d: torch.softmax(whole(d), 0),
    "a matrix product of bools": lambda d: flags(d).view(2, 3) @ flags(d).view(3, 2),
    "index_put of doubles": lambda d: floats(d).index_put((whole(d)[:1],), floats(d)[:1].double()),
    "index_put of halves": lambda d: floats(d).index_put_((whole(d)[:1],), floats(d)[:1].half()),
    "index_put of floats to halves": lambda d: (
        floats(d).half().index_put_((whole(d)[:1],), floats(d)[:1])
    ),
    "a largest element for a wider out": lambda d: torch.amax(
        floats(d).half().view(2, 3), 1, out=torch.zeros(2, device=d)
    ),
    "the least of no halves": lambda d: floats(d).view(2, 3)[:0].bfloat16().min(0),
    "the gradient of a loss of two types": lambda d: F.mse_loss(
        floats(d).half().requires_grad_(), floats(d)
    ).backward(),
    "the gradient of Huber's loss of two types": lambda d: F.huber_loss(
        floats(d).requires_grad_(), floats(d).double()
    ).backward(),
    "distances of halves": lambda d: torch.cdist(
        floats(d).half().view(2, 3), floats(d).half().view(2, 3)
    ),
    "index_put of integers": lambda d: floats(d).__setitem__(whole(d)[:2], whole(d)[:2]),
    "index_add of doubles": lambda d: floats(d).index_add(0, whole(d), floats(d).double()),
    "index_copy of doubles": lambda d: floats(d).index_copy(0, whole(d), floats(d).double()),
    "masked_fill by integers": lambda d: floats(d).masked_fill(whole(d), 1.0),
    "index_copy_ of other sizes": lambda d: torch.zeros(5, 4, device=d).index_copy_(
        0, whole(d)[:3], torch.ones(3, 5, device=d)
    ),
    "put_ of more numbers": lambda d: floats(d).put_(whole(d)[:3], floats(d)[:4]),
    "index_add of other sizes": lambda d: torch.zeros(5, 4, device=d).index_add_(
        0, whole(d)[:3], torch.ones(3, 5, device=d)
    ),
    "index_add of more rows": lambda d: torch.zeros(5, 4, device=d).index_add_(
        0, whole(d)[:3], torch.ones(4, 4, device=d)
    ),
}

NUMBERS = {
    "uniform_ from above to below": lambda d: floats(d).uniform_(2, 1),
    "uniform_ without an end": lambda d: floats(d).uniform_(0, float("inf")),
    "uniform_ beyond a half": lambda d: floats(d).half().uniform_(0, 1e6),
    "normal_ of a negative deviation": lambda d: floats(d).normal_(0, -1),
    "bernoulli_ of more than certainty": lambda d: floats(d).bernoulli_(1.5),
    "bernoulli_ of NaN": lambda d: floats(d).bernoulli_(NAN),
    "bernoulli of less than nothing": lambda d: torch.bernoulli(floats(d), -0.5),
    "bernoulli of integers": lambda d: torch.bernoulli(whole(d)),
    "exponential_ of nothing": lambda d: floats(d).exponential_(0),
    "exponential_ of integers": lambda d: whole(d).exponential_(),
    "random_ of nothing": lambda d: floats(d).random_(0),
    "random_ from above to below": lambda d: floats(d).random_(5, 3),
    "random_ beyond the type": lambda d: whole(d).to(torch.uint8).random_(0, 1000),
    "randint of nothing": lambda d: torch.randint(3, 3, (2,), device=d),
    "geometric_ of certainty": lambda d: floats(d).geometric_(1),
    "cauchy_ of a negative width": lambda d: floats(d).cauchy_(0, -1),
    "log_normal_ of no deviation": lambda d: floats(d).log_normal_(0, 0),
    "dropout": lambda d: F.dropout(floats(d), 1.5),
    "native_dropout": lambda d: torch.native_dropout(floats(d), 1.5, True),
}

OVERLAPS = {
    "its transpose": lambda d: floats(d)[:4].view(2, 2).add_(floats(d)[:4].view(2, 2).t()),
    "one element": lambda d: (x := floats(d)).mul_(x[1]),
    "a comparison": lambda d: (x := floats(d))[:4].eq_(x[1:5]),
    "three operands": lambda d: (x := floats(d))[:4].addcmul_(x[1:5], x[:4]),
    "an out argument": lambda d: torch.exp((x := floats(d))[:-1], out=x[1:]),
    "a list of tensors": lambda d: torch._foreach_add_([(x := floats(d))[:3]], [x[1:4]]),
    "another type": lambda d: (x := floats(d))[:2].add_(x.view(torch.int32)[1:3]),
    "a copy": lambda d: (x := floats(d))[1:].copy_(x[:-1]),
    "an assignment": lambda d: (x := floats(d)).__setitem__(slice(1, None), x[:-1]),
    "a scatter": lambda d: (x := floats(d)).scatter_(0, whole(d)[:2], x[1:3]),
    "index_put_": lambda d: (x := floats(d)).index_put_((whole(d)[:2],), x[1:3]),
    "an expanded sum": lambda d: row(d).add_(1),
    "an expanded copy": lambda d: row(d).copy_(floats(d)[:3]),
    "an expanded draw": lambda d: row(d).uniform_(),
    "cat of its out argument": lambda d: torch.cat([x := floats(d)], out=x),
    "cat of parts of its out argument": lambda d: torch.cat([(x := floats(d))[:3], x[3:]], out=x),
}


def raised(function, device):
    try:
        return None, function(device)
    except Exception as error:
        return (type(error), str(error).splitlines()[0]), None


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, id=name)
        for calls in (TYPES, NUMBERS, OVERLAPS)
        for name, call in calls.items()
    ],
)
def test_refused_at_the_call(call):
    expected, _ = raised(call, "cpu")
    for _ in range(2):
        actual, _ = raised(call, DEVICE)
        assert actual == expected
    assert (torch.ones(2, device=DEVICE) + 1).tolist() == [2, 2]


def test_numbers_are_judged_anew_each_call():
    x = floats(DEVICE)
    for low, high in [(0, 1), (0, 1), (1, 2)]:
        x.uniform_(low, high)
    with pytest.raises(RuntimeError, match="found from=2 > to=1"):
        x.uniform_(2, 1)
    x.uniform_(0, 1)


def leaky(d, slope):
    x = torch.ones(3, device=d, requires_grad=True)
    F.leaky_relu_(x * 1, slope).sum().backward()


# A call that is right, and with a number that is not, once the shapes are known.
THE_SECOND_TIME = {
    "huber_loss": lambda d, ok: F.huber_loss(floats(d), floats(d), delta=1.0 if ok else -1.0),
    "smooth_l1_loss": lambda d, ok: F.smooth_l1_loss(
        floats(d), floats(d), beta=1.0 if ok else -1.0
    ),
    "fill_ of bytes": lambda d, ok: flags(d).byte().fill_(3 if ok else 300),
    "fill_ of signed bytes": lambda d, ok: flags(d).char().fill_(-128 if ok else -129),
    "a norm of nothing": lambda d, ok: torch.linalg.vector_norm(
        floats(d)[:0], 2.0 if ok else float("inf")
    ),
    "leaky_relu_": lambda d, ok: leaky(d, 0.1 if ok else -0.1),
    "addr of integers": lambda d, ok: torch.addr(
        whole(d).expand(6, 6), whole(d), whole(d), alpha=1 if ok else 1.5
    ),
    "bernoulli": lambda d, ok: torch.bernoulli(floats(d), 0.5 if ok else 2.0),
    "bernoulli of a tensor": lambda d, ok: torch.bernoulli(floats(d) / (5 if ok else 1)).cpu(),
    "bernoulli_ of a tensor": lambda d, ok: (x := floats(d)).bernoulli_(x / (5 if ok else 1)).cpu(),
    "normal": lambda d, ok: torch.normal(floats(d), 1.0 if ok else -1.0),
    "normal of a number": lambda d, ok: torch.normal(0.0, floats(d) - (0 if ok else 1)).cpu(),
    "normal of tensors": lambda d, ok: torch.normal(floats(d), floats(d) - (0 if ok else 1)).cpu(),
    "an integer to a power": lambda d, ok: whole(d) ** (2 if ok else -2),
    "renorm": lambda d, ok: floats(d).view(2, 3).renorm(1.0 if ok else -1.0, 0, 1.0),
}


@pytest.mark.parametrize("name", THE_SECOND_TIME)
def test_a_number_is_judged_though_the_shapes_are_known(name):
    call = THE_SECOND_TIME[name]
    expected, _ = raised(lambda d: call(d, False), "cpu")
    assert expected is not None
    for _ in range(2):
        assert (
            raised(lambda d: call(d, True), DEVICE)[0] == raised(lambda d: call(d, True), "cpu")[0]
        )
        kind, words = raised(lambda d: call(d, False), DEVICE)[0]
        assert kind is expected[0]
        # What is found out when it runs names the operator before, and asks nobody for a report.
        assert words.endswith(expected[1].partition("  (Could this error message")[0])


def test_a_dry_run_draws_nothing_from_the_cpus_generator():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    F.dropout(torch.ones(4, device=DEVICE), 0.3125)
    assert torch.equal(torch.rand(3), expected)


MIXED = {
    "equal": torch.equal,
    "bincount": lambda a, b: torch.bincount(a.long(), b),
    "masked_select": lambda a, b: torch.masked_select(a, b > 0),
    "lstsq": lambda a, b: torch.linalg.lstsq(a.view(2, 2), b.view(2, 2)),
    "histogram": lambda a, b: torch.histogram(a, 3, weight=b),
    "histogram of bins": lambda a, b: torch.histogram(a, b),
    "embedding_bag": lambda a, b: F.embedding_bag(b.long(), a.view(2, 2), torch.tensor([0, 2])),
    "a product": lambda a, b: a.view(2, 2) @ b.view(2, 2),
    "where": lambda a, b: torch.where(a > 0, a, b),
}


@pytest.mark.parametrize("name", MIXED)
def test_tensors_of_two_devices(name):
    a, b = torch.arange(4.0), torch.arange(4.0).clamp(max=1)
    for one, other in ((a.to(DEVICE), b), (a, b.to(DEVICE))):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            MIXED[name](one, other)


def test_what_may_be_on_the_cpu():
    x = floats(DEVICE)
    assert (x + torch.tensor(1.0)).tolist() == [1, 2, 3, 4, 5, 6]
    assert x[torch.tensor([True, False] * 3)].tolist() == [0, 2, 4]
    packed = torch.nn.utils.rnn.pack_padded_sequence(x.view(3, 2), torch.tensor([3, 2]))
    assert packed.data.tolist() == [0, 1, 2, 3, 4]
    assert torch.masked_select(x, torch.tensor(True)).tolist() == x.tolist()


def sobol(d):
    state = torch.zeros(2, 30, dtype=torch.int64, device=d)
    torch._sobol_engine_initialize_state_(state, 2)
    bits = torch.ones(2, 30, 30, dtype=torch.int64, device=d).tril()
    torch._sobol_engine_scramble_(state, bits, 2)
    place = torch.zeros(2, dtype=torch.int64, device=d)
    torch._sobol_engine_ff_(place, 3, state, 2, 0)
    drawn, place = torch._sobol_engine_draw(place, 4, state, 2, 3, torch.float64)
    return torch.cat([drawn.flatten(), place])


ACCEPTED = {
    "a normalisation of no halves": lambda d: torch.autograd.grad(
        F.layer_norm(x := torch.ones(0, 1, device=d).half().requires_grad_(), (0, 1)).mean(), x
    )[0],
    "a mask beside an index": lambda d: torch.zeros(3, 4, device=d).index_put_(
        (flags(d)[:3] & flags(d)[3:].logical_not(), whole(d)[:1]), floats(d)[1]
    ),
    "a normalisation of halves": lambda d: torch.autograd.grad(
        F.batch_norm(
            x := floats(d).bfloat16().view(3, 2).requires_grad_(),
            None,
            None,
            x.new_ones(2),
            None,
            True,
        ).sum(),
        x,
    )[0],
    "apart": lambda d: (x := floats(d))[:3].add_(x[3:]),
    "side by side": lambda d: (x := floats(d))[::2].add_(x[1::2]),
    "exactly itself": lambda d: (x := floats(d)).mul_(x),
    "a row of itself": lambda d: (x := floats(d).view(2, 3)).sub_(x.max(0, keepdim=True)[0]),
    "an expanded mask": lambda d: row(d).masked_fill_(flags(d)[:3], 2.0),
    "integers by themselves": lambda d: (whole(d) + 1) // (whole(d) + 1),
    "integers and a float": lambda d: whole(d) * 2.5,
    "a half and a float": lambda d: floats(d).half() * floats(d),
    "half to float": lambda d: torch.softmax(floats(d).half(), 0, dtype=torch.float32),
    "a bool sum": lambda d: flags(d).sum(0),
    "a bool product": lambda d: floats(d) * flags(d),
    # PyTorch's compositions of these read memory by its address.
    "a window": lambda d: torch.kaiser_window(5, device=d),
    "a symmetric window": lambda d: torch.kaiser_window(6, False, device=d, dtype=torch.float64),
    "a window of one": lambda d: torch.kaiser_window(1, True, 3.0, device=d),
    "numbers in order": lambda d: torch.ops.aten.range.out_(1, 3, out=torch.empty(3, device=d)),
    "rows that stay": lambda d: torch._rowwise_prune(
        floats(d).view(3, 2), flags(d)[:3], torch.int32
    )[0],
    "a range for quantisation": lambda d: torch.tensor(
        torch.choose_qparams_optimized(floats(d), 6, 16, 0.1, 8), device=d
    ),
    "a grid": lambda d: torch._grid_sampler_2d_cpu_fallback(
        floats(d).view(1, 1, 2, 3), floats(d)[:4].view(1, 1, 2, 2) / 4, 0, 0, False
    ),
    "the gradient of a grid": lambda d: torch.cat(
        [
            x.flatten()
            for x in torch.ops.aten._grid_sampler_2d_cpu_fallback_backward(
                floats(d)[:2].view(1, 1, 1, 2),
                floats(d).view(1, 1, 2, 3),
                floats(d)[:4].view(1, 1, 2, 2) / 4,
                0,
                0,
                False,
            )
        ]
    ),
    "a sequence of Sobol's": sobol,
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name):
    expected = ACCEPTED[name]("cpu")
    actual = ACCEPTED[name](DEVICE)
    torch.testing.assert_close(actual.cpu(), expected)


REFUSED_BOOLS = {
    "topk": lambda x: x.topk(1)[0],
    "kthvalue": lambda x: x.kthvalue(1)[0],
    "histc": lambda x: x.histc(),
}


@pytest.mark.parametrize("name", REFUSED_BOOLS)
def test_bools_have_no_rank_and_no_histogram(name):
    with pytest.raises((RuntimeError, NotImplementedError), match="(?i)bool"):
        REFUSED_BOOLS[name](torch.tensor([True, False], device=DEVICE)).cpu()


def test_the_first_of_one_number_is_that_number():
    for k in (0, 1):
        check(torch.topk, torch.tensor(2.5), k)


# Refused after sizes that fit, which are how a shape rule becomes one that is believed.
LATER = {
    "weights of other classes": (
        lambda d, n, c, k: F.cross_entropy(
            torch.ones(n, c, device=d),
            torch.zeros(n, dtype=torch.long, device=d),
            torch.ones(k, device=d),
        ),
        [(5, 4, 4), (6, 3, 3), (7, 5, 5)],
        [(6, 3, 4), (4, 5, 6), (7, 300, 4)],
    ),
    "output_padding": (
        lambda d, n, stride, more: F.conv_transpose1d(
            torch.ones(1, 4, n, device=d),
            torch.ones(4, 8, 3, device=d),
            stride=stride,
            output_padding=more,
        ),
        [(5, 2, 1), (6, 2, 1), (7, 3, 2)],
        [(5, 1, 1), (8, 2, 2), (9, 1, 3)],
    ),
}


@pytest.mark.parametrize("name", LATER)
def test_refused_after_sizes_that_fit(name):
    function, fitting, others = LATER[name]
    for sizes in fitting:
        torch.testing.assert_close(function(DEVICE, *sizes).cpu(), function("cpu", *sizes))
    for sizes in others:
        with pytest.raises(RuntimeError) as expected:
            function("cpu", *sizes)
        with pytest.raises(RuntimeError) as actual:
            function(DEVICE, *sizes)
        assert str(expected.value)[:40] in str(actual.value)
