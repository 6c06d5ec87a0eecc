"""Which layers tensor parallelism splits in a model that has no plan of its own."""

import copy

import torch
import torch.nn as nn

from torchacc.parallel import modules

# Sizes of the copy that is tried out.
_WIDTH, _HIDDEN = 6, 8


def styles(model: nn.Module, ranks: int) -> dict[str, str]:
    """The styles of linear layers in the model's repeated blocks: by name, as plans call them.

    Where a module only goes from its width to a hidden one and back, element by element in between
    (a feed-forward network, gated or not), ranks share the hidden elements: one sum at the end. It
    is tried out on a small copy. Of other layers each rank has some of the rows, and results are
    put together, which is right whatever is done with them.
    """
    names = {id(module): name for name, module in model.named_modules()}
    known: dict[tuple, bool] = {}
    made: dict[str, str] = {}
    for block in modules.repeated(model):
        for module in block.modules():
            linear = {n: child for n, child in module.named_children() if type(child) is nn.Linear}
            shapes = tuple((n, tuple(child.weight.shape)) for n, child in linear.items())
            key = (type(module), shapes)
            split = {}
            if (pair := _feed_forward(linear)) and pair[1].in_features % ranks == 0:
                if key not in known:
                    known[key] = _is_elementwise(module, *pair)
                if known[key]:
                    split = {id(up): "colwise" for up in pair[0]} | {id(pair[1]): "rowwise"}
            for child in linear.values():
                style = split.get(id(child), "colwise_gather_output")
                if style != "colwise_gather_output" or child.out_features % ranks == 0:
                    made[names[id(child)]] = style
    return made


def _feed_forward(linear: dict[str, nn.Linear]) -> tuple[list[nn.Linear], nn.Linear] | None:
    """Layers to a hidden width, and the one that goes back from it."""
    for down in linear.values():
        ups = [one for one in linear.values() if one is not down]
        there = (down.out_features, down.in_features)
        if ups and all((up.in_features, up.out_features) == there for up in ups):
            return ups, down
    return None


def _is_elementwise(module: nn.Module, ups: list[nn.Linear], down: nn.Linear) -> bool:
    """Whether the results of halves of the hidden elements add up to that of all, for a copy with
    small layers. What cannot be called with a tensor alone is none of these."""

    def small(layer: nn.Linear, is_up: bool) -> nn.Linear:
        sizes = (_WIDTH, _HIDDEN) if is_up else (_HIDDEN, _WIDTH)
        return nn.Linear(*sizes, bias=layer.bias is not None, dtype=torch.float64)

    def part(keep: slice, is_first: bool) -> torch.Tensor:
        layers = {id(layer): copy.deepcopy(one) for layer, one in zip(order, smalls, strict=True)}
        for up in ups:
            one = layers[id(up)]
            one.weight, one.bias = _cut(one.weight[keep]), _cut(one.bias, keep)
        one = layers[id(down)]
        one.weight = _cut(one.weight[:, keep])
        if not is_first:
            one.bias = _cut(None if one.bias is None else one.bias * 0)
        return copy.deepcopy(module, layers).eval()(x)

    order = [*ups, down]
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        smalls = [small(layer, layer is not down) for layer in order]
        x = torch.randn(2, 3, _WIDTH, dtype=torch.float64)
        try:
            whole = part(slice(None), True)
            half = _HIDDEN // 2
            halves = part(slice(half), True) + part(slice(half, None), False)
            return bool(torch.allclose(whole, halves) and not torch.allclose(whole, whole * 0))
        except Exception:  # anything that a module of the program raises
            return False


def _cut(weight: torch.Tensor | None, keep: slice = slice(None)) -> nn.Parameter | None:
    return None if weight is None else nn.Parameter(weight[keep].clone())
