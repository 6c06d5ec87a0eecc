"""Linear layers with ReLU between them."""

from itertools import pairwise

import torch.nn as nn
import torch.nn.functional as F


class Mlp(nn.Module):
    """Vectors f32 [batch, widths[0]] and labels int64 [batch] to the mean loss."""

    def __init__(self, widths):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))

    def forward(self, x, labels):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return F.cross_entropy(self.layers[-1](x).float(), labels)
