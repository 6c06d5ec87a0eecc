"""A training that loses a node and gets it back, for tests: torchrun starts it again each time.

`torchrun resized.py FOLDER`, on two nodes, whose name is in NODE. In the step LOST the node "b" is
gone, with its ranks and its agent. The ranks that are left go on to the step BACK, and wait there
for the node to come back. In the step KILLED a rank is gone, and its node starts it again. Each
rank appends what it does to FOLDER/log/NODE-LOCAL_RANK, as JSON.
"""

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torchacc
from torch.utils.data import DataLoader
from torchacc.checkpoint import Checkpointer

SAMPLES, GLOBAL_BATCH, EPOCHS = 53, 12, 3
LOST, BACK, KILLED = 7, 10, 13
NODES, RANKS_OF_NODE = 2, 2


class Data(torch.utils.data.Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(1)
        self.inputs = torch.randn(SAMPLES, 6, generator=generator)
        self.targets = self.inputs.square().sum(1, keepdim=True)

    def __len__(self):
        return SAMPLES

    def __getitem__(self, at):
        return {"at": at, "inputs": self.inputs[at], "targets": self.targets[at]}


def made(micro_batch, part=None):
    """Sampler, model, loader and optimizer, as each of the ranks makes them."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh())
    model.append(nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    sampler = torchacc.ElasticSampler(Data(), GLOBAL_BATCH, micro_batch, seed=3, part=part)
    loader = DataLoader(Data(), batch_sampler=sampler)
    return sampler, *torchacc.accelerate(model, loader, optimizer=optimizer)


def stepped(model, optimizer, micro_batches):
    """A step: this rank's samples that count, and its part of the loss."""
    seen, losses = [], []
    for batch, weight in micro_batches:
        loss = nn.functional.mse_loss(model(batch["inputs"]), batch["targets"]) * weight
        loss.backward()
        losses.append(loss.detach())
        seen += [batch["at"]] if weight else []
    optimizer.step()
    optimizer.zero_grad()
    return sum([at.tolist() for at in seen], []), sum(losses).item()


def kill(*processes):
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def main(folder):
    torch.set_num_threads(1)
    sampler, model, loader, optimizer = made(micro_batch=2)
    world, node = dist.get_world_size(), os.environ["NODE"]
    log = Path(folder, "log", f"{node}-{os.environ['LOCAL_RANK']}")

    def say(**words):
        with log.open("a") as file:
            file.write(json.dumps({"world": world, **words}) + "\n")

    state = {"model": model, "optimizer": optimizer, "sampler": sampler}
    with Checkpointer(Path(folder, "checkpoints")) as checkpointer:
        begin = checkpointer.restore(state) or 0
        say(begin=begin)
        for epoch in range(sampler.epoch, EPOCHS):
            for micro_batches in sampler.steps(loader):
                step = sampler.step
                # Nodes may be slow to start: those that come first have begun without them.
                if world < NODES * RANKS_OF_NODE and not 0 < step < BACK:
                    say(waits=step)
                    while True:
                        time.sleep(60)
                if step == LOST and begin == 0 and node == "b":
                    kill(os.getppid(), os.getpid())
                if step == KILLED and begin == BACK:
                    # All ranks have their snapshots of the step before, or it would be made again.
                    checkpointer.wait()
                    dist.barrier()
                    if log.name == "b-1":
                        kill(os.getpid())
                seen, loss = stepped(model, optimizer, micro_batches)
                say(step=step, epoch=epoch, seen=seen, loss=loss)
                if sampler.step % 2 == 0:
                    checkpointer.save(state, sampler.step, persist=False)
        torchacc.sync()
        say(compiles=torchacc.metrics()["compiles"], disk_hits=torchacc.metrics()["disk_hits"])
        if dist.get_rank() == 0:
            weights = {name: one.cpu() for name, one in model.module.state_dict().items()}
            torch.save(weights, Path(folder, "weights.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
