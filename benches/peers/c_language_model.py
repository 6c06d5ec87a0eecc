"""examples/c/language_model.c beside the same model in eager PyTorch: time of a training step.

python benches/peers/c_language_model.py PROGRAM TEXT [--width 64] [--steps 200] [--rounds 3]
"""

import argparse
import os
import re
import statistics
import subprocess
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, TIME, HEADS, BYTES = 8, 32, 4, 256


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.embed, self.place = nn.Embedding(BYTES, width), nn.Embedding(TIME, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.maps = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.head = nn.Linear(width, BYTES, bias=False)

    def forward(self, tokens, places):
        x = self.embed(tokens) + self.place(places)
        inner = self.norms[0](x)
        q, k, v = (m(inner).view(BATCH, TIME, HEADS, -1).transpose(1, 2) for m in self.maps[:3])
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.maps[3](y.transpose(1, 2).reshape(x.shape))
        return self.head(x + self.down(F.gelu(self.up(self.norms[1](x)))))


def in_pytorch(text, width, steps):
    torch.manual_seed(0)
    model = Model(width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, fused=True)
    data = torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
    places = torch.arange(TIME).repeat(BATCH, 1)
    start = 0.0
    for step in range(steps + 10):
        if step == 10:
            start = time.perf_counter()
        at = torch.randint(len(data) - TIME - 1, (BATCH, 1)) + torch.arange(TIME + 1)
        window = data[at]
        scores = model(window[:, :-1], places)
        loss = F.cross_entropy(scores.view(-1, BYTES), window[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return 1e3 * (time.perf_counter() - start) / steps


def in_c(program, path, width, steps):
    command = [program, path, str(steps + 10), str(width)]
    environment = os.environ | {"TORCHACC_BACKEND": "cpu"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return float(re.search(r"([\d.]+) ms per step", done.stdout)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("text")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    text = Path(args.text).read_bytes()
    ours, theirs = [], []
    for _ in range(args.rounds):
        theirs.append(in_pytorch(text, args.width, args.steps))
        ours.append(in_c(args.program, args.text, args.width, args.steps))
    ours, theirs = statistics.median(ours), statistics.median(theirs)
    print(
        f"width {args.width}: C {ours:.3f} ms, eager PyTorch {theirs:.3f} ms, {theirs / ours:.2f}x"
    )


if __name__ == "__main__":
    main()
