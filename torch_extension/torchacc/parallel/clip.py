"""Gradients that are parts, copies, or on other ranks, clipped by the norm of all of them."""

from collections.abc import Iterable

import torch
import torch.distributed as dist
from torch.nn.utils import get_total_norm


@torch.no_grad()
def clip_grad_norm_(
    parameters: Iterable[torch.Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    counted: Iterable[torch.Tensor] | None = None,
    group: dist.ProcessGroup | None = None,
) -> torch.Tensor:
    """As `torch.nn.utils.clip_grad_norm_`, of distributed tensors beside others, and on the ranks
    of `group` of what each of them has. `counted`: those of the parameters of which this rank's are
    to be in the norm, all if not given. The norm, f32 [], is that of all gradients, before."""
    parameters = list(parameters)
    grads = _grads(parameters)
    is_max = norm_type == float("inf")
    reduction = dist.ReduceOp.MAX if is_max else dist.ReduceOp.SUM
    # Gradients that are split alike are combined first, then over the ranks that have parts.
    alike: dict[tuple, list[torch.Tensor]] = {}
    for grad in grads if counted is None else _grads(counted):
        alike.setdefault(split(grad), []).append(local(grad))
    totals = []
    for (mesh, *places), some in alike.items():
        total = get_total_norm(some, norm_type)
        total = total if is_max else total.pow(norm_type)
        for dim, place in enumerate(places):
            if not place.is_replicate():  # strided parts, too
                dist.all_reduce(total, reduction, mesh.get_group(dim))
        totals.append(total)
    total = torch.stack(totals) if totals else torch.zeros(1, device=parameters[0].device)
    total = total.max() if is_max else total.sum()
    if group is not None:
        dist.all_reduce(total, reduction, group)
    if not is_max:
        total = total.pow(1 / norm_type)
    # Without a branch, which would have to read the norm.
    scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
    if grads:
        torch._foreach_mul_([local(grad) for grad in grads], scale)
    return total


def local(grad: torch.Tensor) -> torch.Tensor:
    return grad.to_local() if hasattr(grad, "to_local") else grad


def split(grad: torch.Tensor) -> tuple:
    """Among which ranks, and how, if it is."""
    return (grad.device_mesh, *grad.placements) if hasattr(grad, "device_mesh") else (None,)


def _grads(parameters: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]
