"""Statistics of long rows: as near to f64 as eager PyTorch's."""

import pytest
import torch
import torch.nn.functional as F


def layer_norm(x, weight, bias):
    return F.layer_norm(x, x.shape[1:], weight, bias)


def group_norm(x, weight, bias):
    rows, columns = x.shape
    return F.group_norm(x.view(1, rows, columns), rows, weight[:rows], bias[:rows])


def rms_norm(x, weight, bias):
    return F.rms_norm(x, x.shape[1:], weight) + bias


def results(function, dtype, device, *tensors):
    x, weight, bias, grad = (t.to(dtype).to(device, copy=True) for t in tensors)
    x.requires_grad_()
    weight.requires_grad_()
    y = function(x, weight, bias)
    y.backward(grad.view_as(y))
    return [t.detach().cpu().double().flatten() for t in (y, x.grad, weight.grad)]


@pytest.mark.parametrize("function", [layer_norm, group_norm, rms_norm])
def test_norms(function):
    rows, columns, mean = 1, 1 << 24, 3.0
    generator = torch.Generator().manual_seed(1)
    x, grad = torch.randn(2, rows, columns, generator=generator)
    tensors = (x + mean, *torch.randn(2, columns, generator=generator), grad)
    exact = results(function, torch.float64, "cpu", *tensors)
    eager = results(function, torch.float32, "cpu", *tensors)
    ours = results(function, torch.float32, "acc", *tensors)
    for name, wanted, theirs, found in zip(("y", "dx", "dweight"), exact, eager, ours, strict=True):
        scale = wanted.abs().max()
        bound = max((theirs - wanted).abs().max() / scale, 1e-7)
        assert (found - wanted).abs().max() / scale <= 4 * bound, name
