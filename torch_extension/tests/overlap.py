"""Programs of ranks whose collectives run on lanes, and what that changes: times alone."""

import hashlib
import json
import os
import random

import torch
import torch.distributed as dist
import torchacc
from engines import ENGINES, MODELS
from engines.models import line, model_of, trained
from engines.sharded import sharded

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


def parts():
    """For each engine that divides products between ranks its losses, in bits, and what its last
    step counted; then the products of a program of its own, how many its plans have, and its
    errors."""

    class Wide(MODELS["llama"]):
        """So wide that gathered rows are worth multiplying in parts."""

        def __init__(self):
            super().__init__(width=256)

    made = {}
    for name in ["tp", "sequence_parallel"]:
        step = ENGINES[name]("acc", Wide)
        losses = [step(number).item() for number in range(STEPS)]
        torchacc.reset_metrics()
        losses.append(step(STEPS).item())
        torchacc.sync()
        metrics = torchacc.metrics()
        kept = {count: metrics[count] for count in ("collectives", "compiles")}
        made[name] = {"losses": losses, "matmuls": matmuls(), **kept}
    counts, errors = [], []
    for sizes in [(4, 6, 256), (1, 8, 256), (3, 5, 256), (5, 1, 192), (1, 1, 192)]:
        for dtype in (torch.float32, torch.bfloat16, torch.float64):
            for dim in (0, 1):
                count, error = products(*sizes, dtype, dim)
                counts.append(count)
                errors.append(error)
    torchacc.reset_metrics()
    for length in range(8, 40, 3):
        products(2, length, 256, torch.float32, 1)
    compiles = torchacc.metrics()["compiles"]
    return {**made, "counts": counts, "errors": errors, "compiles": compiles}


def matmuls():
    """Number of products in the plan that was compiled last."""
    plan = torchacc.last_program().partition("# plan")[2]
    return plan.count("= matmul(")


def products(batch, length, width, dtype, dim):
    """Rows of all ranks, gathered along `dim`, are multiplied, and products are reduced: how many
    products the plans of these have, if they were compiled for it, and the largest error, in units
    of rounding."""
    import torch.distributed._functional_collectives as functional

    rank, size = dist.get_rank(), dist.get_world_size()

    def draw(seed, *sizes):
        numbers = torch.randn(*sizes, generator=torch.Generator().manual_seed(seed))
        return (numbers / 4).to(dtype)

    group = dist.group.WORLD
    rows = [draw(rank, batch, length, width) for rank in range(size)]
    shared, *weights = (draw(99, width, width), *(draw(n, width, width) for n in range(3 * size)))
    first, second, third = (weight.to("acc") for weight in weights[3 * rank : 3 * rank + 3])
    count, found = [], []

    def ran(result):
        compiles = torchacc.metrics()["compiles"]
        found.append(result.cpu().double())
        is_compiled = torchacc.metrics()["compiles"] > compiles
        count.append(matmuls() if is_compiled else None)
        return result

    gathered = functional.all_gather_tensor(rows[rank].to("acc"), dim, group)
    x = ran(gathered @ shared.to("acc"))
    ran(functional.reduce_scatter_tensor(x @ first, "sum", dim, group))
    ran(functional.all_reduce(torch.tanh(x @ second) + x @ third, "sum", group))

    wide = torch.cat(rows, dim).double() @ shared.double()
    rounded = wide.to(dtype).double()
    firsts, seconds, thirds = (
        [rounded @ weight.double() for weight in weights[n::3]] for n in range(3)
    )
    summands = [torch.tanh(a) + b for a, b in zip(seconds, thirds, strict=True)]
    expected = [wide, sum(firsts).chunk(size, dim)[rank], sum(summands)]
    return count, max(
        ((a - b).abs().max() / b.abs().max() / torch.finfo(dtype).eps).item()
        for a, b in zip(found, expected, strict=True)
    )


def refused():
    """What a collective says that cannot be recorded."""
    try:
        dist.all_reduce(torch.ones(2, 2, device="acc"))
    except RuntimeError as error:
        return {"error": str(error).partition(" a collective")[0]}


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


def new_groups():
    """The first collectives of several groups, all at once, again and again: their sums."""
    sums = []
    for _ in range(15):
        groups = [dist.new_group() for _ in range(6)]
        tensors = [torch.ones(3, device="acc") for _ in groups]
        for group, tensor in zip(groups, tensors, strict=True):
            dist.all_reduce(tensor, group=group)
        sums.append(sum(tensor.sum() for tensor in tensors).item())
        for group in groups:
            dist.destroy_process_group(group)
    return sums


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


