"""A training loop settles: from the fourth step on nothing is compiled and nothing grows."""

import gc
import json

import pytest
import torch
import torch.nn as nn
import torchacc
from support import DEVICE, GPT, token_batch


class Loop:
    """A training loop as users write it: schedule, dropout, clipping, fresh batches."""

    def __init__(self, autocast=False, **optimizer_options):
        torch.manual_seed(0)
        self.model = GPT(dropout=0.1).to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, **optimizer_options)
        self.schedule = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, gamma=0.9)
        self.autocast, self.step = autocast, 0

    def run(self, steps):
        for _ in range(steps):
            tokens, targets = (t.to(DEVICE) for t in token_batch(self.step))
            with torch.autocast(DEVICE, dtype=torch.bfloat16, enabled=self.autocast):
                loss = self.model(tokens, targets)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.schedule.step()
            self.step += 1
        return loss


# Bytes of results beside the gradients: the loss, their norm and the optimizer's counts.
SMALL = 4096
CONFIGURATIONS = {
    "foreach": {},
    "for loop": {"foreach": False},
    "fused": {"fused": True},
    "bf16": {"autocast": True},
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_steady_state(name):
    # What tests before this one left would go at any moment, and a free block of theirs may serve
    # one step and not the next: it may be larger, up to an eighth.
    gc.collect()
    torch.accelerator.empty_cache()
    loop = Loop(**CONFIGURATIONS[name])
    loop.run(3)
    torchacc.sync()
    torchacc.reset_metrics()
    loop.run(4)
    cuts = torchacc.metrics()["cuts"]
    torchacc.sync()
    metrics = torchacc.metrics()
    assert metrics["compiles"] == 0
    assert metrics["host_calls"] == 0, torchacc.host_calls()
    assert (cuts, metrics["cache_hits"]) == (4, 4)
    # One step at a time, because batches that wait for their step count as well.
    first, second = (memory_after_a_step(loop) for _ in range(2))
    # Results have memory while the step is recorded, if the launch thread gets so far: the new
    # gradients before the old ones are gone.
    early = SMALL + sum(p.nbytes for p in loop.model.parameters())
    assert first.pop("peak_bytes") == pytest.approx(second.pop("peak_bytes"), abs=early)
    assert first == second


def memory_after_a_step(loop):
    torchacc.reset_metrics()
    loop.run(1)
    torchacc.sync()
    metrics = torchacc.metrics()
    names = ("live_buffers", "live_bytes", "peak_bytes", "recorded_ops")
    return {name: metrics[name] for name in names}


def test_reading_losses_later_adds_no_program():
    loop = Loop()
    losses = [loop.run(1) for _ in range(3)]
    torchacc.sync()
    torchacc.reset_metrics()
    losses = [loop.run(1).detach() for _ in range(4)]
    values = [loss.item() for loss in losses]
    assert all(value > 0 for value in values)
    metrics = torchacc.metrics()
    assert metrics["compiles"] == 0
    assert metrics["cuts"] == 4


def test_copied_and_updated_parameters_share_a_program():
    model = nn.Linear(3, 2).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.ones(4, 3, device=DEVICE)

    def step():
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
        torchacc.sync()

    torchacc.sync()
    torchacc.reset_metrics()
    step()
    compiles = torchacc.metrics()["compiles"]
    step()
    assert torchacc.metrics()["compiles"] == compiles


def test_a_new_shape_compiles_and_both_stay_cached():
    weight = torch.ones(4, 4, device=DEVICE)

    def work(rows):
        return (torch.ones(rows, 4, device=DEVICE) @ weight).relu().sum().item()

    for rows in (3, 5, 3, 5):
        assert work(rows) == 16 * rows
    torchacc.reset_metrics()
    assert [work(3), work(5)] == [48, 80]
    assert torchacc.metrics()["compiles"] == 0


def test_python_numbers_do_not_recompile():
    x = torch.ones(8, device=DEVICE)

    def work(scale):
        return (x * scale + scale).sum().item()

    work(1.5)
    work(2.5)
    torchacc.reset_metrics()
    assert [work(scale) for scale in (3.5, 4.5)] == [56, 72]
    assert torchacc.metrics()["compiles"] == 0


def test_metrics_are_flat_integers():
    metrics = torchacc.metrics()
    names = {"compiles", "cache_hits", "host_calls", "cuts", "recorded_ops", "live_bytes"}
    assert names | {"peak_bytes"} <= metrics.keys()
    assert all(isinstance(value, int) for value in metrics.values())


def test_host_calls_are_reported_with_their_line():
    torchacc.reset_metrics()
    torch.linalg.det(torch.eye(3, device=DEVICE)).item()
    report = torchacc.host_calls()
    assert torchacc.metrics()["host_calls"] == sum(row["count"] for row in report) > 0
    assert any("test_counters.py:" in row["site"] for row in report), json.dumps(report)


def test_last_program_is_text():
    (torch.ones(2, 2, device=DEVICE) @ torch.ones(2, 2, device=DEVICE)).exp().cpu()
    assert torchacc.last_program().strip()


def test_dropped_tensors_are_freed():
    gc.collect()  # as above
    torchacc.sync()
    before = torchacc.metrics()["live_buffers"]
    for _ in range(3):
        kept = [torch.ones(8, device=DEVICE) * i for i in range(10)]
        torchacc.cut()
    del kept
    torchacc.sync()
    assert torchacc.metrics()["live_buffers"] == before
