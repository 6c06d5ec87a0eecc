"""Small operations whose results are read at once, as in a notebook: of sizes that were seen before
and of new ones, on acc and on the eager CPU in turns. Microseconds of an operation with its read,
medians; one thread."""

import os
import random
import statistics
import time

os.environ |= {"TORCHACC_NUM_THREADS": "1", "TORCHACC_CACHE_DIR": "off"}

import torch
import torchacc  # noqa: F401

OPERATIONS = [
    lambda x, y: x + y,
    lambda x, y: x * 2.5,
    lambda x, y: x.sum(),
    lambda x, y: x.relu(),
    lambda x, y: x @ y.T,
    lambda x, y: x.exp(),
    lambda x, y: torch.cat([x, y]),
    lambda x, y: x.softmax(-1),
    lambda x, y: x > 0,
]
ROUNDS, WARM = 120, 20


def microseconds(device, sizes):
    x, y = (torch.randn(sizes).to(device) for _ in range(2))
    x.cpu(), y.cpu()
    start = time.perf_counter()
    for operation in OPERATIONS:
        operation(x, y).flatten()[0].item()
    return (time.perf_counter() - start) / len(OPERATIONS) * 1e6


def main():
    torch.set_num_threads(1)
    random.seed(0)
    for name, new in (("sizes seen before", False), ("new sizes", True)):
        times = {"acc": [], "cpu": []}
        for _ in range(ROUNDS):
            sizes = [random.randint(2, 40), random.randint(2, 40)] if new else [8, 8]
            for device, list_ in times.items():
                list_.append(microseconds(device, sizes))
        acc, cpu = (statistics.median(list_[WARM:]) for list_ in times.values())
        print(f"{name}: acc {acc:.1f}, eager {cpu:.1f}, {acc / cpu:.1f} times")


main()