def hidden():
    """What the flight recorder says of a collective that runs beside kernels."""
    x, y = torch.ones(300, 300, device="acc"), torch.ones(1 << 20, device="acc")
    work = dist.all_reduce(y, async_op=True)
    for _ in range(20):
        x = x @ x / 300
    work.wait()
    torchacc.sync()
    z = y + x.sum()
    z.sum().item()
    return {"rows": json.loads(torch.ops.acc.explain())["collectives"], "text": torchacc.explain()}


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


REDUCTIONS = {
    dist.ReduceOp.SUM: lambda parts: parts.sum(0),
    dist.ReduceOp.AVG: lambda parts: parts.mean(0),
    dist.ReduceOp.MIN: lambda parts: parts.amin(0),
    dist.ReduceOp.MAX: lambda parts: parts.amax(0),
    dist.ReduceOp.PRODUCT: lambda parts: parts.prod(0),
}
TYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.int16]


def in_a_row(seed, count):
    """Many collectives with nothing between them, as where each gradient is reduced by itself, most
    of them small: which are not what f64 says, the bits of all results, and how many messages
    it took."""
    rank, size = dist.get_rank(), dist.get_world_size()
    draw = random.Random(int(seed))
    calls, expected = [], []
    for number in range(int(count)):
        dtype = draw.choice(TYPES)
        elements = size * draw.choice([1, 3, 17, 1000, 20_000, 140_000] if number % 3 else [1, 5])
        given = []
        for other in range(size):
            numbers = torch.Generator().manual_seed(number * size + other)
            values = 3 * torch.randn(elements, generator=numbers)
            given.append(values.to(dtype))
        wide = torch.stack(given).double()
        mine, each = given[rank].to("acc"), elements // size
        part = slice(rank * each, (rank + 1) * each)
        has_averages = dtype.is_floating_point
        reduction = draw.choice([r for r in REDUCTIONS if has_averages or r.name != "AVG"])
        match draw.choice(["all_reduce", "odd", "gather", "scatter", "exchange", "chain"]):
            case "all_reduce":
                dist.all_reduce(mine, op=reduction)
                made, wanted = mine, REDUCTIONS[reduction](wide)
            case "odd":  # elements that cannot be divided among the ranks
                made, wanted = mine[: elements - 1], REDUCTIONS[reduction](wide[:, : elements - 1])
                dist.all_reduce(made, op=reduction)
            case "gather":
                made, wanted = mine.new_empty(elements * size), wide.flatten()
                dist.all_gather_into_tensor(made, mine)
            case "scatter":
                made, wanted = mine.new_empty(each), REDUCTIONS[reduction](wide)[part]
                dist.reduce_scatter_tensor(made, mine, op=reduction)
            case "exchange":
                made, wanted = torch.empty_like(mine), wide[:, part].flatten()
                dist.all_to_all_single(made, mine)
            case "chain":  # the second reads what the first makes
                piece, made = mine.new_empty(each), torch.empty_like(mine)
                dist.reduce_scatter_tensor(piece, mine, op=dist.ReduceOp.MAX)
                dist.all_gather_into_tensor(made, piece)
                wanted = REDUCTIONS[dist.ReduceOp.MAX](wide)
        calls.append(made)
        expected.append(wanted.to(dtype).double())
    torchacc.reset_metrics()
    torchacc.sync()
    metrics = torchacc.metrics()
    results = [made.cpu() for made in calls]
    wrong = []
    for number, (made, wanted) in enumerate(zip(results, expected, strict=True)):
        tolerance = 3e-2 if made.dtype.itemsize == 2 else 1e-5
        # Of numbers of about ten, which a backend may add in halves.
        if not torch.allclose(made.double(), wanted, rtol=tolerance, atol=10 * tolerance):
            wrong.append(f"{number}: {made.dtype}[{made.numel()}]")
    digest = hashlib.sha256()
    for made in results:
        digest.update(made.view(torch.uint8).numpy().tobytes())
    counts = {name: metrics[name] for name in ("collectives", "merged_collectives")}
    return {"wrong": wrong, "bits": digest.hexdigest(), **counts}


def random_programs(first, count):
    """Which programs differ from gloo on the CPU, which does one collective after the other."""
    groups = [None, dist.new_group(), dist.new_group()]
    wrong = []
    torchacc.reset_metrics()
    for seed in range(int(first), int(first) + int(count)):
        expected, got = (random_program(seed, groups, device) for device in ("cpu", "acc"))
        for number, (x, y) in enumerate(zip(expected, got, strict=True)):
            tolerance = 2e-2 if x.dtype == torch.bfloat16 else 1e-4
            if not torch.allclose(x.double(), y.double(), rtol=tolerance, atol=1e-2):
                wrong.append(f"seed {seed}: tensor {number} of {x.dtype}")
    return {
        "wrong": wrong,
        "overlapped": torchacc.metrics()["overlapped_collectives"],
        "has gathers of its own": "(gathers)" in torchacc.explain(),
    }


