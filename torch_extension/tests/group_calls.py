"""Calls of `torch.distributed`, for tests: each compares what a rank gets on acc with the CPU's."""

import datetime
import itertools
import os
import subprocess
import sys
import time

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torchacc
from torch.distributed import ReduceOp
from torch.distributed.device_mesh import init_device_mesh

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.uint8, torch.int32, torch.int64]
# Of these gloo has no reductions: what is expected is computed in another type.
WIDENED = {torch.int16: torch.int32, torch.uint16: torch.int32, torch.uint32: torch.int64}
OTHERS = [
    torch.bool,
    torch.complex64,
    torch.complex128,
    torch.complex32,
    torch.int16,
    torch.uint16,
    torch.uint64,
    torch.float8_e4m3fn,
    torch.float8_e5m2,
]
DEVICES = ("cpu", "acc")


def ranks():
    return dist.get_rank(), dist.get_world_size()


def numbers(shape, dtype, seed=0):
    """Of this rank; small, so that sums and products are exact."""
    generator = torch.Generator().manual_seed(100 * seed + dist.get_rank())
    made = torch.randint(1, 4, shape, generator=generator)
    if dtype.is_complex:
        return torch.complex(made.double(), -made.double()).to(dtype)
    return made.to(dtype)


def same(work, *arguments):
    """`work(device, ...)` gives tensors, or lists of them, that are equal on both devices."""
    cpu, acc = (work(device, *arguments) for device in DEVICES)
    assert len(cpu) == len(acc)
    for a, c in zip(acc, cpu, strict=True):
        assert a.device.type == "acc", a.device
        bits = [t.cpu().contiguous().view(-1).view(torch.uint8) for t in (a, c)]
        assert torch.equal(*bits), (arguments, a.cpu(), c)


def reductions():
    """all_reduce, reduce and reduce_scatter: every reduction of every type that gloo has."""
    rank, size = ranks()
    bitwise = [ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR]
    plain = [ReduceOp.SUM, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX]

    def all_reduce(device, dtype, op):
        x = numbers((3, 5), dtype).to(device)
        dist.all_reduce(x, op)
        return [x]

    def reduce(device, dtype, op, root):
        x = numbers((3, 5), dtype).to(device)
        dist.reduce(x, root, op)
        return [x] if rank == root else []

    def reduce_scatter(device, dtype, op):
        x = numbers((size * 2, 3), dtype).to(device)
        y = torch.empty(2, 3, dtype=dtype, device=device)
        dist.reduce_scatter_tensor(y, x, op)
        z = torch.empty(2, 3, dtype=dtype, device=device)
        dist.reduce_scatter(z, list(x.chunk(size)), op)
        return [y, z]

    for dtype in FLOATS + INTEGERS:
        for op in plain + (bitwise if dtype in INTEGERS else []):
            same(all_reduce, dtype, op)
    for op, root in itertools.product(plain, range(size)):
        same(reduce, torch.float32, op, root)
    for dtype, op in itertools.product([torch.float32, torch.int64, torch.bfloat16], plain):
        same(reduce_scatter, dtype, op)
    return "ok"


def other_reductions():
    """Those that gloo has not: averages, factors, and types that it does not take."""
    rank, size = ranks()

    def of_all(dtype, seed=0):
        mine = dist.get_rank
        made = []
        for other in range(size):
            dist.get_rank = lambda other=other: other
            made.append(numbers((3, 5), dtype, seed))
        dist.get_rank = mine
        return torch.stack(
            [one.to(torch.complex128 if dtype.is_complex else torch.float64) for one in made]
        )

    for dtype in [torch.float32, torch.bfloat16, torch.complex64]:
        x = numbers((3, 5), dtype).to("acc")
        dist.all_reduce(x, ReduceOp.AVG)
        torch.testing.assert_close(x.cpu(), of_all(dtype).mean(0).to(dtype), rtol=1e-2, atol=1e-2)
        y = torch.empty(3, 5, dtype=dtype, device="acc")
        whole = torch.cat([numbers((3, 5), dtype).to("acc")] * size)
        dist.reduce_scatter_tensor(y, whole, ReduceOp.AVG)
        assert torch.equal(x, y)
    x = numbers((3, 5), torch.float32).to("acc")
    dist.all_reduce(x, dist._make_nccl_premul_sum(0.25))
    assert torch.equal(x.cpu(), (0.25 * of_all(torch.float32)).sum(0).float())
    for dtype in [*WIDENED, torch.complex64, torch.complex128, torch.uint64]:
        x = numbers((3, 5), dtype).to("acc")
        dist.all_reduce(x)
        assert torch.equal(x.cpu(), of_all(dtype).sum(0).to(dtype)), dtype
    for op, expected in [(ReduceOp.SUM, torch.any), (ReduceOp.PRODUCT, torch.all)]:
        x = (numbers((3, 5), torch.int32) > 2).to("acc")
        dist.all_reduce(x, op)
        assert torch.equal(x.cpu(), expected(of_all(torch.int32) > 2, 0))
    refused = [
        (torch.float8_e4m3fn, ReduceOp.SUM),
        (torch.uint64, ReduceOp.MAX),
        (torch.bool, ReduceOp.AVG),
        (torch.float32, ReduceOp.BOR),
    ]
    for dtype, op in refused:
        x = torch.zeros(3, dtype=dtype, device="acc")
        with pytest.raises((NotImplementedError, ValueError), match="over ranks"):
            dist.all_reduce(x, op)
    return "ok"


