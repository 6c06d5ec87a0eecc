"""ResNet-18: convolutions with batch norm and shortcuts."""

import torch.nn as nn
import torch.nn.functional as F


def convolution(inputs, outputs, size, stride=1):
    return nn.Conv2d(inputs, outputs, size, stride=stride, padding=size // 2, bias=False)


class Basic(nn.Module):
    """Two 3×3 convolutions, [batch, inputs, h, w] to [batch, outputs, h / stride, w / stride]."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1, self.norm1 = convolution(inputs, outputs, 3, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.norm2 = convolution(outputs, outputs, 3), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            shrink = convolution(inputs, outputs, 1, stride)
            self.shortcut = nn.Sequential(shrink, nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


class ResNet(nn.Module):
    """Images f32 [batch, 3, h, w] and labels int64 [batch] to the mean loss."""

    def __init__(self, stages, blocks, classes):
        super().__init__()
        self.conv, self.norm = convolution(3, stages[0], 7, stride=2), nn.BatchNorm2d(stages[0])
        layers, width = [], stages[0]
        for number, outputs in enumerate(stages):
            for block in range(blocks):
                stride = 2 if number > 0 and block == 0 else 1
                layers.append(Basic(width, outputs, stride))
                width = outputs
        self.layers, self.head = nn.Sequential(*layers), nn.Linear(width, classes)

    def forward(self, images, labels):
        x = F.max_pool2d(F.relu(self.norm(self.conv(images))), 3, stride=2, padding=1)
        x = F.adaptive_avg_pool2d(self.layers(x), 1).flatten(1)
        return F.cross_entropy(self.head(x).float(), labels)
