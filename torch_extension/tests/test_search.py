"""Searching lists, drawing by weights, and functions without a primitive: all in the program."""

import pytest
import torch
import torchacc
from support import DEVICE, check, forget_errors


@pytest.fixture(autouse=True)
def no_fallback():
    torchacc.sync()
    before = torchacc.metrics()["host_calls"]
    yield
    torchacc.sync()
    assert torchacc.metrics()["host_calls"] == before


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.int32])
@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 9, 100])
def test_places_in_sorted_lists(dtype, right, n):
    torch.manual_seed(n)
    sorted_rows = (torch.randn(4, n) * 9).to(dtype).sort().values
    x = torch.cat([sorted_rows, (torch.randn(4, 5) * 9).to(dtype)], 1)
    check(lambda s, x: torch.searchsorted(s, x, right=right), sorted_rows, x)
    check(lambda s, x: torch.searchsorted(s, x, right=right, out_int32=True), sorted_rows[0], x)
    check(lambda s, x: torch.bucketize(x, s, right=right), sorted_rows[1], x)
    check(lambda s: torch.searchsorted(s, 2, side="right" if right else "left"), sorted_rows[2])
    check(lambda s: torch.bucketize(1.5, s, right=right), sorted_rows[3])


def test_places_by_a_sorter_and_of_what_is_no_number():
    x = torch.tensor([3.0, 1.0, 2.0, 5.0])
    queries = torch.tensor([[0.0, 2.0, torch.nan, torch.inf], [1.0, -torch.inf, 5.0, 6.0]])
    check(lambda x, q: torch.searchsorted(x, q, sorter=x.argsort()), x, queries)
    check(lambda x, q: torch.searchsorted(x.sort().values, q, right=True), x, queries)
    check(lambda q: torch.searchsorted(torch.empty(0, device=q.device), q), queries)
    check(lambda x, q: torch.searchsorted(x.long().sort().values, q[0, 1:2]), x, queries)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7, 24, 31, 32])
def test_lists_that_end_in_what_is_no_number(right, n):
    queries = torch.tensor([-1.0, 0.0, 0.5, n / 2, n - 1.5, n - 1, n, torch.nan, torch.inf])
    for count in (1, 2, n):
        x = torch.arange(float(n))
        x[n - count :] = torch.nan
        check(lambda x, q: torch.searchsorted(x, q, right=right), x, queries)
        check(lambda x, q: torch.bucketize(q, x, right=right), x, queries)
        check(lambda x, q: torch.isin(q, x), x, queries)


@pytest.mark.parametrize("n", [0, 1, 16, 17, 200])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.uint8, torch.float16])
def test_which_elements_are_in_a_list(dtype, n):
    torch.manual_seed(n)
    x, tests = (torch.randint(0, 100, size).to(dtype) for size in ((7, 9), (n,)))
    check(torch.isin, x, tests)
    check(lambda x, t: torch.isin(x, t, invert=True), x, tests)
    check(lambda x, t: torch.isin(x.float(), t), x, tests)
    check(lambda x: torch.isin(x, 3), x)
    check(lambda t: torch.isin(3, t), tests)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8]
)
@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_the_median_of_numbers(dtype, n):
    torch.manual_seed(n)
    x = torch.stack([torch.randperm(n) for _ in range(12)]).view(3, 4, n).to(dtype)
    if dtype.is_floating_point:
        x[torch.rand(x.shape) < 0.4] = torch.nan
        # Of what has no number PyTorch says any place.
        x[..., 0].nan_to_num_(n)
    check(lambda x: x.nanmedian(-1), x)
    check(lambda x: x.nanmedian(2, keepdim=True), x)
    check(lambda x: x.transpose(0, 2).nanmedian(0).values, x)
    check(lambda x: x.nanmedian(), x)
    check(lambda x: (x[0, 0, 0].nanmedian(), *x[0, 0, 0].nanmedian(-1)), x)
    check(lambda x: (x[:0].nanmedian(), *x[:0].nanmedian(-1)), x)
    if dtype.is_floating_point:
        check(lambda x: ((x * torch.nan).nanmedian(), (x * torch.nan).nanmedian(1).values), x)
        x = x.requires_grad_()
        check(lambda x: torch.autograd.grad(x.nanmedian(-1).values.sum(), x), x)
        check(lambda x: torch.autograd.grad(x.nanmedian(), x), x)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("dim", [0, 1])
def test_reductions_by_an_index(reduce, include_self, dim):
    def reduced(x, index, source):
        x, source = (t.detach().requires_grad_() for t in (x, source))
        y = x.scatter_reduce(dim, index, source, reduce, include_self=include_self)
        (y * torch.linspace(0.5, 2, y.numel(), device=y.device).view(y.shape)).sum().backward()
        return y, x.grad, source.grad

    torch.manual_seed(0)
    x, source = torch.randn(6, 7), torch.randn(5, 4)
    source[2] = 0
    index = torch.randint(6, (5, 4))
    check(reduced, x, index, source)
    check(reduced, x.double(), index, source.double())
    x, source = (x * 9).int(), (source * 9).int()
    check(
        lambda *a: a[0].scatter_reduce(dim, *a[1:], reduce, include_self=include_self),
        x,
        index,
        source,
    )
    if reduce != "sum":
        rows = index[0]
        check(
            lambda x, rows, s: x.index_reduce(dim, rows, s, reduce, include_self=include_self),
            x,
            rows,
            torch.randint(9, (4, 7) if dim == 0 else (6, 4)).int(),
        )


