"""ResNet: convolutions with batch norm and shortcuts (He et al. 2015, arXiv 1512.03385)."""

import torch.nn as nn
import torch.nn.functional as F


def convolution(inputs, outputs, size, stride=1):
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)


def shortcut(inputs, outputs, stride):
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(convolution(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


class Basic(nn.Module):
    """Two 3×3 convolutions, [batch, inputs, h, w] to [batch, width, h / stride, w / stride]."""

    GROWTH = 1

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1, self.norm1 = convolution(inputs, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = convolution(width, width, 3), nn.BatchNorm2d(width)
        self.shortcut = shortcut(inputs, width, stride)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class Bottleneck(nn.Module):
    """A 3×3 convolution between two 1×1, to [batch, 4 width, h / stride, w / stride]."""

    GROWTH = 4

    def __init__(self, inputs, width, stride):
        super().__init__()
        outputs = self.GROWTH * width
        self.conv1, self.norm1 = convolution(inputs, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.norm2 = convolution(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.norm3 = convolution(width, outputs, 1), nn.BatchNorm2d(outputs)
        self.shortcut = shortcut(inputs, outputs, stride)

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        y = F.relu(self.norm2(self.conv2(y)))
        return F.relu(self.norm3(self.conv3(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """Images f32 [batch, 3, h, w] and labels int64 [batch] to the mean loss. `blocks` says how many
    each stage has."""

    def __init__(self, stages, blocks, classes, bottleneck=False):
        super().__init__()
        Block = Bottleneck if bottleneck else Basic
        self.conv, self.norm = convolution(3, stages[0], 7, stride=2), nn.BatchNorm2d(stages[0])
        layers, width = [], stages[0]
        for number, outputs in enumerate(stages):
            for block in range(blocks[number]):
                stride = 2 if number > 0 and block == 0 else 1
                layers.append(Block(width, outputs, stride))
                width = Block.GROWTH * outputs
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(width, classes)

    def forward(self, images, labels):
        x = F.max_pool2d(F.relu(self.norm(self.conv(images))), 3, stride=2, padding=1)
        x = F.adaptive_avg_pool2d(self.layers(x), 1).flatten(1)
        return F.cross_entropy(self.head(x).float(), labels)
