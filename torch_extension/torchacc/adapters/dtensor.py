"""DTensor knows acc's attention. Of PyTorch 2.11."""

import functools

import torch

from torchacc import adapters

aten = torch.ops.aten


def _attention(module) -> None:
    """Batches and heads are split as they come; of sequences every rank needs all keys. With a bias
    nothing is split, since that may lack any of the dimensions, nor with dropout, which is to drop
    other probabilities in each part."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.experimental import register_sharding

    def places(bias, dropout):
        splits = bias is None and dropout == 0
        return (Replicate(), Shard(0), Shard(1)) if splits else (Replicate(),)

    # Of nine results two are tensors that ranks have parts of.
    @register_sharding(aten._scaled_dot_product_fused_attention_overrideable.default)
    def forward(query, key, value, bias=None, dropout=0.0, *rest, **named):
        bias_at = [] if bias is None else [Replicate()]
        return [
            ([at, at, *[None] * 7], [at, at, at, *bias_at, *[None] * (1 + len(rest))])
            for at in places(bias, dropout)
        ]

    @register_sharding(aten._scaled_dot_product_fused_attention_overrideable_backward.default)
    def backward(grad, query, key, value, bias, wanted, out, logsumexp, *rest, **named):
        bias_at = None if bias is None else Replicate()
        bias_grad_at = bias_at if wanted[3] else None
        # Offsets and seeds, none of which the device has, and numbers.
        others = [None] * len(rest)
        return [
            ([at, at, at, bias_grad_at], [at, at, at, at, bias_at, None, at, at, *others])
            for at in places(bias, rest[4])
        ]

    # PyTorch has a kernel that says the results' shapes for the way there only.
    library = torch.library.Library("aten", "IMPL")
    _libraries.append(library)

    def shapes(grad, query, key, value, bias, wanted, *rest, **named):
        made = [torch.empty_like(one) for one in (query, key, value)]
        return (*made, torch.empty_like(bias) if wanted[3] and bias is not None else None)

    library.impl("_scaled_dot_product_fused_attention_overrideable_backward", shapes, "Meta")


def _context_parallel(module) -> None:
    """Its attention goes round the ranks by operators that acc has not; with others the rows that
    each rank gets would be wrong."""

    def refusing(original):
        @functools.wraps(original)
        def context_parallel(mesh, *args, **kwargs):
            if mesh.device_type == "acc":
                raise NotImplementedError(
                    "context_parallel has no ring attention for acc. Split heads instead of "
                    "sequences around attention: ColwiseParallel for query, key and value with "
                    "SequenceParallel for the rest, or all_to_all_single"
                )
            return original(mesh, *args, **kwargs)

        return context_parallel

    adapters.mend(module, "context_parallel", refusing, "context_parallel is wrong on acc")


_libraries = []
MENDS = {
    "torch.distributed.tensor": _attention,
    "torch.distributed.tensor.experimental._context_parallel._attention": _context_parallel,
}
