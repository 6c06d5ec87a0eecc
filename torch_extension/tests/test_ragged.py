"""Ragged programs, whose parts have other lengths in every step, compile a few programs, whichever
lengths come first."""

import random

import pytest
import torch
import torch.nn.functional as F
import torchacc
from support import DEVICE

ROWS, WIDTH, STEPS = 96, 8, 40


def parts(draw, count, least):
    """So many lengths, none below `least`, that are all rows together."""
    while True:
        ends = sorted(draw.randint(0, ROWS) for _ in range(count - 1))
        lengths = [b - a for a, b in zip([0, *ends], [*ends, ROWS], strict=True)]
        if min(lengths) >= least:
            return lengths


def window(draw):
    start = draw.randint(0, ROWS - 1)
    return start, draw.randint(start + 1, ROWS)


def attention(x, lengths):
    each = (part[None, None] for part in x.split(lengths))
    return torch.cat([F.scaled_dot_product_attention(q, q, q)[0, 0] for q in each])


def means(x, lengths):
    return torch.stack([part.mean(0) for part in x.split(lengths)])


def flat(x, lengths):
    """In the backward pass parts are so many rows, in the forward pass so many elements."""
    return torch.cat([part.reshape(-1) for part in x.split(lengths)])


def mean(x, at):
    return x[at[0] : at[1]].mean(0)


# What is drawn, the program, and how many of 40 steps compile at the most.
PROGRAMS = {
    "attention": (lambda draw: parts(draw, 6, 2), attention, 4),
    "means": (lambda draw: parts(draw, 4, 1), means, 16),
    "flat": (lambda draw: parts(draw, 4, 2), flat, 4),
    "mean": (window, mean, 24),
}


def compiles(name, seed):
    """In 40 steps, each with the weights of the CPU in f64."""
    sizes_of, program, _ = PROGRAMS[name]
    draw = random.Random(seed)
    torch.manual_seed(seed)
    ours = (torch.randn(WIDTH, WIDTH) / 3).to(DEVICE).requires_grad_()
    theirs = ours.detach().cpu().double().requires_grad_()
    torchacc.sync()
    before = torchacc.metrics()["compiles"]
    for _ in range(STEPS):
        x, sizes = torch.randn(ROWS, WIDTH), sizes_of(draw)
        for weight, rows in ((ours, x.to(DEVICE)), (theirs, x.double())):
            y = program(rows @ weight, sizes)
            # Each seed is a program of its own, which has learnt nothing yet.
            for _ in range(seed):
                y = y.sin()
            y.square().mean().backward()
            with torch.no_grad():
                weight -= 0.1 * weight.grad
            weight.grad = None
        torch.testing.assert_close(ours.cpu().double(), theirs, rtol=1e-4, atol=1e-5)
        torchacc.sync()
    return torchacc.metrics()["compiles"] - before


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", PROGRAMS)
def test_compiles_are_few(name, seed):
    assert compiles(name, seed) <= PROGRAMS[name][2]
