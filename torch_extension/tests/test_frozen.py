"""Weights that stay as they are between runs: what is kept of them is not stale, and goes along."""

import copy
import gc

import pytest
import torch
import torchacc
from support import DEVICE

CHANGES = {
    "in place": lambda w: w.mul_(-2),
    "a part": lambda w: w[3:70, 5].fill_(7),
    "copied": lambda w: w.copy_(torch.ones_like(w)),
    "from the host": lambda w: w.copy_(torch.arange(w.numel(), dtype=w.dtype).view_as(w) / 1e4),
    "data": lambda w: setattr(w, "data", w.data * 3),
    "swapped": lambda w: w.set_(w.detach().flip(0).contiguous()),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rows", [16, 100])
def test_products_follow_their_weights(dtype, rows):
    torch.manual_seed(1)
    x, w = torch.randn(rows, 128, dtype=dtype), torch.randn(192, 128, dtype=dtype)
    there, weights = x.to(DEVICE), w.to(DEVICE)
    for change in CHANGES.values():
        for _ in range(4):
            torch.testing.assert_close((there @ weights.t()).cpu(), x @ w.t(), rtol=2e-2, atol=2e-2)
        change(w), change(weights)
    torch.testing.assert_close(weights.cpu(), w)


def test_training_between_evaluations():
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(96, 128), torch.nn.Tanh(), torch.nn.Linear(128, 64))
    x, found = torch.randn(64, 96), []
    for device in ("cpu", DEVICE):
        there, rows = copy.deepcopy(model).to(device), x.to(device)
        optimizer = torch.optim.SGD(there.parameters(), lr=0.5)
        found.append([])
        for _ in range(3):
            with torch.no_grad():
                found[-1] += [there(rows).cpu() for _ in range(3)]
            for _ in range(2):
                there(rows).square().mean().backward()
                optimizer.step()
                optimizer.zero_grad()
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_what_is_kept_goes_with_the_weights():
    torchacc.sync()
    gc.collect()
    before = torch.acc.memory_allocated()
    x, w = torch.ones(32, 256, device=DEVICE), torch.ones(256, 256, device=DEVICE)
    for _ in range(4):
        assert (x @ w).sum().item() == 32 * 256 * 256
    # A read does not wait for what its step lets go.
    torchacc.sync()
    kept = torch.acc.memory_allocated()
    for _ in range(4):
        assert (x @ w).sum().item() == 32 * 256 * 256
    torchacc.sync()
    assert torch.acc.memory_allocated() == kept
    del x, w
    torchacc.sync()
    gc.collect()
    assert torch.acc.memory_allocated() == before
