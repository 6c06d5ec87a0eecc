"""Faults that tests plant in ranks: the product's code knows nothing of them."""

import contextlib
import math
import os
import random
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torchacc
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torchacc.health import Recorder, Watch, checking, compare_runs

VICTIM = 1
INTERVAL = 0.5  # between beats


def three_times(a, b):
    """a @ b, as 4ab - 2ab - ab: of whole numbers no bit is another."""
    return (4 * a) @ b - (2 * a) @ b - a @ b


class OneFlip:
    """In one product of many, any of them, any bit of any element that is not 0 is another."""

    def __init__(self, products):
        self.at, self.calls = random.randrange(products), 0

    def __call__(self, a, b):
        result = a @ b
        self.calls += 1
        if self.calls - 1 != self.at:
            return result
        here = result.cpu()
        bits = here.view({2: torch.int16, 4: torch.int32}[here.element_size()]).flatten()
        element = random.choice(here.flatten().nonzero().flatten().tolist())
        bit = random.randrange(8 * here.element_size())
        one = torch.tensor(1, dtype=bits.dtype)
        bits[element] = bits[element] ^ (one << bit)
        return here.to(result.device)


class CountedTime:
    """A clock that products and exchanges alone move: whatever else the machine does, what is slow
    takes so many times as long."""

    def __init__(self):
        self.now = 0.0

    def sleep(self, seconds):
        self.now += seconds

    def of(self, call, seconds):
        """`call`, which takes so long."""

        def timed(*arguments):
            self.sleep(seconds)
            return call(*arguments)

        return timed

    def timed(self, call, clock):
        return TIMED(call, lambda: self.now)


TIMED = checking._timed


@contextlib.contextmanager
def planted(kind):
    """On this rank, while it lasts. By the machine's own clock where everything is tried often,
    else by one of ours, by which the outcome is always the same."""
    saved = checking.multiply, dist.batch_isend_irecv, dist.P2POp
    rank, ours = dist.get_rank(), CountedTime()
    is_counted = os.environ.get("TORCHACC_HEALTH") != "whole"

    def late(ops):
        if {op.peer for op in ops} == {VICTIM + 1}:
            (ours if is_counted else time).sleep(0.2)
        return saved[1](ops)

    def wrong(op, tensor, peer):
        if op is dist.isend and peer == VICTIM + 1:
            tensor = tensor.clone()
            tensor[7] += 1
        return saved[2](op, tensor, peer)

    if rank == VICTIM:
        if kind == "slow":
            checking.multiply = three_times
        elif kind == "wrong":
            checking.multiply = OneFlip((1 + checking.ROUNDS) * (3 + checking._HOST[1]))
        elif kind == "slow link":
            dist.batch_isend_irecv = late
        elif kind == "wrong link":
            dist.P2POp = wrong
    if is_counted:
        products = 3 if checking.multiply is three_times else 1
        checking.multiply = ours.of(checking.multiply, products * 0.01)
        dist.batch_isend_irecv = ours.of(dist.batch_isend_irecv, 0.01)
        checking._timed = ours.timed
    try:
        yield
    finally:
        checking.multiply, dist.batch_isend_irecv, dist.P2POp = saved
        checking._timed = TIMED


def check(*kinds):
    """What is found, for each kind: lists of [kind, ranks, text]."""
    random.seed(0)
    made = []
    for kind in kinds:
        with planted(kind):
            report = checking.check()
        made.append([[one.kind, one.ranks, one.text] for one in report.findings])
    return made


class Middle(nn.Module):
    """Numbers from 1 on, whose root the model takes; from 0 on that has no gradient."""

    def __init__(self):
        super().__init__()
        self.spoil = None

    def forward(self, x):
        x = x.square() + 1
        if self.spoil == "NaN":
            x = x * ((x - x) / (x - x))
        if self.spoil == "gradient":
            x = (x - x).sqrt() + x
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.middle, self.last = nn.Linear(8, 8), Middle(), nn.Linear(8, 1)

    def forward(self, x):
        x = self.first(x)
        x = self.middle(x)
        return self.last(x)


