"""Sequence (context) parallel: each rank has a part of every sequence, in the model's layers.

The model runs as it is written: what comes before its layers and after them sees whole sequences,
so that positions, masks and losses are what they were. Rows are divided where the first layer
begins and gathered where the last one ends. Between, only attention looks at other rows: the calls
of `F.scaled_dot_product_attention` exchange heads for rows (Ulysses, arXiv 2309.14509), send keys
and values round (ring attention, arXiv 2310.01889, by PyTorch's context parallel), or do both
(arXiv 2405.07719). That layers do nothing else with their rows is checked, once, by a pass forward
with whole sequences.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import DeviceMesh
from torch.utils._pytree import tree_leaves, tree_map

from torchacc.config import SPConfig
from torchacc.parallel.modules import first_tensor, unchanged, with_first, wrap

# Dimensions of activations [batch, rows, ...], and of attention's operands [batch, heads, rows,
# depth].
ROWS, HEADS, ATTENTION_ROWS = 1, 1, 2


class Region:
    """The layers of a model between which sequences are divided among the ranks of `mesh`.

    `mesh` is that of sp, of one dimension. Rank `ring * heads + head` has part `head` of the rows
    of ring place `ring`, which are chunk `ring` and, from the end, the same one: with a causal mask
    all have as much to do.
    """

    def __init__(self, mesh: DeviceMesh, config: SPConfig):
        self.ranks, self.rank = mesh.size(), mesh.get_local_rank()
        self.heads = {"ulysses": self.ranks, "ring": 1, "2d": config.ulysses_size}[config.mode]
        self.rings = self.ranks // self.heads
        self.group = self.heads_group = self.ring_group = mesh.get_group()
        if self.rings > 1 and self.heads > 1:
            places = mesh._unflatten(0, (self.rings, self.heads), ("sp_ring", "sp_heads"))
            self.ring_group, self.heads_group = (
                places[name].get_group() for name in ("sp_ring", "sp_heads")
            )
        # Whole sequences are padded to a multiple of this.
        self.multiple = self.ranks * (2 if self.rings > 1 else 1)
        self.is_off = False
        self.is_checked = False
        # Whether rows are divided: a layer has run, and the last one has not.
        self.is_inside = False
        self.names: list[str] = []

    def put_on(self, layers: Iterable[nn.Module]) -> None:
        """Attention in these layers sees all rows. Before what computes them again is put on."""
        for layer in layers:
            wrap(layer, functools.partial(_attending, self, type(layer).__name__, layer.forward))

    def divide(self, layers: dict[str, nn.Module]) -> None:
        """These layers, which follow each other, get a part of the rows. After that."""
        self.names = [*layers]
        for at, layer in enumerate(layers.values()):
            ends = (at == 0, at == len(layers) - 1)
            wrap(layer, functools.partial(_divided, self, ends, layer.forward))

    def check(self, model: nn.Module) -> None:
        """The first call of `model` compares the results with those of whole sequences."""
        wrap(model, functools.partial(_checked, self, model, model.forward))

    def skipped(self, name: str) -> ValueError:
        return ValueError(
            f"accelerate: dist.sp: the model skipped {name}, and rows are divided from "
            f"{self.names[0]} to {self.names[-1]}: let it call both in every pass (without "
            "dropping layers), or use dist.fsdp instead of dist.sp"
        )

    def rows_of(self, hidden: torch.Tensor, is_whole: bool) -> int:
        """How many rows there are of which these activations are a part, or all."""
        if is_whole:
            self.rows = hidden.shape[ROWS]
        elif torch._C._current_graph_task_id() < 0:
            hidden.rows_of_all = self.rows
        # Recomputed in the backward pass, perhaps after sequences of another length.
        elif not hasattr(hidden, "rows_of_all"):
            raise NotImplementedError(
                "accelerate: dist.sp: a layer is computed again from a copy of its activations: "
                "use memory.gc, or torch.utils.checkpoint with use_reentrant=False"
            )
        else:
            return hidden.rows_of_all
        return self.rows

    def part(self, whole: torch.Tensor, dim: int) -> torch.Tensor:
        """This rank's rows of all."""
        if missing := -whole.shape[dim] % self.multiple:
            whole = F.pad(whole, [0, 0] * (whole.dim() - 1 - dim) + [0, missing])
        ring, head = divmod(self.rank, self.heads)
        if self.rings > 1:
            chunks = whole.chunk(2 * self.rings, dim)
            whole = torch.cat([chunks[ring], chunks[-1 - ring]], dim)
        return whole.chunk(self.heads, dim)[head]

    def whole(self, part: torch.Tensor, dim: int, rows: int) -> torch.Tensor:
        """All `rows`, of the parts of all ranks."""
        part = part.contiguous()
        gathered = part.new_empty(self.ranks, *part.shape)
        dist.all_gather_into_tensor(gathered, part[None], group=self.group)
        parts = list(gathered.unbind())
        if self.rings > 1:
            places = [
                torch.cat(parts[ring * self.heads : (ring + 1) * self.heads], dim).chunk(2, dim)
                for ring in range(self.rings)
            ]
            parts = [first for first, _ in places] + [last for _, last in reversed(places)]
        return torch.cat(parts, dim).narrow(dim, 0, rows)


