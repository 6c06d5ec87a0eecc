"""The optimizers of torchacc.optim, step by step against their papers' rules in f64."""

import copy

import numpy
import pytest
import ranks
import torch
import torchacc
from support import DEVICE
from torchacc.optim import AGD, WSAM, AdamW8bit, Codes

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


def trained(make, device, dtype, rule, bound=1e-12):
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
        assert error < (bound if dtype == torch.float64 else 1e-5), number


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


def dynamic_codes(is_signed):
    """The paper's data type: a number of zeros is an exponent, what follows a linear fraction."""
    numbers = [0.0, 1.0]
    for zeros in range(7):
        ends = numpy.linspace(0.1, 1, 2 ** (6 - zeros + (not is_signed)) + 1)
        numbers += [*(10.0**-zeros * (ends[1:] + ends[:-1]) / 2)]
    return numpy.sort(numpy.unique([*numbers, *(-n for n in numbers if is_signed and n < 1)]))


def rounded(x, codes, size):
    """What is kept of rows of numbers: in each block the nearest code, of its largest number."""
    x = x.copy()
    for start in range(0, x.shape[-1], size):
        block = x[:, start : start + size]
        scale = numpy.abs(block).max(-1, keepdims=True)
        near = block / numpy.where(scale == 0, 1, scale)
        x[:, start : start + size] = scale * codes[numpy.abs(near[..., None] - codes).argmin(-1)]
    return x


def adamw_8bit(x, lr, betas, eps, weight_decay, block_size):
    """Algorithm 1 of the paper, with decoupled decay."""
    (beta1, beta2), m, v = betas, numpy.zeros_like(x), numpy.zeros_like(x)
    signed, unsigned = dynamic_codes(True), dynamic_codes(False)
    for t in range(1, STEPS + 1):
        g = gradient_of(x)
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        step = m / (1 - beta1**t) / (numpy.sqrt(v / (1 - beta2**t)) + eps)
        x = x * (1 - lr * weight_decay) - lr * step
        m, v = rounded(m, signed, block_size), rounded(v, unsigned, block_size)
        yield x


@pytest.mark.parametrize(("device", "dtype"), WHERE)
@pytest.mark.parametrize("block_size", [2, 3, 256])
def test_adamw_8bit_is_the_papers(device, dtype, block_size):
    options = {"lr": 0.02, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}
    options["block_size"] = block_size
    rule = adamw_8bit(places(), **options)
    # A number half-way between two codes may become either: the scales are f32.
    trained(lambda x: AdamW8bit([x], min_size=0, **options), device, dtype, rule, 1e-6)


@pytest.mark.parametrize("is_signed", [True, False])
def test_codes_are_the_papers(is_signed):
    table = Codes(torch.device("cpu"), is_signed).table
    assert len(table) == 256
    assert table.double().numpy() == pytest.approx(dynamic_codes(is_signed), rel=1e-6)
    # Every code is its own nearest one.
    codes = Codes(torch.device(DEVICE), is_signed)
    kept, scale = codes.codes_of(codes.table.unsqueeze(0) * 3, 256)
    assert kept.flatten().tolist() == [*range(256)]
    assert scale.item() == 3


def test_small_parameters_keep_f32_averages():
    model = torch.nn.Linear(80, 60).to(DEVICE, torch.bfloat16)
    optimizer = AdamW8bit(model.parameters())
    model(torch.ones(2, 80, device=DEVICE, dtype=torch.bfloat16)).sum().backward()
    optimizer.step()
    weight, bias = (optimizer.state[p] for p in (model.weight, model.bias))
    assert (weight["average"].dtype, weight["square"].dtype) == (torch.uint8, torch.uint8)
    assert weight["average_scale"].shape == (60, 1)
    assert (bias["average"].dtype, "average_scale" in bias) == (torch.float32, False)
    loaded = AdamW8bit(model.parameters())
    loaded.load_state_dict(optimizer.state_dict())
    for parameter in model.parameters():
        for name, value in optimizer.state[parameter].items():
            other = loaded.state[parameter][name]
            assert other == value if name == "step" else torch.equal(other.cpu(), value.cpu())
            assert name == "step" or other.dtype == value.dtype


def test_a_sharded_state_is_saved_and_goes_on_whole(tmp_path):
    made = ranks.run("sharded_state.eight_bit", 2, STATE_FOLDER=str(tmp_path))
    for rank, of_rank in enumerate(made):
        # What is rounded to codes may be the next one where gradients are summed in parts.
        assert of_rank["sharded"] == pytest.approx(of_rank["expected"], rel=1e-4)
        assert of_rank["again"] == pytest.approx(of_rank["expected"], rel=1e-4)
        kinds = {"average": "torch.uint8", "average_scale": "torch.float32"}
        kinds |= {"square": "torch.uint8", "square_scale": "torch.float32"}
        assert of_rank["kinds"] == kinds
        rows = 38 - rank
        sizes = {"average": [rows, 70], "average_scale": [rows, 3]}
        sizes |= {"square": [rows, 70], "square_scale": [rows, 3]}
        assert of_rank["sizes"] == sizes


@pytest.mark.parametrize("name", ["agd", "wsam", "adamw8bit"])
def test_nothing_of_a_step_is_read_or_compiled_again(name):
    model = torch.nn.Linear(80, 60).to(DEVICE)
    x = torch.randn(4, 80, device=DEVICE)
    make = {
        "agd": lambda: AGD(model.parameters()),
        "adamw8bit": lambda: AdamW8bit(model.parameters()),
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