def test_what_is_no_number_is_in_no_list():
    few = torch.tensor([torch.nan, 1.0, torch.inf])
    check(torch.isin, few, few)
    check(lambda x: torch.isin(x, x.repeat(9)), few)


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, torch.inf])
def test_distances_of_rows(p):
    def distances(x, y):
        x, y = (t.detach().requires_grad_() for t in (x, y))
        d = torch.cdist(x, y, p=p, compute_mode="donot_use_mm_for_euclid_dist")
        (d * torch.linspace(0.5, 2, d.numel(), device=d.device).view(d.shape)).sum().backward()
        return d, x.grad, y.grad

    torch.manual_seed(0)
    x, y = torch.randn(2, 4, 6), torch.randn(2, 5, 6)
    y[:, 2] = x[:, 1]
    check(distances, x, y)
    check(distances, x[0].double(), y[1].double())
    check(distances, x[:1], y)
    check(distances, x[0], y)
    check(distances, x, y[:, :0])
    check(lambda x, y: torch.cdist(x, y[1], p=p), x, y)
    y[0, 0, 0] = torch.nan
    check(lambda x, y: torch.cdist(x, y, p=p), x, y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_gamma_functions(dtype):
    x = torch.cat(
        [torch.linspace(-6.03, 12, 701), torch.tensor([1e-6, 1e4, 1e30, 0.0, -0.0, 1, 2])]
    )
    special = torch.tensor([torch.inf, -torch.inf, torch.nan, -1, -2, -7])
    x = torch.cat([x, special]).to(dtype)
    close = {"rtol": 1e-12, "atol": 1e-12} if dtype == torch.float64 else {}
    for function in (torch.lgamma, torch.digamma):
        got, wide = function(x.to(DEVICE)).cpu(), function(x.double())
        torch.testing.assert_close(got, wide.to(dtype), equal_nan=True, **close)


def test_the_gradient_of_a_likelihood():
    def loss(df):
        df = df.detach().requires_grad_()
        torch.distributions.StudentT(df).log_prob(torch.ones_like(df)).sum().backward()
        return df.grad

    check(loss, torch.linspace(0.5, 20, 64))


def test_draws_by_weights():
    torch.manual_seed(0)
    weights = torch.tensor([[1.0, 0, 3, 4], [2, 2, 0, 0]], device=DEVICE)
    with_replacement = torch.multinomial(weights, 20000, replacement=True).cpu()
    for row, drawn in zip(weights.cpu(), with_replacement, strict=True):
        rate = torch.bincount(drawn, minlength=4) / 20000
        torch.testing.assert_close(rate, row / row.sum(), atol=0.02, rtol=0)
    one = torch.cat([torch.multinomial(weights.repeat(2000, 1), 1) for _ in range(3)]).cpu()
    rate = torch.bincount(one[::2, 0], minlength=4) / len(one[::2])
    torch.testing.assert_close(rate, weights[0].cpu() / 8, atol=0.03, rtol=0)
    without = torch.multinomial(weights, 2).cpu()
    assert without[1].sort().values.tolist() == [0, 1]
    shuffled = torch.multinomial(torch.ones(100, device=DEVICE), 100).cpu()
    assert sorted(shuffled.tolist()) == list(range(100))


def test_two_draws_are_not_the_same_numbers():
    torch.manual_seed(0)
    first = torch.multinomial(torch.ones(1000, device=DEVICE), 1)
    then = torch.rand(1000, device=DEVICE)
    again = torch.multinomial(torch.ones(1000, device=DEVICE), 1)
    assert len({first.item(), again.item(), then.argmin().item(), then.argmax().item()}) == 4


REFUSED = {
    "inf.*nan.*element < 0": lambda ones: torch.multinomial(-ones, 1),
    "inf.*nan.*element <": lambda ones: torch.multinomial(ones / 0, 2),
    "sum of probabilities <= 0": lambda ones: torch.multinomial(ones * 0, 1),
    "p_in >= 0 && p_in <= 1": lambda ones: torch.bernoulli(ones + 1),
    "p_in >= 0 && p_in <= 1 to": lambda ones: torch.bernoulli(ones.double() + 1e-12),
    "p_in >= 0 && p_in": lambda ones: torch.zeros_like(ones).bernoulli_(ones * torch.nan),
    "Number of elements of source": lambda ones: ones.masked_scatter(ones > 0, ones[0]),
    r"histc: range of \[": lambda ones: torch.histc(ones / 0),
    "all elements of std >= 0.0": lambda ones: torch.normal(ones, -ones),
}


@pytest.mark.parametrize("text", REFUSED)
def test_numbers_that_are_refused_in_words_of_pytorch(text):
    ones = torch.ones(3, 4, device=DEVICE)
    result = REFUSED[text](ones)
    with pytest.raises(RuntimeError, match=text):
        result.cpu()
    forget_errors()
    # Dropped results are looked at, too.
    REFUSED[text](ones)
    with pytest.raises(RuntimeError, match=text):
        torchacc.sync()
    forget_errors()