class _Part(torch.autograd.Function):
    """Gradients of what layers compute are `ranks` times theirs, of which data parallelism takes
    the mean over the ranks, since each has those of its own rows; before and after the layers all
    have the same ones."""

    @staticmethod
    def forward(ctx, whole, dim, region):
        ctx.region, ctx.dim, ctx.rows = region, dim, whole.shape[dim]
        return region.part(whole, dim).clone()

    @staticmethod
    def backward(ctx, grad):
        return ctx.region.whole(grad, ctx.dim, ctx.rows) / ctx.region.ranks, None, None


class _Whole(torch.autograd.Function):
    @staticmethod
    def forward(ctx, part, rows, region):
        ctx.region = region
        return region.whole(part, ROWS, rows)

    @staticmethod
    def backward(ctx, grad):
        return ctx.region.part(grad, ROWS) * ctx.region.ranks, None, None


def _dim_of_rows(tensor: torch.Tensor, batch: int, rows: int) -> int | None:
    """Where a tensor that layers share has a place for each row, as angles of positions do; None
    if it has none, or is what attention takes for all rows: a mask. Raises ValueError where the
    batch has as many elements as rows, and the tensor could be of either."""
    shape = tensor.shape
    dims = [dim for dim, size in enumerate(shape) if size == rows]
    if not dims or len(shape) == 4 and shape[-1] == rows and shape[-2] in (1, rows):
        return None
    # One row per batch element, whose width happens to be the number of rows; or a mask.
    if len(shape) == 2 and shape[1] == rows and not _counts(tensor):
        return None
    if len(shape) == 3 and shape[1:] == (rows, rows) and tensor.dtype == torch.bool:
        return None
    if dims == [0] and batch == rows and len(shape) > 1:
        raise ValueError(
            f"accelerate: dist.sp: layers share a tensor {tuple(shape)}, and there are {rows} rows "
            "of as many elements of the batch: which of them it has is not known; take another "
            "size of batches"
        )
    return ROWS if ROWS in dims else dims[0]


def _counts(tensor: torch.Tensor) -> bool:
    """Whether its numbers are positions, or tokens."""
    return not tensor.is_floating_point() and tensor.dtype != torch.bool


