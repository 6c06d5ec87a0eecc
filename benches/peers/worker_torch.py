"""The work on PyTorch: `worker_torch.py acc|eager|compile|xla gpt f32|bf16`."""

import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from worker import GPT, serve


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (
            part.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).split(width, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).reshape(batch, time, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    """Tokens and targets int64 [batch, time] to the mean loss."""

    def __init__(self, layers, width, heads, context, vocabulary):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        for p in self.parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02)
        for block in self.blocks:
            for linear in (block.project, block.down):
                nn.init.normal_(linear.weight, std=0.02 / math.sqrt(2 * layers))
        self.head.weight = self.token.weight

    def forward(self, tokens, targets):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token(tokens) + self.position(positions)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def gpt_step(peer, dtype):
    """A function that runs one training step on fresh data and returns its loss."""
    torch.manual_seed(0)
    device, autocast_device, finish = place(peer)
    names = ("layers", "width", "heads", "context", "vocabulary")
    model = Model(**{name: GPT[name] for name in names}).to(device)
    # torch_xla has no fused kernel; foreach is what its users run.
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=GPT["lr"],
        betas=GPT["betas"],
        weight_decay=GPT["weight_decay"],
        fused=peer != "xla",
    )
    forward = torch.compile(model) if peer == "compile" else model
    data = torch.Generator().manual_seed(1)

    def step():
        shape = (GPT["batch"], GPT["context"] + 1)
        window = torch.randint(GPT["vocabulary"], shape, generator=data)
        tokens, targets = window[:, :-1].to(device), window[:, 1:].to(device)
        with torch.autocast(autocast_device, dtype=torch.bfloat16, enabled=dtype == "bf16"):
            loss = forward(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        finish()
        return loss.item()

    return step


def place(peer):
    """(device, its name for autocast, what waits for the step to end)."""
    if peer == "acc":
        import torchacc

        return "acc", "acc", torchacc.sync
    if peer == "xla":
        import torch_xla

        return torch_xla.device(), "xla", lambda: torch_xla.sync(wait=True)
    return "cpu", "cpu", lambda: None


def versions(peer):
    found = {"torch": torch.__version__}
    if peer == "xla":
        import torch_xla

        found["torch_xla"] = torch_xla.__version__
    return found


if __name__ == "__main__":
    peer, work, dtype = sys.argv[1:]
    serve(versions(peer), {"gpt": lambda: gpt_step(peer, dtype)}[work])
