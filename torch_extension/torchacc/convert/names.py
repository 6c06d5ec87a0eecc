"""How Megatron calls, fuses and splits the weights that Hugging Face's Llama, Mixtral and GPT-2
have: by rules, a line for each.

Megatron's names are those of its `GPTModel` (megatron.core) over Transformer Engine's layers. Names
of its own layers, and of experts in one grouped product, are understood, too.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import torch

from torchacc.convert.stored import ConversionError

HEAD = "lm_head.weight"
EMBEDDINGS = ("model.embed_tokens.weight", "transformer.wte.weight", "wte.weight")


class Rule(NamedTuple):
    """A tensor of Megatron's and those that it is made of. Ranks have of it

    - "whole": all of it;
    - "rows", "columns": their share;
    - "gated": their share of the rows of two, one after the other;
    - "qkv": some groups of query heads, each followed by its key and its value head;
    - "vocabulary": rows, of which there are some more, so that the ranks have the same number.
    """

    megatron: str  # {} is a layer's number
    parts: tuple[str, ...]  # likewise; then an expert's
    split: str
    is_transposed: bool = False  # by Hugging Face: GPT-2's layers are [in, out]


def _both(megatron: str, *parts: str, split: str, bias: str | None = None, **more) -> list[Rule]:
    """Of a weight, and of a bias that is split likewise unless `bias` says how."""
    weights = Rule(f"{megatron}weight", tuple(f"{one}weight" for one in parts), split, **more)
    biases = tuple(f"{one}bias" for one in parts)
    return [weights, Rule(f"{megatron}bias", biases, bias or split)]


_AT, _HF, _GPT2 = "decoder.layers.{}.", "model.layers.{}.", "transformer.h.{}."
_MLP, _EXPERT = f"{_AT}mlp.", f"{_HF}block_sparse_moe.experts.{{}}."
_QKV = tuple(f"{_HF}self_attn.{one}_proj." for one in "qkv")
_COMMON = [
    Rule("embedding.word_embeddings.weight", ("model.embed_tokens.weight",), "vocabulary"),
    *_both(f"{_AT}self_attention.linear_qkv.layer_norm_", f"{_HF}input_layernorm.", split="whole"),
    *_both(f"{_AT}self_attention.linear_qkv.", *_QKV, split="qkv"),
    Rule(f"{_AT}self_attention.q_layernorm.weight", (f"{_HF}self_attn.q_norm.weight",), "whole"),
    Rule(f"{_AT}self_attention.k_layernorm.weight", (f"{_HF}self_attn.k_norm.weight",), "whole"),
    *_both(
        f"{_AT}self_attention.linear_proj.",
        f"{_HF}self_attn.o_proj.",
        split="columns",
        bias="whole",
    ),
]
_END = [
    Rule("decoder.final_layernorm.weight", ("model.norm.weight",), "whole"),
    Rule("output_layer.weight", (HEAD,), "vocabulary"),
]
FAMILIES: dict[str, list[Rule]] = {
    "llama": [
        *_COMMON,
        Rule(
            f"{_MLP}linear_fc1.layer_norm_weight",
            (f"{_HF}post_attention_layernorm.weight",),
            "whole",
        ),
        *_both(f"{_MLP}linear_fc1.", f"{_HF}mlp.gate_proj.", f"{_HF}mlp.up_proj.", split="gated"),
        *_both(f"{_MLP}linear_fc2.", f"{_HF}mlp.down_proj.", split="columns", bias="whole"),
        *_END,
    ],
    "mixtral": [
        *_COMMON,
        Rule(f"{_AT}pre_mlp_layernorm.weight", (f"{_HF}post_attention_layernorm.weight",), "whole"),
        Rule(f"{_MLP}router.weight", (f"{_HF}block_sparse_moe.gate.weight",), "whole"),
        Rule(
            f"{_MLP}experts.local_experts.{{}}.linear_fc1.weight",
            (f"{_EXPERT}w1.weight", f"{_EXPERT}w3.weight"),
            "gated",
        ),
        Rule(
            f"{_MLP}experts.local_experts.{{}}.linear_fc2.weight",
            (f"{_EXPERT}w2.weight",),
            "columns",
        ),
        *_END,
    ],
    "gpt2": [
        Rule("embedding.word_embeddings.weight", ("transformer.wte.weight",), "vocabulary"),
        Rule("embedding.position_embeddings.weight", ("transformer.wpe.weight",), "whole"),
        *_both(f"{_AT}self_attention.linear_qkv.layer_norm_", f"{_GPT2}ln_1.", split="whole"),
        *_both(
            f"{_AT}self_attention.linear_qkv.",
            f"{_GPT2}attn.c_attn.",
            split="qkv",
            is_transposed=True,
        ),
        *_both(
            f"{_AT}self_attention.linear_proj.",
            f"{_GPT2}attn.c_proj.",
            split="columns",
            bias="whole",
            is_transposed=True,
        ),
        *_both(f"{_MLP}linear_fc1.layer_norm_", f"{_GPT2}ln_2.", split="whole"),
        *_both(f"{_MLP}linear_fc1.", f"{_GPT2}mlp.c_fc.", split="rows", is_transposed=True),
        *_both(
            f"{_MLP}linear_fc2.",
            f"{_GPT2}mlp.c_proj.",
            split="columns",
            bias="whole",
            is_transposed=True,
        ),
        *_both("decoder.final_layernorm.", "transformer.ln_f.", split="whole"),
        Rule("output_layer.weight", (HEAD,), "vocabulary"),
    ],
}
# Buffers that a model creates by itself.
MADE = re.compile(r".*(\.attn\.(masked_)?bias|\.rotary_emb\.inv_freq)$")


@dataclass(frozen=True)
class Placed:
    """A rule for one layer and expert."""

    rule: Rule
    layer: int | None
    expert: int | None

    @property
    def parts(self) -> list[str]:
        return [part.format(*self._numbers(self.layer)) for part in self.rule.parts]

    def megatron(self, layer: int | None) -> str:
        """Its name where the layer has that number."""
        return self.rule.megatron.format(*self._numbers(layer))

    def _numbers(self, layer: int | None) -> list[int]:
        return [number for number in (layer, self.expert) if number is not None]


def placed(family: str, layers: int, experts: int) -> Iterator[Placed]:
    """The rules of a model, in the order of its layers."""
    rules = FAMILIES[family]
    first = next(at for at, rule in enumerate(rules) if "{}" in rule.megatron)
    last = next(at for at, rule in enumerate(rules) if rule.megatron.startswith("decoder.final"))
    yield from (Placed(rule, None, None) for rule in rules[:first])
    for layer in range(layers):
        for rule in rules[first:last]:
            if rule.megatron.count("{}") < 2:
                if "{}" in rule.megatron:
                    yield Placed(rule, layer, None)
                else:
                    yield Placed(rule, None, None)
            else:
                yield from (Placed(rule, layer, expert) for expert in range(experts))
    yield from (Placed(rule, None, None) for rule in rules[last:])


def usual(name: str) -> str:
    """GPT-2's name with the prefix that files on the Hub lack."""
    return f"transformer.{name}" if re.match(r"(wte|wpe|h\.\d+|ln_f)\.", name) else name


