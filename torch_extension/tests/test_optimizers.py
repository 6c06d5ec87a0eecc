"""The optimizers of torchacc.optim, step by step against their papers' rules in f64."""

import copy

import numpy
import pytest
import torch
import torchacc
from support import DEVICE
from torchacc.optim import AGD, WSAM

STEPS = 7


def gradient_of(x):
    """Of sum(x⁴/4 + sin x), whose curvature varies."""
    return x**3 + numpy.cos(x)


def loss_of(x):
    return (x**4 / 4 + x.sin()).sum()


def places():
    return numpy.linspace(-1.5, 1.5, 12).reshape(3, 4)


def agd(x, lr, betas, delta, weight_decay):
    """Algorithm 1 of the paper."""
    (beta1, beta2), m, b = betas, 0.0, 0.0
    previous = 0.0
    for t in range(1, STEPS + 1):
        m = beta1 * m + (1 - beta1) * gradient_of(x)
        s = m / (1 - beta1**t) - previous
        previous = m / (1 - beta1**t)
        b = beta2 * b + (1 - beta2) * s**2
        rate = lr * numpy.sqrt(1 - beta2**t) / (1 - beta1**t)
        x = x * (1 - lr * weight_decay)
        x = x - rate * m / numpy.maximum(numpy.sqrt(b), delta * numpy.sqrt(1 - beta2**t))
        yield x


def wsam(x, lr, rho, gamma, adaptive, decouple):
    """The paper's rule about SGD with momentum 0.9."""
    momentum, weight = 0.0, gamma / (1 - gamma)
    for _ in range(STEPS):
        g = gradient_of(x)
        size = numpy.abs(x) if adaptive else numpy.ones_like(x)
        far = gradient_of(x + rho * size**2 * g / numpy.linalg.norm(size * g))
        if decouple:
            momentum = 0.9 * momentum + g
            x = x - lr * momentum - lr * weight * (far - g)
        else:
            momentum = 0.9 * momentum + (1 - weight) * g + weight * far
            x = x - lr * momentum
        yield x


def trained(make, device, dtype, rule):
    x = torch.tensor(places(), dtype=dtype, device=device, requires_grad=True)
    optimizer = make(x)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(x)
        loss.backward()
        return loss

    for number, expected in enumerate(rule):
        optimizer.step(closure)
        error = numpy.abs(x.detach().cpu().double().numpy() - expected).max()
        assert error < (1e-12 if dtype == torch.float64 else 1e-5), number


WHERE = [("cpu", torch.float64), (DEVICE, torch.float64), (DEVICE, torch.float32)]


@pytest.mark.parametrize(("device", "dtype"), WHERE)
@pytest.mark.parametrize("delta", [1e-5, 0.05, 10.0])
@pytest.mark.parametrize("weight_decay", [0.0, 0.1])
def test_agd_is_the_papers(device, dtype, delta, weight_decay):
    options = {"lr": 0.02, "betas": (0.9, 0.99), "delta": delta, "weight_decay": weight_decay}
    trained(lambda x: AGD([x], **options), device, dtype, agd(places(), **options))


