"""An encoder that reads both ways and finds the tokens that were hidden from it."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from models.block import Block


class Bert(nn.Module):
    """Tokens int64 [batch, time], lengths int64 [batch] and targets int64 [batch, time] (-100 where
    nothing was hidden) to the mean loss of the hidden ones."""

    def __init__(self, layers, width, heads, context, vocabulary):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.first_norm = nn.LayerNorm(width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.transform, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary)
        for p in self.parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02)
        self.head.weight = self.token.weight

    def forward(self, tokens, lengths, targets):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        # True where there is text: [batch, 1, 1, time], the same for every head and query.
        mask = (positions < lengths[:, None])[:, None, None, :]
        x = self.first_norm(self.token(tokens) + self.position(positions))
        for block in self.blocks:
            x = block(x, attn_mask=mask)
        logits = self.head(self.norm(F.gelu(self.transform(x))))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
