"""A decoder with RMS norm, rotary positions, gated network and shared key-value heads."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, eps=1e-5)


def rotary(time, width, base=10000.0):
    """Cosines and sines f32 [time, width] of the angles by which positions turn."""
    frequencies = base ** (-torch.arange(0, width, 2).float() / width)
    angles = torch.arange(time).float()[:, None] * frequencies
    angles = torch.cat([angles, angles], dim=-1)
    return angles.cos(), angles.sin()


def turned(x, cosines, sines):
    """x [..., time, width] with the pair (i, i + width / 2) turned by its position's angle."""
    first, second = x.chunk(2, dim=-1)
    return (x * cosines + torch.cat([-second, first], dim=-1) * sines).to(x.dtype)


class Layer(nn.Module):
    """Over x [batch, time, width]; `groups` key-value heads serve `heads` query heads."""

    def __init__(self, width, heads, groups):
        super().__init__()
        self.heads, self.groups, self.head_width = heads, groups, width // heads
        hidden = 8 * width // 3
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, groups * self.head_width, bias=False)
        self.value = nn.Linear(width, groups * self.head_width, bias=False)
        self.project = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cosines, sines):
        batch, time, width = x.shape

        def split(projected, heads):
            return projected.view(batch, time, heads, self.head_width).transpose(1, 2)

        y = self.norm1(x)
        q = turned(split(self.query(y), self.heads), cosines, sines)
        k = turned(split(self.key(y), self.groups), cosines, sines)
        v = split(self.value(y), self.groups)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.project(y.transpose(1, 2).reshape(batch, time, width))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Tokens and targets int64 [batch, time] to the mean loss."""

    def __init__(self, layers, width, heads, groups, context, vocabulary):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, heads, groups) for _ in range(layers))
        self.norm, self.head = RmsNorm(width), nn.Linear(width, vocabulary, bias=False)
        for p in self.parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02)
        cosines, sines = rotary(context, width // heads)
        self.register_buffer("cosines", cosines)
        self.register_buffer("sines", sines)

    def forward(self, tokens, targets):
        time = tokens.shape[1]
        x = self.token(tokens)
        for layer in self.layers:
            x = layer(x, self.cosines[:time], self.sines[:time])
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())
