"""How long a job of two processes takes from the death of one to its next finished step.

    make bench-checkpoints

Rank 1 of an FSDP2 training ends itself by SIGKILL in the middle of the first life; torchrun starts
both again, which restore from the snapshot in memory and take their programs from disk. Printed
are the seconds of each part, on rank 0.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BEGAN = time.time()

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn as nn  # noqa: E402
import torchacc  # noqa: E402, F401
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torchacc.checkpoint import Checkpointer  # noqa: E402

STEPS, FATAL, WIDTH = 30, 20, 512


def training():
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(8))).to("acc")
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    inputs = torch.randn(16, WIDTH, device="acc")

    def step():
        loss = model(inputs).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return {"model": model, "optimizer": optimizer}, step


def main():
    folder, marks = Path(sys.argv[1]), [("imports", time.time())]
    death = folder / "death"
    dist.init_process_group()
    marks.append(("process group", time.time()))
    state, step = training()
    marks.append(("model", time.time()))
    with Checkpointer(folder / "checkpoints") as checkpointer:
        first = checkpointer.restore(state) or 0
        marks.append(("restore", time.time()))
        for number in range(first, STEPS):
            step()
            if number == first:
                marks.append(("first step", time.time()))
            checkpointer.save(state, number + 1, persist=False)
            if number == FATAL and first == 0 and dist.get_rank() == 1:
                death.write_text(str(time.time()))
                os.kill(os.getpid(), signal.SIGKILL)
    if dist.get_rank() == 0:
        report(float(death.read_text()), first, marks)
    dist.destroy_process_group()


def report(death, first, marks):
    parts = [("torchrun and the interpreter", BEGAN), *marks]
    print(f"from the death of a rank to the end of step {first + 1}: {marks[-1][1] - death:.1f} s")
    for name, at in parts:
        print(f"  {name:30} {at - death:5.2f} s")
        death = at


def launch(folder):
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += ["--max-restarts=1", __file__, folder]
    run = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main()
    else:
        with tempfile.TemporaryDirectory() as place:
            launch(place)
