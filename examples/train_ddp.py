"""Trains the GPT of train_gpt.py in several processes, each on its part of every batch.

    make train-ddp                                                     two processes on acc
    torchrun --standalone --nproc-per-node 2 examples/train_ddp.py     the same
    ... examples/train_ddp.py --device cpu                             on eager PyTorch, over gloo

It is PyTorch's DistributedDataParallel as for any device: `init_process_group` finds the backend
of acc, gradients are averaged bucket by bucket during the backward pass, and the loop reads losses
every LOG_EVERY steps.
"""

import argparse
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from train_gpt import GPT, LOG_EVERY, SEED, Text


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", default="acc")
    parser.add_argument("--steps", type=int, default=40)
    add_sizes(parser)
    return parser.parse_args()


def add_sizes(parser):
    parser.add_argument("--batch", type=int, default=8, help="of all processes together")
    parser.add_argument("--context", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-3)


def main():
    args = arguments()
    dist.init_process_group("gloo" if args.device == "cpu" else "acc")
    rank, size = dist.get_rank(), dist.get_world_size()
    if args.batch % size:
        raise SystemExit(f"--batch {args.batch} cannot be split between {size} processes")
    torch.manual_seed(SEED)
    model = GPT(args.layers, args.width, args.heads, args.context, dropout=0.0).to(args.device)
    model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    text = Text(args.context, args.batch)
    pending, began = [], time.perf_counter()
    for step in range(1, args.steps + 1):
        batch = text.batch_at(text.train, seed=step)
        inputs, targets = (part.chunk(size)[rank].to(args.device) for part in batch)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        pending.append(loss.detach())
        if step % LOG_EVERY and step != args.steps:
            continue
        # Of the whole batch: each process has seen a part of it.
        losses = torch.stack(pending)
        dist.all_reduce(losses, dist.ReduceOp.SUM)
        losses = (losses / size).tolist()
        milliseconds = 1000 * (time.perf_counter() - began) / len(pending)
        if rank == 0:
            print(f"step {step}: loss {losses[-1]:.4f}, {milliseconds:.0f} ms a step", flush=True)
        pending, began = [], time.perf_counter()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
