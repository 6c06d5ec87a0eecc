"""A training that goes on from its last checkpoint when torchrun starts it again, for tests.

`torchrun restarted.py FOLDER STEP`: the last rank is killed in that step, in its first life.
"""

import os
import signal
import sys

import torch
import torch.distributed as dist
import torchacc
from engines.models import GPT2, adamw, batch_of, line, loss_of, model_of
from engines.sharded import sharded
from torchacc.checkpoint import Checkpointer

STEPS = 6


def main(folder, last):
    torch.set_num_threads(1)
    dist.init_process_group()
    is_first_life = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    is_victim = dist.get_rank() == dist.get_world_size() - 1 and is_first_life
    model = sharded(model_of(GPT2, "acc"), line("acc"))
    state = {"model": model, "optimizer": (optimizer := adamw(model.parameters()))}
    with Checkpointer(folder) as checkpointer:
        begin = checkpointer.restore(state) or 0
        for step in range(begin, STEPS):
            loss = loss_of(model(batch_of(step, "acc")[0]), batch_of(step, "acc")[1])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if step == int(last) and is_victim:
                torchacc.sync()
                os.kill(os.getpid(), signal.SIGKILL)
            checkpointer.save(state, step + 1)
    dist.all_reduce(loss := loss.detach())
    if dist.get_rank() == 0:
        print(f"began with step {begin}, loss {loss.item():.9f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
