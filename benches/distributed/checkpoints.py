"""What checkpoints cost two processes with 1 GB of state: weights and AdamW's, in FSDP2's shards.

    make bench-checkpoints                  RANKS=4 processes, GB=4 of state, FOLDER=... on a disk

Printed are, as medians of the slowest process: how long a save holds up the training (the call, and
what the step after it takes longer than others), against copying the same bytes once; the rate at
which the savers write, against that of writing the same bytes to files by themselves; and how long
a restore takes from memory, from disk, and from a disk whose files the system has in memory.
"""

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torchacc
from torch.distributed.fsdp import fully_shard
from torchacc.checkpoint import Checkpointer, files

WIDTH, BLOCK = 1024, 8
WARM, ROUNDS, AFTER = 3, 5, 3  # steps, saves, steps after each
PRODUCTS = 16  # of WIDTH x WIDTH: what a step computes before it updates the weights


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gb", type=float, default=1.0, help="of state, all processes together")
    parser.add_argument("--folder", type=Path, help="on the disk to be measured")
    return parser.parse_args()


def training(gb):
    blocks = max(1, round(gb * 1e9 / (BLOCK * WIDTH * (WIDTH + 1) * 12)))
    torch.manual_seed(0)
    model = nn.Sequential(
        *(nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(BLOCK))) for _ in range(blocks))
    ).to("acc")
    for block in model:
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    factor = torch.eye(WIDTH, device="acc")
    product = torch.randn(WIDTH, WIDTH, device="acc")

    def step():
        # Without what is sent for gradients, whose time varies more than what is measured.
        for _ in range(PRODUCTS):
            product.copy_(product @ factor)
        for parameter in model.parameters():
            parameter.grad = parameter.detach() * 1e-3
        optimizer.step()
        optimizer.zero_grad()
        torchacc.sync()

    return {"model": model, "optimizer": optimizer}, step


def timed(function):
    """Seconds on the slowest rank, all having begun together."""
    dist.barrier()
    began = time.perf_counter()
    function()
    seconds = torch.tensor(time.perf_counter() - began)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return seconds.item()


def copied(slot):
    """A copy of as many bytes as this rank's part, from warm memory to warm memory."""
    source, target = (torch.ones_like(slot.bytes) for _ in range(2))
    return statistics.median(timed(lambda: target.copy_(source)) for _ in range(ROUNDS))


def written(folder, slot):
    """By this rank alone, without checksums and names."""
    path = folder / f"plain-{dist.get_rank()}"
    data = memoryview(slot.bytes.numpy())

    def write():
        with open(path, "wb", buffering=0) as file:
            for begin in range(0, len(data), files.CHUNK):
                file.write(data[begin : begin + files.CHUNK])
            os.fsync(file.fileno())

    seconds = timed(write)
    path.unlink()
    return seconds


def forget(folder):
    """What the system has of the files in memory."""
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main():
    options = arguments()
    torch.set_num_threads(1)
    dist.init_process_group()
    place = [tempfile.mkdtemp(dir=options.folder)]
    dist.broadcast_object_list(place)
    folder = Path(place[0])
    state, step = training(options.gb)
    usual = [timed(step) for _ in range(WARM + 4 * AFTER)][WARM:]
    usual_step = statistics.median(usual)
    noise = max(usual) - min(usual)

    checkpointer = Checkpointer(folder / "checkpoints", keep_last=1)
    saves, later, writes, plain = [], [], [], []
    for number in range(ROUNDS + 2):
        saves.append(timed(lambda: checkpointer.save(state, number, persist=False)))
        later.append(timed(step) - usual_step)
        for _ in range(AFTER - 1):
            step()
    slot = checkpointer._slots[0]
    for number in range(3):
        plain.append(written(folder, slot))
        checkpointer.save(state, number)
        writes.append(timed(checkpointer.wait))
    copy = copied(slot)
    size = torch.tensor(slot.bytes.numel())
    dist.all_reduce(size)

    restores = {}
    restores["memory"] = [timed(lambda: checkpointer.restore(state)) for _ in range(3)]
    checkpointer.close()
    with Checkpointer(folder / "checkpoints", in_memory=False) as other:
        for name in ("disk", "disk, in the system's memory"):
            restores[name] = []
            for _ in range(3):
                if name == "disk":
                    dist.barrier()
                    forget(folder)
                restores[name].append(timed(lambda: other.restore(state)))
    if dist.get_rank() == 0:
        report(size.item(), usual_step, noise, saves, later, copy, plain, writes, restores)
        shutil.rmtree(folder)
    dist.destroy_process_group()


def report(size, step, noise, saves, later, copy, plain, writes, restores):
    median = statistics.median
    # The first two make the memory.
    call, after = median(saves[2:]), median(later[2:])
    print(
        f"{size / 1e9:.2f} GB in {dist.get_world_size()} processes; a step {1e3 * step:.0f} ms, ",
        end="",
    )
    print(f"from the fastest to the slowest {1e3 * noise:.0f} ms")
    print(f"save                {1e3 * call:7.0f} ms, the step after it {1e3 * after:+.0f} ms")
    print(f"  the first two     {', '.join(f'{1e3 * one:.0f} ms' for one in saves[:2])}")
    print(f"  copying once      {1e3 * copy:7.0f} ms: a save takes {call / copy:.2f} times as long")
    rate, disk = size / median(writes) / 1e6, size / median(plain) / 1e6
    print(f"written             {rate:7.0f} MB/s, {rate / disk:.2f} of the disk's {disk:.0f} MB/s")
    memory = median(restores["memory"])
    for name, samples in restores.items():
        share = f": from memory in {memory / median(samples):.3f} of it" * (name != "memory")
        print(f"restored from {name} {1e3 * median(samples):.0f} ms{share}")


if __name__ == "__main__":
    main()
