"""Numbers beside tensors: Python's, and those in CPU tensors without dimensions."""

import pytest
import torch
from support import DEVICE, check

@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.int32])
def test_ldexp(dtype):
    x = torch.tensor([1, 3, 0, 5]).to(dtype)
    exponents = torch.tensor([3, -4, 9, 2])
    for n in (exponents, exponents.int(), exponents.float() / 2):
        check(torch.ldexp, x, n)
        check(lambda x, n, out: torch.ldexp(x, n, out=out), x, n, torch.ldexp(x, n))
    if dtype.is_floating_point:
        check(lambda x, n: x.ldexp_(n), x, exponents)


def test_ldexp_beyond_one_power():
    x = torch.tensor([1e-30, -1e30, 0.0, 1.0, float("inf")])
    check(torch.ldexp, x, torch.tensor([140, -140, 5000, -149, -5000]), rtol=0, atol=0)


def test_gradient_of_ldexp():
    x = torch.tensor([1.0, 2.0], device=DEVICE, requires_grad=True)
    torch.ldexp(x, torch.tensor([3, 1], device=DEVICE)).sum().backward()
    assert x.grad.tolist() == [8, 2]
