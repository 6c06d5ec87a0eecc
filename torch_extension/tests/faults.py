"""Ranks that go wrong, for tests: what the others are told."""

import os
import signal
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torchacc


def told(work):
    """The error that `work` raises, and how long it took."""
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
    print("returned " + __import__("json").dumps(made), flush=True)
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
        time.sleep(2 * float(os.environ["RANKS_SECONDS"]))
        os._exit(0)
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
