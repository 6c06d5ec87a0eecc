"""Numbers beside tensors: Python's, and those in CPU tensors without dimensions."""

import itertools
import math

import pytest
import torch
from support import DEVICE, ON_DEVICE, check, host_calls

NAN = float("nan")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "bounds", [(NAN,), (None, NAN), (0.0, NAN), (NAN, 2.0), (1.5,), (None, 1.5), (3.0, 1.0)]
)
def test_clamp_between_numbers(dtype, bounds):
    x = torch.tensor([-1.0, 1.0, 2.0, NAN]).to(dtype)
    check(lambda x: (x.clamp(*bounds), x.clone().clamp_(*bounds)), x)


@pytest.mark.parametrize("bound", [NAN, 1.5, 1])
def test_clamp_at_one_number(bound):
    x = torch.tensor([-1.0, 1.0, 2.0, NAN])
    check(lambda x: (x.clamp_min(bound), x.clamp_max(bound), x.clone().clamp_min_(bound)), x)
    n = torch.tensor([-1, 1, 2])
    check(lambda n: (n.clamp(min=bound), n.clamp(max=bound), n.clamp(min=bound, max=2)), n)


def test_clamp_bounds_that_become_nan():
    x = torch.tensor([-1.0, 1.0, NAN])
    for bound in (0.0, NAN, 0.5, NAN):
        check(lambda x, bound=bound: x.clamp(min=bound), x)


def test_clamp_at_a_tensor_of_nan():
    x = torch.tensor([-1.0, 1.0, 2.0])
    check(lambda x, low: x.clamp(low), x, torch.tensor(NAN))
    assert x.to(DEVICE).clamp(torch.tensor(NAN)).isnan().all()


FILLS = {
    "masked_fill": lambda x, mask, number: x.masked_fill(mask, number),
    "masked_fill_": lambda x, mask, number: x.clone().masked_fill_(mask, number),
    "where": lambda x, mask, number: torch.where(mask, x, number),
    "fill_": lambda x, mask, number: x.clone().fill_(number),
    "index_fill": lambda x, mask, number: x.index_fill(0, mask.long(), number),
    "assignment": lambda x, mask, number: x.clone().__setitem__(mask, number),
    "lerp": lambda x, mask, number: x.double().lerp(x.double() + 1, number.double()),
}


@pytest.mark.parametrize("name", FILLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_a_number_in_a_cpu_tensor(name, dtype):
    x, mask = torch.tensor([1, 2]).to(dtype), torch.tensor([True, False])
    for number in (3, 4):
        check(lambda x, mask, n=number: FILLS[name](x, mask, torch.tensor(n).to(dtype)), x, mask)


def test_a_complex_number_for_a_bool():
    check(lambda x, mask: x.masked_fill(mask, 1j), torch.zeros(2).bool(), torch.ones(2).bool())


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


@pytest.mark.skipif(ON_DEVICE, reason="other processors convert otherwise")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "to", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64, torch.bool]
)
def test_numbers_that_no_integer_is(dtype, to):
    limits = [127, 255, 32767, 65535, 2.0**31, 2.0**32, 2.0**63, 2.0**64, 1e10, 1e20, 1e38]
    numbers = [NAN, float("inf"), -0.5, 0.75, 300.7, *limits, *(limit + 1 for limit in limits)]
    x = torch.tensor([*numbers, *(-n for n in numbers)] * 5, dtype=torch.float64).to(dtype)
    check(lambda x: (x.to(to), (x * 1).to(to), x.expand(2, -1).t().to(to)), x)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.float64])
def test_lerp_promotes_its_weight(dtype):
    x = torch.tensor([0, 1, 7]).to(dtype)
    check(lambda x, weight: torch.lerp(x, x.flip(0), weight), x, torch.tensor(0.66))


@pytest.mark.parametrize("alpha", [-1, 0, 2, True, False])
def test_alpha_of_bools_is_a_bool(alpha):
    x = torch.tensor([True, True, False, False])
    y = torch.tensor([True, False, True, False])
    check(lambda x, y: (torch.add(x, y, alpha=alpha), x.clone().add_(y, alpha=alpha)), x, y)


