"""Floats of 8 bits: conversions bit by bit, scaled products, FP8 linear layers."""

import pytest
import torch
import torch.nn as nn
import torchacc
from support import DEVICE, GPT, token_batch, twins
from torch.utils.checkpoint import checkpoint
from training import settle

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
FORMATS = [E4M3, E5M2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]
# Half of the distance between neighbours, relative to the number: 3 and 2 bits of mantissa.
ROUNDING = {E4M3: 2.0**-4, E5M2: 2.0**-3}


def every_bf16():
    return torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)


def some_f32():
    generator = torch.Generator().manual_seed(0)
    bits = torch.randint(-(2**31), 2**31, (200_000,), dtype=torch.int64, generator=generator)
    near = torch.randn(50_000, generator=generator) * torch.logspace(-6, 5, 50_000)
    return torch.cat([bits.to(torch.int32).view(torch.float32), near])


def same_numbers(got, wanted):
    """Bit by bit, but for the sign of a NaN."""
    assert got.dtype == wanted.dtype
    got, wanted = got.cpu(), wanted.cpu()
    nan = wanted.float().isnan()
    assert torch.equal(got.float().isnan(), nan)
    as_bits = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[got.itemsize]
    assert torch.equal(got.view(as_bits)[~nan], wanted.view(as_bits)[~nan])


@pytest.mark.parametrize("dtype", FORMATS)
def test_conversions_are_bit_exact_and_native(dtype):
    codes = torch.arange(256, dtype=torch.uint8).view(dtype)
    wholes = torch.arange(-600, 600)
    torchacc.reset_metrics()
    for x in (every_bf16(), some_f32(), every_bf16().double(), every_bf16().half(), wholes):
        same_numbers(x.to(DEVICE).to(dtype), x.to(dtype))
    for other in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        same_numbers(codes.to(DEVICE).to(other), codes.to(other))
    finite = codes[codes.float().isfinite()]
    assert torch.equal(finite.to(DEVICE).to(torch.int64).cpu(), finite.to(torch.int64))
    assert torch.equal(finite.to(DEVICE).bool().cpu(), finite.bool())
    for other in (E4M3, E5M2):
        same_numbers(codes.to(DEVICE).to(other), codes.to(other))
    same_numbers(partly_written(dtype, DEVICE), partly_written(dtype, "cpu"))
    assert torchacc.metrics()["host_calls"] == 0


def partly_written(dtype, device):
    whole = torch.zeros(6, 4, device=device).to(dtype)
    whole[1::2].copy_(torch.arange(12.0, device=device).view(4, 3).t())
    return whole


@pytest.mark.parametrize("to", [torch.float32, torch.bfloat16, torch.float16, E4M3])
@pytest.mark.parametrize(("first", "second"), [(E4M3, E4M3), (E5M2, E4M3), (E4M3, E5M2)])
@pytest.mark.parametrize("bias", [False, True])
def test_scaled_products_agree_with_pytorch(first, second, to, bias):
    torch.manual_seed(0)
    a, b = torch.randn(24, 32).to(first), torch.randn(48, 32).to(second).t()
    scales = torch.tensor(0.37), torch.tensor([1.9])
    bias = torch.randn(48).bfloat16() if bias else None
    expected = torch._scaled_mm(a, b, *scales, bias=bias, out_dtype=to)
    torchacc.reset_metrics()
    arguments = [t.to(DEVICE) for t in (a, b, *scales)]
    got = torch._scaled_mm(*arguments, bias=bias if bias is None else bias.to(DEVICE), out_dtype=to)
    assert got.dtype == to
    # Both sum in f32, in an order of their own: a result of few bits may round the other way.
    step = {torch.float32: 1e-5, torch.bfloat16: 2.0**-7, torch.float16: 2.0**-10, E4M3: 2.0**-2}
    torch.testing.assert_close(got.cpu().float(), expected.float(), rtol=step[to], atol=1e-4)
    assert torchacc.metrics()["host_calls"] == 0


