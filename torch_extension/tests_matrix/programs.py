"""What all programs of the matrix are made of."""

from collections.abc import Callable
from typing import NamedTuple

import torch


class Program(NamedTuple):
    """`make(place)` makes what does one training step and returns its loss."""

    family: str
    make: Callable


def training(place, model, loss_of, rate=1e-3) -> Callable:
    """A step of AdamW on a loss that `loss_of(model)` computes of the same data each time."""
    model = place(model).train()
    optimizer = torch.optim.AdamW(model.parameters(), rate, fused=True)

    def step():
        optimizer.zero_grad()
        loss = loss_of(model)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step
