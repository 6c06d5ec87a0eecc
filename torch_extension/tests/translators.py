"""Encoders with decoders in pipelines, for tests: as every rank sees them."""

import copy

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from torchacc.config import Config, DistConfig, PPConfig


class EncoderLayer(nn.Module):
    """The first one makes a bias of attention, which others are given with its results."""

    def __init__(self, is_first):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)
        if is_first:
            self.distance = nn.Embedding(32, 2)

    def forward(self, x, bias=None):
        if bias is None:
            at = torch.arange(x.shape[1], device=x.device)
            bias = self.distance((at[:, None] - at).abs()).permute(2, 0, 1)[None]
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, bias)
        return x + self.out(y.transpose(1, 2).flatten(2)), bias


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        self.qkv, self.query = nn.Linear(16, 48), nn.Linear(16, 16)
        self.keys, self.out = nn.Linear(16, 32), nn.Linear(16, 16)

    def forward(self, x, encoded):
        q, k, v = self.qkv(self.norms[0](x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        q = self.query(self.norms[1](x)).unflatten(-1, (2, 8)).transpose(1, 2)
        k, v = self.keys(encoded).unflatten(-1, (2, 2, 8)).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    """With a norm at its end."""

    def __init__(self, token, layers):
        super().__init__()
        self.token = token
        self.layers = nn.ModuleList(EncoderLayer(at == 0) for at in range(layers))
        self.norm = nn.LayerNorm(16)

    def forward(self, tokens):
        x, bias = self.token(tokens), None
        for layer in self.layers:
            results = layer(x, bias=bias)
            x, bias = results[0], results[1]
        return self.norm(x)


class Decoder(nn.Module):
    def __init__(self, token, layers):
        super().__init__()
        self.token, self.position = token, nn.Embedding(32, 16)
        self.layers = nn.ModuleList(DecoderLayer() for _ in range(layers))
        self.begin = nn.LayerNorm(16)

    def forward(self, tokens, encoded):
        x = self.begin(self.token(tokens) + self.position.weight[: tokens.shape[1]])
        for layer in self.layers:
            x = layer(x, encoded)
        return x


class Translator(nn.Module):
    """An encoder and a decoder with one embedding, which is the weight of the logits, too."""

    def __init__(self, encoders, decoders):
        super().__init__()
        self.token = nn.Embedding(40, 16)
        self.encoder = Encoder(self.token, encoders)
        self.decoder = Decoder(self.token, decoders)
        self.head = nn.Linear(16, 40, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens, targets):
        logits = self.head(self.decoder(targets[:, :-1], self.encoder(tokens)))
        return F.cross_entropy(logits.flatten(0, 1), targets[:, 1:].flatten())


class Plain(nn.Module):
    """Likewise, of modules that lie beside each other."""

    def __init__(self, encoders, decoders):
        super().__init__()
        self.token, self.position = nn.Embedding(40, 16), nn.Embedding(32, 16)
        self.encoders = nn.ModuleList(EncoderLayer(at == 0) for at in range(encoders))
        self.norm = nn.LayerNorm(16)
        self.decoders = nn.ModuleList(DecoderLayer() for _ in range(decoders))
        self.head = nn.Linear(16, 40)

    def forward(self, tokens, targets):
        x, bias = self.token(tokens), None
        for layer in self.encoders:
            x, bias = layer(x, bias)
        encoded = self.norm(x)
        x = self.token(targets[:, :-1]) + self.position.weight[: targets.shape[1] - 1]
        for layer in self.decoders:
            x = layer(x, encoded=encoded)
        return F.cross_entropy(self.head(x).flatten(0, 1), targets[:, 1:].flatten())


def translated(*kinds):
    """Of encoders with decoders: a class, a schedule, numbers of layers, and what there is besides
    (gc, fsdp or dp)."""
    torchacc.set_recompile_limit(10_000)  # of all of them by the same lines
    return {kind: translations(*kind.split(":")) for kind in kinds}


def translations(name, schedule, encoders, decoders, more=""):
    """Losses with those of one process, what is not the same after the steps, compiles of each."""
    world, rank = dist.get_world_size(), dist.get_rank()
    copies = 2 if more in ("fsdp", "dp") else 1
    torch.manual_seed(0)
    model = globals()[name](int(encoders), int(decoders))
    whole = copy.deepcopy(model)
    config = Config(dist=DistConfig(pp=PPConfig(world // copies, 4, schedule=schedule)))
    config.dist.fsdp.size = 2 if more == "fsdp" else 1
    config.memory.gc = more == "gc"
    # Gradients of biases of keys are noise, which Adam would make steps of.
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (whole, model)]
    model, optimizers[1] = torchacc.accelerate(model, config=config, optimizer=optimizers[1])
    made = {"losses": [], "compiles": []}
    for number, (rows, others) in enumerate([(12, 9), (10, 7), (12, 9), (12, 9), (10, 7)]):
        generator = torch.Generator().manual_seed(number)
        batch = [torch.randint(40, (8, length), generator=generator) for length in (rows, others)]
        expected = whole(*batch)
        expected.backward()
        nn.utils.clip_grad_norm_(whole.parameters(), 0.5)
        before = torchacc.metrics()["compiles"]
        parts = [one.chunk(copies)[rank * copies // world].to("acc") for one in batch]
        loss = model.forward_backward(*parts)
        model.clip_grad_norm_(0.5)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        torchacc.sync()
        made["compiles"].append(torchacc.metrics()["compiles"] - before)
        made["losses"].append([loss.item(), expected.item()])
    state, expected = model.state_dict(), whole.state_dict()
    state = {
        name: one.full_tensor() if hasattr(one, "full_tensor") else one
        for name, one in state.items()
    }
    made["differ"] = [
        name
        for name, one in state.items()
        if not torch.allclose(one.cpu(), expected[name], rtol=1e-3, atol=1e-5)
    ]
    made["names"], made["all"] = [*state], [*expected]
    return made


class Reversed(Plain):
    """Calls its lists of layers in another order than they are registered in."""

    def __init__(self):
        super().__init__(2, 2)
        self.encoders, self.decoders = self.decoders, self.encoders

    def forward(self, tokens):
        x, bias = self.token(tokens), None
        for layer in self.decoders:
            x, bias = layer(x, bias)
        for layer in self.encoders:
            x = layer(x, x)
        return x.mean()