def movements():
    """Gathers, scatters, broadcasts and exchanges of every type of the device."""
    rank, size = ranks()

    def move(device, dtype):
        x = numbers(
            (2, 3), dtype if dtype.itemsize > 1 or not dtype.is_floating_point else torch.float32
        )
        x = x.to(dtype).to(device)
        made = []
        y = torch.empty(2 * size, 3, dtype=dtype, device=device)
        dist.all_gather_into_tensor(y, x)
        parts = [torch.empty(2, 3, dtype=dtype, device=device) for _ in range(size)]
        dist.all_gather(parts, x)
        z = x.clone()
        dist.broadcast(z, size - 1)
        w = torch.empty_like(y)
        dist.all_to_all_single(w, y)
        made += [y, *parts, z, w]
        if rank == 1:
            gathered = [torch.empty_like(x) for _ in range(size)]
            dist.gather(x, gathered, dst=1)
            made += gathered
        else:
            dist.gather(x, dst=1)
        back = torch.empty_like(x)
        dist.scatter(back, [part.clone() for part in parts] if rank == 0 else None, src=0)
        return [*made, back]

    for dtype in FLOATS + INTEGERS:
        same(move, dtype)
    for dtype in OTHERS:
        whole = dtype if dtype.itemsize > 1 or not dtype.is_floating_point else torch.float32
        x = numbers((2, 3), whole).to(dtype)
        y = torch.empty(2 * size, 3, dtype=dtype, device="acc")
        dist.all_gather_into_tensor(y, x.to("acc"))
        z = x.to("acc")
        dist.broadcast(z, rank * 0)
        bits = [part.view(torch.uint8) for part in y.cpu().chunk(size)]
        assert torch.equal(bits[rank], x.view(torch.uint8)), dtype
        assert torch.equal(bits[0], z.cpu().view(torch.uint8)), dtype
    return "ok"


def uneven():
    """Parts of several sizes, empty ones too."""
    rank, size = ranks()

    def exchange(device):
        there = [(rank + other) % 3 for other in range(size)]
        x = torch.arange(sum(there) * 2.0, device=device).view(-1, 2) + 100 * rank
        y = torch.empty(sum(there), 2, device=device)
        dist.all_to_all_single(y, x, there, there)
        return [y]

    def lists(device):
        x = [
            torch.full((1 + (rank + other) % 3,), float(rank), device=device)
            for other in range(size)
        ]
        y = [torch.empty(1 + (rank + other) % 3, device=device) for other in range(size)]
        if device == "cpu":
            there = [part.numel() for part in x]
            whole = torch.empty(sum(there))
            dist.all_to_all_single(whole, torch.cat(x), there, there)
            return list(whole.split(there))
        dist.all_to_all(y, x)
        return y

    def gather(device):
        parts = [torch.empty(other + 1, device=device) for other in range(size)]
        mine = torch.full((rank + 1,), float(rank), device=device)
        if device == "cpu":
            return [torch.full((other + 1,), float(other)) for other in range(size)]
        dist.all_gather(parts, mine)
        return parts

    same(exchange)
    same(lists)
    same(gather)
    return "ok"