def test_sums_are_of_the_type_of_out():
    x = torch.tensor([[1.0, -1.0], [0.0, 0.0], [0.5, 0.25]])

    def run(x):
        outs = [torch.empty(3, dtype=t, device=x.device) for t in (torch.bool, torch.int64)]
        return [torch.sum(x, 1, out=out) for out in outs] + [torch.prod(x, 1, out=outs[0].clone())]

    check(run, x)


def test_sinh_and_cosh_of_large_numbers():
    x = torch.linspace(-89.3, 89.3, 4001)
    for function in (torch.sinh, torch.cosh):
        exact = function(x.double())
        error = (function(x.to(DEVICE)).cpu().double() - exact).abs() / exact.abs().clamp(min=1e-30)
        assert error[exact.abs() < 3.4e38].nan_to_num().max() < 4e-7


def test_sinh_of_doubles():
    x = torch.linspace(-30, 30, 601, dtype=torch.float64)
    check(torch.sinh, x, rtol=1e-14, atol=0)


def test_what_is_nothing_of_logsigmoid_is_positive():
    x = torch.full((3,), 200.0)
    check(lambda x: 1 / torch.nn.functional.logsigmoid(x), x)


def test_powers_of_integers_to_tensors_of_negative_ones():
    check(lambda n, by: n**by, torch.arange(-2, 3)[[0, 1, 3, 4]], torch.tensor(-1))
    check(lambda n: n ** torch.tensor(-1), torch.tensor([1, 2, -1, -3]))


def test_what_alpha_scales_may_leave_the_range_of_halves():
    x = torch.full((2, 2), 300.0, dtype=torch.float16)
    check(lambda x: torch.addmm(x, x, x, alpha=0.125), x)
    check(lambda x: torch.addmv(x[0], x, x[0], alpha=0.125), x)
    check(lambda x: torch.baddbmm(x[None], x[None], x[None], beta=0, alpha=-0.25), x)


def test_products_of_no_bools():
    check(lambda a, b: a @ b, torch.ones(0, 3).bool(), torch.ones(3, 2).bool())


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor", "eq", "mul"])
def test_a_number_of_the_cpu_comes_first(name):
    check(lambda x: getattr(torch, name)(torch.tensor(2.0), x), torch.tensor([0.0, 2.0]))


@pytest.mark.parametrize("number", [NAN, float("inf"), -float("inf")])
def test_adaptive_windows_keep_other_windows_numbers(number):
    x = torch.randn(2, 3, 7, 5, generator=torch.Generator().manual_seed(2))
    x[0, 0, 3, 1] = number

    def run(x):
        x = x.requires_grad_()
        y = torch.nn.functional.adaptive_avg_pool2d(x, (3, 4))
        y.backward(torch.where(y.detach() > 0.4, number, y.detach()))
        return y, x.grad

    check(run, x)


@pytest.mark.parametrize("wide", [torch.float32, torch.float64, torch.int64])
def test_numbers_on_the_cpu_promote_with_those_on_the_device(wide):
    for narrow in (torch.float16, torch.bfloat16, torch.float32, torch.int8, torch.bool):
        x = torch.tensor(1).to(narrow)
        number = torch.tensor(300.66135).to(wide)

        def run(x, number=number):
            return x * number, number + x, torch.where(x > 0, number, x), x.maximum(number)

        check(run, x, rtol=0, atol=0)


SLOPES = {
    "elu": torch.nn.functional.elu,
    "smooth_l1_loss": lambda x: torch.nn.functional.smooth_l1_loss(x, torch.zeros_like(x)),
    "huber_loss": lambda x: torch.nn.functional.huber_loss(x, torch.zeros_like(x)),
    "mse_loss": lambda x: torch.nn.functional.mse_loss(x, torch.zeros_like(x)),
    "softplus": torch.nn.functional.softplus,
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "tanh": torch.tanh,
}


