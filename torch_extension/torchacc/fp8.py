"""Linear layers in FP8: forward and both gradients are products of 8-bit floats.

Tensorwise dynamic scaling, as torchao's recipe "tensorwise" does it (`torchao.float8`): before each
product an operand is multiplied by the largest number of its format over its own largest magnitude,
and rounded: activations and weights to e4m3 (3 bits of mantissa), gradients to e5m2 (2 bits, a
wider range), as Micikevicius et al. propose ("FP8 Formats for Deep Learning", arXiv 2209.05433).
Products are summed in f32 and scaled back. Weights and their gradients, and so checkpoints and
optimizers, stay as they are.

    torchacc.fp8.convert(model, filter=lambda name, layer: name != "head")

A GPU that multiplies FP8 (compute capability 8.9 or newer) does so at up to twice the rate of bf16,
but scaling and rounding are passes over each operand. So layers with small dimensions (below one or
two thousand) rarely gain, and should be left out by `filter`; so should the last layer of a
language model, which the loss is most sensitive to. Elsewhere, and in products whose sizes a GPU
does not take, the same numbers are multiplied in wider types.
"""

from collections.abc import Callable

import torch
import torch.nn as nn
import torch.nn.functional as F

FORWARD = torch.float8_e4m3fn
BACKWARD = torch.float8_e5m2
# GPU products require dimensions that are multiples of this.
MULTIPLE = 16


class Linear(nn.Linear):
    """`nn.Linear` whose products are of 8-bit floats; the parameters are those of an `nn.Linear`.

    `in_features` and `out_features` are multiples of 16. Under autocast the result has autocast's
    dtype, else the input's.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        device = x.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
        rows = x.reshape(-1, self.in_features)
        # The weight's gradient is a sum over rows; rows of zeros add nothing.
        if missing := -len(rows) % MULTIPLE:
            rows = F.pad(rows, (0, 0, 0, missing))
        y = _Product.apply(rows, self.weight, dtype)[: len(rows) - missing]
        y = y.view(*x.shape[:-1], self.out_features)
        return y if self.bias is None else y + self.bias.to(dtype)


def convert(model: nn.Module, filter: Callable[[str, nn.Linear], bool] | None = None) -> nn.Module:
    """Makes the `nn.Linear` layers of `model` FP8 ones, in place, and returns it.

    Parameters, hooks and the names in a `state_dict` stay. Left as they are: layers with a
    dimension that is no multiple of 16, subclasses of `nn.Linear`, and those for which
    `filter(name, layer)` is false.
    """
    for name, layer in model.named_modules():
        if type(layer) is not nn.Linear:
            continue
        fits = layer.in_features % MULTIPLE == 0 and layer.out_features % MULTIPLE == 0
        if fits and (filter is None or filter(name, layer)):
            layer.__class__ = Linear
    return model


def quantize(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """`x` as 8-bit floats, and the f32 number by which they are to be multiplied to give `x`.

    The largest magnitude becomes the largest number of `dtype`. Zeros stay zeros; a NaN or an
    infinity anywhere makes every product of `x` NaN.
    """
    largest = torch.finfo(dtype).max
    x = x.float()
    # Keeps both the factor and its inverse in the range of f32.
    factor = largest / x.abs().amax().clamp(min=1e-30)
    # A product may round to a little more than the largest number, which would become NaN.
    scaled = (x * factor).clamp(-largest, largest)
    return scaled.to(dtype), factor.reciprocal()


class _Product(torch.autograd.Function):
    """`x[m, k] · weight[n, k]ᵀ` as `dtype`, and its gradients."""

    @staticmethod
    def forward(ctx, x, weight, dtype):
        ctx.dtypes = x.dtype, weight.dtype
        x, x_scale = quantize(x, FORWARD)
        weight, weight_scale = quantize(weight, FORWARD)
        ctx.save_for_backward(x, x_scale, weight, weight_scale)
        return _multiply(x, weight.t(), x_scale, weight_scale, dtype)

    @staticmethod
    def backward(ctx, dy):
        x, x_scale, weight, weight_scale = ctx.saved_tensors
        x_dtype, weight_dtype = ctx.dtypes
        dy, scale = quantize(dy, BACKWARD)
        dx = dweight = None
        if ctx.needs_input_grad[0]:
            dx = _multiply(dy, weight, scale, weight_scale, x_dtype)
        if ctx.needs_input_grad[1]:
            dweight = _multiply(dy.t(), x, scale, x_scale, weight_dtype)
        return dx, dweight, None


def _multiply(a, b, scale_a, scale_b, dtype):
    """`a · b`, in the layout that PyTorch asks for: rows of a and columns of b lie together."""
    b = b.t().contiguous().t()
    return torch._scaled_mm(a.contiguous(), b, scale_a, scale_b, out_dtype=dtype)
