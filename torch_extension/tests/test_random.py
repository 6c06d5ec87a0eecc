"""Seeds, generator states, dropout and activation checkpoints replay what they drew."""

import pytest
import torch
import torch.nn as nn
import torchacc
from support import DEVICE, host_calls
from torch.utils.checkpoint import checkpoint


def draws():
    return torch.cat([torch.randn(5, device=DEVICE), torch.rand(5, device=DEVICE)]).cpu()


def test_manual_seed_repeats_and_seeds_differ():
    torch.manual_seed(3)
    first = draws()
    assert not torch.equal(first, draws())
    torch.manual_seed(3)
    assert torch.equal(first, draws())
    torch.acc.manual_seed(4)
    assert not torch.equal(first, draws())
    assert torch.acc.initial_seed() == 4


def test_state_can_be_saved_and_restored():
    torch.manual_seed(0)
    draws()
    state = torch.acc.get_rng_state()
    first = draws()
    torch.acc.set_rng_state(state)
    assert torch.equal(first, draws())
    assert state.dtype == torch.uint8
    assert state.device.type == "cpu"
    torch.acc.set_rng_state_all(torch.acc.get_rng_state_all())


def test_own_generator():
    generator = torch.Generator(device=DEVICE)
    generator.manual_seed(5)
    torch.rand(3, device=DEVICE, generator=generator)
    state = generator.get_state()
    first = torch.rand(3, device=DEVICE, generator=generator)
    generator.set_state(state)
    assert torch.equal(first.cpu(), torch.rand(3, device=DEVICE, generator=generator).cpu())


def test_fork_rng_leaves_the_state():
    torch.manual_seed(1)
    state = torch.acc.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type=DEVICE):
        draws()
    assert torch.equal(state, torch.acc.get_rng_state())


def test_distributions():
    torch.manual_seed(0)
    n = 20000
    uniform = torch.rand(n, device=DEVICE).cpu()
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.02
    normal = torch.randn(n, device=DEVICE).cpu()
    assert abs(normal.mean()) < 0.05
    assert abs(normal.std() - 1) < 0.05
    # Kolmogorov and Smirnov: one sample in a thousand is farther off than 1.95.
    ranks = (torch.arange(n) + 0.5) / n
    reached = torch.special.ndtr(normal.double().sort().values)
    assert (reached - ranks).abs().max() * n**0.5 < 1.95
    integers = torch.randint(2, 9, (n,), device=DEVICE).cpu()
    assert set(integers.tolist()) == set(range(2, 9))
    coin = torch.bernoulli(torch.full((n,), 0.3, device=DEVICE)).cpu()
    assert abs(coin.mean() - 0.3) < 0.03
    assert sorted(torch.randperm(50, device=DEVICE).tolist()) == list(range(50))
    picked = torch.multinomial(torch.tensor([0.0, 1, 0], device=DEVICE), 4, replacement=True)
    assert picked.tolist() == [1, 1, 1, 1]


INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
def test_integers_are_even_and_native(dtype):
    torch.manual_seed(0)
    before = host_calls()
    x = torch.randint(3, 11, (4000,), dtype=dtype, device=DEVICE)
    like = torch.randint_like(x, 100)
    whole = torch.empty(4000, dtype=dtype, device=DEVICE).random_()
    order = torch.randperm(100, dtype=dtype, device=DEVICE)
    drawn = [one.cpu().double() for one in (x, like, whole, order)]
    assert host_calls() == before
    for numbers, low, high in ((drawn[0], 3, 11), (drawn[1], 0, 100)):
        counts = torch.bincount(numbers.long(), minlength=high)[low:]
        assert counts.numel() == high - low
        each = 4000 / (high - low)
        # Pearson's test: of 99 degrees of freedom one sample in ten thousand is above 161.
        assert ((counts - each) ** 2 / each).sum() < 161
    info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
    last = 2 / info.eps if dtype.is_floating_point else info.max
    assert drawn[2].min() >= 0
    assert drawn[2].max() <= last
    assert abs(drawn[2].mean() / last - 0.5) < 0.03
    assert drawn[3].sort().values.tolist() == list(range(100))


