"""A result is there for whoever waits as soon as no later step of its program touches it."""

import pytest
import torch
import torch.nn as nn
import torchacc
from support import DEVICE, twins

SIZE = 160


def layers():
    return nn.Sequential(
        *[module for _ in range(24) for module in (nn.Linear(SIZE, SIZE), nn.Tanh())]
    )


def chain(x, weight):
    """More steps than a program is waited for."""
    for _ in range(40):
        x = torch.tanh(x @ weight)
    return x


def early_outputs():
    return torchacc.metrics()["early_outputs"]


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
def test_a_loss_is_there_before_the_update(optimizer):
    peers = [(model, optimizer(model.parameters(), lr=1e-3)) for model in twins(layers)]
    for step in range(6):
        torchacc.reset_metrics()
        x = torch.randn(64, SIZE)
        losses = []
        for model, updates in peers:
            updates.zero_grad()
            loss = model(x.to(next(model.parameters()).device)).square().mean()
            loss.backward()
            updates.step()
            losses.append(loss.item())
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-6)
        # Counters are read after the end.
        assert early_outputs() > 0, step
        assert torchacc.metrics()["kernels"] > 100
    torchacc.sync()
    for mine, theirs in zip(*(model.parameters() for model, _ in peers), strict=True):
        torch.testing.assert_close(theirs.cpu(), mine, rtol=1e-3, atol=1e-4)


def test_a_result_is_freed_and_overwritten_while_the_rest_runs():
    weight = torch.randn(SIZE, SIZE) / SIZE**0.5
    on_acc = weight.to(DEVICE)
    for step in range(8):
        x = torch.randn(SIZE, SIZE)
        y = x.to(DEVICE) @ on_acc
        z = chain(y, on_acc)
        torchacc.cut()
        if step % 2:
            y.zero_()
        else:
            torch.testing.assert_close(y.cpu(), x @ weight, rtol=1e-3, atol=1e-4)
            del y
        # In the memory that may be free now.
        other = torch.full((SIZE, SIZE), 7.0, device=DEVICE)
        assert other.cpu().eq(7).all()
        torch.testing.assert_close(z.cpu(), chain(x @ weight, weight), rtol=1e-3, atol=1e-4)


def test_what_fails_later_is_reported_once_and_by_what_it_concerns():
    table, weight = torch.randn(10, SIZE, device=DEVICE), torch.randn(SIZE, SIZE, device=DEVICE)
    for step in range(4):
        torchacc.reset_metrics()
        index = torch.tensor([10 if step == 2 else 1], device=DEVICE)
        y = weight @ weight
        mean = y.mean()
        z = chain(y, weight)
        looked_up = table[index] + z[0]
        torchacc.cut()
        assert mean.isfinite().item()
        assert early_outputs() > 0
        if step == 2:
            with pytest.raises(IndexError, match="out of"):
                torchacc.sync()
        assert z.isfinite().all().item()
        del looked_up
        torchacc.sync()


def test_a_known_failure_is_not_passed_over():
    """What was computed of a value whose update failed is not read without a word."""
    table, weight = torch.randn(10, SIZE, device=DEVICE), torch.randn(SIZE, SIZE, device=DEVICE)
    x = torch.randn(1, SIZE, device=DEVICE)
    torchacc.sync()
    x.copy_(table[torch.tensor([10], device=DEVICE)])
    torchacc.cut()
    y = x @ weight
    z = chain(y, weight)
    torchacc.cut()
    with pytest.raises(IndexError, match="out of"):
        y.cpu()
    torchacc.sync()
    assert z.shape == (1, SIZE)
