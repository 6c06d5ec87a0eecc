"""Losses of a small GPT in 200 steps of bf16 on device `acc` or `cuda`, as JSON."""

import json
import sys

import torch
from support import GPT, token_batch

STEPS = 200


def main():
    device = sys.argv[1]
    if device == "acc":
        # Not beside eager: PyTorch differentiates nothing on a GPU once another device has a name.
        import torchacc  # noqa: F401
    torch.manual_seed(0)
    model = GPT(width=128, heads=2, context=64).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    history = []
    for step in range(STEPS):
        tokens, targets = (t.to(device) for t in token_batch(step, context=64))
        with torch.autocast(device, dtype=torch.bfloat16):
            loss = model(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.detach())
    print(json.dumps([loss.float().item().hex() for loss in history]))


if __name__ == "__main__":
    main()
