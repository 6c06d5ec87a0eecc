"""What PyTorch's CPU refuses whatever the values is refused where it is written, in its words."""

import pytest
import torch
import torch.nn.functional as F
from support import DEVICE

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
    "index_put of integers": lambda d: floats(d).__setitem__(whole(d)[:2], whole(d)[:2]),
    "index_add of doubles": lambda d: floats(d).index_add(0, whole(d), floats(d).double()),
    "index_copy of doubles": lambda d: floats(d).index_copy(0, whole(d), floats(d).double()),
    "masked_fill by integers": lambda d: floats(d).masked_fill(whole(d), 1.0),
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


ACCEPTED = {
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
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepted(name):
    expected = ACCEPTED[name]("cpu")
    actual = ACCEPTED[name](DEVICE)
    torch.testing.assert_close(actual.cpu(), expected)