def views():
    """Tensors that are not dense, and parts of others; what lies beside them stays."""
    rank, size = ranks()

    def work(device):
        base = (torch.arange(24.0).view(4, 6) + rank).to(device)
        if device == "cpu":
            strided, column = base.t().contiguous(), base[:, 1].contiguous()
            dist.all_reduce(strided)
            dist.broadcast(column, size - 1)
            base = strided.t().contiguous()
            base[:, 1] = column
        else:
            column = base[:, 1].clone()
            dist.all_reduce(base.t())
            base[:, 1] = column
            dist.broadcast(base[:, 1], size - 1)
        part = base[1:3]
        dist.all_reduce(part)
        flat = torch.empty(size * 6, device=device)
        # FSDP2 gathers into what holds its input.
        mine = flat.narrow(0, rank * 6, 6)
        mine.copy_(base[0])
        dist.all_gather_into_tensor(flat, mine)
        return [base, flat]

    same(work)
    return "ok"


def point_to_point():
    """Messages in every order that is allowed."""
    rank, size = ranks()
    right, left = (rank + 1) % size, (rank - 1) % size

    def ring(device):
        x, y = (torch.full((3,), float(v), device=device) for v in (rank, -1))
        if rank % 2:
            dist.recv(y, left)
            dist.send(x, right)
        else:
            dist.send(x, right)
            dist.recv(y, left)
        return [y]

    def receive_first(device):
        x = torch.full((3,), float(rank), device=device)
        y = [torch.empty(3, device=device) for _ in range(2)]
        coming = [dist.irecv(part, left, tag=tag) for tag, part in enumerate(y)]
        # Tags, not their order, say which is which.
        going = [dist.isend(x * (tag + 2), right, tag=tag) for tag in (1, 0)]
        for work in [*coming[::-1], *going]:
            work.wait()
        return y

    def batch(device):
        x, y = torch.full((2,), float(rank), device=device), torch.empty(2, device=device)
        operations = [dist.P2POp(dist.irecv, y, left), dist.P2POp(dist.isend, x, right)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        return [y]

    def anybody(device):
        y = torch.empty(2, device=device)
        if rank:
            dist.send(torch.full((2,), float(rank), device=device), 0)
            return []
        came = [(dist.recv(y), y.clone()) for _ in range(size - 1)]
        for source, value in came:
            assert value.tolist() == [source, source], came
        return [torch.stack([value for _, value in came]).sort(0).values]

    def itself(device):
        x, y = torch.full((2,), 3.0, device=device), torch.empty(2, device=device)
        if device == "acc":
            work = dist.irecv(y, rank)
            dist.isend(x, rank)
            work.wait()
        else:
            y.copy_(x)
        return [y]

    for work in (ring, receive_first, batch, anybody, itself):
        same(work)
    return "ok"


def messages_cut():
    """A program ends where another rank waits for it, and where this one waits for another."""
    rank = dist.get_rank()
    other = 1 - rank
    x, y = torch.full((2,), float(rank), device="acc"), torch.empty(2, device="acc")
    torchacc.sync()
    torchacc.reset_metrics()
    for _ in range(3):
        operations = [dist.P2POp(dist.irecv, y, other), dist.P2POp(dist.isend, x * 2, other)]
        (work,) = dist.batch_isend_irecv(operations)
        work.wait()
    assert torchacc.metrics()["cuts"] == 3
    x = y + 1
    dist.irecv(y, other).wait() if rank else dist.send(x, other)
    assert torchacc.metrics()["cuts"] == 4
    lines = [line for line in torchacc.explain().splitlines() if "the program cut" in line]
    assert lines
    assert all("group_calls.py" in line for line in lines), lines
    assert y.tolist() == [2.0 + rank] * 2
    return "ok"


def objects():
    rank, size = ranks()
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank, "big": "x" * 1000 * rank})
    assert [one["rank"] for one in gathered] == list(range(size))
    sent = [rank, "text"]
    dist.broadcast_object_list(sent, src=1)
    assert sent == [1, "text"]
    mine = [None]
    dist.scatter_object_list(mine, [f"for {other}" for other in range(size)] if rank == 0 else None)
    assert mine == [f"for {rank}"]
    into = [None] * size if rank == 0 else None
    dist.gather_object(rank * 7, into, dst=0)
    assert rank or into == [7 * other for other in range(size)]
    dist.barrier()
    return "ok"