def _divided(region, ends, forward, /, *args, **kwargs) -> Any:
    if region.is_off:
        return forward(None, *args, **kwargs)
    is_first, is_last = ends
    at, hidden = first_tensor(args, kwargs)
    if hidden.dim() < 3:
        raise ValueError(
            f"accelerate: dist.sp: layers get a tensor {tuple(hidden.shape)}: [batch, rows, width] "
            "is wanted"
        )
    is_again = torch._C._current_graph_task_id() >= 0  # recomputed in the backward pass
    if not (is_first or is_again or region.is_inside):
        raise region.skipped(region.names[0])
    rows = region.rows_of(hidden, is_first)

    def part(value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or value is hidden:
            return value
        dim = _dim_of_rows(value, hidden.shape[0], rows)
        return value if dim is None else _Part.apply(value, dim, region)

    args, kwargs = tree_map(part, (args, kwargs))
    if is_first:
        args, kwargs = with_first(args, kwargs, at, _Part.apply(hidden, ROWS, region))
    if not is_again:
        region.is_inside = False  # an error of the layer is its own
    made = forward(rows, *args, **kwargs)
    if not is_again:
        region.is_inside = not is_last
    if not is_last:
        return made

    def whole(value: Any) -> Any:
        is_rows = isinstance(value, torch.Tensor) and value.dim() >= 3
        return _Whole.apply(value, rows, region) if is_rows else value

    return tree_map(whole, made)


def _attending(region, name, forward, rows, /, *args, **kwargs) -> Any:
    """A layer; `rows`: of whole sequences, None where there are no others."""
    if rows is None:
        return forward(*args, **kwargs)
    original = F.scaled_dot_product_attention
    # In evaluation, PyTorch's own layers have a fast path that does not call it.
    has_fast = torch.backends.mha.get_fastpath_enabled()
    calls = 0

    def attention(*args, **kwargs):
        nonlocal calls
        calls += 1
        return _attention(region, rows, original, *args, **kwargs)

    F.scaled_dot_product_attention = attention
    torch.backends.mha.set_fastpath_enabled(False)
    error: RuntimeError | None = None
    try:
        made = forward(*args, **kwargs)
    except RuntimeError as failure:
        if calls:
            raise
        error = failure  # of shapes, such as a mask for all rows and products of some
    finally:
        F.scaled_dot_product_attention = original
        torch.backends.mha.set_fastpath_enabled(has_fast)
    if not calls:
        raise ValueError(
            f"accelerate: dist.sp: {name} does not call F.scaled_dot_product_attention, by which "
            "a rank sees other ranks' rows (models of Hugging Face do with "
            f"attn_implementation='sdpa'){f'; {error}' if error else ''}"
        ) from error
    return made


def _uncut(mask, rows, here) -> torch.Tensor:
    """A mask for all rows that was cut to as many columns as there are keys, which are some rows'
    (version 4 of transformers does that): whole again."""
    is_cut = mask.dim() > 1 and mask.shape[-2:] == (rows, here) and here < rows
    if not is_cut or mask._base is None or mask.stride(-2) != rows * mask.stride(-1):
        return mask
    begins = (mask.storage_offset() - mask._base.storage_offset()) % mask.stride(-2) == 0
    return mask.as_strided((*mask.shape[:-1], rows), mask.stride()) if begins else mask


def _attention(
    region,
    rows,
    original,
    query,
    key,
    value,
    attn_mask=None,
    dropout_p=0.0,
    is_causal=False,
    scale=None,
    enable_gqa=False,
) -> torch.Tensor:
    if query.dim() != 4 or key.shape[ATTENTION_ROWS] != query.shape[ATTENTION_ROWS]:
        raise NotImplementedError(
            f"accelerate: dist.sp: attention of queries {tuple(query.shape)} and keys "
            f"{tuple(key.shape)}: [batch, heads, rows, depth] of the same rows is wanted"
        )
    if attn_mask is not None:
        attn_mask = _uncut(attn_mask, rows, key.shape[ATTENTION_ROWS])
    if attn_mask is not None and (
        attn_mask.shape[-1] != rows or attn_mask.dim() > 1 and attn_mask.shape[-2] not in (1, rows)
    ):
        raise NotImplementedError(
            f"accelerate: dist.sp: attention with a mask {tuple(attn_mask.shape)} of {rows} rows: "
            "it must be [..., rows, rows] or [..., 1, rows]"
        )
    heads = query.shape[HEADS]
    if heads % region.heads != 0:
        raise ValueError(
            f"accelerate: dist.sp: {heads} heads, which {region.heads} ranks cannot share evenly: "
            "use another size, or mode='ring'"
        )
    # Keys may have fewer heads than queries, each used by several.
    if key.shape[HEADS] != heads and (key.shape[HEADS] % region.heads != 0 or region.rings > 1):
        key, value = (
            one.repeat_interleave(heads // one.shape[HEADS], HEADS) for one in (key, value)
        )
    if region.heads > 1:
        query, key, value = (_heads_for_rows(one, region) for one in (query, key, value))
    if region.rings > 1:
        made = _around(region, rows, query, key, value, attn_mask, dropout_p, is_causal, scale)
    else:
        # The padding of sequences is not among the keys.
        all_rows = query.shape[ATTENTION_ROWS]
        query, key, value = (one.narrow(ATTENTION_ROWS, 0, rows) for one in (query, key, value))
        if attn_mask is not None and attn_mask.dim() > 2 and attn_mask.shape[-3] == heads > 1:
            attn_mask = attn_mask.chunk(region.heads, -3)[region.rank]
        made = original(
            query,
            key,
            value,
            attn_mask,
            dropout_p,
            is_causal,
            scale=scale,
            enable_gqa=key.shape[HEADS] != query.shape[HEADS],
        )
        made = F.pad(made, [0, 0, 0, all_rows - rows])
    return _rows_for_heads(made, region) if region.heads > 1 else made


def _exchange(tensor: torch.Tensor, region: Region) -> torch.Tensor:
    """Part `i` of the first dimension goes to rank `i`, from which comes the new one."""
    from torch.distributed._functional_collectives import all_to_all_single_autograd

    return all_to_all_single_autograd(tensor.contiguous(), None, None, region.heads_group)


def _heads_for_rows(tensor: torch.Tensor, region: Region) -> torch.Tensor:
    """[batch, heads, rows / n, depth] to [batch, heads / n, rows, depth]."""
    n = region.heads
    parts = tensor.unflatten(HEADS, (n, -1)).movedim(HEADS, 0)
    return _exchange(parts, region).movedim(0, ATTENTION_ROWS).flatten(2, 3)


def _rows_for_heads(tensor: torch.Tensor, region: Region) -> torch.Tensor:
    n = region.heads
    parts = tensor.unflatten(ATTENTION_ROWS, (n, -1)).movedim(ATTENTION_ROWS, 0)
    return _exchange(parts, region).movedim(0, HEADS).flatten(1, 2)


def _around(region, rows, query, key, value, attn_mask, dropout_p, is_causal, scale):
    if query.device.type != "acc":
        raise NotImplementedError(
            "accelerate: dist.sp.mode='ring' and '2d' are there on acc: use mode='ulysses' with "
            "backend='eager'"
        )
    if not is_causal and rows % region.multiple != 0:
        raise NotImplementedError(
            f"accelerate: dist.sp: {rows} rows, without is_causal and not a multiple of "
            f"{region.multiple}: fill sequences up, or use mode='ulysses'"
        )
    return _Ring.apply(query, key, value, attn_mask, dropout_p, is_causal, scale, region.ring_group)


class _Ring(torch.autograd.Function):
    """PyTorch's ring of context parallel. Shapes as of `F.scaled_dot_product_attention`, of the
    rows that the rank has."""

    @staticmethod
    def forward(ctx, query, key, value, attn_mask, dropout_p, is_causal, scale, group):
        from torchacc.adapters import dtensor

        with _ring_options(is_causal, query.dtype) as module:
            out, logsumexp, *rest = dtensor.ring_attention(
                module, group, query, key, value, attn_mask, dropout_p, is_causal, scale=scale
            )
        ctx.save_for_backward(query, key, value, out, logsumexp)
        ctx.group, ctx.scale, ctx.is_causal = group, scale, is_causal
        ctx.rest = (*rest[:4], dropout_p, is_causal, *rest[4:6])
        return out

    @staticmethod
    def backward(ctx, grad):
        from torchacc.adapters import dtensor

        query, key, value, out, logsumexp = ctx.saved_tensors
        wanted = (True, True, True, False)
        with _ring_options(ctx.is_causal, query.dtype) as module:
            grads = dtensor.ring_attention_backward(
                module,
                ctx.group,
                grad,
                query,
                key,
                value,
                None,
                wanted,
                out,
                logsumexp,
                *ctx.rest,
                scale=ctx.scale,
            )
        return *grads[:3], None, None, None, None, None


@contextlib.contextmanager
def _ring_options(is_causal: bool, dtype: torch.dtype):
    """Keys and values go from rank to rank, one rank's at a time; chunks lie as `Region.part`
    puts them, which without a causal mask makes no difference. Halves are summed up in f32."""
    from torch.distributed.tensor.experimental._context_parallel import _attention as module

    options = module._cp_options
    before = dataclasses.replace(options)
    options.enable_load_balance = is_causal
    options.rotate_method = module._RotateMethod.ALL_TO_ALL
    options.convert_to_f32 = dtype != torch.float64
    try:
        yield module
    finally:
        vars(options).update(vars(before))


# Tolerances relative to the largest result: for sums in another order, not another model.
_TOLERANCE = {torch.bfloat16: 5e-2, torch.float16: 1e-2}


def _checked(region, model, forward, /, *args, **kwargs) -> Any:
    # When pipelines only ask for shapes, there are no numbers to compare.
    run = functools.partial(_to_the_end, region, functools.partial(forward, *args, **kwargs))
    if not region.is_checked and torch.is_grad_enabled():
        _compare(region, model, run)
        region.is_checked = True
    return run()


def _to_the_end(region: Region, forward) -> Any:
    """What the model returns, if it has gone through its last layer."""
    region.is_inside = False
    try:
        made = forward()
    except Exception as error:
        if region.is_inside:  # of shapes, such as a loss of some rows
            raise region.skipped(region.names[-1]) from error
        raise
    if region.is_inside:
        raise region.skipped(region.names[-1])
    return made


def _compare(region: Region, model: nn.Module, forward) -> None:
    modes = [(module, module.training) for module in model.modules()]
    model.eval()  # without dropout, which differs for parts of rows
    device = next(model.parameters()).device
    results = []
    try:
        for region.is_off in (True, False):
            with torch.no_grad(), unchanged(model, device):
                made = tree_leaves(forward())
            results.append([one for one in made if isinstance(one, torch.Tensor)])
    finally:
        region.is_off = False
        for module, mode in modes:
            module.training = mode
    for whole, parts in zip(*results, strict=True):
        if not whole.is_floating_point() or not whole.numel():
            continue
        same = (whole == parts) | (whole.isnan() & parts.isnan())  # also -inf
        off = torch.where(same, 0, (whole.double() - parts.double()).abs()).max()
        size = torch.where(whole.isfinite(), whole.double().abs(), 0).max()
        if not (off <= _TOLERANCE.get(whole.dtype, 1e-3) * size).item():
            raise ValueError(
                f"accelerate: dist.sp: with sequences in parts the model's results "
                f"{tuple(whole.shape)} are others, by up to {off.item():.3g} of "
                f"{size.item():.3g}: its layers look at rows, or at how many there "
                "are, elsewhere than in F.scaled_dot_product_attention (positions that a layer "
                "counts itself, for one: let the model pass them to its layers)"
            )
