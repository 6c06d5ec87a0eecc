"""A training whose parallel layout changes from one life to the next, for tests: as every rank sees
it."""

import json
import os
import signal
from pathlib import Path

import torch
import torch.distributed as dist
import torchacc
from accelerated import config
from engines import MODELS
from engines.models import CONTEXT, TOKENS, loss_of
from torch.utils.data import DataLoader, TensorDataset
from torchacc.checkpoint import Checkpointer

SAMPLES, GLOBAL_BATCH, MICRO_BATCH, SAVES = 60, 8, 4, 2


def made(layout):
    """Sampler, model, loader and optimizer; `layout` as of `accelerated.config`."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(TOKENS, (SAMPLES, CONTEXT + 1), generator=generator)
    data = TensorDataset(tokens[:, :-1], tokens[:, 1:])
    model = MODELS["gpt2"](layers=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    layout = config(**layout)
    sampler = torchacc.ElasticSampler(data, GLOBAL_BATCH, MICRO_BATCH, seed=3, config=layout)
    loader = DataLoader(data, batch_sampler=sampler)
    return sampler, *torchacc.accelerate(model, loader, layout, optimizer)


def stepped(model, optimizer, micro_batches):
    """A step: this rank's part of the loss."""
    losses = []
    for (tokens, targets), weight in micro_batches:

        def weighted(logits, targets, weight=weight):
            return loss_of(logits, targets) * weight

        if hasattr(model, "forward_backward"):
            loss = model.forward_backward(tokens, output_fn=weighted, target=targets)
        else:
            loss = weighted(model(tokens), targets)
            loss.backward()
        losses.append(loss.detach())
    optimizer.step()
    optimizer.zero_grad()
    return sum(losses).item()


def train(folder, layout, lost):
    """An epoch. After the step `lost` the last rank is killed; what each does is in `folder`."""
    sampler, model, loader, optimizer = made(json.loads(layout))
    rank, world = dist.get_rank(), dist.get_world_size()
    state = {"model": model, "optimizer": optimizer, "sampler": sampler}
    with Checkpointer(Path(folder, "checkpoints")) as checkpointer:
        steps = {"begin": checkpointer.restore(state) or 0}
        for micro_batches in sampler.steps(loader):
            if sampler.step == int(lost) and rank == world - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            loss = torch.tensor(stepped(model, optimizer, micro_batches))
            dist.all_reduce(loss)
            steps[sampler.step] = loss.item() / world
            Path(folder, f"{rank}.json").write_text(json.dumps(steps))
            if sampler.step % SAVES == 0:
                checkpointer.save(state, sampler.step, persist=False)
