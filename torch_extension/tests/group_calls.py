"""Calls of `torch.distributed`, for tests: each compares what a rank gets on acc with the CPU's."""

import copy
import datetime
import io
import itertools
import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as funcol
import torch.nn as nn
import torch.nn.functional as F
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
    with pytest.raises(ValueError, match="twice"):
        dist.split_group(split_ranks=[[0, 0]])
    dist.monitored_barrier()
    once = dist.new_group()  # of no use afterwards
    if rank == 0:
        with pytest.raises(RuntimeError, match="[Rr]ank 1"):
            dist.monitored_barrier(once, datetime.timedelta(seconds=1))
    dist.barrier()
    return "ok"


def dtensors():
    """Placements, redistribution and random numbers."""
    from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor, randn

    rank, size = ranks()

    def work(device):
        mesh = init_device_mesh(device, (size,))
        whole = torch.arange(16.0 * size).view(4 * size, 4).to(device)
        x = distribute_tensor(whole, mesh, [Shard(0)])
        made = [
            x.redistribute(mesh, [placement]).to_local() for placement in (Shard(1), Replicate())
        ]
        y = x @ distribute_tensor(whole.t().contiguous(), mesh, [Replicate()])
        z = x.redistribute(mesh, [Shard(1)]) @ distribute_tensor(whole[:4], mesh, [Shard(0)])
        assert z.placements[0] == Partial()
        return [*made, y.full_tensor(), z.full_tensor(), x.sum().full_tensor()]

    same(work)
    mesh = init_device_mesh("acc", (size,))
    torch.manual_seed(3)
    x = randn(4 * size, 4, device_mesh=mesh, placements=[Shard(0)])
    parts = x.full_tensor().chunk(size)
    assert not torch.equal(parts[0], parts[1])
    return "ok"