def test_scales_of_rows_and_the_second_form():
    torch.manual_seed(0)
    a, b = torch.randn(24, 32).to(E4M3), torch.randn(48, 32).to(E4M3).t()
    rows, columns = torch.rand(24, 1) + 0.5, torch.rand(1, 48) + 0.5
    expected = a.double() @ b.double() * rows.double() * columns.double()
    operands = [t.to(DEVICE) for t in (a, b)]
    scales = [t.to(DEVICE) for t in (rows, columns)]
    got = torch._scaled_mm(*operands, *scales, out_dtype=torch.float32)
    torch.testing.assert_close(got.cpu().double(), expected, rtol=1e-5, atol=1e-4)
    kinds = torch.nn.functional.ScalingType
    for kind, scale in ((kinds.RowWise, scales), (kinds.TensorWise, [s.mean() for s in scales])):
        got = torch.nn.functional.scaled_mm(
            *operands, scale[0], kind, scale[1], kind, output_dtype=torch.float32
        )
        expected = torch._scaled_mm(*operands, *scale, out_dtype=torch.float32)
        assert torch.equal(got.cpu(), expected.cpu())


def test_wrong_operands_are_refused_in_pytorchs_words():
    a, b = torch.zeros(16, 32).to(E4M3), torch.zeros(32, 16).to(E4M3)
    one = torch.ones(())
    for wrong in ((a, b[:16]), (a.float(), b), (a[0], b)):
        raised = []
        for device in ("cpu", DEVICE):
            with pytest.raises((RuntimeError, ValueError)) as error:
                torch._scaled_mm(*(t.to(device) for t in wrong), one.to(device), one.to(device))
            raised.append(str(error.value))
        assert raised[0] == raised[1]


def test_quantised_numbers_are_those_of_the_cpu():
    torch.manual_seed(0)
    for x in (torch.randn(64, 48), torch.randn(64, 48).bfloat16() * 1e4, torch.zeros(16, 16)):
        for dtype in (E4M3, E5M2):
            (codes, scale), (expected, factor) = (
                torchacc.fp8.quantize(t, dtype) for t in (x.to(DEVICE), x)
            )
            same_numbers(codes, expected)
            assert torch.equal(scale.cpu(), factor)
            assert factor.isfinite()
            back = codes.cpu().double() * factor.double()
            # Of small numbers the distance is that of the denormals.
            least = x.double().abs().max() * torch.finfo(dtype).smallest_normal
            least = least / torch.finfo(dtype).max
            allowed = ROUNDING[dtype] * x.double().abs().clamp(min=least) * 1.0001
            assert ((back - x.double()).abs() <= allowed).all()


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize(("dtype", "rows"), [(torch.float32, 12), (torch.bfloat16, 7)])
def test_each_product_is_within_the_rounding_of_its_operands(device, dtype, rows):
    torch.manual_seed(0)
    layer = torchacc.fp8.convert(nn.Linear(48, 32).to(device))
    assert type(layer) is torchacc.fp8.Linear
    x = torch.randn(4, rows, 48, device=device, requires_grad=True)
    dy = torch.randn(4, rows, 32, device=device)
    with torch.autocast(device, dtype=torch.bfloat16, enabled=dtype is torch.bfloat16):
        y = layer(x)
    assert (y.dtype, y.shape) == (dtype, (4, rows, 32))
    y.backward(dy.to(dtype))
    x64, w64, b64 = (t.detach().cpu().double() for t in (x, layer.weight, layer.bias))
    dy64 = dy.to(dtype).cpu().double().view(-1, 32)
    x64 = x64.view(-1, 48)

    def close(got, a, b, roundings, bias=0.0):
        """Each term is off by the roundings of its two operands; the sum of those bounds it."""
        assert got.dtype in (torch.float32, dtype)
        slack = (1 + roundings[0]) * (1 + roundings[1]) - 1
        # A denormal's share: at most that of 2^-9 and 2^-16 of the largest numbers' 448 and 57344.
        small = (a.abs().max() * b.abs().max()) * a.shape[1] * 2.0**-17
        allowed = slack * (a.abs() @ b.abs()) + small + 2.0**-7 * (a @ b + bias).abs()
        error = (got.detach().cpu().double().view(a.shape[0], -1) - (a @ b + bias)).abs()
        assert (error <= allowed).all()
        assert error.max() > 0

    e4, e5 = ROUNDING[E4M3], ROUNDING[E5M2]
    close(y, x64, w64.t(), (e4, e4), b64)
    close(x.grad, dy64, w64, (e5, e4))
    close(layer.weight.grad, dy64.t(), x64, (e5, e4))
    torch.testing.assert_close(layer.bias.grad.cpu().double(), dy64.sum(0), rtol=2e-2, atol=2e-2)
    assert x.grad.dtype == layer.weight.grad.dtype == torch.float32


