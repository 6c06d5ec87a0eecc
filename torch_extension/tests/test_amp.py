"""Autocast and gradient scaling."""

import pytest
import torch
import torch.nn as nn
from support import DEVICE, twins


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_chooses_dtypes(dtype):
    model, x = nn.Linear(4, 4).to(DEVICE), torch.randn(2, 4, device=DEVICE)
    with torch.autocast(DEVICE, dtype=dtype):
        y = model(x)
        probabilities = torch.softmax(y, -1)
        loss = nn.functional.cross_entropy(y, torch.tensor([0, 1], device=DEVICE))
        with torch.autocast(DEVICE, enabled=False):
            assert model(x).dtype == torch.float32
    assert (y.dtype, probabilities.dtype, loss.dtype) == (dtype, torch.float32, torch.float32)
    loss.backward()
    assert model.weight.grad.dtype == torch.float32
    assert not torch.is_autocast_enabled(DEVICE)


def test_autocast_agrees_with_the_cpu():
    cpu, acc = twins(lambda: nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8)))
    x = torch.randn(16, 32)
    results = []
    for model, device in ((cpu, "cpu"), (acc, DEVICE)):
        with torch.autocast(device, dtype=torch.bfloat16):
            results.append(model(x.to(device)).float().cpu())
    torch.testing.assert_close(*results, rtol=2e-2, atol=2e-2)


def test_bf16_weights():
    cpu, acc = twins(lambda: nn.Linear(32, 16).bfloat16())
    x = torch.randn(4, 32, dtype=torch.bfloat16)
    torch.testing.assert_close(acc(x.to(DEVICE)).cpu(), cpu(x), rtol=2e-2, atol=2e-2)


def test_grad_scaler_steps_and_skips():
    model = nn.Linear(4, 4).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=8.0)
    x = torch.randn(2, 4, device=DEVICE)

    before = model.weight.detach().cpu().clone()
    scaler.scale(model(x).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad()
    after = model.weight.detach().cpu().clone()
    torch.testing.assert_close(after, before - 0.1 * x.sum(0).cpu().expand(4, 4))
    assert scaler.get_scale() == 8

    scaler.scale(model(x * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert torch.equal(model.weight.detach().cpu(), after)
    assert scaler.get_scale() == 4
