"""Host memory over many steps of random lengths, with evaluations and reads in between.

`python benches/trace/memory.py [STEPS]` prints the process's resident memory and what was compiled,
now and then; 100,000 steps take about ten minutes.
"""

import random
import sys
from pathlib import Path

import torch
import torchacc
from torch import nn
from torch.nn import functional as F

VOCABULARY, BATCH, LONGEST = 32, 2, 300
LINES = 10


def resident() -> float:
    """Megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 2**20


def main(steps: int) -> None:
    torchacc.set_backend("cpu")
    torch.manual_seed(0)
    lengths = random.Random(0)
    model = nn.Sequential(
        nn.Embedding(VOCABULARY, 16),
        nn.Linear(16, 32),
        nn.GELU(),
        nn.Dropout(0.1),
        nn.Linear(32, VOCABULARY),
    ).to("acc")
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000)
    for step in range(steps + 1):
        length = lengths.randint(2, LONGEST)
        x = torch.randint(VOCABULARY, (BATCH, length)).to("acc")
        y = torch.randint(VOCABULARY, (BATCH * length,)).to("acc")
        loss = F.cross_entropy(model(x).view(-1, VOCABULARY), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 50 == 0:
            model.eval()
            model(x).sum().item()
            model.train()
        if step % 10 == 0:
            loss.item()
        if step == 1000 or step % max(steps // LINES, 1) == 0:
            counts = torchacc.metrics()
            compiled, carried = counts["compiles"], counts["carried_over"]
            print(f"{step}: {resident():.1f} MB, {compiled} compiled, {carried} instantiated")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
