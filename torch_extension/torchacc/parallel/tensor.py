"""Tensor parallel: the layers that each rank has a part of, by PyTorch's `parallelize_module`."""

import fnmatch
import warnings

import torch.nn as nn
from torch.distributed.device_mesh import DeviceMesh

from torchacc.parallel import rules

# Styles by their names in plans, which are Hugging Face's: PyTorch's style and its layouts, the
# dimension of the weight that is split, and whether it must be split evenly, since each rank goes
# on with its part.
STYLES = {
    "colwise": ("ColwiseParallel", {}, 0, True),
    "rowwise": ("RowwiseParallel", {}, 1, True),
    "colwise_rep": ("ColwiseParallel", {"output_layouts": "whole"}, 0, False),
    "colwise_gather_output": ("ColwiseParallel", {"output_layouts": "whole"}, 0, False),
    "rowwise_split_input": ("RowwiseParallel", {"input_layouts": "whole"}, 1, False),
    "embedding_rowwise": ("RowwiseParallel", {"input_layouts": "whole"}, 0, False),
}


def styles(
    model: nn.Module, ranks: int, plan: dict[str, str] | None, ties: list[list[str]]
) -> dict[str, str]:
    """The style of each module that is split, by the patterns of `plan`, or of the model's own."""
    if ranks == 1:
        return {}
    if plan is not None:
        styles = planned(model, plan)
    else:
        styles = models_own(model) if has_own_plan(model) else _by_rules(model, ranks)
    styles = _tied_alike(styles, ties, plan is not None)
    for name, style in styles.items():
        _, _, dim, is_even = STYLES[style]
        module = model.get_submodule(name)
        if not isinstance(getattr(module, "weight", None), nn.Parameter):
            raise ValueError(
                f"config: dist.tp.plan: {name} is a {type(module).__name__}, which has no weight "
                "that could be split: name its layers"
            )
        size = module.weight.shape[dim]
        if is_even and size % ranks != 0:
            raise ValueError(
                f"config: dist.tp.plan: {name} has {size} {('rows', 'columns')[dim]}, which "
                f"{ranks} ranks cannot share evenly"
            )
    return styles


def split(model: nn.Module, mesh: DeviceMesh, styles: dict[str, str]) -> None:
    from torch.distributed.tensor import Replicate, parallel

    for name, style in styles.items():
        kind, layouts, _, _ = STYLES[style]
        layouts = dict.fromkeys(layouts, Replicate())
        module = model.get_submodule(name)
        parallel.parallelize_module(module, mesh, getattr(parallel, kind)(**layouts))


def planned(model: nn.Module, plan: dict[str, str]) -> dict[str, str]:
    """The style of each module that the program's plan names. Raises ValueError for a pattern of no
    module, and for a style that there is not."""
    modules, styles = dict(model.named_modules()), {}
    for pattern, style in plan.items():
        if style not in STYLES:
            raise ValueError(
                f"config: dist.tp.plan: {pattern} is {style!r}: there are {', '.join(STYLES)}"
            )
        matches = fnmatch.filter(modules, pattern)
        if not matches:
            raise ValueError(f"config: dist.tp.plan: the model has no {pattern}")
        styles |= dict.fromkeys(matches, style)
    return styles


def has_own_plan(model: nn.Module) -> bool:
    return bool(_own_plan(model))


def _own_plan(model: nn.Module) -> dict[str, str]:
    return getattr(model, "tp_plan", None) or getattr(model, "_tp_plan", None) or {}


def _by_rules(model: nn.Module, ranks: int) -> dict[str, str]:
    styles = rules.styles(model, ranks)
    if not styles:
        raise ValueError(
            "config: dist.tp.plan is None, the model has none, and no list of layers with linear "
            f"ones that {ranks} ranks could share: say which layers are split, as "
            "{'layers.*.up': 'colwise', 'layers.*.down': 'rowwise'}"
        )
    return styles


def models_own(model: nn.Module) -> dict[str, str]:
    """Likewise, by the model's plan, as those of Hugging Face have one. Modules that the plan
    splits in a way that there is not here stay whole, with those beside them, which may count on
    it."""
    plan = _own_plan(model)
    strange = {pattern for pattern, style in plan.items() if style not in STYLES}
    whole = {pattern.rpartition(".")[0] for pattern in strange}
    if whole:
        warnings.warn(
            f"torchacc.accelerate: {', '.join(sorted(whole))} stay whole on every rank: the "
            f"model's plan splits some of them as {', '.join(sorted({plan[p] for p in strange}))}",
            stacklevel=4,
        )
    modules, styles = dict(model.named_modules()), {}
    for pattern, style in plan.items():
        if not any(pattern.startswith(f"{parent}.") for parent in whole):
            styles |= dict.fromkeys(fnmatch.filter(modules, pattern), style)
    if not styles:
        raise ValueError(
            f"config: dist.tp.plan is None, and the model has nothing of its own plan that could "
            f"be split ({', '.join(plan)}): say which layers are"
        )
    return styles


def _tied_alike(styles: dict[str, str], ties: list[list[str]], is_programs: bool) -> dict[str, str]:
    """Without modules whose weight others have that are not split alike. If they are the program's
    wish, that is a ValueError."""
    made = dict(styles)
    for tie in ties:
        owners = [name.rpartition(".")[0] for name in tie]
        split = [owner for owner in owners if owner in styles]
        dims = {STYLES[styles[owner]][2] if owner in styles else None for owner in owners}
        if not split or len(dims) == 1:
            continue
        if is_programs:
            raise ValueError(
                f"config: dist.tp.plan: {split[0]} is split, and its weight is that of "
                f"{' and '.join(owner for owner in owners if owner != split[0])}, too"
            )
        for owner in split:
            del made[owner]
    return made
