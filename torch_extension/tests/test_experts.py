"""Mixtures of experts, each with another number of tokens in every step, compile nothing again."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from support import DEVICE, twins

TOKENS, WIDTH = 96, 8
# How many tokens each of four experts gets in each step.
SHARES = [
    (20, 31, 17, 28),
    (25, 24, 11, 36),
    (38, 21, 19, 18),
    (18, 40, 30, 8),
    (60, 5, 21, 10),
    (3, 50, 2, 41),
    (9, 12, 70, 5),
    (24, 24, 24, 24),
]
# The third one gets as many in the first steps as before.
SLOW = [(20, 31, 17, 28), (22, 29, 17, 28), (25, 27, 17, 27), (26, 22, 18, 30), (9, 12, 70, 5)]


class Loop(nn.Module):
    """Asks each expert for its tokens, as most programs do."""

    def __init__(self):
        super().__init__()
        self.experts = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x, tokens):
        y = torch.zeros_like(x)
        for expert, rows in zip(self.experts, tokens, strict=True):
            y.index_add_(0, rows, F.silu(expert(x[rows])))
        return y


class Sorted(nn.Module):
    """Sorts the tokens by expert, splits them, and puts the results together again."""

    def __init__(self):
        super().__init__()
        self.into = nn.Parameter(torch.randn(4, 2 * WIDTH, WIDTH))
        self.out = nn.Parameter(torch.randn(4, WIDTH, WIDTH))

    def forward(self, x, tokens):
        order, sizes = torch.cat(tokens), [len(rows) for rows in tokens]
        gate, up = self._each(x[order], self.into, sizes).chunk(2, dim=-1)
        y = self._each(F.silu(gate) * up, self.out, sizes)
        return torch.zeros_like(x).index_add(0, order, y)

    @staticmethod
    def _each(x, weights, sizes):
        parts = x.split(sizes)
        return torch.cat([F.linear(part, weights[i]) for i, part in enumerate(parts)])


def compiles_of_training(layer, shares):
    """Compiles of each step of a layer of experts, whose results are those of the CPU."""
    torch.manual_seed(0)
    cpu, acc = twins(layer)
    models = [(cpu, "cpu"), (acc, DEVICE)]
    optimizers = [torch.optim.SGD(model.parameters(), 0.01) for model, _ in models]
    compiles = []
    for sizes in shares:
        x = torch.randn(TOKENS, WIDTH)
        tokens = torch.randperm(TOKENS)[: sum(sizes)].split(sizes)
        before, results = torchacc.metrics()["compiles"], []
        for (model, device), optimizer in zip(models, optimizers, strict=True):
            y = model(x.to(device), [rows.to(device) for rows in tokens])
            y.square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            results.append(y.detach())
        torch.testing.assert_close(results[1].cpu(), results[0], rtol=1e-4, atol=1e-5)
        torchacc.sync()
        compiles.append(torchacc.metrics()["compiles"] - before)
    for ours, theirs in zip(acc.parameters(), cpu.parameters(), strict=True):
        torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-4, atol=1e-5)
    return compiles


def test_experts_that_are_asked_one_after_the_other():
    assert compiles_of_training(Loop, SHARES)[3:] == [0] * 5


def test_experts_whose_tokens_are_sorted():
    assert compiles_of_training(Sorted, SHARES)[3:] == [0] * 5


def test_an_expert_that_got_as_many_tokens_as_before():
    assert compiles_of_training(Sorted, SLOW)[3:] == [0] * 2


def test_experts_with_one_token_and_with_none():
    special = SHARES[:3] + [(1, 40, 30, 25), (0, 41, 30, 25), (20, 40, 30, 6)]
    for layer in (Loop, Sorted):
        assert compiles_of_training(layer, special)[-1] == 0
