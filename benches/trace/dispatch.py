"""What recording costs: nanoseconds per operation on 4×4 tensors, beside eager on the CPU.

Every operator is called a few hundred times between two cuts, on the device and on the CPU by
turns; medians count. All is CPU time of this thread, so other load hardly shows. With --xla also
on torch_xla, in an environment of its own (made on first use, as for benches/peers):
`python benches/trace/dispatch.py [--rounds N] [--xla] [operator...]`
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch.nn import functional as F

CALLS = 500
# The first rounds warm up.
WARM = 3


class Cpu:
    """Eager PyTorch: there is nothing to cut."""

    name = "cpu"

    def cut(self) -> None:
        """Closes the trace; returns before it has run."""

    def sync(self) -> None:
        """Closes the trace and waits until it has run."""


class Acc:
    name = "acc"

    def __init__(self):
        import torchacc

        torchacc.set_backend("cpu")
        self.cut, self.sync, self.metrics = torchacc.cut, torchacc.sync, torchacc.metrics


class Xla:
    name = "xla"

    def __init__(self):
        import torch_xla

        self.cut = torch_xla.sync
        self.sync = lambda: torch_xla.sync(wait=True)


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


def recording(operation, device) -> float:
    """As `cost`, in a trace of its own."""
    kept = operation()
    nanoseconds = cost(operation)
    device.sync()
    del kept
    return nanoseconds


def chain(device, length: int):
    """One step of `length` operations on a few tensors that live on."""
    kept = [torch.rand(4, 4, device=device.name) for _ in range(8)]

    def step():
        for index in range(length):
            kept[index % 8] = kept[index % 8] * kept[(index + 1) % 8]

    return step


def cut(device, length: int, rounds: int) -> tuple[float, float]:
    """Microseconds of this thread for the cut of a known trace, nanoseconds for an operation."""
    step, cuts, steps = chain(device, length), [], []
    for _ in range(rounds):
        start = time.thread_time_ns()
        step()
        middle = time.thread_time_ns()
        device.cut()
        end = time.thread_time_ns()
        device.sync()
        cuts.append((end - middle) / 1e3)
        steps.append((middle - start) / length)
    return statistics.median(cuts[WARM:]), statistics.median(steps[WARM:])


def measured(devices: list, names: list[str], rounds: int) -> dict:
    """Nanoseconds of every operator on the devices, by turns; {operator: {device: ns}}."""
    on = {device.name: operators(device.name) for device in devices}
    table = {}
    for name in names or on[devices[0].name]:
        turns = range(rounds)
        times = [[recording(on[d.name][name], d) for d in devices] for _ in turns][WARM:]
        medians = map(statistics.median, zip(*times, strict=True))
        table[name] = dict(zip(on, medians, strict=True))
    return table


def beside_xla(names: list[str], rounds: int) -> dict:
    """What `--device xla` prints in the environment of torch_xla."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "peers"))
    from compare import interpreter

    command = [interpreter("xla"), __file__, "--device", "xla", "--rounds", str(rounds), *names]
    environment = os.environ | {"PJRT_DEVICE": "CPU", "PYTHONPATH": ""}
    printed = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE).stdout
    return json.loads(printed.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--xla", action="store_true", help="measure torch_xla too")
    parser.add_argument("--device", choices=("xla",), help="print its figures alone, as JSON")
    args = parser.parse_args()
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    if args.device:
        xla = Xla()
        table = measured([xla], args.operators, args.rounds)
        print(json.dumps({"operators": table, "chain": cut(xla, 2000, args.rounds)}))
        return
    acc = Acc()
    table = measured([Cpu(), acc], args.operators, args.rounds)
    chains = {"acc": cut(acc, 2000, args.rounds)}
    if args.xla:
        theirs = beside_xla(args.operators, args.rounds)
        chains["xla"] = theirs["chain"]
        for name, row in theirs["operators"].items():
            table[name] |= row
    columns = list(next(iter(table.values())))
    print(f"{'operator':<12}" + "".join(f"{name + ' ns':>9}" for name in columns) + "  acc / cpu")
    for name, row in table.items():
        times = "".join(f"{row[column]:>9.0f}" for column in columns)
        print(f"{name:<12}{times}{row['acc'] / row['cpu']:>11.2f}")
    ratio = statistics.median(row["acc"] / row["cpu"] for row in table.values())
    print(f"median ratio {ratio:.2f}; a known trace of 2000 products:")
    for name, (microseconds, nanoseconds) in chains.items():
        print(f"  {name}: {nanoseconds:.0f} ns an operation, cut {microseconds:.1f} us")
    counted = acc.metrics()
    print(f"{counted['replayed_ops']} of acc's {counted['recorded_ops']} operations were known")


if __name__ == "__main__":
    main()