def nothing_is_cut():
    """Recording collectives, and waiting for their Work, runs nothing."""
    rank, size = ranks()
    x = torch.arange(4.0, device="acc")
    # The first call imports for seconds, in which nothing is recorded: `silence`.
    funcol.wait_tensor(funcol.all_reduce(x, "sum", dist.group.WORLD))
    torchacc.sync()
    torchacc.reset_metrics()
    work = dist.all_reduce(x, async_op=True)
    assert work.is_completed()
    assert work.wait()
    assert work.get_future().wait()[0] is not None
    y = funcol.wait_tensor(funcol.all_reduce(x, "sum", dist.group.WORLD))
    dist.all_gather_into_tensor(torch.empty(4 * size, device="acc"), y)
    assert torchacc.metrics()["cuts"] == 0
    assert torchacc.metrics()["collectives"] == 0
    assert y.tolist() == [size**2 * i for i in range(4)]
    torchacc.sync()
    metrics = torchacc.metrics()
    # The gather runs though nobody has its result: another rank may want it.
    assert metrics["collectives"] == 3
    assert metrics["host_calls"] == 0
    assert metrics["collective_bytes"] == 3 * 16
    assert metrics["collective_ns"] > 0
    return "ok"


def silence():
    """A rank that waits for another by the CPU's group has recorded what that one waits for."""
    rank, size = ranks()
    x, y = torch.ones(2, device="acc"), torch.ones(1)
    dist.all_reduce(x)
    if rank == 0:
        assert x.tolist() == [float(size)] * 2
    dist.all_reduce(y)
    assert x.tolist() == [float(size)] * 2
    assert y.tolist() == [float(size)]
    return "ok"


def no_processor():
    """Where many processes share few processors, a program goes on late; that does not cut it."""
    others = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(3 * os.cpu_count())
    ]
    try:
        x = torch.ones(2, device="acc")
        torchacc.sync()
        torchacc.reset_metrics()
        dist.all_reduce(x)
        until = time.process_time() + 0.15
        while time.process_time() < until:
            pass
        y = x + 1
        assert torchacc.metrics()["cuts"] == 0
    finally:
        for other in others:
            other.kill()
            other.wait()
    assert y.tolist() == [ranks()[1] + 1.0] * 2
    return "ok"


def functional():
    """`_c10d_functional`, its gradients, and what traces it."""
    rank, size = ranks()
    group = dist.group.WORLD

    def work(device):
        x = (torch.arange(2.0 * size, device=device).view(size, 2) + rank).requires_grad_()
        made = [
            funcol.all_reduce(x, "sum", group),
            funcol.all_gather_tensor(x, 0, group),
            funcol.all_gather_tensor(x, 1, group),
            funcol.reduce_scatter_tensor(x, "sum", 0, group),
            funcol.all_to_all_single(x, None, None, group),
            funcol.broadcast(x, 1, group),
        ]
        gathered = funcol.all_gather_tensor_autograd(x * 2, 0, group)
        scattered = funcol.reduce_scatter_tensor_autograd(x * 3, "sum", 0, group)
        exchanged = funcol.all_to_all_single_autograd(x * 5, None, None, group)
        loss = (gathered**2).sum() + (scattered**2).sum() + (exchanged**2).sum()
        loss.backward()
        # From views to tensors: these are of a class that waits when it is used.
        return [torch.cat([one.detach()]) for one in made] + [x.grad]

    same(work)
    from torch.fx.experimental.proxy_tensor import make_fx

    def traced(x):
        return funcol.all_reduce(x * 2, "sum", group) + 1

    x = torch.ones(3, device="acc")
    assert make_fx(traced)(x)(x).tolist() == [2.0 * size + 1] * 3
    return "ok"


def groups():
    """Parts of the world, with collectives of their own between those of all."""
    rank, size = ranks()
    mine = None
    for first in range(0, size, 2):
        group = dist.new_group([first, first + 1], backend="cpu:gloo,acc:acc")
        mine = group if rank // 2 * 2 == first else mine
    x = torch.full((2,), float(rank), device="acc")
    y = x.clone()
    dist.all_reduce(y, group=mine)
    dist.all_reduce(x)
    first = rank // 2 * 2
    assert y.tolist() == [2.0 * first + 1] * 2
    assert x.tolist() == [sum(range(size))] * 2
    mesh = init_device_mesh("acc", (size,))
    z = torch.ones(2, device="acc")
    dist.all_reduce(z, group=mesh.get_group())
    assert z.tolist() == [float(size)] * 2
    dist.destroy_process_group(mine)
    dist.all_reduce(z)
    assert z.tolist() == [float(size) ** 2] * 2
    again = dist.new_group(backend="acc")
    w = torch.ones(2)
    dist.all_reduce(w, group=again)  # a tensor of the CPU, by a group of acc
    assert w.tolist() == [float(size)] * 2
    return "ok"


