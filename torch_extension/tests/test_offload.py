"""`torchacc.save_on_host`: the same bits, and the memory of what waits is the host's."""

import contextlib
import gc
import os
import subprocess
import sys

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from support import DEVICE, emulated
from torchacc import save_on_host

WIDTH, ROWS, LAYERS = 64, 512, 6


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH)
        self.down = nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        # Its gradient wants a view, an activation in two layouts, and a mask of bools.
        hidden = F.gelu(self.up(self.norm(x)))
        hidden = torch.where(hidden > 0.01, hidden, 0.5 * hidden)
        mixed = hidden.view(-1, WIDTH, 4).transpose(0, 1).exp().transpose(0, 1).reshape_as(hidden)
        return x + self.down(hidden * mixed)


class Steps:
    def __init__(self, offloaded=0, cut=False, halves=False, frozen=False):
        torch.manual_seed(0)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS)).to(DEVICE)
        for parameter in self.blocks[0].parameters():
            parameter.requires_grad_(not frozen)
        wanted = [one for one in self.blocks.parameters() if one.requires_grad]
        self.optimizer = torch.optim.SGD(wanted, lr=0.1)
        self.offloaded, self.cut, self.halves, self.count = offloaded, cut, halves, 0

    def step(self):
        self.count += 1
        generator = torch.Generator().manual_seed(self.count)
        x = torch.randn(ROWS, WIDTH, generator=generator).to(DEVICE).requires_grad_()
        with torch.autocast(DEVICE, torch.bfloat16, enabled=self.halves):
            for at, block in enumerate(self.blocks):
                with save_on_host() if at < self.offloaded else contextlib.nullcontext():
                    x = block(x)
        loss = x.float().square().mean()
        if self.cut:
            torchacc.cut()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.detach()

    def run(self):
        losses = [self.step() for _ in range(6)]
        return [loss.item() for loss in losses], [
            one.detach().cpu() for one in self.blocks[1].parameters()
        ]


def assert_same_bits(one, other):
    assert one[0] == other[0]
    assert all(torch.equal(a, b) for a, b in zip(one[1], other[1], strict=True))


@pytest.mark.parametrize(
    "options", [{}, {"cut": True}, {"halves": True}, {"frozen": True}], ids=str
)
def test_bits_are_the_same(options):
    before = torchacc.metrics()["offloaded_bytes"]
    expected = Steps(**options).run()
    assert torchacc.metrics()["offloaded_bytes"] == before
    assert_same_bits(Steps(offloaded=LAYERS - 1, **options).run(), expected)
    assert torchacc.metrics()["offloaded_bytes"] > before


def test_nothing_is_compiled_again_and_nothing_cuts():
    steps = Steps(offloaded=LAYERS - 1)
    for _ in range(3):
        steps.step()
    torchacc.sync()
    torchacc.reset_metrics()
    for _ in range(3):
        steps.step()
    torchacc.sync()
    metrics = torchacc.metrics()
    assert (metrics["compiles"], metrics["host_calls"]) == (0, 0)
    assert metrics["cuts"] <= 4


def peak_of(steps):
    """Bytes that a step takes beyond what there is before it."""
    for _ in range(3):
        steps.step()
    gc.collect()  # what tests before this one left, which would go at any moment
    torchacc.sync()
    torch.acc.empty_cache()
    torch.acc.reset_peak_memory_stats()
    before = torch.acc.memory_allocated()
    steps.step()
    torchacc.sync()
    return torch.acc.max_memory_allocated() - before


@pytest.mark.parametrize("cut", [False, True])
def test_a_step_needs_less_of_the_device(cut):
    # In between, memory for intermediates goes back: each has its own.
    assert peak_of(Steps(offloaded=LAYERS - 1, cut=cut)) < 0.5 * peak_of(Steps(cut=cut))


