"""Sizes that vary."""

from collections.abc import Iterable

import torch

# Without a largest size, programs are planned for sizes up to this multiple of the present one.
_FARTHER = 8


def mark_dynamic(
    tensor: torch.Tensor,
    dims: int | Iterable[int],
    min: int | None = None,
    max: int | None = None,
) -> None:
    """Says that these dimensions of a tensor on acc will have between `min` and `max` elements.

    Programs that use the tensor are then planned for all of these sizes as soon as a second one
    has come. Only advice: without it the device notices by itself that sizes vary, and plans for
    up to eight times the size it then sees; sizes outside the range work too. The mark holds for
    the tensor's storage, in the operations recorded since the last cut and in those to come.

    Raises IndexError for a dimension that the tensor has not, and RuntimeError when its size is
    not between the two.
    """
    for dim in [dims] if isinstance(dims, int) else dims:
        size = tensor.shape[dim]
        least = 0 if min is None else min
        most = _FARTHER * size if max is None else max
        torch.ops.acc.mark_dynamic(tensor, dim % tensor.dim(), least, most)
