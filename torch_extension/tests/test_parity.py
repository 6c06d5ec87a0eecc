"""Whole training runs: 200 losses equal eager PyTorch's on the CPU."""

import pytest
import torch
import torch.ao.quantization as quantization
import torch.nn as nn
import torchacc
from support import DEVICE, GPT, token_batch, twins

STEPS = 200


def losses(model, device, autocast, **optimizer_options):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **optimizer_options)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)
    history = []
    for step in range(STEPS):
        tokens, targets = (t.to(device) for t in token_batch(step))
        with torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
            loss = model(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        history.append(loss.detach())
    return torch.stack([loss.cpu() for loss in history]).double()


@pytest.mark.parametrize("options", [{}, {"fused": True}], ids=["foreach", "fused"])
def test_f32(options):
    cpu, acc = twins(GPT)
    expected = losses(cpu, "cpu", autocast=False, **options)
    actual = losses(acc, DEVICE, autocast=False, **options)
    difference = (actual - expected).abs() / expected
    assert difference[:20].max() < 1e-5
    assert difference.max() < 1e-3
    assert actual[-1] < actual[0] - 1  # it learns


def test_bf16_autocast():
    cpu, acc = twins(GPT)
    expected = losses(cpu, "cpu", autocast=True)
    actual = losses(acc, DEVICE, autocast=True)
    assert ((actual - expected).abs() / expected).max() < 2e-2


def quantised(device, backend):
    """Of a training that is aware of quantisation: losses, gradients, and what observers saw."""
    torch.manual_seed(0)
    model = nn.Sequential(
        quantization.QuantStub(),
        nn.Conv2d(3, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(4 * 36, 5),
        quantization.DeQuantStub(),
    ).train()
    model.qconfig = quantization.get_default_qat_qconfig(backend)
    model = quantization.fuse_modules_qat(model, [["1", "2", "3"]])
    quantization.prepare_qat(model, inplace=True)
    model.to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for step in range(4):
        if step == 3:
            model.apply(quantization.disable_observer)
        x = torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(step)).to(device)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    gradients = {name: parameter.grad.cpu() for name, parameter in model.named_parameters()}
    return found, gradients, {name: x.cpu() for name, x in model.state_dict().items()}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["x86", "qnnpack"])
def test_quantisation_aware_training(backend):
    expected, actual = quantised("cpu", backend), quantised(DEVICE, backend)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


def test_an_observer_gets_its_elements_with_the_first_batch():
    def observed(device):
        make = quantization.default_fused_per_channel_wt_fake_quant
        fake, x = make().to(device), torch.linspace(-2, 3, 12).view(3, 4).to(device)
        weight = x.requires_grad_()
        first = fake(weight)
        first.sum().backward()
        results = first.cpu(), fake(weight * 2).cpu(), weight.grad.cpu()
        return results, {name: value.cpu() for name, value in fake.state_dict().items()}

    expected = observed("cpu")
    before = torchacc.metrics()["immediate_runs"]
    torch.testing.assert_close(observed(DEVICE), expected, rtol=0, atol=1e-6)
    # What has elements is observed in the program.
    assert torchacc.metrics()["immediate_runs"] == before + 1
