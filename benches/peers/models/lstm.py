"""A recurrent network that reads characters."""

import torch.nn as nn
import torch.nn.functional as F


class Lstm(nn.Module):
    """Tokens and targets int64 [batch, time] to the mean loss."""

    def __init__(self, layers, width, vocabulary):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.memory = nn.LSTM(width, width, num_layers=layers, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens, targets):
        x, _ = self.memory(self.token(tokens))
        return F.cross_entropy(self.head(x).flatten(0, 1).float(), targets.flatten())
