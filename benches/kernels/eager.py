"""Compares pointwise kernels on data in the second-level cache with eager, one thread each.

Every operation is timed by the kernel benchmark and in eager one after the other; the best of a
few rounds counts: `python benches/kernels/eager.py [--rounds N] [operation...]`
"""

import argparse
import re
import subprocess
import time

import torch
from torch.nn import functional as F

N = 1 << 17


def operations() -> dict:
    """What the benchmark group `resident` measures, on the same numbers, into kept memory."""
    i = torch.arange(N)
    x = ((i * 7919 + 13) % 1999 - 999).float() / 500
    p, y = x.abs() + 0.01, torch.empty_like(x)
    unary = ("exp", "tanh", "erf", "sigmoid", "expm1", "sin", "cos", "floor")
    positive = ("log", "rsqrt", "sqrt", "log1p")
    binary = ("add", "mul", "div", "maximum", "pow")

    def call(name: str, *args):
        return lambda: getattr(torch, name)(*args, out=y)

    table = {name: call(name, x) for name in unary}
    table |= {name: call(name, p) for name in positive}
    table |= {name: call(name, p, x) for name in binary}
    table["gelu"] = lambda: torch.ops.aten.gelu.out(x, out=y)
    table["gelu_tanh"] = lambda: torch.ops.aten.gelu.out(x, approximate="tanh", out=y)
    table["silu"] = lambda: torch.ops.aten.silu.out(x, out=y)
    assert torch.equal(F.silu(x), table["silu"]())
    return table


def eager(operation) -> float:
    """Best time of one call in microseconds."""
    best = float("inf")
    for _ in range(200):
        start = time.perf_counter()
        operation()
        best = min(best, time.perf_counter() - start)
    return best * 1e6


def kernel(binary: str, name: str) -> float:
    """Best time of one run in microseconds."""
    run = subprocess.run(
        [binary, "--bench", f"resident/{name}$"], capture_output=True, text=True, check=True
    )
    return float(re.search(rf"^{name} +([\d.]+) us", run.stdout, re.M)[1])


def bench_binary() -> str:
    """Builds the benchmark; its path."""
    build = ["cargo", "bench", "--bench", "kernels", "--no-run"]
    run = subprocess.run(build, capture_output=True, text=True, check=True)
    return re.search(r"\(([^()]*kernels-[^()]*)\)", run.stderr)[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operations", nargs="*")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    binary = bench_binary()
    print(f"{'operation':<12}{'eager us':>10}{'kernel us':>11}{'speedup':>9}")
    for name, operation in operations().items():
        if args.operations and name not in args.operations:
            continue
        rounds = [(eager(operation), kernel(binary, name)) for _ in range(args.rounds)]
        theirs, ours = (min(times) for times in zip(*rounds, strict=True))
        print(f"{name:<12}{theirs:>10.1f}{ours:>11.1f}{theirs / ours:>8.2f}x")


if __name__ == "__main__":
    main()
