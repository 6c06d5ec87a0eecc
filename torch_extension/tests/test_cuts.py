"""Where traces end, and values that are read without ending one."""

import asyncio
import concurrent.futures
import gc
import json
import random
import time

import pytest
import torch
import torch.nn as nn
import torchacc
from support import DEVICE, GPT, run_python, token_batch, twins
from training import Training, counts, settle


def metric(name):
    return torchacc.metrics()[name]


# ---- futures


def test_a_future_keeps_the_value_of_its_moment():
    x = torch.arange(4.0, device=DEVICE)
    torchacc.cut()
    cuts = metric("cuts")
    first = torchacc.future(x)
    x.add_(1)
    second = torchacc.future(x.view(2, 2).t()[0])
    x.mul_(10)
    assert metric("cuts") == cuts
    assert not first.done()
    torchacc.cut()
    x.zero_()
    done, waiting = concurrent.futures.wait([first, second], timeout=60)
    assert not waiting
    assert (first.result().tolist(), second.result().tolist()) == ([0, 1, 2, 3], [1, 3])
    assert first.result().device.type == "cpu"
    assert x.tolist() == [0, 0, 0, 0]


def test_asking_for_the_result_cuts():
    x = torch.ones(3, device=DEVICE) * 2
    torchacc.cut()
    cuts, reads = metric("cuts"), metric("read_cuts")
    future = torchacc.future((x + 1).sum())
    assert future.result(timeout=60).item() == 9
    assert (metric("cuts"), metric("read_cuts")) == (cuts + 1, reads + 1)
    assert future.exception() is None
    assert future.done()
    assert not future.cancel()
    assert metric("cuts") == cuts + 1


def test_futures_of_other_tensors():
    assert torchacc.future(torch.tensor(3)).result() == 3
    assert torchacc.future(torch.zeros(0, 2, device=DEVICE)).result(timeout=60).shape == (0, 2)
    z = torch.tensor([1 + 2j], device=DEVICE)
    assert torchacc.future(z.conj()).result(timeout=60).item() == 1 - 2j
    x = torch.tensor(2.0, device=DEVICE, requires_grad=True)
    value = torchacc.future(x * x).result(timeout=60)
    assert value == 4
    assert not value.requires_grad


def test_callbacks_and_asyncio():
    x = torch.ones(2, device=DEVICE)
    seen = concurrent.futures.Future()
    future = torchacc.future(x + 1)
    future.add_done_callback(lambda done: seen.set_result(done.result().tolist()))
    other = torchacc.future(x + 2)
    torchacc.cut()
    assert seen.result(timeout=60) == [2, 2]

    async def wait():
        return await asyncio.wait_for(asyncio.wrap_future(other), 60)

    assert asyncio.run(wait()).tolist() == [3, 3]


def test_losses_are_logged_while_the_next_steps_are_recorded():
    training = Training(momentum=0.9)
    losses = []

    def step(log=True):
        training.count += 1

        def work(model, optimizer, device):
            loss = model(*(t.to(device) for t in token_batch(training.count)))
            if log:
                losses.append(torchacc.future(loss))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        training.each(work)

    settle(step)
    settle(lambda: step(log=False))
    torchacc.sync()
    torchacc.reset_metrics()
    for index in range(12):
        step(log=index % 3 == 0)
    assert (metric("cuts"), metric("compiles")) == (12, 0)
    assert metric("recorded_ops") == metric("replayed_ops")
    values = [loss.result(timeout=60).item() for loss in losses]
    assert values[1::2] == pytest.approx(values[::2], rel=1e-4)
    assert metric("cuts") == 12


def test_a_future_in_the_middle_of_a_step_leaves_no_mark():
    """Not on random numbers, and not on the next step, wherever it is asked for its result."""

    def run(places):
        model = twins(lambda: GPT(dropout=0.2))[1]
        torch.manual_seed(7)
        losses = []
        for step, place in enumerate(places):
            loss = model(*(t.to(DEVICE) for t in token_batch(step)))
            if place is not None:
                middle = torchacc.future(loss * 2)
            if place == "forward":
                middle.result()
            loss.backward()
            if place == "backward":
                middle.result()
            for parameter in model.parameters():
                parameter.data.sub_(parameter.grad, alpha=0.01)
                parameter.grad = None
            torchacc.cut()
            losses.append(loss.detach())
            if place is not None:
                assert middle.result(timeout=60).item() == pytest.approx(2 * loss.item())
        return [loss.item() for loss in losses]

    places = [None, "forward", "backward", "end"]
    order = [*places, *places, *random.Random(0).choices(places, k=8)]
    plain = run([None] * len(order))
    assert run(order) == pytest.approx(plain, rel=1e-5)
    again = []
    assert counts(lambda: again.extend(run(order)))[1] == 0
    assert again == pytest.approx(plain, rel=1e-5)


