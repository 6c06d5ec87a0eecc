"""An encoder over the patches of an image."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from models.block import Block


class Vit(nn.Module):
    """Images f32 [batch, 3, image, image] and labels int64 [batch] to the mean loss."""

    def __init__(self, layers, width, heads, image, patch, classes):
        super().__init__()
        self.patches = nn.Conv2d(3, width, kernel_size=patch, stride=patch)
        self.summary = nn.Parameter(torch.zeros(1, 1, width))
        self.position = nn.Parameter(torch.empty(1, (image // patch) ** 2 + 1, width))
        nn.init.normal_(self.position, std=0.02)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, images, labels):
        x = self.patches(images).flatten(2).transpose(1, 2)
        summary = self.summary.expand(x.shape[0], -1, -1).to(x.dtype)
        x = torch.cat([summary, x], dim=1) + self.position
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)[:, 0]).float(), labels)