def test_a_limit_is_kept_without_computing_again():
    peak = peak_of(Steps())
    torchacc.set_memory_limit(int(0.6 * peak))
    try:
        made = []
        for offloaded in (0, LAYERS - 1):
            torchacc.reset_metrics()
            Steps(offloaded=offloaded).run()
            made.append(torchacc.metrics()["recomputed_steps"])
        assert made[0] > 0
        assert made[1] == 0
    finally:
        torchacc.set_memory_limit(None)


def test_parameters_stay_and_what_is_small():
    linear = nn.Linear(WIDTH, WIDTH).to(DEVICE)
    x = torch.randn(ROWS, WIDTH, device=DEVICE)
    torchacc.sync()
    torchacc.reset_metrics()
    with save_on_host():
        first = linear(x.requires_grad_())  # keeps x, and the weight as a view
        small = first[0, :4].exp()
    (first.sum() + small.sum()).backward()
    torchacc.sync()
    assert torchacc.metrics()["offloaded_bytes"] == ROWS * WIDTH * 4


def test_what_waits_may_be_wanted_twice_or_never():
    x = torch.randn(ROWS, WIDTH, device=DEVICE, requires_grad=True)
    before = torchacc.metrics()["offloaded_bytes"]
    with save_on_host():
        y = (x.exp() * x).tanh()
    (first,) = torch.autograd.grad(y.sum(), x, retain_graph=True)
    torchacc.cut()
    (second,) = torch.autograd.grad(y.sum(), x)
    expected = x.detach().cpu().requires_grad_()
    (e,) = torch.autograd.grad((expected.exp() * expected).tanh().sum(), expected)
    torch.testing.assert_close(first.cpu(), e, rtol=1e-4, atol=1e-5)
    assert torch.equal(first.cpu(), second.cpu())
    assert torchacc.metrics()["offloaded_bytes"] > before
    with save_on_host():
        dropped = x.exp()
    del dropped
    torchacc.sync()


def test_second_gradients():
    x = torch.randn(ROWS, WIDTH, device=DEVICE, requires_grad=True)
    with save_on_host():
        y = x.exp().square().sum()
        (g,) = torch.autograd.grad(y, x, create_graph=True)
        (gg,) = torch.autograd.grad(g.sum(), x)
    torch.testing.assert_close(gg, 4 * (2 * x).exp(), rtol=1e-4, atol=1e-4)


def test_on_the_cpu_nothing_is_copied():
    x = torch.randn(ROWS, WIDTH, requires_grad=True)
    with save_on_host():
        y = x.exp()
    assert y.grad_fn._saved_result.data_ptr() == y.data_ptr()


def test_on_a_device_of_its_own():
    """Compiled kernels reach the host's block, and copies run beside them."""
    code = """
import torchacc
import test_offload as t

t.test_what_waits_may_be_wanted_twice_or_never()
t.ROWS, t.LAYERS, before = 16, 3, torchacc.metrics()["overlapped_copies"]
expected = t.Steps().run()
assert torchacc.metrics()["overlapped_copies"] == before
t.assert_same_bits(t.Steps(offloaded=t.LAYERS - 1).run(), expected)
assert torchacc.metrics()["overlapped_copies"] > before

# The plan chooses what waits, within a limit.
torchacc.set_memory_limit(int(0.9 * t.peak_of(t.Steps())))
torchacc.reset_metrics()
t.assert_same_bits(t.Steps().run(), expected)
metrics = torchacc.metrics()
assert metrics["chosen_offloads"] > 0 and metrics["overlapped_copies"] > 0, metrics
(row, *_) = [row["recomputed"] for row in torchacc.explanation()["compiles"] if "recomputed" in row]
assert sum(group["count"] for group in row["largest_offloads"]) == row["offloads"] > 0
assert "wait on the host" in torchacc.explain()
"""
    environment = {**os.environ, **emulated(), "PYTHONPATH": os.path.dirname(__file__)}
    command = [sys.executable, "-W", "ignore", "-c", code]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