def test_what_is_converted():
    class Own(nn.Linear):
        pass

    model = nn.Sequential(nn.Linear(32, 48), nn.Linear(32, 40), Own(16, 16), nn.Linear(16, 16))
    parameters = dict(model.named_parameters())
    keys = list(model.state_dict())
    assert torchacc.fp8.convert(model, lambda name, layer: name != "3") is model
    kinds = [type(layer) for layer in model]
    assert kinds == [torchacc.fp8.Linear, nn.Linear, Own, nn.Linear]
    assert list(model.state_dict()) == keys
    assert all(parameters[name] is p for name, p in model.named_parameters())


def test_zeros_and_infinities():
    layer = torchacc.fp8.convert(nn.Linear(16, 16, bias=False).to(DEVICE))
    x = torch.zeros(3, 16, device=DEVICE, requires_grad=True)
    y = layer(x)
    y.sum().backward()
    assert torch.equal(y.cpu(), torch.zeros(3, 16))
    assert torch.equal(layer.weight.grad.cpu(), torch.zeros(16, 16))
    assert x.grad.isfinite().all()
    for odd in (float("nan"), float("inf")):
        x = torch.ones(3, 16, device=DEVICE)
        x[1, 2] = odd
        assert layer(x).isnan().all()


class Checkpointed(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = layers

    def forward(self, x):
        return checkpoint(self.layers, x, use_reentrant=False)


def test_checkpoints_give_the_same_gradients():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)).to(DEVICE)
    torchacc.fp8.convert(layers)
    gradients = []
    for model in (layers, Checkpointed(layers)):
        layers.zero_grad()
        model(torch.ones(4, 16, device=DEVICE)).square().sum().backward()
        gradients.append([p.grad.cpu() for p in layers.parameters()])
    for plain, again in zip(*gradients, strict=True):
        assert torch.equal(plain, again)


def train(model, device, steps, autocast=True):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for step in range(steps):
        with torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
            loss = model(*(t.to(device) for t in token_batch(step % 4)))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [loss.item() for loss in losses]


def test_a_gpt_trains_as_in_bf16():
    plain, model = (twins(GPT)[1] for _ in range(2))
    torchacc.fp8.convert(model)
    assert any(type(layer) is torchacc.fp8.Linear for layer in model.modules())
    expected, got = train(plain, DEVICE, 40), train(model, DEVICE, 40)
    # It learns, and stays as near to bf16 as rounding allows: an error of 2^-4 in each of K terms,
    # of random sign, is one of 2^-4 / sqrt(K) in their sum.
    assert expected[-1] < 0.7 * expected[0]
    for one, other in zip(got, expected, strict=True):
        assert one == pytest.approx(other, rel=0.03)


def test_a_gpt_trains_as_on_the_cpu():
    cpu, model = twins(GPT)
    for one in (cpu, model):
        torchacc.fp8.convert(one)
    expected = train(cpu, "cpu", 6, autocast=False)
    got = train(model, DEVICE, 6, autocast=False)
    assert got == pytest.approx(expected, rel=5e-3)


def test_a_step_is_compiled_once_and_calls_nothing_on_the_host():
    model = torchacc.fp8.convert(twins(GPT)[1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    batch = [t.to(DEVICE) for t in token_batch(0)]

    def step():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            loss = model(*batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    settle(step)
    torchacc.sync()
    torchacc.reset_metrics()
    settle(step, 5)
    torchacc.sync()
    metrics = torchacc.metrics()
    assert (metrics["compiles"], metrics["host_calls"]) == (0, 0)
    assert metrics["recorded_ops"] == metrics["replayed_ops"]
