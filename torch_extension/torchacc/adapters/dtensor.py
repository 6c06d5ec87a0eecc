"""DTensor knows acc's attention. Of PyTorch 2.11."""

from typing import Any

import torch

ATTENTION = torch.ops.aten._scaled_dot_product_fused_attention_overrideable.default
ATTENTION_BACKWARD = (
    torch.ops.aten._scaled_dot_product_fused_attention_overrideable_backward.default
)
# Dimension of queries, keys and values.
SEQUENCE = 2
# The last positional arguments of the backward operator.
REST = "cum_seq_q cum_seq_k max_q max_k dropout_p is_causal philox_seed philox_offset".split()


def _attention(module) -> None:
    """Batches and heads are split as they come; of sequences every rank needs all keys. With a bias
    nothing is split, since that may lack any of the dimensions, nor with dropout, which is to drop
    other probabilities in each part."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.experimental import register_sharding

    def places(bias, dropout):
        splits = bias is None and dropout == 0
        return (Replicate(), Shard(0), Shard(1)) if splits else (Replicate(),)

    # Of nine results, two are tensors that are split among ranks.
    @register_sharding(ATTENTION)
    def forward(query, key, value, bias=None, dropout=0.0, *rest, **named):
        bias_at = [] if bias is None else [Replicate()]
        return [
            ([at, at, *[None] * 7], [at, at, at, *bias_at, *[None] * (1 + len(rest))])
            for at in places(bias, dropout)
        ]

    @register_sharding(ATTENTION_BACKWARD)
    def backward(grad, query, key, value, bias, wanted, out, logsumexp, *rest, **named):
        bias_at = None if bias is None else Replicate()
        bias_grad_at = bias_at if wanted[3] else None
        # Offsets of sequences, of which the device has none; numbers; dropout's random state.
        others = [*[None] * (len(rest) - 2), Replicate(), Replicate()]
        return [
            ([at, at, at, bias_grad_at], [at, at, at, at, bias_at, None, at, at, *others])
            for at in places(bias, rest[4])
        ]

    # PyTorch has a kernel for the results' shapes of the forward operator only.
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)

    def shapes(grad, query, key, value, bias, wanted, *rest, **named):
        # Laid out as on acc: views in traced programs rely on it.
        by_heads = [one.transpose(1, 2) for one in (query, key, value)]
        made = [
            torch.empty_like(one, memory_format=torch.contiguous_format).transpose(1, 2)
            for one in by_heads
        ]
        return (*made, torch.empty_like(bias) if wanted[3] and bias is not None else None)

    library.impl("_scaled_dot_product_fused_attention_overrideable_backward", shapes, "Meta")


def _check_ring(bias, dropout) -> None:
    if bias is not None or dropout:
        what = "dropout" if bias is None else "a mask"
        raise NotImplementedError(
            f"context_parallel: attention with {what} does not go round the ranks; leave it out"
            " (is_causal is no mask), or split heads instead of sequences: ColwiseParallel"
        )


def ring_attention(
    module: Any,
    group: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *_: Any,
    scale: float | None = None,
) -> tuple[torch.Tensor, ...]:
    """PyTorch's ring through acc's attention, which gives and takes the log-sum-exp of each part,
    as `_scaled_dot_product_fused_attention_overrideable` of the rows that ranks of the group have.
    Like PyTorch's others it takes no bias, and no dropout, either: each part would draw for itself,
    and the way back have the numbers of the last one only. `module`: that of context parallel."""
    _check_ring(bias, dropout)
    return module._templated_ring_attention(
        group, SEQUENCE, ATTENTION, query, key, value, is_causal=is_causal, scale=scale
    )


def ring_attention_backward(
    module: Any,
    group: Any,
    grad: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    bias: torch.Tensor | None,
    wanted: list[bool],
    out: torch.Tensor,
    logsumexp: torch.Tensor,
    *rest: Any,
    scale: float | None = None,
) -> tuple[torch.Tensor | None, ...]:
    """Likewise `_scaled_dot_product_fused_attention_overrideable_backward`."""
    named = dict(zip(REST, rest, strict=True))
    _check_ring(bias, named["dropout_p"])
    return module._templated_ring_attention_backward(
        group,
        SEQUENCE,
        ATTENTION_BACKWARD,
        grad,
        "grad_out",
        query,
        key,
        value,
        out,
        logsumexp,
        attn_bias=bias,
        grad_input_mask=wanted,
        scale=scale,
        **named,
    )


def _context_parallel(module) -> None:
    from torch.distributed.tensor import DTensor

    def handler(ring):
        def handle(op, args, kwargs):
            (mesh, places), *_ = (
                (arg.device_mesh, arg.placements) for arg in args if isinstance(arg, DTensor)
            )
            local = [arg.to_local() if isinstance(arg, DTensor) else arg for arg in args]
            # Dropout's random state is single numbers.
            return tuple(
                DTensor.from_local(made, mesh, places, run_check=False)
                if isinstance(made, torch.Tensor) and made.dim() > 0
                else made
                for made in ring(module, mesh.get_group(), *local, **kwargs)
            )

        return handle

    module.custom_ops[ATTENTION] = handler(ring_attention)
    module.custom_ops[ATTENTION_BACKWARD] = handler(ring_attention_backward)


_libraries = []
MENDS = {
    "torch.distributed.tensor": _attention,
    "torch.distributed.tensor.experimental._context_parallel._attention": _context_parallel,
}
