"""How much of a loader's time AsyncLoader hides behind a training step.

    PYTHONPATH=torch_extension python benches/trace/loader.py

A loader that takes 5 ms a batch (it waits, as for a disk) and a step of about 20 ms: the time of a
step with batches that lie on the device, with the loader alone, and with `AsyncLoader`, in turn.
"""

import itertools
import statistics
import time

import torch
import torch.nn as nn
import torchacc

LOADING, STEP, STEPS, ROUNDS = 5e-3, 20e-3, 30, 7


class Slow:
    """Batches that take a while."""

    def __iter__(self):
        for _ in range(STEPS):
            time.sleep(LOADING)
            yield torch.randn(64, 512)


def step_of(width):
    model = nn.Sequential(nn.Linear(512, width), nn.ReLU(), nn.Linear(width, 512)).to("acc")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def step(x):
        model(x).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def seconds(step, batches):
    """Of a step, while the device is kept busy but not far behind."""
    torchacc.sync()
    began = time.perf_counter()
    for batch in batches:
        step(batch)
        torchacc.sync()
    return (time.perf_counter() - began) / STEPS


def wide_enough():
    for width in itertools.count(512, 256):
        step = step_of(width)
        resident = [torch.randn(64, 512, device="acc")] * STEPS
        seconds(step, resident)
        if seconds(step, resident) >= STEP:
            return step, resident


def main():
    step, resident = wide_enough()
    ways = {
        "on the device": lambda: resident,
        "loader": lambda: (batch.to("acc") for batch in Slow()),
        "AsyncLoader": lambda: torchacc.AsyncLoader(Slow(), "acc"),
    }
    times = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, batches in ways.items():
            times[name].append(seconds(step, batches()))
    medians = {name: statistics.median(samples) for name, samples in times.items()}
    for name, median in medians.items():
        print(f"{name:14} {1e3 * median:6.2f} ms a step")
    shown = statistics.median(
        b - a for a, b in zip(times["on the device"], times["AsyncLoader"], strict=True)
    )
    print(f"hidden: {100 * (1 - shown / LOADING):.0f} % of {1e3 * LOADING:.0f} ms")


if __name__ == "__main__":
    main()
