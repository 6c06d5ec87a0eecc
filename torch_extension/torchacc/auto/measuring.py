"""What this machine reaches, measured now: products, copies, recording, and collectives.

Of several processes all may measure at once, as they train: each function then waits for the
others, and a figure is what a process has while all are busy.
"""

import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

import torchacc
from torchacc.auto.dry_run import measure

# Rows of a chain of products, side of its matrices, and its length: as in models that a CPU trains.
_ROWS, _SIDE, _CHAIN = 1024, 512, 8
# Bytes copied, more than caches hold, and number of copies.
_COPIED, _COPIES = 2**26, 2
# Batch, heads, rows and depth of attention.
_HEADS = (2, 8, 256, 64)
# Size and layers of a model whose computation is negligible beside its recording.
_TINY, _TINY_LAYERS = 8, 6
# Bytes of small and large collectives, over all ranks, and number recorded at once.
_SMALL, _LARGE, _AT_ONCE = 2**12, 2**22, 4
_TIMES = 9
# Bytes that a rank sends, relative to the collective's, by the part that the other ranks have.
SENT: dict[str, Callable[[float], float]] = {
    "all_reduce": lambda part: 2 * part,
    "reduce_scatter": lambda part: part,
    "all_to_all": lambda part: part,
    "send": lambda part: 1.0,
}


def product_rate(dtype: torch.dtype, device: str, together: bool) -> float:
    """FLOP/s of products of matrices, forward and backward."""
    weights = [torch.eye(_SIDE, dtype=dtype, device=device) for _ in range(_CHAIN)]
    weights = [weight.requires_grad_() for weight in weights]
    rows = torch.ones(_ROWS, _SIDE, dtype=dtype, device=device, requires_grad=True)

    def multiply():
        result = rows
        for weight in weights:
            result = F.linear(result, weight)
        return torch.autograd.grad(result, [rows, *weights], result.detach())

    flops = 3 * 2 * _ROWS * _SIDE**2 * _CHAIN
    return flops / _processor_seconds(multiply, together)


def attention_rate(dtype: torch.dtype, device: str, together: bool) -> float:
    """FLOP/s of causal attention, forward and backward, of which half of the scores count."""
    parts = [torch.ones(*_HEADS, dtype=dtype, device=device, requires_grad=True) for _ in range(3)]

    def attend():
        result = F.scaled_dot_product_attention(*parts, is_causal=True)
        return torch.autograd.grad(result, parts, result.detach())

    batch, heads, length, depth = _HEADS
    flops = 3.5 * 2 * batch * heads * length**2 * depth
    return flops / _processor_seconds(attend, together)


def copy_rate(device: str, together: bool) -> float:
    """Bytes a second that an elementwise kernel reads and writes."""
    source = torch.ones(_COPIED // 4, device=device)

    def copy():
        for _ in range(_COPIES):
            source.mul_(1.0001)
            torchacc.sync()

    return 2 * _COPIED * _COPIES / _processor_seconds(copy, together)


def operation_seconds(device: str, together: bool) -> float:
    """What a training takes for an operation of the forward pass where nothing is to be computed:
    recording it, its backward pass and its part of the optimizer's step, and launching kernels, all
    of them no longer in the caches, which computation has had meanwhile."""
    with torch.random.fork_rng(devices=[]):
        layers = nn.Sequential(*(_Layer() for _ in range(_TINY_LAYERS)))
    model = nn.Sequential(layers)
    rows = torch.ones(1, _TINY)
    operations = sum(part.operations for part in measure(model, [rows]).parts)
    model, rows = model.to(device), rows.to(device)
    optimizer = torch.optim.AdamW(model.parameters())

    def step():
        model(rows).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    flushed = torch.ones(_COPIED // 4, device=device)

    def flush():
        flushed.mul_(1.0001)
        torchacc.sync()

    return _processor_seconds(step, together, flush) / operations


class _Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = (
            nn.LayerNorm(_TINY),
            *(nn.Linear(_TINY, _TINY) for _ in range(2)),
        )

    def forward(self, x):
        return x + self.down(F.silu(self.up(self.norm(x))))


def gather_costs(device: str) -> tuple[float, float]:
    """Seconds of a step of a ring, and bytes a second that a rank sends, of gathers by all
    ranks."""
    ranks = dist.get_world_size()
    small, large = _collective_seconds(device, "all_gather")
    latency = small / (ranks - 1)
    return latency, _LARGE * (ranks - 1) / ranks / max(large - small, 1e-9)


def collective_rates(device: str) -> dict[str, float]:
    """Bytes a second that a rank sends in collectives of each kind, by all ranks."""
    ranks, rates = dist.get_world_size(), {}
    part = (ranks - 1) / ranks
    for kind, sent in SENT.items():
        small, large = _collective_seconds(device, kind)
        rates[kind] = _LARGE * sent(part) / max(large - small, 1e-9)
    return rates


def _collective_seconds(device: str, kind: str) -> tuple[float, float]:
    """Of a small and of a large one."""
    ranks, rank = dist.get_world_size(), dist.get_rank()

    def run(size):
        whole = torch.ones(size // 4 // ranks * ranks, device=device)
        part = torch.ones(len(whole) // ranks, device=device)

        def once():
            results = []
            for _ in range(_AT_ONCE):
                result = torch.empty_like(whole)
                results.append(result)
                if kind == "all_gather":
                    dist.all_gather_into_tensor(result, part)
                elif kind == "reduce_scatter":
                    dist.reduce_scatter_tensor(torch.empty_like(part), whole)
                elif kind == "all_to_all":
                    dist.all_to_all_single(result, whole)
                elif kind == "all_reduce":
                    dist.all_reduce(whole)
                else:
                    # In a ring, as each rank sends and receives at once.
                    away = dist.P2POp(dist.isend, whole, (rank + 1) % ranks)
                    here = dist.P2POp(dist.irecv, result, (rank - 1) % ranks)
                    for work in dist.batch_isend_irecv([away, here]):
                        work.wait()
            return results

        return _seconds(once) / _AT_ONCE

    return run(_SMALL), run(_LARGE)


def _processor_seconds(
    call: Callable[[], Any], together: bool, before: Callable[[], Any] | None = None
) -> float:
    """The median of several times, of each of this process's threads: not of the clock, which
    goes on while other programs have the processor. `before` each time something else is done."""
    taken = []
    for _ in range(1 + _TIMES):
        if together:
            dist.barrier()
        if before is not None:
            before()
        start = time.process_time()
        kept = call()
        torchacc.sync()
        taken.append((time.process_time() - start) / threads())
        del kept
    # The first run compiled.
    return statistics.median(taken[1:])


def _seconds(call: Callable[[], Any]) -> float:
    """The shortest of several times by the clock, each that of the slowest rank."""
    taken = []
    for _ in range(1 + _TIMES):
        dist.barrier()
        start = time.perf_counter()
        kept = call()
        torchacc.sync()
        taken.append(time.perf_counter() - start)
        del kept
    slowest = torch.tensor(taken[1:], dtype=torch.float64)
    dist.all_reduce(slowest, dist.ReduceOp.MAX)
    return slowest.min().item()


def threads() -> int:
    """Of the kernels of this process."""
    return int(os.environ.get("TORCHACC_NUM_THREADS") or torch.get_num_threads())
