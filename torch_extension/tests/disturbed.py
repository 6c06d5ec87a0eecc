"""A training of several ranks that says what it does, for tests that kill it."""

import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torchacc
from torch.distributed.fsdp import fully_shard
from torchacc.checkpoint import Checkpointer

SAVES = 2  # every so many steps, to disk every second time
PAUSE = 0.03  # seconds of a step, so that kills meet every part of it


def train(folder, logs, steps):
    """Appends to `logs`/rank: "begin" with a step, and for each step its loss, and "saved"."""
    rank = dist.get_rank()
    log = os.open(Path(logs, str(rank)), os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(*words):
        os.write(log, (" ".join(map(str, words)) + "\n").encode())

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 33), nn.Dropout(0.2), nn.Linear(33, 3)).to("acc")
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    data = torch.utils.data.DataLoader(torch.randn(40, 6), batch_size=4, shuffle=True)
    loader = torchacc.AsyncLoader(data, "acc", part=(rank, dist.get_world_size()))
    state = {"model": model, "optimizer": optimizer, "loader": loader}
    batches = iter(())
    with Checkpointer(folder, keep_last=3) as checkpointer:
        begin = checkpointer.restore(state) or 0
        say("begin", begin)
        for step in range(begin, int(steps)):
            # An epoch that was saved at its end has no more when it is gone on with.
            while (batch := next(batches, None)) is None:
                batches = iter(loader)
            loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            say("step", step, loss.item().hex())
            time.sleep(PAUSE)
            if (step + 1) % SAVES == 0:
                checkpointer.save(state, step + 1, persist=(step + 1) % (2 * SAVES) == 0)
                say("saved", step + 1)
    return begin