def distance(drawn, reached):
    """Of Kolmogorov and Smirnov: one sample in ten thousand is farther off than 2.23."""
    ranks = (torch.arange(drawn.numel()) + 0.5) / drawn.numel()
    gap = (reached(drawn.cpu().double().flatten().sort().values) - ranks).abs().max()
    return gap * drawn.numel() ** 0.5


MOMENTS = {
    "both": lambda mean, std: torch.normal(mean, std),
    "both, broadcast": lambda mean, std: torch.normal(mean[:, :1], std[0]),
    "a mean": lambda mean, std: torch.normal(mean, 2.0),
    "a deviation": lambda mean, std: torch.normal(3.0, std.t()).t(),
    "both, out": lambda mean, std: torch.normal(mean, std, out=torch.empty_like(mean)),
    "a mean, out": lambda mean, std: torch.normal(mean, 2.0, out=torch.empty_like(mean)),
    "a deviation, out": lambda mean, std: torch.normal(3.0, std, out=torch.empty_like(std)),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", MOMENTS)
def test_normal_numbers_of_these_moments(name, dtype):
    torch.manual_seed(0)
    before = host_calls()
    mean = torch.full((40, 100), 3, dtype=dtype, device=DEVICE)
    std = torch.full((40, 100), 2, dtype=dtype, device=DEVICE)
    x = MOMENTS[name](mean, std)
    assert x.dtype == dtype
    assert x.shape == (40, 100)
    assert distance(x, lambda x: torch.special.ndtr((x - 3) / 2)) < 2.23 + (dtype in FLOATS[:2])
    assert x.cpu().unique().numel() > 100
    assert host_calls() == before


def test_normal_numbers_of_each_elements_moments():
    torch.manual_seed(0)
    before = host_calls()
    mean = torch.linspace(-50, 50, 101, device=DEVICE)
    std = torch.linspace(0, 1, 11, device=DEVICE)
    x = torch.normal(mean, std[:, None])
    assert x.shape == (11, 101)
    z = (x - mean)[1:] / std[1:, None]
    assert distance(z, torch.special.ndtr) < 2.23
    assert torch.equal(x[0].cpu(), mean.cpu())
    assert torch.normal(mean[:0], std[:0] - 1).shape == (0,)
    number = torch.normal(mean[100], std[0])
    assert (number.dim(), number.item()) == (0, 50)
    assert torch.normal(mean.half(), std[:1]).dtype == torch.float16
    assert torch.normal(mean.double(), std[:1]).dtype == torch.float64
    assert host_calls() == before


def test_what_is_drawn_for_more_elements_than_the_mean_has_is_not_drawn_again():
    torch.manual_seed(0)
    out = torch.empty(50, 2, device=DEVICE)
    torch.normal(torch.zeros(2, device=DEVICE), 1.0, out=out)
    x = torch.cat([out.flatten(), torch.randn(100, device=DEVICE)]).cpu()
    assert x.unique().numel() > 195


SHAPED = {
    "log_normal_": ((0.5, 0.75), lambda x: torch.special.ndtr((x.log() - 0.5) / 0.75)),
    "cauchy_": ((-2.0, 3.0), lambda x: torch.atan((x + 2) / 3) / torch.pi + 0.5),
    "exponential_": ((0.5,), lambda x: 1 - torch.exp(-0.5 * x)),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", SHAPED)
def test_shaped_numbers(name, dtype):
    torch.manual_seed(0)
    before = host_calls()
    parameters, reached = SHAPED[name]
    whole = torch.zeros(100, 80, dtype=dtype, device=DEVICE)
    getattr(whole.t()[::2], name)(*parameters)
    assert whole[:, 1::2].eq(0).all()
    x = whole[:, ::2]
    assert distance(x, reached) < 2.23 + (dtype in FLOATS[:2])
    assert dtype == torch.float16 or x.isfinite().all()
    assert getattr(torch.empty(0, dtype=dtype, device=DEVICE), name)().numel() == 0
    assert getattr(torch.empty((), dtype=dtype, device=DEVICE), name)().dim() == 0
    assert host_calls() == before


@pytest.mark.parametrize("dtype", INTEGERS + FLOATS, ids=str)
@pytest.mark.parametrize("p", [0.1, 0.5, 0.999, 1 - 1e-12])
def test_trials_until_one_succeeds(p, dtype):
    torch.manual_seed(0)
    before = host_calls()
    x = torch.empty(4000, dtype=dtype, device=DEVICE).geometric_(p).cpu().double()
    assert host_calls() == before
    assert x.min() == 1
    assert torch.equal(x, x.round())
    for n in range(1, 10):
        reached = 1 - (1 - p) ** n
        error = 4 * (reached * (1 - reached) / x.numel()) ** 0.5
        assert abs((x <= n).double().mean() - reached) <= error + 1e-9


def test_parameters_that_differ_compile_once():
    x = torch.ones(64, device=DEVICE)

    def step(a, b):
        drawn = [x.clone().log_normal_(a, b), x.clone().cauchy_(a, b), x.clone().geometric_(b / 9)]
        drawn += [torch.normal(x, b), torch.normal(a, x)]
        return torch.stack(drawn).cpu()

    for n in range(3):
        step(0.5 * n, n + 1.0)
    before = torchacc.metrics()["compiles"]
    for a, b in ((0.0, 1.0), (-7.5, 0.25), (0.125, 8.0)):
        assert step(a, b).isfinite().all()
    assert torchacc.metrics()["compiles"] == before


def test_bounds_that_differ_compile_once():
    torch.manual_seed(0)
    x = torch.zeros(64, device=DEVICE)

    def step(low, high):
        t = torch.randint(low, high, (64,), device=DEVICE)
        (x + t).cpu()
        return t.cpu()

    for n in range(3):
        step(n - 5, n + 1000)
    before = torchacc.metrics()["compiles"]
    for low, high in ((0, 1), (-7, 9), (17, 2**40), (-(2**63), 2**63 - 1), (2, 4)):
        t = step(low, high)
        assert low <= t.min() <= t.max() < high
    assert torchacc.metrics()["compiles"] == before


def test_integers_of_all_bits():
    torch.manual_seed(1)
    x = torch.empty(20000, dtype=torch.int64, device=DEVICE)
    x = x.random_(-(2**63), None).cpu()
    for bit in range(64):
        assert abs((x >> bit & 1).double().mean() - 0.5) < 0.02
    assert x.unique().numel() == 20000


@pytest.mark.parametrize("n", [0, 1, 2, 1000])
def test_permutations(n):
    torch.manual_seed(2)
    first, second = (torch.randperm(n, device=DEVICE).cpu() for _ in range(2))
    assert torch.equal(first.sort().values, torch.arange(n))
    assert n < 3 or not torch.equal(first, second)
    out = torch.empty(0, dtype=torch.int32, device=DEVICE)
    assert sorted(torch.randperm(n, out=out).tolist()) == list(range(n))


def test_a_permutation_draws_as_many_numbers_as_it_has():
    torch.manual_seed(3)
    out = torch.empty(0, dtype=torch.int64, device=DEVICE)
    torch.randperm(200, out=out)
    torch.manual_seed(3)
    torch.randperm(200, device=DEVICE)
    after = torch.rand(1, device=DEVICE).item()
    torch.manual_seed(3)
    torch.randperm(200, out=torch.empty(0, dtype=torch.int64, device=DEVICE))
    assert torch.rand(1, device=DEVICE).item() == after


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda d: torch.empty(3, device=d).random_(5, 5), "'from' to be less than 'to'"),
        (lambda d: torch.randint(9, 2, (3,), device=d), "'from' to be less than 'to'"),
        (lambda d: torch.empty(3, dtype=torch.int8, device=d).random_(0, 129), "out of bounds"),
        (lambda d: torch.empty(3, dtype=torch.uint8, device=d).random_(-1, 3), "out of bounds"),
        (lambda d: torch.randint(0, 3, (3,), dtype=torch.bool, device=d), "out of bounds"),
        (lambda d: torch.empty(3, dtype=torch.bfloat16, device=d).random_(-1000, -996), "casted"),
        (
            lambda d: torch.randperm(2050, dtype=torch.float16, device=d).cpu(),
            "n cannot be greater",
        ),
        (lambda d: torch.randperm(-1, device=d), "negative"),
        (lambda d: torch.empty(3, device=d).log_normal_(0, -1), "std > 0.0, but found std=-1"),
        (lambda d: torch.empty(3, device=d).cauchy_(0, 0), "sigma > 0.0, but found sigma=0"),
        (lambda d: torch.empty(3, device=d).geometric_(1.5), r"in \(0, 1\), but got p=1.5"),
        (lambda d: torch.empty(3, device=d, dtype=int).cauchy_(), "must be a floating point"),
        (lambda d: torch.empty(3, device=d, dtype=int).log_normal_(), "not implemented for 'Long'"),
        (lambda d: torch.empty(3, device=d, dtype=bool).geometric_(0.5), "not implemented"),
        (lambda d: torch.normal(torch.ones(3, device=d), -1.0), "std >= 0.0, but found std -1"),
        (
            lambda d: torch.normal(torch.ones(3, device=d), torch.ones(2, device=d)),
            "must match the size",
        ),
        (
            lambda d: torch.normal(0.0, torch.tensor([1, torch.nan], device=d)).cpu(),
            "all elements of std >= 0.0",
        ),
    ],
)
def test_bounds_are_refused_as_on_the_cpu(call, message):
    for device in ("cpu", DEVICE):
        with pytest.raises(RuntimeError, match=message):
            call(device)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_random_slopes(dtype):
    torch.manual_seed(0)
    before = host_calls()
    x = torch.linspace(-1, 1, 8001, dtype=dtype, device=DEVICE).requires_grad_()
    y = nn.functional.rrelu(x, 0.1, 0.5, training=True)
    y.sum().backward()
    plain = nn.functional.rrelu(x.detach(), 0.1, 0.5)
    y, slope, plain, x = (one.detach().cpu().double() for one in (y, x.grad, plain, x))
    assert host_calls() == before
    assert torch.equal(slope[4001:], torch.ones(4000, dtype=torch.float64))
    drawn = slope[:4000]
    assert 0.1 - 1e-3 < drawn.min() < 0.11
    assert 0.49 < drawn.max() < 0.5 + 2e-3
    assert abs(drawn.mean() - 0.3) < 0.01
    close = {"rtol": 1e-2, "atol": 0} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(y, x * slope, **close)
    torch.testing.assert_close(plain, torch.where(x > 0, x, 0.3 * x), **close)