def attention():
    """Of DTensors, however they are split, forward and backward."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    from torch.nn.functional import scaled_dot_product_attention

    mesh = init_device_mesh("acc", (dist.get_world_size(),))
    torch.manual_seed(0)
    for place, biased in itertools.product((Shard(0), Shard(1), Shard(2), Replicate()), (0, 1)):
        given = [torch.randn(2, 4, 8, 16) for _ in range(3)]
        bias = torch.randn(2, 4, 8, 8) if biased else None
        expected = [x.clone().requires_grad_() for x in given]
        y = scaled_dot_product_attention(*expected, attn_mask=bias, is_causal=not biased)
        y.square().sum().backward()
        parts = [distribute_tensor(x.to("acc"), mesh, [place]).requires_grad_() for x in given]
        if biased:
            bias = distribute_tensor(bias.to("acc"), mesh, [Replicate()])
        z = scaled_dot_product_attention(*parts, attn_mask=bias, is_causal=not biased)
        z.square().sum().backward()
        torch.testing.assert_close(z.full_tensor().cpu(), y, rtol=1e-5, atol=1e-5)
        for part, x in zip(parts, expected, strict=True):
            torch.testing.assert_close(part.grad.full_tensor().cpu(), x.grad, rtol=1e-4, atol=1e-4)
    return "ok"


def ring_attention():
    """Of sequences each rank has its rows; forward and backward, both ways round."""
    from torch.distributed.tensor.experimental import context_parallel
    from torch.distributed.tensor.experimental._attention import (
        context_parallel_unshard,
        set_rotate_method,
    )
    from torch.distributed.tensor.experimental._context_parallel import _attention

    options, mesh = _attention._cp_options, init_device_mesh("acc", (dist.get_world_size(),))
    balance = options.enable_load_balance
    for way, balanced, causal in itertools.product(
        ("allgather", "alltoall"), (True, False), (True, False)
    ):
        if balanced and not causal:
            continue  # nor has PyTorch that
        set_rotate_method(way)
        options.enable_load_balance = balanced
        torch.manual_seed(0)
        given = [torch.randn(2, heads, 16, 8) for heads in (4, 2, 2)]
        expected = [x.double().requires_grad_() for x in given]
        y = F.scaled_dot_product_attention(*expected, is_causal=causal, enable_gqa=True)
        y.sin().sum().backward()
        parts = [x.to("acc") for x in given]
        with context_parallel(
            mesh, buffers=parts, buffer_seq_dims=[2] * 3, no_restore_buffers=set(parts)
        ):
            for part in parts:
                part.requires_grad_()
            z = F.scaled_dot_product_attention(*parts, is_causal=causal, enable_gqa=True)
            z.sin().sum().backward()
        whole = [z.detach(), *(part.grad for part in parts)]
        whole = context_parallel_unshard(mesh, whole, [2] * 4)
        for made, want in zip(whole, [y, *(x.grad for x in expected)], strict=True):
            torch.testing.assert_close(made.cpu().double(), want.detach(), rtol=1e-5, atol=2e-6)
    set_rotate_method("allgather")
    options.enable_load_balance = balance
    x = torch.randn(2, 4, 16, 8, device="acc")
    mask = torch.ones(2, 1, 8, 16, dtype=torch.bool, device="acc")
    for refused in ({"dropout_p": 0.5}, {"attn_mask": mask}):
        with (
            pytest.raises(NotImplementedError, match="ColwiseParallel"),
            context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]),
        ):
            F.scaled_dot_product_attention(x, x, x, **refused)
        _attention._disable_context_parallel_dispatcher_impl()  # as PyTorch leaves it to do
        x = torch.randn(2, 4, 16, 8, device="acc")
    return "ok"


def checkpoints():
    """`torch.distributed.checkpoint`: what FSDP2 has is saved, and loaded into other shards."""
    import torch.distributed.checkpoint as dcp
    from engines.models import Llama, line, model_of
    from engines.sharded import sharded
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict

    rank, size = ranks()
    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder)
    model = sharded(model_of(Llama, "acc"), line("acc"))
    state = get_model_state_dict(model)
    dcp.save({"model": state}, checkpoint_id=folder[0])
    torch.manual_seed(9)
    other = sharded(Llama().to("acc"), line("acc"))
    loaded = get_model_state_dict(other)
    dcp.load({"model": loaded}, checkpoint_id=folder[0])
    set_model_state_dict(other, loaded)
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a.to_local(), b.to_local())
    # Into one that is whole.
    whole = {"model": {k: torch.empty(v.shape) for k, v in state.items()}}
    dcp.load(whole, checkpoint_id=folder[0])
    expected = model_of(Llama, "cpu").state_dict()
    assert all(torch.equal(whole["model"][name], expected[name]) for name in expected)
    dcp.async_save({"model": state}, checkpoint_id=folder[0] + "/async").result()
    buffer = io.BytesIO()
    torch.save({k: v.full_tensor() for k, v in state.items()}, buffer)
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


def sync_batch_norm():
    """Of more rows on some ranks than on others: as of all of them in one process, in f64."""
    rank, size = ranks()
    ends = list(itertools.accumulate(range(2, size + 2), initial=0))
    part = slice(ends[rank], ends[rank + 1])
    for affine in (True, False):
        torch.manual_seed(0)
        x, factors = torch.randn(2, ends[-1], 3, 4, 4)
        whole = nn.BatchNorm2d(3, affine=affine)
        for parameter in whole.parameters():
            nn.init.normal_(parameter)
        own = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(whole)).to("acc")
        whole.double()
        wide, mine = x.double().requires_grad_(), x[part].to("acc").requires_grad_()
        y, z = whole(wide), own(mine)
        (y * factors).sum().backward()
        (z * factors[part].to("acc")).sum().backward()
        pairs = [(z, y[part]), (mine.grad, wide.grad[part])]
        for ours, expected in zip(own.parameters(), whole.parameters(), strict=True):
            dist.all_reduce(ours.grad)
            pairs.append((ours.grad, expected.grad))
        pairs += zip(own.buffers(), whole.buffers(), strict=True)
        for ours, expected in pairs:
            torch.testing.assert_close(
                ours.cpu().to(expected.dtype), expected, rtol=1e-4, atol=1e-5
            )
    return "ok"


CALLS = [
    sync_batch_norm,
    reductions,
    other_reductions,
    movements,
    uneven,
    views,
    point_to_point,
    objects,
    nothing_is_cut,
    silence,
    functional,
    groups,
    parts_of_a_group,
    dtensors,
    attention,
    ring_attention,
    checkpoints,
]


def call(*names):
    """What became of each, by name: so that one failure does not hide the others."""
    import traceback

    made = {}
    for name in names:
        try:
            made[name] = globals()[name]()
        except Exception:
            made[name] = traceback.format_exc()
    return made