def random_program(seed, groups, device):
    """Collectives of several groups and what reads and writes their operands, in random order. All
    ranks do the same collectives, and each computes something else between them."""
    rank, size = dist.get_rank(), dist.get_world_size()
    draw, alone = random.Random(seed), random.Random(seed * size + rank)
    numbers = torch.Generator().manual_seed(seed * size + rank)
    tensors, works = [], []
    for _ in range(4):
        shape = (size * draw.choice([1, 2, 3, 6, 17]), draw.choice([1, 4, 5, 500]))
        dtype = draw.choice(
            [torch.float32, torch.float64, torch.int32, torch.int64, torch.bfloat16]
        )
        tensors.append(torch.randint(-4, 5, shape, generator=numbers).to(dtype).to(device))

    def collective(name, *operands, **options):
        work = getattr(dist, name)(
            *operands, **options, group=draw.choice(groups), async_op=device == "acc"
        )
        works.append(work)

    for _ in range(draw.randint(10, 40)):
        index = draw.randrange(len(tensors))
        x = tensors[index]
        if alone.random() < 0.3:
            x.copy_((x @ x.T @ x).clamp(-9, 9) if x.is_floating_point() else x - alone.randrange(3))
        match draw.randrange(14):
            case 0:
                collective("all_reduce", x, op=draw.choice([dist.ReduceOp.SUM, dist.ReduceOp.MAX]))
            case 1:
                tensors.append(x.clone())
                collective("all_reduce", tensors[-1])
            case 2:
                y = x.new_empty(x.size(0) * size, x.size(1))
                collective("all_gather_into_tensor", y, x)
                tensors.append(y[: x.size(0)] if draw.random() < 0.5 else y[::size].clone())
            case 3 if x.dtype != torch.bfloat16:
                y = x.new_empty(x.size(0) // size, x.size(1))
                collective("reduce_scatter_tensor", y, x)
                tensors.append(torch.cat([y] * size))
            case 4:
                collective("broadcast", x, src=draw.randrange(size))
            case 5:
                tensors.append(torch.empty_like(x))
                collective("all_to_all_single", tensors[-1], x)
            case 6:
                x.clamp_(-9, 9)
            case 7:
                tensors[index] = x.flip(0) + 1
            case 8:
                x.add_(1)
            case 9 if x.is_floating_point():
                tensors[index] = (x @ x.T @ x).clamp(-9, 9)
            case 10:
                x[1:].mul_(2)
            case 11:
                x.copy_(x.flip(1))
            case 12 if draw.random() < 0.2:
                x.sum().item()
            case 13:
                tensors[index] = x.clone()
    for work in works:
        if work is not None:
            work.wait()
    return [tensor.clamp(-1e6, 1e6).cpu() for tensor in tensors]


def within_a_limit():
    """FSDP2 without a memory limit and within one: its losses, in bits, the bytes that a step takes
    and the steps of its plans that run again; and the limit."""

    class Deep(MODELS["llama"]):
        def __init__(self):
            super().__init__(layers=4)

    made, limit = [], None
    for part in (1, 0.7):
        if made:
            torchacc.set_memory_limit(limit := int(part * made[0]["taken"]))
        model = sharded(model_of(Deep, "acc"), line("acc"))
        step = trained(model, "acc", batch=64)
        torchacc.reset_metrics()
        losses = [step(number).item().hex() for number in range(STEPS)]
        torch.acc.empty_cache()
        torch.acc.reset_peak_memory_stats()
        before = torch.acc.memory_allocated()
        losses.append(step(STEPS).item().hex())
        torchacc.sync()
        taken = torch.acc.max_memory_allocated() - before
        again = torchacc.metrics()["recomputed_steps"]
        made.append({"losses": losses, "taken": taken, "recomputed": again})
    return {"made": made, "limit": limit}


def gathered_again():
    """For each engine that shards parameters, how many gathers of them its program has, and how
    many of the same again; and those of a program whose gathers are of something else."""
    made = {}
    for name in ["fsdp2", "fsdp1"]:
        step = ENGINES[name]("acc", MODELS["llama"])
        for number in range(2):
            step(number)
            torchacc.sync()
        made[name] = gathers()
    x = torch.ones(4, device="acc", requires_grad=True)
    y = torch.empty(4 * dist.get_world_size(), device="acc")
    dist.all_gather_into_tensor(y, x.detach())
    z = torch.empty_like(y)
    x.register_hook(lambda _: dist.all_gather_into_tensor(z, x.detach()))
    (x * y.sum()).sum().backward()
    torchacc.sync()
    return {**made, "own": gathers()}


def gathers():
    """Of anything, of parameters, and of these again, in the program that was compiled last."""
    graph = torchacc.last_program().partition("# plan")[0]
    lines = [line for line in graph.splitlines() if 'op="torchacc::all_gather"' in line]
    return [sum(f"args=<tensor, {what}," in line for line in lines) for what in range(3)]