def test_in_place_initialisers():
    x = torch.empty(1000, device=DEVICE)
    assert abs(nn.init.normal_(x, std=0.02).std().item() - 0.02) < 0.005
    assert nn.init.uniform_(x, -1, 1).abs().max().item() <= 1
    nn.init.trunc_normal_(x, std=0.02, a=-0.04, b=0.04)
    assert x.abs().max().item() <= 0.04 + 1e-6


def test_dropout_scales_repeats_and_differs_between_calls():
    dropout, x = nn.Dropout(0.25), torch.ones(8000, device=DEVICE)
    torch.manual_seed(2)
    first, second = dropout(x).cpu(), dropout(x).cpu()
    torch.manual_seed(2)
    assert torch.equal(first, dropout(x).cpu())
    assert not torch.equal(first, second)
    assert first.unique().tolist() == pytest.approx([0, 4 / 3])
    assert abs((first == 0).float().mean() - 0.25) < 0.03
    assert torch.equal(dropout.eval()(x).cpu(), torch.ones(8000))


def test_dropout_mask_is_the_same_in_backward():
    x = torch.ones(1000, device=DEVICE, requires_grad=True)
    y = nn.functional.dropout(x, 0.5)
    y.sum().backward()
    assert torch.equal(y.detach().cpu(), x.grad.cpu())


def test_the_same_program_draws_anew_each_time():
    x = torch.ones(64, device=DEVICE)
    seen = {tuple(nn.functional.dropout(x, 0.5).tolist()) for _ in range(6)}
    assert len(seen) == 6


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_replays_dropout(reentrant):
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5), nn.GELU()).to(DEVICE)
    x = torch.randn(8, 16, device=DEVICE, requires_grad=True)

    def gradient(run):
        x.grad = None
        torch.manual_seed(1)
        run().sum().backward()
        return x.grad.cpu()

    replayed = gradient(lambda: checkpoint(block, x, use_reentrant=reentrant))
    assert torch.equal(replayed, gradient(lambda: block(x)))
