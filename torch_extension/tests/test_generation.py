"""Loops that read a value at every step, and whose tensors grow: generation with a cache of keys
and values."""

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from support import DEVICE, twins

WIDTH, HEADS, LAYERS, VOCABULARY = 64, 4, 4, 97


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, cache):
        qkv = self.qkv(self.norm1(x)).view(1, -1, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        is_prompt = not cache
        if cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        cache[:] = k, v
        y = F.scaled_dot_product_attention(q, k, v, is_causal=is_prompt)
        x = x + self.project(y.transpose(1, 2).reshape(1, -1, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(256, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    @torch.no_grad()
    def generate(self, tokens, count, end=None):
        """After each token the host asks whether it is the last; `end` is called then."""
        caches = [[] for _ in self.layers]
        new = tokens
        for _ in range(count):
            start = tokens.shape[1] - new.shape[1]
            positions = torch.arange(start, tokens.shape[1], device=tokens.device)
            x = self.token(new) + self.position(positions)
            for layer, cache in zip(self.layers, caches, strict=True):
                x = layer(x, cache)
            new = self.head(x[:, -1]).argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, new], 1)
            if (new < 0).all():
                break
            if end is not None:
                end()
        return tokens


@pytest.fixture(scope="module")
def decoders():
    return twins(Decoder)


def prompt(length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (1, length), generator=generator)


def generated(model, length, count):
    """The tokens on acc, and what was counted meanwhile. Each step waits for the background work of
    the one before it."""
    tokens = prompt(length).to(DEVICE)
    torchacc.sync()
    torchacc.reset_metrics()
    tokens = model.generate(tokens, count, torchacc.sync)
    return tokens.cpu(), torchacc.metrics()


def test_a_cache_that_grows_is_compared_and_compiles_nothing(decoders):
    cpu, acc = decoders
    steps = 60
    tokens, counters = generated(acc, 7, steps)
    assert torch.equal(tokens, cpu.generate(prompt(7), steps))
    # The prompt, the first token after it, and two lengths of which the others follow; three more
    # show how lengths go on.
    assert counters["compiles"] <= 4
    assert counters["cache_misses"] <= 8
    assert counters["read_cuts"] == steps
    assert counters["replayed_ops"] >= 0.8 * counters["recorded_ops"]
    # Another prompt: its length and the next are the second ones of their kind.
    tokens, counters = generated(acc, 12, steps)
    assert torch.equal(tokens, cpu.generate(prompt(12), steps))
    assert counters["compiles"] <= 2
    assert counters["replayed_ops"] >= 0.8 * counters["recorded_ops"]


def test_lengths_that_jump_are_computed_all_the_same(decoders):
    cpu, acc = decoders
    for length in (9, 10, 11, 12, 30, 31, 32, 33, 20, 21, 40, 39, 38, 37, 36):
        expected = cpu.generate(prompt(length, seed=length), 3)
        assert torch.equal(acc.generate(prompt(length, seed=length).to(DEVICE), 3).cpu(), expected)
