"""What runs along a dimension: numbers and derivatives as on the CPU, without a read; products."""

import itertools

import pytest
import torch
from support import DEVICE, host_calls


def gradients(call, x, device):
    x = x.detach().clone().to(device).requires_grad_()
    y = call(x)
    weight = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view(y.shape).to(device)
    (y * weight).sum().backward()
    return y.detach().cpu(), x.grad.cpu()


def with_zeros(shape, places):
    x = torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    x.view(-1)[list(places)] = 0
    return x


CALLS = {
    "cumprod": lambda x: x.cumprod(1),
    "cumprod of another dtype": lambda x: x.cumprod(0, dtype=torch.float32),
    "cummax": lambda x: x.cummax(1).values,
    "cummin": lambda x: x.cummin(0).values,
    "logcumsumexp": lambda x: x.logcumsumexp(1),
    "prod": lambda x: x.prod(),
    "prod of a dimension": lambda x: x.prod(-1),
    "prod that keeps it": lambda x: x.prod(0, keepdim=True),
    "prod of another dtype": lambda x: x.prod(0, dtype=torch.float32),
    "prod of a negative view": lambda x: torch._neg_view(x).prod(1),
}


@pytest.mark.parametrize("zeros", [(), (5,), (0, 8), (1, 2, 3, 9)], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_derivatives_read_nothing(name, zeros):
    x = with_zeros((4, 3), zeros)
    expected = gradients(CALLS[name], x, "cpu")
    before = host_calls()
    found = gradients(CALLS[name], x, DEVICE)
    assert host_calls() == before
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0), (3, 1)], ids=str)
@pytest.mark.parametrize("name", ["prod", "cumprod", "cummax", "cummin", "logcumsumexp"])
def test_of_few_elements(name, shape):
    def call(x):
        if name == "prod":
            return x.prod()
        y = getattr(x, name)(-1)
        return y.values if name in ("cummax", "cummin") else y

    for zeros in ((), (0,)):
        if shape in ((0,), (2, 0)) and zeros:
            continue
        x = with_zeros(shape, zeros)
        torch.testing.assert_close(gradients(call, x, DEVICE), gradients(call, x, "cpu"))


def test_a_product_of_zero_and_what_is_not_finite_has_no_derivative():
    for numbers in itertools.product([0.0, 2.0, torch.inf, torch.nan], repeat=3):
        x = torch.tensor(numbers)
        for call in (torch.prod, lambda x: x[None].prod(1).sum()):
            expected = gradients(call, x, "cpu")
            found = gradients(call, x, DEVICE)
            torch.testing.assert_close(found, expected, equal_nan=True, msg=str(numbers))


@pytest.mark.parametrize("numbers", [(1e30, 1e30, 1e-30, 1e-30), (1e20, 1e20, 0.0, 5.0)])
def test_a_product_has_its_derivatives_where_that_of_some_elements_is_infinite(numbers):
    for call in (torch.prod, lambda x: x.prod(0), lambda x: x.prod(0, keepdim=True)):
        x = torch.tensor(numbers)
        expected = [one.float() for one in gradients(call, x.double(), "cpu")]
        torch.testing.assert_close(list(gradients(call, x, DEVICE)), expected)


def test_a_product_of_another_dtype_has_derivatives_in_that():
    def derivative(device):
        x = torch.full((4,), 100.0, dtype=torch.half, device=device, requires_grad=True)
        (x.prod(dtype=torch.float32) * 1e-8).backward()
        return x.grad.cpu()

    torch.testing.assert_close(derivative(DEVICE), derivative("cpu"))


def test_a_product_of_one_element_has_derivatives_of_derivatives():
    for sizes, call in (((1,), torch.prod), ((3, 1), lambda x: x.prod(1))):
        x = torch.ones(sizes, device=DEVICE, requires_grad=True)
        (first,) = torch.autograd.grad(call(x).sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        assert second.tolist() == torch.zeros(sizes).tolist()


@pytest.mark.parametrize("zeros", [(), (2,), (1, 3)], ids=str)
@pytest.mark.parametrize("call", [torch.prod, lambda x: x.cumprod(0), lambda x: x.prod(0)])
def test_derivatives_of_derivatives(call, zeros):
    x = with_zeros((5,), zeros)

    def second(device):
        leaf = x.clone().to(device).requires_grad_()
        (first,) = torch.autograd.grad(call(leaf).sum(), leaf, create_graph=True)
        (found,) = torch.autograd.grad(first.square().sum(), leaf)
        return first.detach().cpu(), found.cpu()

    torch.testing.assert_close(second(DEVICE), second("cpu"))
    leaf = x.clone().to(DEVICE)
    tangent = torch.ones(5, dtype=torch.float64)
    found = torch.func.jvp(call, (leaf,), (tangent.to(DEVICE),))
    expected = torch.func.jvp(call, (x,), (tangent,))
    torch.testing.assert_close([one.cpu() for one in found], list(expected))


@pytest.mark.parametrize("call", [torch.prod, lambda x: x.prod(0), lambda x: x.cumprod(0)])
def test_derivatives_under_transformations(call):
    x = with_zeros((5,), (2,))
    weights = torch.arange(20, dtype=torch.float64).view(4, 5)

    def of(x, weights):
        grad = torch.func.grad(lambda x: call(x).sum())
        both = torch.func.vmap(lambda weight: grad(x * weight))(weights)
        batched = torch.autograd.functional.jacobian(call, x, vectorize=True)
        return both, batched, torch.func.hessian(lambda x: call(x).sum())(x)

    found = of(x.to(DEVICE), weights.to(DEVICE))
    torch.testing.assert_close([one.cpu() for one in found], list(of(x, weights)))


def test_prod_may_be_written_over():
    x = torch.tensor([2.0, 3.0], device=DEVICE, requires_grad=True)
    y = x.prod()
    assert not y._is_view()
    y = (y * 1).add_(1)
    y.backward()
    assert x.grad.tolist() == [3, 2]


@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize(
    "dtype",
    [torch.uint8, torch.int8, torch.int64, torch.bool, torch.half, torch.bfloat16, torch.float32],
    ids=str,
)
def test_extremes_as_on_the_cpu(name, dtype):
    draw = torch.Generator().manual_seed(4)
    x = torch.randint(-3, 4, (5, 40), generator=draw).to(dtype)
    if dtype.is_floating_point:
        x[1, 7:9] = float("nan")
        x[2, 3], x[2, 5] = float("inf"), -float("inf")
        x[3, ::2] *= -0.0
    before = host_calls()
    for dim in (0, -1):
        found = [one.cpu() for one in getattr(x.to(DEVICE), name)(dim)]
        expected = getattr(x, name)(dim)
        torch.testing.assert_close(found[0], expected.values, equal_nan=True, rtol=0, atol=0)
        assert torch.equal(found[1], expected.indices)
    assert host_calls() == before
    values, indices = torch.empty(0, dtype=dtype), torch.empty(0, dtype=torch.int64)
    values, indices = values.to(DEVICE), indices.to(DEVICE)
    getattr(torch, name)(x.to(DEVICE), 1, out=(values, indices))
    assert torch.equal(indices.cpu(), getattr(x, name)(1).indices)
