"""PyTorch's engines for several processes, each as a training that runs on any device.

An engine is a function of a device; it gives another one, of the number of a step, that trains one
step and gives its loss.
"""

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from support import GPT, VOCABULARY, token_batch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
)
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

STEPS = 6


class Layer(nn.Module):
    """One of a Llama: rows are normalised by their size, the hidden layer is gated."""

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.width, self.heads = width, heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        for name in ("query", "key", "value", "out"):
            setattr(self, name, nn.Linear(width, width, bias=False))
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        y = self.norm1(x)
        depth = self.width // self.heads
        # How many heads there are here is for whoever has split the weights to know.
        q, k, v = (
            f(y).unflatten(-1, (-1, depth)).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, layers=2, width=32):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY + 3, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.norm, self.head = nn.RMSNorm(width), nn.Linear(width, VOCABULARY + 3, bias=False)

    def forward(self, tokens):
        x = self.token(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))

    def reset_parameters(self):
        torch.manual_seed(0)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.05)
            else:
                nn.init.ones_(parameter)


def model_of(build, device):
    torch.manual_seed(0)
    return build().to(device)


def batch_of(step, device, same=False, batch=4):
    """A batch of this rank, or the `same` for all."""
    number = step if same else step * dist.get_world_size() + dist.get_rank()
    return [tensor.to(device) for tensor in token_batch(number, batch, 16)]


def loss_of(logits, targets):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def trained(model, device, optimizer=None, clip=None, same=False, micro_batches=1):
    """The steps of a model that is one module to the program."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-3)

    def step(number):
        tokens, targets = batch_of(number, device, same)
        loss = loss_of(model(tokens), targets)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


# ---- data parallel


def ddp(device, build=Llama, **options):
    return trained(DistributedDataParallel(model_of(build, device), **options), device)


def ddp_buckets(device):
    return ddp(device, bucket_cap_mb=0.01, gradient_as_bucket_view=True)


def ddp_static_graph(device):
    return ddp(device, static_graph=True)


class WithUnused(Llama):
    def __init__(self):
        super().__init__()
        self.unused = nn.Linear(8, 8)


def ddp_unused(device):
    return ddp(device, WithUnused, find_unused_parameters=True)


def ddp_gpt(device):
    model = DistributedDataParallel(model_of(GPT, device))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def step(number):
        loss = model(*batch_of(number, device))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def ddp_no_sync(device):
    model = DistributedDataParallel(model_of(Llama, device))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

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


def zero1(device):
    model = DistributedDataParallel(model_of(Llama, device))
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-3)
    return trained(model, device, optimizer)


def ddp_bf16_hook(device):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import bf16_compress_hook

    model = DistributedDataParallel(model_of(Llama, device))
    model.register_comm_hook(None, bf16_compress_hook)
    return trained(model, device)


# ---- sharded


def sharded(model, mesh, **options):
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, **options)
    return fully_shard(model, mesh=mesh, **options)


def line(device):
    return init_device_mesh(device, (dist.get_world_size(),))


def fsdp2(device, **options):
    return trained(sharded(model_of(Llama, device), line(device), **options), device)


def fsdp2_keep(device):
    return fsdp2(device, reshard_after_forward=False)


def fsdp2_clip(device):
    return trained(sharded(model_of(Llama, device), line(device)), device, clip=0.5)


def fsdp2_bf16(device):
    return fsdp2(device, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))


def fsdp2_meta(device):
    with torch.device("meta"):
        model = Llama()
    model = sharded(model, line(device))
    model.to_empty(device=device)
    # From the same numbers everywhere, whatever shards there are.
    whole = model_of(Llama, "cpu").state_dict()
    for name, parameter in model.state_dict().items():
        shards = torch.distributed.tensor.distribute_tensor(
            whole[name].to(device), parameter.device_mesh, parameter.placements
        )
        parameter.copy_(shards)
    return trained(model, device)


def fsdp2_offload(device):
    """Of the CPU's own nothing can be offloaded."""
    policy = {} if device == "cpu" else {"offload_policy": CPUOffloadPolicy()}
    return trained(sharded(model_of(Llama, "cpu"), line(device), **policy), device)


