"""Every rank has some layers, and batches go through them in parts."""

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.pipelining import PipelineStage, schedules

from engines.models import adamw, batch_of, loss_of, model_of, trained


class First(nn.Module):
    def __init__(self, whole, layers):
        super().__init__()
        # The others' parameters are not there.
        self.layers = layers
        self.embeddings = nn.ModuleDict(
            {name: part for name, part in whole.named_children() if name in ("token", "position")}
        )
        self.embedding = whole.embedding

    def forward(self, tokens):
        x = self.embedding(tokens)
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


def stages(device, build, places):
    """Those at `places` of a model that has one layer in each, as many on each rank."""
    count = dist.get_world_size() * len(places)
    whole = model_of(lambda: build(layers=count), device)
    made = []
    for number in places:
        layers = nn.ModuleList([whole.layers[number]])
        part = First(whole, layers) if number == 0 else nn.Sequential(*layers)
        if number == count - 1:
            part = Last(whole, layers)
        made.append(PipelineStage(part, number, count, torch.device(device)))
    return made


def pipelined(device, build, schedule_of, places):
    parts = stages(device, build, places)
    several = issubclass(schedule_of, schedules.PipelineScheduleMulti)
    schedule = schedule_of(parts if several else parts[0], 8, loss_fn=loss_of)
    optimizer = adamw([p for part in parts for p in part.submod.parameters()])
    is_first, is_last = (any(getattr(p, name) for p in parts) for name in ("is_first", "is_last"))

    def step(number):
        tokens, targets = batch_of(number, device, same=True, batch=8)
        losses = []
        ends = {"target": targets, "losses": losses} if is_last else {}
        schedule.step(*([tokens] if is_first else []), **ends)
        optimizer.step()
        optimizer.zero_grad()
        return torch.stack(losses).mean().detach() if losses else torch.zeros((), device=device)

    return step


def in_turn(per_rank):
    rank, size = dist.get_rank(), dist.get_world_size()
    return range(rank, size * per_rank, size)


def there_and_back():
    rank, size = dist.get_rank(), dist.get_world_size()
    return [rank, 2 * size - 1 - rank]


def gpipe(device, build):
    return pipelined(device, build, schedules.ScheduleGPipe, in_turn(1))


def one_forward_one_backward(device, build):
    return pipelined(device, build, schedules.Schedule1F1B, in_turn(1))


def interleaved(device, build):
    return pipelined(device, build, schedules.ScheduleInterleaved1F1B, in_turn(2))


def breadth_first(device, build):
    return pipelined(device, build, schedules.ScheduleLoopedBFS, in_turn(2))


def zero_bubble(device, build):
    return pipelined(device, build, schedules.ScheduleInterleavedZeroBubble, in_turn(2))


def in_a_v(device, build, schedule_of):
    """The last rank sends to itself, which PyTorch's own backend for the CPU cannot: there one
    process has all layers."""
    if device != "cpu":
        return pipelined(device, build, schedule_of, there_and_back())
    whole = model_of(lambda: build(layers=2 * dist.get_world_size()), device)
    step = trained(whole, device, same=True, batch=8)
    return lambda number: step(number) * (dist.get_rank() == 0)


def zero_bubble_v(device, build):
    return in_a_v(device, build, schedules.ScheduleZBVZeroBubble)


def dual_pipe_v(device, build):
    return in_a_v(device, build, schedules.ScheduleDualPipeV)


ENGINES = [
    "gpipe",
    "one_forward_one_backward",
    "interleaved",
    "breadth_first",
    "zero_bubble",
    "zero_bubble_v",
    "dual_pipe_v",
]