@pytest.mark.parametrize("name", SLOPES)
def test_gradients_at_what_is_no_number_are_none(name):
    def gradient(x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad(SLOPES[name](x).sum(), x)[0]

    check(gradient, torch.full((32,), NAN))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_gelu_where_its_factor_vanishes(approximate):
    """Of f32's digits all count, though 1 + erf loses them."""
    x = torch.linspace(-5, -2, 301).requires_grad_()
    wide = x.detach().double().requires_grad_()
    there = x.detach().to(DEVICE).requires_grad_()
    for leaf in (wide, there):
        torch.nn.functional.gelu(leaf, approximate=approximate).sum().backward()
    close = {"rtol": 2e-5, "atol": 0, "check_dtype": False}
    gelu = torch.nn.functional.gelu(there, approximate=approximate)
    expected = torch.nn.functional.gelu(wide, approximate=approximate)
    torch.testing.assert_close(gelu.cpu(), expected, **close)
    torch.testing.assert_close(there.grad.cpu(), wide.grad, **close)


def test_erfc_of_large_numbers():
    x = torch.linspace(-4, 9, 100)
    expected = torch.erfc(x.double())
    torch.testing.assert_close(
        torch.erfc(x.to(DEVICE)).cpu(), expected, rtol=1e-6, atol=0, check_dtype=False
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_no_elements_of_types_that_are_not_computed(dtype):
    none, weight = torch.ones(0, 3, dtype=dtype), torch.ones(4, 3, dtype=dtype)
    check(lambda x, w: torch.nn.functional.linear(x, w, w[:, 0]), none, weight)
    check(lambda x: torch.softmax(x, -1, out=x.clone()), none)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logarithms_of_powers_are_whole(dtype):
    exponents = torch.arange(-120, 121)
    powers = torch.exp2(exponents.double()).to(dtype).to(DEVICE)
    assert torch.equal(powers.log2().floor().cpu().long(), exponents)
    check(lambda x: (x.log2(), x.log10()), torch.tensor([0.0, -0.0, -1.0, NAN, float("inf"), 3.0]))
    tens = torch.arange(0, 11)
    powers = (10 ** tens.double()).to(dtype).to(DEVICE)
    assert torch.equal(powers.log10().floor().cpu().long(), tens)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.int64])
def test_integers_are_counted_as_on_cuda(dtype):
    x = torch.tensor([0, 3, 1, 1, 5, 2], dtype=dtype, device=DEVICE)
    counts = torch.histc(x, bins=4, min=0, max=3)
    assert counts.dtype == dtype
    assert counts.tolist() == [1, 2, 1, 1]
    assert torch.histc(x, bins=2).tolist() == [4, 2]


@pytest.mark.parametrize("dtype", [torch.int32, torch.float64, torch.bool])
def test_a_matrix_without_elements_may_be_of_another_type_than_the_vector(dtype):
    matrix, vector = torch.ones(2, 0), torch.ones(0, dtype=dtype)
    try:
        torch.mv(matrix, vector)
    except RuntimeError as error:
        # Not any more in PyTorch 2.15.
        with pytest.raises(RuntimeError, match="same dtype"):
            torch.mv(matrix.to(DEVICE), vector.to(DEVICE))
        pytest.skip(str(error))
    check(lambda a, x: torch.mv(a, x), torch.ones(2, 0), torch.ones(0, dtype=dtype))
    check(lambda x, a: x @ a, torch.ones(0, dtype=dtype), torch.ones(1, 0, 1))
    check(
        lambda r, a, x: torch.addmv(r, a, x),
        torch.ones(1),
        torch.ones(1, 0),
        torch.ones(0).double(),
    )


def test_the_size_of_a_negated_byte():
    check(lambda x: (-x).abs(), torch.tensor([0, 1, 200, 255], dtype=torch.uint8))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_the_next_of_every_half(dtype):
    before = host_calls()
    x = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(dtype)
    for y in (torch.inf, -torch.inf, 0.0, -0.0, NAN, 1.0):
        to = torch.tensor([y], dtype=dtype)
        check(torch.nextafter, x, to, rtol=0, atol=0)
        check(lambda x, to: torch.nextafter(to, x), x, to, rtol=0, atol=0)
    assert host_calls() == before


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_the_next_number(dtype):
    before = host_calls()
    info = torch.finfo(dtype)
    least = torch.nextafter(torch.zeros((), dtype=dtype), torch.ones((), dtype=dtype)).item()
    edges = [0.0, least, info.tiny, 1 - info.eps / 2, 1.0, 1.5, info.max, torch.inf]
    x = torch.tensor([NAN, *edges, *(-edge for edge in edges)], dtype=dtype)

    def after(a, b):
        y = torch.nextafter(a, b)
        # Signs of zeros, too.
        return y, 1 / y, torch.nextafter(a.t(), b.t()), a.repeat(1, a.numel()).nextafter_(b)

    check(after, x[:, None], x[None, :], rtol=0, atol=0)
    check(torch.nextafter, x[:0], x[:1])
    check(torch.nextafter, x[3], x[5], rtol=0, atol=0)
    assert host_calls() == before


