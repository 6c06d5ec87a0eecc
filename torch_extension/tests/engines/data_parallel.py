"""Every rank has the whole model, and a batch of its own."""

import torch
import torch.distributed as dist
import torch.distributed.algorithms.ddp_comm_hooks.default_hooks as default_hooks
import torch.nn as nn
from torch.distributed._composable import replicate
from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook, powerSGD_hook
from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from torch.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from engines.models import adamw, batch_of, loss_of, model_of, trained


def parallel(device, build, **options):
    return DistributedDataParallel(model_of(build, device), **options)


def ddp(device, build):
    return trained(parallel(device, build), device)


def ddp_buckets(device, build):
    model = parallel(device, build, bucket_cap_mb=0.01, gradient_as_bucket_view=True)
    return trained(model, device)


def ddp_static_graph(device, build):
    return trained(parallel(device, build, static_graph=True), device)


def ddp_unused(device, build):
    class WithUnused(build):
        def __init__(self):
            super().__init__()
            self.unused = nn.Linear(8, 8)

    return trained(parallel(device, WithUnused, find_unused_parameters=True), device)


def ddp_momentum(device, build):
    model = parallel(device, build)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return trained(model, device, optimizer, clip=1.0)


def ddp_no_sync(device, build):
    """Gradients of two batches are summed before ranks exchange them."""
    model = parallel(device, build)
    optimizer = adamw(model.parameters())

    def step(number):
        with model.no_sync():
            tokens, targets = batch_of(2 * number, device)
            loss_of(model(tokens), targets).backward()
        tokens, targets = batch_of(2 * number + 1, device)
        loss = loss_of(model(tokens), targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def ddp_bf16_hook(device, build):
    model = parallel(device, build)
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    return trained(model, device)


def ddp_power_sgd(device, build):
    """Gradients are sent as products of thin matrices."""
    model = parallel(device, build)
    state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, min_compression_rate=1)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return trained(model, device)


def ddp_local_sgd(device, build):
    """Weights are averaged, every other step."""
    model = parallel(device, build)
    alone, _ = dist.new_subgroups(group_size=1)
    state = post_localSGD_hook.PostLocalSGDState(None, alone, start_localSGD_iter=2)
    model.register_comm_hook(state, post_localSGD_hook.post_localSGD_hook)
    averager = PeriodicModelAverager(period=2, warmup_steps=2)
    return trained(model, device, PostLocalSGDOptimizer(adamw(model.parameters()), averager))


def replicated(device, build):
    return trained(replicate(model_of(build, device), device_mesh=None), device)


def zero1(device, build):
    model = parallel(device, build)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    return trained(model, device, optimizer)


def ranks_join(device, build):
    """One that has no more batches stays for the others' collectives: the last one has one less."""
    model = parallel(device, build)
    optimizer = adamw(model.parameters())

    def step(number):
        batches = 2 if dist.get_rank() < dist.get_world_size() - 1 else 1
        with model.join():
            for micro in range(batches):
                tokens, targets = batch_of(2 * number + micro, device)
                loss = loss_of(model(tokens), targets)
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
        return loss.detach()

    return step


ENGINES = [
    "ddp",
    "ddp_buckets",
    "ddp_static_graph",
    "ddp_unused",
    "ddp_momentum",
    "ddp_no_sync",
    "ddp_bf16_hook",
    "ddp_power_sgd",
    "ddp_local_sgd",
    "replicated",
    "zero1",
    "ranks_join",
]