def test_the_error_of_a_failed_step():
    x = torch.ones(3, device=DEVICE)
    bad = torch.tensor([5], device=DEVICE)
    good = torchacc.future(x + 1)
    failed = torchacc.future(x.index_select(0, bad).sum())
    torchacc.cut()
    with pytest.raises(Exception, match="index"):
        failed.result(timeout=60)
    assert "test_cuts.py" in str(failed.exception())
    assert good.result(timeout=60).tolist() == [2, 2, 2]
    with pytest.raises(Exception, match="index"):
        torchacc.sync()


def test_futures_are_kept_when_the_program_ends():
    code = """
import torch, torchacc
x = torch.ones(3, device="acc")
future = torchacc.future(x.sum())
future.add_done_callback(lambda done: print("got", done.result().item(), flush=True))
x.zero_()
"""
    done = run_python(code)
    assert (done.returncode, done.stdout.strip()) == (0, "got 3.0"), done.stderr


# ---- cuts by themselves


def in_fresh_process(code, **environment):
    done = run_python(code + "\nimport json\nprint(json.dumps(torchacc.metrics()))", **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_a_loop_that_never_ends_a_step():
    """Samplers and the like: nothing is read, no optimizer; the body does not divide the limit."""
    code = """
import torch, torchacc
layers = [torch.eye(4, device="acc") * 0.5 for _ in range(3)]
x, y = torch.ones(2, 4, device="acc"), torch.ones(2, 4)
for _ in range(400):
    for w in layers:
        x = torch.relu(x @ w + x)
        y = y * 1.5
    x = x / (1 + x.abs().mean())
    y = y / (1 + y.abs().mean())
torch.testing.assert_close(x.cpu(), y)
"""
    metrics = in_fresh_process(code, TORCHACC_TRACE_LIMIT="500")
    assert metrics["recorded_ops"] > 4000
    assert metrics["limit_cuts"] >= 8
    assert metrics["compiles"] <= 4
    assert metrics["recorded_ops"] - metrics["replayed_ops"] <= 1100


def test_a_loop_that_uses_up_batches():
    """Their memory goes back long before the end, though no step ends."""
    code = """
import torch, torchacc
total = torch.zeros(1 << 16, device="acc")
for _ in range(400):
    total += torch.ones(1 << 16).to("acc")
assert total.sum().item() == 400 << 16
"""
    metrics = in_fresh_process(code, TORCHACC_TRACE_BYTES=str(4 << 20))
    assert 20 <= metrics["limit_cuts"] <= 25
    assert metrics["compiles"] <= 4
    assert metrics["peak_bytes"] < 60 << 20


# ---- what is kept


def test_many_different_programs_leave_a_bounded_number_behind():
    weight = torch.ones(4, 4, device=DEVICE)
    for rows in range(1, 300):
        y = torch.ones(rows, 4, device=DEVICE) @ weight
        torchacc.cut()
    torchacc.sync()
    del y
    metrics = torchacc.metrics()
    assert metrics["known_traces"] <= 256
    assert metrics["programs"] <= 1024
    assert metrics["program_bytes"] <= 512 << 20


def test_many_steps_leave_nothing_behind():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.1), nn.Tanh(), nn.Linear(8, 1)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters())
    names = ("live_buffers", "live_bytes", "pool_bytes", "known_traces", "programs")
    losses = []

    def train(steps):
        losses.clear()
        for step in range(steps):
            loss = model(torch.full((4, 8), float(step), device=DEVICE)).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if step % 10 == 0:
                losses.append(torchacc.future(loss))
        del loss
        torchacc.sync()
        concurrent.futures.wait(losses)

    def held():
        # The thread that reads lets go of a value after it was told.
        while any(loss._snapshot is not None for loss in losses):
            time.sleep(0.001)
        return {name: metric(name) for name in names} | {"bytes": metric("program_bytes")}

    train(130)
    gc.collect()  # what tests before this one left
    first = held()
    assert counts(lambda: train(100)) == (0, 0)
    # The pool keeps what was live at most, when the most steps waited.
    for _ in range(3):
        train(400)
    last = held()
    assert {**last, "pool_bytes": 0} == {**first, "pool_bytes": 0}
    assert last["pool_bytes"] <= 2 * first["pool_bytes"] + (1 << 20)
