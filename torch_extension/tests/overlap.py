"""Programs of ranks whose collectives run on lanes, and what that changes: times alone."""

import json
import os

import torch
import torch.distributed as dist
import torchacc
from engines import ENGINES, MODELS

NAMES = ["ddp_buckets", "fsdp2", "hsdp", "sequence_parallel", "ranks_join"]
STEPS = 4


def train():
    """For each engine its losses, in bits, and what its last step counted."""
    made = {}
    for name in NAMES:
        step = ENGINES[name]("acc", MODELS["llama"])
        losses = []
        for _ in range(STEPS):
            torchacc.reset_metrics()
            losses.append(step(len(losses)).item().hex())
            torchacc.sync()
        metrics = torchacc.metrics()
        kept = ("collectives", "overlapped_collectives", "compiles")
        made[name] = {"losses": losses, **{count: metrics[count] for count in kept}}
    return made


def groups():
    """Two groups at once, whose collectives need each other's results, beside work of all kinds."""
    rank = dist.get_rank()
    other = dist.new_group()
    x = (torch.arange(6000.0).reshape(60, 100) / 1e3 + rank).to("acc")
    total = torch.zeros(60, 60, device="acc")
    for number in range(12):
        group = other if number % 3 == 0 else None
        y = x * (number + 1)
        work = dist.all_reduce(y, group=group, async_op=True)
        total += x @ x.T
        if number % 4 == 0:
            gathered = torch.empty(120, 100, device="acc")
            dist.all_gather_into_tensor(gathered, y, group=other)
            total += (gathered @ x.T)[:60]
        work.wait()
        total += y @ y.T / 1e3
        # In place, over what a collective may still be reading.
        y.add_(1)
        x = x + y.mean() / 1e4
    return {"total": [number.hex() for number in total.cpu().flatten().tolist()]}


def timeline():
    """Threads of a profile with the collectives on them."""
    step = ENGINES["fsdp2"]("acc", MODELS["llama"])
    for number in range(3):
        step(number).item()
    path = f"{os.environ['OVERLAP_FOLDER']}/{dist.get_rank()}.json"
    with torchacc.profile(path):
        step(3).item()
    with open(path) as file:
        events = json.load(file)["traceEvents"]
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    return sorted({names[e["tid"]] for e in events if e.get("cat") == "collective"})


def failing():
    """A rank has another number of elements in a collective that runs beside kernels."""
    rank = dist.get_rank()
    x = torch.ones(300, 300, device="acc")
    y = torch.ones(3 + rank, device="acc")
    work = dist.all_reduce(y, async_op=True)
    for _ in range(20):
        x = x @ x / 300
    work.wait()
    z = y + 1
    try:
        z.cpu()
        return {"error": None}
    except RuntimeError as error:
        return {"error": str(error), "beside": x.sum().item()}
