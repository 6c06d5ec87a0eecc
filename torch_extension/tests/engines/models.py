"""What the engines train, and how a model that is one module to its program is trained."""

import os

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from support import VOCABULARY, token_batch
from torch.distributed.device_mesh import init_device_mesh

TOKENS = VOCABULARY + 3  # no number of ranks divides it
CONTEXT = int(os.environ.get("ENGINES_CONTEXT", "16"))


class Layer(nn.Module):
    """Attention and a hidden layer, whose weights are apart, so that they can be split."""

    def __init__(self, width, heads, norm, bias):
        super().__init__()
        self.depth = width // heads
        self.norm1, self.norm2 = norm(width), norm(width)
        for name in ("query", "key", "value", "out"):
            setattr(self, name, nn.Linear(width, width, bias=bias))
        self.up = nn.Linear(width, 2 * width, bias=bias)
        self.down = nn.Linear(2 * width, width, bias=bias)

    def forward(self, x):
        y = self.norm1(x)
        # How many heads there are here is for whoever has split the weights to know.
        q, k, v = (
            f(y).unflatten(-1, (-1, self.depth)).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))

    def mlp(self, x):
        return self.down(self.hidden(x))


class LlamaLayer(Layer):
    """Rows are normalised by their size, the hidden layer is gated."""

    def __init__(self, width, heads):
        super().__init__(width, heads, nn.RMSNorm, bias=False)
        self.gate = nn.Linear(width, 2 * width, bias=False)

    def hidden(self, x):
        return F.silu(self.gate(x)) * self.up(x)


class GPT2Layer(Layer):
    def __init__(self, width, heads):
        super().__init__(width, heads, nn.LayerNorm, bias=True)

    def hidden(self, x):
        return F.gelu(self.up(x), approximate="tanh")


class Llama(nn.Module):
    """Tokens int64 [batch, time] to logits [batch, time, TOKENS]."""

    layer_class, norm_class = LlamaLayer, nn.RMSNorm

    def __init__(self, layers=2, width=32, heads=4):
        super().__init__()
        self.token = nn.Embedding(TOKENS, width)
        self.layers = nn.ModuleList(self.layer_class(width, heads) for _ in range(layers))
        self.norm, self.head = self.norm_class(width), nn.Linear(width, TOKENS, bias=False)

    def embedding(self, tokens, positions=None):
        return self.token(tokens)

    def forward(self, tokens, positions=None):
        x = self.embedding(tokens, positions)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


class GPT2(Llama):
    """Where a token stands is learned, and told where it is not simply counted."""

    layer_class, norm_class = GPT2Layer, nn.LayerNorm

    def __init__(self, layers=2, width=32, heads=4):
        super().__init__(layers, width, heads)
        self.position = nn.Embedding(CONTEXT, width)

    def embedding(self, tokens, positions=None):
        if positions is None:
            positions = torch.arange(tokens.shape[1], device=tokens.device)
        return self.token(tokens) + self.position(positions)


MODELS = {"llama": Llama, "gpt2": GPT2}


def model_of(build, device):
    """With the same weights in every rank."""
    torch.manual_seed(0)
    model = build()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.05)
    return model.to(device)


def batch_of(step, device, same=False, batch=4):
    """A batch of this rank, or the `same` for all."""
    number = step if same else step * dist.get_world_size() + dist.get_rank()
    return [tensor.to(device) for tensor in token_batch(number, batch, CONTEXT)]


def global_batch_of(step, batch=4):
    """The batches of all ranks, on the CPU."""
    size = dist.get_world_size()
    parts = [token_batch(step * size + rank, batch, CONTEXT) for rank in range(size)]
    return [torch.cat(part) for part in zip(*parts, strict=True)]


def loss_of(logits, targets):
    """In f32, as language models do: a half has not the digits to compare by."""
    return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def line(device):
    return init_device_mesh(device, (dist.get_world_size(),))


def grid(device, *names):
    return init_device_mesh(device, (2, dist.get_world_size() // 2), mesh_dim_names=names)


def adamw(parameters, **options):
    return torch.optim.AdamW(parameters, lr=1e-3, **options)


def trained(model, device, optimizer=None, clip=None, same=False, batch=4):
    """The steps of a model that is one module to the program."""
    optimizer = optimizer or adamw(model.parameters())

    def step(number):
        tokens, targets = batch_of(number, device, same, batch)
        loss = loss_of(model(tokens), targets)
        loss.backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step
