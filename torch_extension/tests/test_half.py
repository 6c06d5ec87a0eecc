"""A half tensor has one value: the rounded one, whoever reads it and wherever it was computed. Only
what nobody can observe, between two operations of half types, may be kept in f32."""

import pytest
import torch
import torch.nn.functional as F

HALF_TYPES = [torch.float16, torch.bfloat16]


def numbers(dtype, *sizes, scale=1.0):
    generator = torch.Generator().manual_seed(3)
    return (torch.randn(sizes, generator=generator) * scale).to(dtype)


READERS = {
    "float": lambda y: y.float(),
    "double": lambda y: y.double(),
    "int": lambda y: y.clamp(-1e4, 1e4).int(),
    "bool": lambda y: y.bool(),
    "other half": lambda y: y.to(torch.float16 if y.dtype == torch.bfloat16 else torch.bfloat16),
    "isinf": lambda y: y.isinf(),
    "isnan": lambda y: y.isnan(),
    "isfinite": lambda y: y.isfinite(),
    "compared": lambda y: y > 7,
    "equal": lambda y: y == y.round(),
    "argmax": lambda y: y.argmax(-1),
    "max": lambda y: y.max(-1)[1],
    "where": lambda y: torch.where(y < 1, y, -y),
    "promoted": lambda y: y + torch.ones((), device=y.device).expand(y.shape),
    "sum": lambda y: y.sum(-1, dtype=torch.float32),
    "mean": lambda y: y.mean(-1),
    "bits": lambda y: y.view(torch.int16),
    "norm": lambda y: torch.linalg.vector_norm(y, dim=-1, dtype=torch.float32),
    "count": lambda y: y.count_nonzero(),
    "sort": lambda y: y.sort(dim=-1, stable=True)[1],
    "clamp": lambda y: y.clamp(max=60000.0),
    "rounded": lambda y: torch.stack([y.floor(), y.ceil(), y.trunc(), y.round()]),
    "rest": lambda y: torch.stack([torch.fmod(y, torch.ones_like(y)), torch.remainder(y, 1.0)]),
    "sign": lambda y: (y - y.round()).sign(),
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_readers_of_a_half_tensor_see_it_rounded(dtype, reader):
    x = numbers(dtype, 8, 33, scale=100.0 if dtype == torch.float16 else 1e10)
    x[0, 0] = 300.0 if dtype == torch.float16 else 3e38
    expected = READERS[reader](x * x)
    assert torch.equal(x.cpu(), x)
    on_device = x.to("acc")
    result = READERS[reader](on_device * on_device).cpu()
    torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_what_reads_a_kept_tensor_reads_it_rounded(dtype):
    x = numbers(dtype, 8, 33, scale=100.0 if dtype == torch.float16 else 1e10)
    x[0, 0] = 300.0 if dtype == torch.float16 else 3e38

    def run(device):
        y = x.to(device) * x.to(device)
        return (y / y).cpu(), (y * 3).cpu(), y.cpu()

    for ours, expected in zip(run("acc"), run("cpu"), strict=True):
        torch.testing.assert_close(ours, expected, rtol=0, atol=0, equal_nan=True)


def test_a_value_does_not_change_when_it_is_read():
    h = torch.tensor([300.0], dtype=torch.float16, device="acc")
    y = h * h
    before = torch.isinf(y)
    wide = y.float()
    y.cpu()
    after = torch.isinf(y)
    assert before.item()
    assert after.item()
    assert wide.item() == float("inf")


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_a_wider_out_gets_the_rounded_number(dtype):
    x = numbers(dtype, 64)

    def run(device):
        y = x.to(device) * x.to(device)
        out = torch.empty(64, device=device)
        torch.add(y, y, out=out)
        return out.cpu()

    assert torch.equal(run("acc"), run("cpu"))


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_bits_do_not_depend_on_when_results_are_read(dtype):
    def run(read):
        x = numbers(dtype, 16, 32).to("acc").requires_grad_()
        weight = numbers(dtype, 32, 32).to("acc")
        steps = []

        def keep(y):
            steps.append(y)
            if read:
                y.detach().cpu()
            return y

        h = keep(x * 1.1 + x)
        h = keep(F.gelu(keep(h @ weight)))
        h = keep(F.layer_norm(h, (32,)))
        h = keep(torch.sigmoid(h) * h - 0.3)
        loss = keep(h.float().square().mean())
        loss.backward()
        return [y.detach().cpu() for y in steps] + [x.grad.cpu()]

    for at_the_end, at_once in zip(run(False), run(True), strict=True):
        assert torch.equal(at_the_end, at_once)


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_norms_of_halves_are_kept_in_f32(dtype):
    v, g = numbers(dtype, 3, 4), numbers(dtype, 3, 1)
    expected = torch._weight_norm_interface(v, g, 0)
    actual = torch._weight_norm_interface(v.to("acc"), g.to("acc"), 0)
    assert [x.dtype for x in actual] == [x.dtype for x in expected]
    torch.testing.assert_close(actual[1].cpu(), expected[1])


@pytest.mark.parametrize("dtype", HALF_TYPES)
def test_weight_norm_trains(dtype):
    def gradients(device):
        torch.manual_seed(0)
        layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 3).to(dtype))
        layer.to(device)(numbers(dtype, 2, 4).to(device)).sum().backward()
        return [parameter.grad.cpu() for parameter in layer.parameters()]

    torch.testing.assert_close(gradients("acc"), gradients("cpu"))
