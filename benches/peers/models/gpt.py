"""A decoder with learned positions and tied input and output weights."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from models.block import Block


class Gpt(nn.Module):
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
            x = block(x, is_causal=True)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
