"""A step of PyTorch's engines for several processes: on acc, and on the CPU's tensors over gloo.

    make bench-distributed                  two processes with one thread each; RANKS=4 more
    make bench-distributed ENGINES="ddp tp" some of torch_extension/tests/engines

Both trainings live in the same processes and take turns, so that what else the machine does
concerns both. For each engine: medians of the time of a step, of what acc took to record it, of its
time in collectives (waiting for other ranks included), and the bytes that they took from a rank.
"""

import argparse
import statistics
import time

import torch
import torch.distributed as dist
import torchacc
from engines import ENGINES, MODELS

USUAL = ["ddp", "fsdp2", "tp", "sequence_parallel", "one_forward_one_backward"]
WARM = 5


def milliseconds(samples):
    return 1e3 * statistics.median(samples)


def timed(step, number, finish):
    """How long the program was busy with the step, and how long it took."""
    dist.barrier()
    began = time.perf_counter()
    loss = step(number)
    recorded = time.perf_counter() - began
    finish()
    loss.item()
    return recorded, time.perf_counter() - began


def sized(model, layers, width):
    """A class, which some engines derive others from; pipelines say themselves how many layers."""

    class Sized(model):
        def __init__(self, layers=layers):
            super().__init__(layers=layers, width=width)

    return Sized


def compare(name, build, steps):
    trainings = {device: ENGINES[name](device, build) for device in ("cpu", "acc")}
    times = {device: [] for device in trainings}
    in_collectives, taken = [], 0
    for number in range(WARM + steps):
        for device, step in trainings.items():
            torchacc.reset_metrics()
            sample = timed(step, number, torchacc.sync if device == "acc" else lambda: None)
            if number < WARM:
                continue
            times[device].append(sample)
            if device == "acc":
                metrics = torchacc.metrics()
                assert metrics["compiles"] == 0
                in_collectives.append(metrics["collective_ns"] / 1e9)
                taken = metrics["collective_bytes"]
    recorded, acc = (milliseconds(part) for part in zip(*times["acc"], strict=True))
    _, cpu = (milliseconds(part) for part in zip(*times["cpu"], strict=True))
    return (
        f"{name:28} {cpu:8.1f} {acc:8.1f} {acc / cpu:6.2f} {recorded:9.1f}"
        f" {milliseconds(in_collectives):12.1f} {taken:12}"
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("engines", nargs="*", default=USUAL)
    parser.add_argument("--model", default="llama", choices=MODELS)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("cpu:gloo,acc:acc")
    build = sized(MODELS[args.model], args.layers, args.width)
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} processes; milliseconds a step")
        print(f"{'':28} {'CPU':>8} {'acc':>8} {'ratio':>6} {'recording':>9}", end="")
        print(f" {'collectives':>12} {'bytes':>12}", flush=True)
    for name in args.engines:
        line = compare(name, build, args.steps)
        if dist.get_rank() == 0:
            print(line, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
