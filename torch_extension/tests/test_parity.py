"""Whole training runs: 200 losses equal eager PyTorch's on the CPU."""

import pytest
import torch
import torch.nn as nn
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