@pytest.mark.parametrize(("device", "dtype"), WHERE)
@pytest.mark.parametrize("gamma", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("adaptive", [False, True])
@pytest.mark.parametrize("decouple", [False, True])
def test_wsam_is_the_papers(device, dtype, gamma, adaptive, decouple):
    options = {"rho": 0.05, "gamma": gamma, "adaptive": adaptive, "decouple": decouple}
    trained(
        lambda x: WSAM(torch.optim.SGD([x], lr=0.01, momentum=0.9), **options),
        device,
        dtype,
        wsam(places(), lr=0.01, **options),
    )


@pytest.mark.parametrize("name", ["agd", "wsam"])
def test_nothing_of_a_step_is_read_or_compiled_again(name):
    model = torch.nn.Linear(8, 8).to(DEVICE)
    x = torch.randn(4, 8, device=DEVICE)
    make = {
        "agd": lambda: AGD(model.parameters()),
        "wsam": lambda: WSAM(torch.optim.AdamW(model.parameters())),
    }
    optimizer = make[name]()

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    for number in range(8):
        if number == 4:
            torchacc.sync()
            torchacc.reset_metrics()
        optimizer.step(closure)
    metrics = torchacc.metrics()
    assert (metrics["compiles"], metrics["host_calls"]) == (0, 0)
    # The step of the optimizer beneath is one, too.
    assert metrics["cuts"] == 4 * (2 if name == "wsam" else 1)


@pytest.mark.parametrize("name", ["agd", "wsam"])
def test_a_state_goes_on_elsewhere(name):
    def build(x):
        if name == "agd":
            return AGD([x], lr=0.01)
        return WSAM(torch.optim.SGD([x], lr=0.01, momentum=0.9))

    def steps(x, optimizer, count):
        def closure():
            optimizer.zero_grad()
            loss = loss_of(x)
            loss.backward()
            return loss

        for _ in range(count):
            optimizer.step(closure)

    x = torch.tensor(places(), device=DEVICE, requires_grad=True)
    optimizer = build(x)
    steps(x, optimizer, 3)
    y = x.detach().clone().requires_grad_()
    other = build(y)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    steps(x, optimizer, 3)
    steps(y, other, 3)
    assert torch.equal(x.cpu(), y.cpu())


def test_a_gradient_that_one_of_the_two_has_not_is_none():
    x, y = (torch.ones(2, device=DEVICE, requires_grad=True) for _ in range(2))
    optimizer = WSAM(torch.optim.SGD([x, y], lr=0.1), gamma=0.5)
    runs = []

    def closure():
        runs.append(None)
        optimizer.zero_grad()
        loss = (x if len(runs) == 1 else y).sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    # How the gradient of x differs is not known; y had none when the step was begun.
    torch.testing.assert_close(x.detach().cpu(), torch.full((2,), 0.9))
    assert y.tolist() == [1, 1]


def test_an_error_of_the_closure_leaves_the_parameters_where_they_were():
    x = torch.ones(2, device=DEVICE, requires_grad=True)
    optimizer = WSAM(torch.optim.SGD([x], lr=0.1), rho=0.5)
    runs = []

    def closure():
        runs.append(None)
        optimizer.zero_grad()
        x.sum().backward()
        if len(runs) == 2:
            raise MemoryError
        return 0

    with pytest.raises(MemoryError):
        optimizer.step(closure)
    assert x.tolist() == [1, 1]


@pytest.mark.parametrize("gradient", [0.0, 300.0])
def test_norms_of_halves_do_not_overflow(gradient):
    x = torch.ones(100_000, dtype=torch.float16, device=DEVICE, requires_grad=True)
    optimizer = WSAM(torch.optim.SGD([x], lr=0.0), rho=1000.0)
    seen = []

    def closure():
        optimizer.zero_grad()
        seen.append(x.detach().clone())
        (x.sum(dtype=torch.float32) * gradient).backward()
        return 0

    optimizer.step(closure)
    moved = (seen[1] - seen[0]).float().cpu()
    expected = 1000.0 / 100_000**0.5 if gradient else 0.0
    torch.testing.assert_close(moved, torch.full_like(moved, expected), rtol=1e-3, atol=1e-3)


def test_wsam_is_an_optimizer_to_its_callers():
    x, y = (torch.ones(2, requires_grad=True) for _ in range(2))
    optimizer = WSAM(torch.optim.Adam([x], lr=0.1))

    def steps(optimizer):
        def closure():
            optimizer.zero_grad()
            loss = sum((p**2).sum() for g in optimizer.param_groups for p in g["params"])
            loss.backward()
            return loss

        optimizer.step(closure)

    steps(optimizer)
    assert optimizer.state is optimizer.base.state
    assert optimizer.state[x]["step"] == 1
    optimizer.add_param_group({"params": [y], "lr": 0.2})
    steps(optimizer)
    assert [group["lr"] for group in optimizer.base.param_groups] == [0.1, 0.2]
    copied = copy.deepcopy(optimizer)
    steps(copied)
    assert copied.param_groups is copied.base.param_groups
    assert copied.state[copied.param_groups[0]["params"][0]]["step"] == 3
    assert optimizer.state[x]["step"] == 2
    with pytest.raises(ValueError, match="the optimizer has made a step"):
        torchacc.accelerate(torch.nn.Linear(2, 2), optimizer=optimizer)


def test_what_is_out_of_range_is_said():
    x = torch.zeros(2, requires_grad=True)
    for options in ({"lr": -1}, {"betas": (0.9, 1)}, {"delta": 0}, {"weight_decay": -0.1}):
        with pytest.raises(ValueError, match=f"AGD: {next(iter(options))} is"):
            AGD([x], **options)
    base = torch.optim.SGD([x], lr=0.1)
    for options in ({"rho": -1}, {"gamma": 1.0}):
        with pytest.raises(ValueError, match=f"WSAM: {next(iter(options))} is"):
            WSAM(base, **options)
    with pytest.raises(ValueError, match="a closure is needed"):
        WSAM(base).step()


def test_a_scheduler_of_either_is_one_of_both():
    x = torch.zeros(2, requires_grad=True)
    base = torch.optim.SGD([x], lr=0.1)
    optimizer = WSAM(base)
    torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 0.5)
    assert base.param_groups[0]["lr"] == 0.05
