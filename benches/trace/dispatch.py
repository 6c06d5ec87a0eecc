"""What recording costs: nanoseconds per operation on 4×4 tensors, beside eager on the CPU.

Every operator is called a few hundred times between two cuts, on the device and on the CPU by
turns; medians count. The last column is CPU time of this thread, so other load hardly shows:
`python benches/trace/dispatch.py [--rounds N] [operator...]`
"""

import argparse
import statistics
import time

import torch
import torchacc
from torch.nn import functional as F

CALLS = 500


def operators(device: str) -> dict:
    torch.manual_seed(0)
    x, y, w, b = (torch.rand(4, 4, device=device) for _ in range(4))
    bias = b[0].clone()
    return {
        "add": lambda: x + y,
        "mul": lambda: x * y,
        "mm": lambda: torch.mm(x, y),
        "relu": lambda: torch.relu(x),
        "softmax": lambda: torch.softmax(x, -1),
        "layer_norm": lambda: F.layer_norm(x, (4,), bias, bias),
        "linear": lambda: F.linear(x, w, bias),
        "cat": lambda: torch.cat((x, y)),
        "view": lambda: x.view(2, 8),
    }


def cost(operation) -> float:
    """Nanoseconds of this thread for one call."""
    calls = range(CALLS)
    start = time.thread_time_ns()
    for _ in calls:
        operation()
    return (time.thread_time_ns() - start) / CALLS


def recording(operation) -> float:
    """As `cost`, in a trace of its own."""
    kept = operation()
    nanoseconds = cost(operation)
    torchacc.sync()
    del kept
    return nanoseconds


def chain(length: int):
    """One step of `length` operations on a few tensors that live on."""
    kept = [torch.rand(4, 4, device="acc") for _ in range(8)]

    def step():
        for index in range(length):
            kept[index % 8] = kept[index % 8] * kept[(index + 1) % 8]

    return step


def cut(length: int, rounds: int) -> tuple[float, float]:
    """Microseconds of this thread for the cut of a known trace, nanoseconds for an operation."""
    step, cuts, steps = chain(length), [], []
    for _ in range(rounds):
        start = time.thread_time_ns()
        step()
        middle = time.thread_time_ns()
        torchacc.cut()
        end = time.thread_time_ns()
        torchacc.sync()
        cuts.append((end - middle) / 1e3)
        steps.append((middle - start) / length)
    return statistics.median(cuts[3:]), statistics.median(steps[3:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--rounds", type=int, default=30)
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    ours, theirs = operators("acc"), operators("cpu")
    print(f"{'operator':<12}{'cpu ns':>9}{'acc ns':>9}{'ratio':>8}")
    ratios = []
    for name in ours:
        if args.operators and name not in args.operators:
            continue
        rounds = [(recording(ours[name]), cost(theirs[name])) for _ in range(args.rounds)]
        acc, cpu = (statistics.median(times) for times in zip(*rounds[3:], strict=True))
        ratios.append(acc / cpu)
        print(f"{name:<12}{cpu:>9.0f}{acc:>9.0f}{acc / cpu:>8.2f}")
    print(f"{'median':<12}{'':>18}{statistics.median(ratios):>8.2f}")
    microseconds, nanoseconds = cut(2000, args.rounds)
    print(f"a trace of 2000 products: {nanoseconds:.0f} ns an operation, cut {microseconds:.1f} us")
    metrics = torchacc.metrics()
    counted = {name: metrics[name] for name in ("recorded_ops", "replayed_ops") if name in metrics}
    print(", ".join(f"{name} {value}" for name, value in counted.items()))


if __name__ == "__main__":
    main()
