"""What tests of `torch.compile` share."""

import functools

import torch
import torch.nn as nn
from torch._dynamo.utils import counters

whole = functools.partial(torch.compile, fullgraph=True)


def classifier():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 3))


def gradients(function, *arguments):
    """What `function` gives, and the gradients of its sum for the arguments that require some."""
    result = function(*arguments)
    wanted = [x for x in arguments if isinstance(x, torch.Tensor) and x.requires_grad]
    return result, *torch.autograd.grad(result.sum(), wanted)


def leaf(*sizes, dtype=torch.float64):
    return torch.randn(*sizes, dtype=dtype).requires_grad_()


def graphs():
    return counters["stats"]["unique_graphs"]