def train(steps, watch, before=lambda step, model: None, model=None):
    model = model or Model().to("acc")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step in range(steps):
        before(step, model)
        torch.manual_seed(step)
        x = torch.randn(16, 8).to("acc")
        loss = model(x).square().mean()
        loss.backward()
        for parameter in model.parameters():
            if dist.is_initialized():
                dist.all_reduce(parameter.grad)
        optimizer.step()
        optimizer.zero_grad()
        watch.step(loss)


def spoil():
    """The alarms of a rank, one of which computes what is no number."""
    alarms, model = [], Model().to("acc")

    def before(step, model):
        model.middle.spoil = "NaN" if step == 3 and dist.get_rank() == VICTIM else None

    with Watch(model, alarm=alarms.append, timeout=None) as watch:
        train(6, watch, before, model)
    return [[one.kind, one.step, one.rank, str(one)] for one in alarms]


def lag(seconds):
    """The alarms of a rank, of two one of which is slow beside its collectives: for some seconds,
    and for many times what a step takes on this machine and by its load."""
    alarms, took, began = [], [], time.monotonic()

    def before(step, model):
        nonlocal began
        took.append(time.monotonic() - began)
        if dist.get_rank() == VICTIM:
            time.sleep(max(float(seconds), 5 * statistics.median(took)))
        began = time.monotonic()

    # Not of losses: among batches drawn at random some are far from the others.
    with Watch(alarm=alarms.append, spike=None, timeout=60, interval=0.2) as watch:
        train(100, watch, before)
    return [[one.kind, one.rank, str(one)] for one in alarms]


def hang(folder):
    """One rank does not come; all end, with 75."""

    def before(step, model):
        if step == 3 and dist.get_rank() == VICTIM:
            never_comes()

    def alarm(alarm):
        """Takes its time: the others do not end before it has told what hangs."""
        time.sleep(8 * INTERVAL)
        print(alarm, file=sys.stderr, flush=True)

    warm_up()
    with Watch(timeout=5, interval=INTERVAL, exit=True, folder=folder, alarm=alarm) as watch:
        train(6, watch, before)


def warm_up():
    """What is imported with an optimizer may take long, and what is compiled in the first steps."""
    with Watch(timeout=None) as watch:
        train(5, watch)


def never_comes():
    time.sleep(1000)


def hold(folder):
    """One rank holds the interpreter."""

    def before(step, model):
        if step == 3 and dist.get_rank() == VICTIM:
            sys.setswitchinterval(1000)
            while True:
                pass

    warm_up()
    with Watch(timeout=5, interval=INTERVAL, exit=True, folder=folder) as watch:
        train(6, watch, before)


def lose():
    """What ends a rank whose neighbour goes: the code of the process."""
    with Watch(timeout=None) as watch:
        train(2, watch)
        if dist.get_rank() == VICTIM:
            raise KeyError("of the program")
        train(100, watch)
    torchacc.sync()


class Recomputed(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return checkpoint(lambda x: self.down(self.up(x).relu()), x, use_reentrant=False)


def engines(folder):
    """What is noticed of a model on each of PyTorch's engines, and where two runs of it part."""
    mesh = init_device_mesh("acc", (dist.get_world_size(),))
    plan = {"up": ColwiseParallel(use_local_output=False), "down": RowwiseParallel()}
    kinds = {
        "ddp": DistributedDataParallel,
        "fsdp": fully_shard,
        "tp": lambda model: parallelize_module(model, mesh, plan),
    }
    return {kind: _engine(f"{folder}/{kind}", divide) for kind, divide in kinds.items()}


def _engine(folder, divide):
    said = []
    for run in "ab":
        torch.manual_seed(0)
        model = divide(Recomputed().to("acc"))
        with (
            Watch(model, alarm=lambda alarm: said.append(str(alarm)), timeout=None) as watch,
            Recorder(model, folder + run) as recorder,
        ):
            for step in range(3):
                with torch.no_grad():
                    model.get_parameter(_last(model)).mul_(math.nan if step == 2 else 1)
                loss = model(torch.randn(4, 8).to("acc")).square().mean()
                loss.backward()
                watch.step(loss)
                recorder.step()
    dist.barrier()
    return [*said, str(compare_runs(folder + "a", folder + "b", rtol=0, atol=0))]


def _last(model):
    return next(name for name, _ in model.named_parameters() if name.endswith("down.bias"))