def test_the_next_number_of_what_is_promoted():
    x = torch.tensor([0.0, 1.0, -2.5])
    check(lambda x: torch.nextafter(x, x.double() + 1), x, rtol=0, atol=0)
    check(lambda x: torch.nextafter(x.half(), (x + 1).sum()), x, rtol=0, atol=0)
    for device in ("cpu", DEVICE):
        with pytest.raises(RuntimeError, match="not implemented for 'Long'"):
            torch.nextafter(x.to(device).long(), x.to(device).long())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_what_replaces_a_special_number_is_not_replaced(dtype):
    x = torch.tensor([NAN, 1.0, math.inf, -math.inf]).to(dtype)
    for numbers in itertools.product([None, -2.0, math.inf, -math.inf, NAN], repeat=3):
        check(lambda x, numbers=numbers: x.nan_to_num(*numbers), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("number", [0.1, 2.3, -1.7, 1e-3])
def test_numbers_beside_halves_are_elements_where_pytorch_has_them_so(dtype, number):
    x = torch.tensor([5.0, 7.0, -3.0, 0.3, 10.0, 1.0]).to(dtype)
    rtol = 0 if dtype.itemsize == 2 else 1e-6
    operators = {
        "remainder": lambda x: (x.remainder(number), torch.remainder(number, x)),
        "fmod": lambda x: x.fmod(number),
        "pow": lambda x: x.abs().pow(number),
        "base": lambda x: abs(number) ** x,
        "quotients": lambda x: (x // number, torch.div(x, number, rounding_mode="trunc")),
    }
    for operator in operators.values():
        check(operator, x, rtol=rtol, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_integers_beside_halves_are_halves(dtype):
    x = torch.tensor([1000.0, 3.0, -700.0, 513.0]).to(dtype)
    n = torch.tensor([257, 1001, 4097, -2049])
    operators = [torch.remainder, torch.fmod, torch.atan2, torch.maximum]
    for operator in [*operators, torch.add, torch.mul, torch.div, torch.lt]:
        check(lambda x, n, f=operator: (f(x, n), f(n, x)), x, n, rtol=0, atol=0)
    # One is as a number to a division.
    for one in (torch.tensor([257]), torch.tensor(257)):
        check(lambda x, n: (x // n, torch.div(x, n, rounding_mode="trunc")), x, one, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_integers_are_compared_with_a_float_tensor_as_its_type(dtype):
    n = torch.tensor([16777217, 16777216, 257, 256, -3])
    for number in (16777216.0, 257.0, 16777216.5, -3.0):
        lone = torch.tensor(number, dtype=dtype)
        check(lambda n, lone=lone: (n == lone, n > lone, lone <= n, torch.eq(n[0], lone)), n)
        check(lambda n, lone=lone: (n + lone, torch.maximum(n, lone)), n)


@pytest.fixture
def default_f64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def test_integers_beside_numbers_of_the_default_dtype(default_f64):
    """No result says that they are compared in f64."""
    n = torch.tensor([2**24 + 1, 5, 2**40 + 1])
    for number in (2.0**24, 2.0**40, 5.5):
        check(lambda n, x=number: (n > x, n == x, torch.eq(n, torch.tensor(x))), n)
    check(lambda n: (n / 3.0, n.clamp(5.5), torch.where(n > 6, n, 0.5)), n)
    check(lambda n: [torch.ldexp(x, n % 7) for x in (n, n > 6, n / 3)], n)
    check(lambda n: torch.ldexp(n > 6, n > 7), n)


def test_integers_that_only_uint64_has():
    n = torch.arange(3).to(torch.uint64)
    for number in (2**63 + 5, 2**64 - 1, 7):
        check(lambda n, x=number: (n.clone().fill_(x), torch.full_like(n, x), n == x), n)
        one = torch.tensor(number, dtype=torch.uint64)
        check(lambda n, x=one: n.clone().fill_(x), n)
