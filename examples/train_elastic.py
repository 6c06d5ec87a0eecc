"""Trains the GPT of train_gpt.py in a number of processes that may change from start to start.

    make train-elastic                                                            both of these
    torchrun --standalone --nproc-per-node 4 examples/train_elastic.py --stop-at 12
    torchrun --standalone --nproc-per-node 2 examples/train_elastic.py

The second run goes on where the first one was stopped, from its snapshot in memory, with the same
global batches in the same order: two processes have twice as many micro-batches each. On nodes
that come and go torchrun does so by itself (`--nnodes 1:4 --max-restarts 100`).
"""

import argparse
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
import torchacc
from torch.utils.data import DataLoader, Dataset
from torchacc.checkpoint import Checkpointer
from train_ddp import add_sizes
from train_gpt import GPT, SEED, Text


class Windows(Dataset):
    """The first ones of the text, one after the other."""

    def __init__(self, text: torch.Tensor, context: int, count: int):
        self.text, self.context, self.count = text, context, count

    def __len__(self):
        return self.count

    def __getitem__(self, at):
        window = self.text[at * self.context : (at + 1) * self.context + 1].long()
        return window[:-1], window[1:]


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--samples", type=int, default=100, help="of an epoch")
    parser.add_argument("--micro-batch", type=int, default=1, help="of a process, at most")
    parser.add_argument("--stop-at", type=int, help="the step after which this run is stopped")
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "train-elastic")
    add_sizes(parser)
    return parser.parse_args()


def main():
    args = arguments()
    torch.manual_seed(SEED)
    model = GPT(args.layers, args.width, args.heads, args.context, dropout=0.0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    windows = Windows(Text(args.context, args.batch).train, args.context, args.samples)
    sampler = torchacc.ElasticSampler(windows, args.batch, args.micro_batch, seed=SEED)
    loader = DataLoader(windows, batch_sampler=sampler)
    model, loader, optimizer = torchacc.accelerate(model, loader, optimizer=optimizer)
    state = {"model": model, "optimizer": optimizer, "sampler": sampler}
    with Checkpointer(args.out, keep_last=1) as checkpointer:
        say(sampler, f"begin with step {checkpointer.restore(state) or 0}")
        for epoch in range(sampler.epoch, args.epochs):
            for micro_batches in sampler.steps(loader):
                losses = []
                for (inputs, targets), weight in micro_batches:
                    loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten()) * weight
                    loss.backward()
                    losses.append(loss.detach())
                optimizer.step()
                optimizer.zero_grad()
                # In memory; to disk, too, at the end of an epoch.
                checkpointer.save(state, sampler.step, persist=sampler.position == 0)
                if sampler.step % 4 == 0:
                    loss = sum(losses)
                    if sampler.ranks > 1:
                        dist.all_reduce(loss)
                    loss = loss.item() / sampler.ranks
                    say(sampler, f"epoch {epoch}, step {sampler.step}: loss {loss:.4f}")
                if sampler.step == args.stop_at:
                    raise SystemExit(0)  # leaves the snapshot where it is
    if dist.is_initialized():
        dist.destroy_process_group()


def say(sampler, text):
    if sampler.rank == 0:
        print(f"{sampler.ranks} processes: {text}", flush=True)


if __name__ == "__main__":
    main()