def megatron_usual(name: str, has_experts: bool) -> str:
    """The name that rules have for one of Megatron's."""
    name = re.sub(
        r"\.experts\.linear_fc(\d)\.weight(\d+)$",
        r".experts.local_experts.\2.linear_fc\1.weight",
        name,
    )
    name = name.replace(".input_layernorm.", ".self_attention.linear_qkv.layer_norm_")
    if not has_experts:
        name = name.replace(".pre_mlp_layernorm.", ".mlp.linear_fc1.layer_norm_")
    return name


def counts(known: Iterable[str]) -> tuple[int, int]:
    """The numbers of layers and of experts in names."""
    layers = [int(one[1]) for name in known if (one := re.search(r"\.(?:layers|h)\.(\d+)\.", name))]
    experts = [
        int(one[1]) for name in known if (one := re.search(r"\.(?:local_)?experts\.(\d+)\.", name))
    ]
    return max(layers, default=-1) + 1, max(experts, default=-1) + 1


def family_of(known: Iterable[str]) -> str | None:
    """The family that has rules for all names, if there is one."""
    ours = {usual(name) for name in known if not MADE.match(usual(name))}
    for family in FAMILIES:
        parts = {part for one in placed(family, *counts(ours)) for part in one.parts}
        if ours <= parts:
            return family
    return None


