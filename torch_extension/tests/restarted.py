"""A training that goes on from its last checkpoint when torchrun starts it again, for tests.

`torchrun restarted.py FOLDER STEP`: the last rank is killed in that step, in its first life.
"""

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torchacc
from engines.models import GPT2, adamw, batch_of, line, loss_of, model_of
from engines.sharded import sharded
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

STEPS = 6


def main(folder, last):
    torch.set_num_threads(1)
    dist.init_process_group()
    is_first_life = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    is_victim = dist.get_rank() == dist.get_world_size() - 1 and is_first_life
    model = sharded(model_of(GPT2, "acc"), line("acc"))
    optimizer = adamw(model.parameters())
    latest, begin = Path(folder, "latest"), 0
    if latest.exists():
        begin = int(latest.read_text())
        state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
        dcp.load(state, checkpoint_id=f"{folder}/{begin}")
        parts = {"model_state_dict": state["model"], "optim_state_dict": state["optimizer"]}
        set_state_dict(model, optimizer, **parts)
    for step in range(begin, STEPS):
        loss = loss_of(model(batch_of(step, "acc")[0]), batch_of(step, "acc")[1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step == int(last) and is_victim:
            torchacc.sync()
            os.kill(os.getpid(), signal.SIGKILL)
        state = dict(zip(("model", "optimizer"), get_state_dict(model, optimizer), strict=True))
        dcp.save(state, checkpoint_id=f"{folder}/{step + 1}")
        if dist.get_rank() == 0:
            # As a whole, or not at all.
            Path(folder, "new").write_text(str(step + 1))
            os.replace(Path(folder, "new"), latest)
    dist.all_reduce(loss := loss.detach())
    if dist.get_rank() == 0:
        print(f"began with step {begin}, loss {loss.item():.9f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
