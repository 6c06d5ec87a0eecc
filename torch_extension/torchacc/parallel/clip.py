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
    by_mesh: dict[object, list[torch.Tensor]] = {}
    for grad in grads if counted is None else _grads(counted):
        by_mesh.setdefault(getattr(grad, "device_mesh", None), []).append(grad)
    norms = [get_total_norm(some, norm_type) for some in by_mesh.values()]
    norms = [norm.full_tensor() if hasattr(norm, "full_tensor") else norm for norm in norms]
    total = torch.stack(norms) if norms else torch.zeros(1, device=parameters[0].device)
    is_max = norm_type == float("inf")
    total = total.max() if is_max else total.pow(norm_type).sum()
    if group is not None:
        dist.all_reduce(total, dist.ReduceOp.MAX if is_max else dist.ReduceOp.SUM, group)
    if not is_max:
        total = total.pow(1 / norm_type)
    # Without a branch, for which the norm would have to be read.
    scale = (max_norm / (total + 1e-6)).clamp(max=1.0)
    if grads:
        torch._foreach_mul_([g.to_local() if hasattr(g, "to_local") else g for g in grads], scale)
    return total


def _grads(parameters: Iterable[torch.Tensor]) -> list[torch.Tensor]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]