def unknown(known: Iterable[str]) -> list[str]:
    """Names that no rule has, of the family that has the most of them."""
    ours = {usual(name) for name in known if not MADE.match(usual(name))}
    rest = []
    for family in FAMILIES:
        parts = {part for one in placed(family, *counts(ours)) for part in one.parts}
        rest.append(sorted(ours - parts))
    return min(rest, key=len)


def fuse(
    rule: Rule, parts: list[torch.Tensor], heads: int | None, tp: int, multiple: int
) -> list[torch.Tensor]:
    """The ranks' shares of the tensor that `parts` are. A vocabulary gets a `multiple` of rows.

    Raises ConversionError for sizes that `tp` ranks cannot share.
    """
    if rule.is_transposed:
        parts = [part.t() for part in parts]
    if rule.split == "gated":
        shares = [_shared(part, tp, 0, rule.parts[0]) for part in parts]
        return [torch.cat(each) for each in zip(*shares, strict=True)]
    (whole,) = parts if len(parts) == 1 else (None,)
    if rule.split == "whole":
        return [whole] * tp
    if rule.split == "qkv":
        q, k, v = parts if whole is None else whole.chunk(3)
        groups = _groups(rule, len(q), len(k), heads)
        _divides(groups, tp, f"{rule.parts[0]}: groups of heads")
        grouped = [one.reshape(groups, len(one) // groups, *one.shape[1:]) for one in (q, k, v)]
        whole = torch.cat(grouped, 1).flatten(0, 1)
    if rule.split == "vocabulary":
        # As in Megatron.
        whole = torch.cat([whole, whole[-1:].expand(-len(whole) % multiple, *whole.shape[1:])])
    return _shared(whole, tp, 1 if rule.split == "columns" else 0, rule.parts[0])


def part(
    rule: Rule, shares: list[torch.Tensor], heads: int | None, width: int, rows: int | None
) -> list[torch.Tensor]:
    """The reverse of `fuse`. `width` is how many elements all query heads have together."""
    if rule.split == "whole":
        made = [shares[0]]
    elif rule.split == "columns":
        made = [torch.cat(shares, 1)]
    elif rule.split == "gated":
        halves = [share.chunk(2) for share in shares]
        made = [torch.cat([half[at] for half in halves]) for at in range(2)]
    else:
        made = [torch.cat(shares)[: rows if rule.split == "vocabulary" else None]]
    if rule.split == "qkv":
        if not heads or width % heads:
            raise ConversionError(_heads_wanted(rule, heads))
        size = width // heads
        groups, rest = divmod(len(made[0]) - width, 2 * size)
        if rest or groups < 1 or heads % groups:
            raise ConversionError(_heads_wanted(rule, heads))
        whole = made[0].reshape(groups, -1, *made[0].shape[1:])
        made = [one.flatten(0, 1) for one in whole.split([width // groups, size, size], 1)]
        if len(rule.parts) == 1:
            made = [torch.cat(made)]
    return [one.t() if rule.is_transposed else one for one in made]


def _groups(rule: Rule, queries: int, keys: int, heads: int | None) -> int:
    """How many key heads there are."""
    if not heads or queries % heads or keys % (queries // heads):
        raise ConversionError(_heads_wanted(rule, heads))
    return keys // (queries // heads)


def _heads_wanted(rule: Rule, heads: int | None) -> str:
    why = f"are not those of {heads} heads" if heads else "belong to how many heads?"
    return f"{rule.parts[0]}: its rows {why} Give heads, or a config.json that says it"


def _shared(whole: torch.Tensor, tp: int, dim: int, name: str) -> list[torch.Tensor]:
    _divides(whole.shape[dim], tp, f"{name}: {'columns' if dim else 'rows'}")
    return [*whole.chunk(tp, dim)]


def _divides(size: int, tp: int, what: str) -> None:
    if size % tp:
        raise ConversionError(f"{what} are {size}, which {tp} ranks (tp) cannot share evenly")
