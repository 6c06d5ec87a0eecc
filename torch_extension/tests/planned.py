"""Models and clusters that strategies are made for."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torchacc.auto import Cluster, transformer
from torchacc.config import Config

GPT2_PLAN = {
    "layers.*.query": "colwise",
    "layers.*.key": "colwise",
    "layers.*.value": "colwise",
    "layers.*.out": "rowwise",
    "layers.*.up": "colwise",
    "layers.*.down": "rowwise",
}


class Layer(nn.Module):
    def __init__(self, hidden, heads, kv_heads, ffn, gated, bias):
        super().__init__()
        self.heads, size = heads, hidden // heads * kv_heads
        norm = nn.LayerNorm if bias else nn.RMSNorm
        self.before, self.between = norm(hidden), norm(hidden)
        self.query, self.out = (nn.Linear(hidden, hidden, bias) for _ in range(2))
        self.key, self.value = (nn.Linear(hidden, size, bias) for _ in range(2))
        self.up, self.down = nn.Linear(hidden, ffn, bias), nn.Linear(ffn, hidden, bias)
        self.gate = nn.Linear(hidden, ffn, bias) if gated else None

    def attend(self, x):
        batch, rows, hidden = x.shape
        parts = [
            one(x).view(batch, rows, -1, hidden // self.heads).transpose(1, 2)
            for one in (self.query, self.key, self.value)
        ]
        attended = F.scaled_dot_product_attention(*parts, is_causal=True, enable_gqa=True)
        return self.out(attended.transpose(1, 2).reshape(x.shape))

    def forward(self, x):
        x = x + self.attend(self.before(x))
        y = self.between(x)
        wide = F.gelu(self.up(y)) if self.gate is None else F.silu(self.gate(y)) * self.up(y)
        return x + self.down(wide)


class GPT(nn.Module):
    """As `transformer` has it."""

    def __init__(self, layers, hidden, heads, vocab, sequence, **options):
        super().__init__()
        bias, positions = options.get("bias", True), options.get("positions", 0)
        ffn, kv_heads = options.get("ffn", 4 * hidden), options.get("kv_heads", heads)
        self.tokens = nn.Embedding(vocab, hidden)
        self.places = nn.Embedding(positions, hidden) if positions else None
        self.layers = nn.ModuleList(
            Layer(hidden, heads, kv_heads, ffn, options.get("gated", False), bias)
            for _ in range(layers)
        )
        self.norm = nn.LayerNorm(hidden) if bias else nn.RMSNorm(hidden)
        self.head = nn.Linear(hidden, vocab, bias=False)
        if options.get("tied", True):
            self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids)
        if self.places is not None:
            x = x + self.places(torch.arange(ids.shape[1], device=ids.device))
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


LLAMA = {"gated": True, "bias": False, "tied": False}
SHAPES = {
    "GPT-2": ((12, 768, 12, 50257, 1024), {"positions": 1024}, 124_439_808),
    "GPT-2 XL": ((48, 1600, 25, 50257, 1024), {"positions": 1024}, 1_557_611_200),
    "MPT-7B": ((32, 4096, 32, 50368, 2048), {"positions": 2048}, 6_658_859_008),
    "Llama-2 7B": ((32, 4096, 32, 32000, 4096), LLAMA | {"ffn": 11008}, 6_738_415_616),
    "Llama-3.1 8B": (
        (32, 4096, 32, 128256, 8192),
        LLAMA | {"ffn": 14336, "kv_heads": 8},
        8_030_261_248,
    ),
    "BLOOM": ((70, 14336, 112, 250880, 2048), {}, 176_247_271_424 - 2 * 14336),
}


def small_gpt():
    return transformer(8, 512, 8, 1024, 256, positions=256)


def machines(nodes=1, devices_per_node=4, **changes):
    return Cluster.load("a100", nodes=nodes, devices_per_node=devices_per_node, **changes)


def configured(mode="auto", **sections):
    return Config.from_dict({"compute": {"bf16": True}, "strategy": {"mode": mode}} | sections)