def hsdp(device):
    mesh = init_device_mesh(device, (2, dist.get_world_size() // 2), mesh_dim_names=("dp", "fsdp"))
    return trained(sharded(model_of(Llama, device), mesh), device)


def fsdp1(device):
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = FullyShardedDataParallel(
        model_of(Llama, device), device_id=torch.device(device), use_orig_params=True
    )
    return trained(model, device)


# ---- tensor parallel

SPLIT_LAYER = {
    **dict.fromkeys(["query", "key", "value", "gate", "up"], ColwiseParallel()),
    **dict.fromkeys(["out", "down"], RowwiseParallel()),
}


def tensor_parallel(model, mesh):
    for layer in model.layers:
        parallelize_module(layer, mesh, SPLIT_LAYER)
    return model


def one_by_one(model):
    """PyTorch's steps for lists of parameters take no others beside distributed ones."""
    return torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=False)


def tp(device):
    model = tensor_parallel(model_of(Llama, device), line(device))
    return trained(model, device, one_by_one(model), same=True)


def sequence_parallel(device):
    model, mesh = model_of(Llama, device), line(device)
    split = {
        "norm1": SequenceParallel(),
        "norm2": SequenceParallel(),
        **dict.fromkeys(
            ["query", "key", "value", "gate", "up"], ColwiseParallel(input_layouts=Shard(1))
        ),
        **dict.fromkeys(["out", "down"], RowwiseParallel(output_layouts=Shard(1))),
    }
    for layer in model.layers:
        parallelize_module(layer, mesh, split)
    parallelize_module(
        model,
        mesh,
        {
            "token": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "norm": SequenceParallel(),
            "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate()),
        },
    )
    return trained(model, device, one_by_one(model), same=True)


def tp_loss_parallel(device):
    model, mesh = model_of(Llama, device), line(device)
    tensor_parallel(model, mesh)
    parallelize_module(model, mesh, {"head": ColwiseParallel(use_local_output=False)})
    optimizer = one_by_one(model)

    def step(number):
        tokens, targets = batch_of(number, device, same=True)
        with loss_parallel():
            loss = loss_of(model(tokens), targets)
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach().full_tensor()

    return step


def fsdp2_tp(device):
    mesh = init_device_mesh(device, (2, dist.get_world_size() // 2), mesh_dim_names=("dp", "tp"))
    model = tensor_parallel(model_of(Llama, device), mesh["tp"])
    model = sharded(model, mesh["dp"])
    return trained(model, device, one_by_one(model), same=True)


# ---- pipelines


class First(nn.Module):
    def __init__(self, whole, layers):
        super().__init__()
        self.token, self.layers = whole.token, layers

    def forward(self, tokens):
        x = self.token(tokens)
        for layer in self.layers:
            x = layer(x)
        return x


class Last(nn.Module):
    def __init__(self, whole, layers):
        super().__init__()
        self.layers, self.norm, self.head = layers, whole.norm, whole.head

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def stages(device, per_rank):
    """This rank's of a model that has so many for each."""
    rank, size = dist.get_rank(), dist.get_world_size()
    count = size * per_rank
    whole = model_of(lambda: Llama(layers=count), device)
    made = []
    for number in range(rank, count, size):
        layers = nn.ModuleList([whole.layers[number]])
        part = First(whole, layers) if number == 0 else nn.Sequential(*layers)
        if number == count - 1:
            part = Last(whole, layers)
        made.append(PipelineStage(part, number, count, torch.device(device)))
    return made


def pipelined(device, schedule_of, per_rank=1):
    parts = stages(device, per_rank)
    schedule = schedule_of(parts if per_rank > 1 else parts[0], 4, loss_fn=loss_of)
    parameters = [p for part in parts for p in part.submod.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    rank, last = dist.get_rank(), dist.get_world_size() - 1

    def step(number):
        tokens, targets = batch_of(number, device, same=True, batch=8)
        losses = []
        if rank == 0:
            schedule.step(tokens)
        elif rank == last:
            schedule.step(target=targets, losses=losses)
        else:
            schedule.step()
        optimizer.step()
        optimizer.zero_grad()
        return torch.stack(losses).mean().detach() if losses else torch.zeros((), device=device)

    return step


def gpipe(device):
    return pipelined(device, ScheduleGPipe)


def one_forward_one_backward(device):
    return pipelined(device, Schedule1F1B)


def interleaved(device):
    return pipelined(device, ScheduleInterleaved1F1B, per_rank=2)


ENGINES = [
    ddp,
    ddp_buckets,
    ddp_static_graph,
    ddp_unused,
    ddp_gpt,
    ddp_no_sync,
    ddp_bf16_hook,
    zero1,
    fsdp2,
    fsdp2_keep,
    fsdp2_clip,
    fsdp2_bf16,
    fsdp2_meta,
    fsdp2_offload,
    fsdp1,
    tp,
    sequence_parallel,
    tp_loss_parallel,
    gpipe,
    one_forward_one_backward,
    interleaved,
]
# They want two dimensions of ranks.
GRIDS = [hsdp, fsdp2_tp]


def counted(step):
    """What a step of acc took, and its loss, unread."""
    torchacc.reset_metrics()
    loss = step()
    cuts = torchacc.metrics()["cuts"]
    torchacc.sync()
    metrics = torchacc.metrics()
    kept = ("compiles", "host_calls", "immediate_runs", "collectives", "recorded_ops")
    return loss, {"cuts": cuts, **{name: metrics[name] for name in kept}}


def train(*names):
    """For each engine its losses on the CPU and on acc, and what the last steps of acc took."""
    made = {}
    for name in names:
        engine = globals()[name]
        expected = engine("cpu")
        cpu = [expected(number).item() for number in range(STEPS)]
        step = engine("acc")
        ran = [counted(lambda number=number: step(number)) for number in range(STEPS)]
        acc = [loss.item() for loss, _ in ran]
        made[name] = {"cpu": cpu, "acc": acc, "counts": [counts for _, counts in ran]}
    return made
