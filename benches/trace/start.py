"""From a process's start to its first finished training step, programs from disk, beside eager.

`python benches/trace/start.py [ROUNDS]` runs the GPT of benches/peers in processes of their own, by
turns; the first one on acc fills the folder of programs and does not count.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "peers"))

STEPS = 3


def run(device: str) -> None:
    """Prints the seconds to the end of the first step, and those of each step."""
    start = time.perf_counter()
    import torch
    from models import MODELS
    from works import TRAINING, WORKS

    work = WORKS["gpt"]
    vocabulary, shape = work["data"]["vocabulary"], (work["data"]["batch"], work["data"]["time"])
    torch.manual_seed(0)
    model = MODELS["gpt"](**work["model"]).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, **TRAINING)
    first, seconds = None, []
    for _ in range(STEPS):
        before = time.perf_counter()
        tokens, targets = (torch.randint(vocabulary, shape).to(device) for _ in range(2))
        loss = model(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()
        if device == "acc":
            torch.acc.synchronize()
        end = time.perf_counter()
        seconds.append(end - before)
        first = first or end - start
    print(json.dumps([first, *seconds]))


def process(device: str, folder: str) -> list[float]:
    command = [sys.executable, __file__, "--device", device]
    environment = os.environ | {"TORCHACC_CACHE_DIR": folder, "TORCHACC_BACKEND": "cpu"}
    return json.loads(subprocess.check_output(command, env=environment))


def main(rounds: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        process("acc", folder)
        turns = [(process("acc", folder), process("cpu", folder)) for _ in range(rounds)]
    for name, runs in zip(("acc", "eager"), zip(*turns, strict=True), strict=True):
        medians = [statistics.median(times) for times in zip(*runs, strict=True)]
        steps = ", ".join(f"{seconds:.2f}" for seconds in medians[1:])
        print(f"{name}: first step finished after {medians[0]:.2f} s; steps take {steps} s")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--device"]:
        run(sys.argv[2])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
