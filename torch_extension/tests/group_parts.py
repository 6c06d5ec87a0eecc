"""Parts of PyTorch that stand on process groups, for tests: each compares with the CPU."""

import copy
import io
import itertools
import tempfile

import pytest
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from group_calls import ranks, same
from torch.distributed.device_mesh import init_device_mesh


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


CALLS = [
    sync_batch_norm,
    dtensors,
    attention,
    ring_attention,
    checkpoints,
]
