"""Ranks that go wrong, for tests: what the others are told."""

import json
import os
import signal
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torchacc


def told(work):
    """The error that `work` raises, and how long that took."""
    began = time.monotonic()
    try:
        work()
    except Exception as error:
        return {"error": str(error), "seconds": time.monotonic() - began}
    raise AssertionError("no error")


def finish(made):
    """The group is of no use any more; the device is. Nothing is left to wait for."""
    x = torch.ones(3, device="acc")
    assert (x + 1).sum().item() == 6
    torchacc.sync()
    print("returned " + json.dumps(made), flush=True)
    # As a program that ends on its error: what is shut down need not be waited for.
    os._exit(0)


def killed():
    """The last rank dies in the middle of a training."""
    rank, size = dist.get_rank(), dist.get_world_size()
    model = nn.parallel.DistributedDataParallel(nn.Linear(8, 8).to("acc"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train():
        for step in range(6):
            if step == 3 and rank == size - 1:
                torchacc.sync()
                os.kill(os.getpid(), signal.SIGKILL)
            model(torch.ones(4, 8, device="acc")).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        torchacc.sync()

    finish(told(train))


def late():
    """One rank does not come."""
    if dist.get_rank() == dist.get_world_size() - 1:
        time.sleep(1000)  # until it is killed, which is when the others are done
    x = torch.ones(3, device="acc")
    y = torch.ones(5, device="acc") * 2

    def ask():
        dist.all_reduce(x)
        x.tolist()

    made = told(ask)
    # What does not depend on it is there.
    assert y.tolist() == [2.0] * 5
    # Later collectives of the group fail at once.
    again = told(lambda: (dist.all_reduce(y), y.tolist()))
    made["again"] = again
    finish(made)


def other_shapes():
    """Ranks disagree about what they reduce."""
    rank = dist.get_rank()
    x = torch.ones(3 + rank, device="acc")

    def ask():
        dist.all_reduce(x)
        x.tolist()

    finish(told(ask))


def other_reduction():
    """Ranks reduce in other ways, after many collectives that were alike, the last one large."""
    rank = dist.get_rank()
    small, large = torch.ones(3, device="acc"), torch.ones(1 << 18, device="acc")
    for _ in range(70):
        dist.all_reduce(small)
        small /= 2
    dist.all_reduce(large)
    torchacc.sync()

    def ask():
        dist.all_reduce(large, dist.ReduceOp.MAX if rank else dist.ReduceOp.SUM)
        large.tolist()

    finish(told(ask))


def go_wrong(how):
    torchacc.sync()
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if how == "late":
        time.sleep(1000)  # until it is killed
    if how == "raises":
        raise SystemExit("the program's own error")


def goes_wrong_beside(how):
    """The last rank goes wrong while the others' collectives run beside products."""
    rank, size = dist.get_rank(), dist.get_world_size()
    parts = [torch.full((1 << 17,), 1.0 + rank, device="acc") for _ in range(4)]
    x = torch.ones(200, 200, device="acc")

    def step():
        works = [dist.all_reduce(part, dist.ReduceOp.AVG, async_op=True) for part in parts]
        y = x
        for _ in range(20):
            y = y @ x / 200
        for work in works:
            work.wait()
        return y, sum(part.sum() for part in parts)

    for _ in range(3):
        step()
        torchacc.sync()
    overlapped = torchacc.metrics()["overlapped_collectives"]
    if rank == size - 1:
        go_wrong(how)
    y, total = step()
    made = told(total.item)
    # What was computed beside it is there.
    finish(made | {"overlapped": overlapped, "beside": y.sum().item()})


def goes_wrong(how, victim, at):
    """The rank `victim` goes wrong in the step `at` of a program that all run."""
    rank, victim = dist.get_rank(), int(victim)
    size = dist.get_world_size()
    others = dist.new_group([other for other in range(size) if other != victim])
    everybody = dist.new_group()
    x, y = torch.ones(5, device="acc"), torch.empty(5 * size, device="acc")

    def train():
        for step in range(100):
            wrong = how if rank == victim and step == int(at) else None
            if wrong is not None:
                go_wrong(wrong)
            if wrong != "skips":
                dist.all_reduce(x, dist.ReduceOp.AVG)
            dist.all_gather_into_tensor(y, x)
            dist.broadcast(y[:3] if wrong == "other_shape" else y, 0)
            if step % 3 == 0:
                y.sum().item()
        torchacc.sync()

    made = told(train)
    made["flight"] = torchacc.explain()
    if rank != victim:
        z = torch.ones(2, device="acc")
        dist.all_reduce(z, group=others)
        assert z.tolist() == [size - 1.0] * 2
    if how in ("skips", "other_shape"):
        # The rank that keeps the store stays until all have read it.
        dist.barrier(everybody)
    finish(made)