def parts_of_a_group():
    """A group is split, without those outside of it; a barrier says who does not come."""
    rank, size = ranks()
    part = dist.split_group(split_ranks=[[0], [*range(size - 1, 0, -1)]])
    x = torch.ones(2, device="acc")
    dist.all_reduce(x, group=part)
    assert x.tolist() == [1.0 if rank == 0 else size - 1] * 2
    assert (dist.split_group(split_ranks=[[size - 1]]) is None) == (rank != size - 1)
    if rank > 0:  # the ranks of the part are counted in it
        assert (dist.split_group(part, [[0]]) is None) == (rank != 1)
    # Ranks are in as many groups as they like by now; and the same again after it has gone.
    for _ in range(2):
        parts = [[0, size - 1], [*range(1, size - 1)]] if size > 2 else [[0, 1]]
        across = dist.split_group(split_ranks=parts)
        y = torch.full((2,), float(rank), device="acc")
        dist.all_reduce(y, group=across)
        mine = next(part for part in parts if rank in part)
        assert y.tolist() == [float(sum(mine))] * 2
        dist.destroy_process_group(across)
    for wrong in ([0, 0], [-1, 0], [0, size], []):
        with pytest.raises(ValueError, match="split_group"):
            dist.split_group(split_ranks=[wrong])
    dist.monitored_barrier()
    # What was recorded comes first: nobody is past the barrier before it has run.
    z = torch.ones(2, device="acc")
    torchacc.reset_metrics()
    dist.all_reduce(z)
    dist.monitored_barrier()
    assert torchacc.metrics()["collectives"] == 1
    assert z.tolist() == [float(size)] * 2
    once = dist.new_group()  # of no use afterwards
    if rank == 0:
        with pytest.raises(RuntimeError, match="[Rr]ank 1"):
            dist.monitored_barrier(once, datetime.timedelta(seconds=1))
    dist.barrier()
    return "ok"


def mistakes():
    """What one rank alone does wrong is its own affair."""
    rank, size = ranks()
    with pytest.raises(RuntimeError, match='name it "acc" on all ranks'):
        torch.ones(1, device=f"acc:{rank + 1}")
    x = torch.ones(2, device="acc")
    if rank == 0:
        dist.recv(x, rank)
        with pytest.raises(RuntimeError, match="comes before the send"):
            x.tolist()
    y = torch.ones(2, device="acc")
    dist.all_reduce(y)
    assert y.tolist() == [float(size)] * 2
    return "ok"


def chosen():
    """What `init_process_group()` takes by itself."""
    group = dist.group.WORLD
    assert str(group._get_backend(torch.device("acc")).name()) == "acc"
    x = torch.ones(2, device="acc")
    dist.all_reduce(x)
    assert x.tolist() == [float(dist.get_world_size())] * 2
    sent = [None]
    dist.scatter_object_list(sent, ["a", "b"] if dist.get_rank() == 0 else None)
    assert sent == ["ab"[dist.get_rank()]]
    dist.barrier()
    return "ok"


def natively():
    """On a device with memory of its own only what is sent to one rank goes by the host's."""
    rank, size = ranks()
    part = torch.ones(2, device="acc") * (rank + 1)
    whole = torch.zeros(2 * size, device="acc")
    rows = [1, 3] if rank == 0 else [3, 1]
    torchacc.sync()
    torchacc.reset_metrics()
    dist.all_gather_into_tensor(whole, part)
    dist.all_reduce(whole, ReduceOp.AVG)
    dist.reduce_scatter_tensor(part, whole)
    dist.broadcast(part, 1)
    dist.reduce(part, 0)
    even, uneven = torch.empty_like(whole), torch.empty_like(whole)
    dist.all_to_all_single(even, torch.cat([part, part]))
    dist.all_to_all_single(uneven, whole, rows, rows)
    torchacc.sync()
    assert torchacc.metrics()["collectives"] == 7
    assert torchacc.metrics()["host_copies"] == 0
    return "ok"


CALLS = [
    reductions,
    other_reductions,
    movements,
    uneven,
    views,
    point_to_point,
    messages_cut,
    objects,
    nothing_is_cut,
    silence,
    no_processor,
    functional,
    groups,
    parts_of_a_group,
    mistakes,
]
