"""Complex numbers as on the CPU, forward and backward, without CPU fallbacks.

Repeats compile nothing.
"""

import math

import pytest
import torch
import torchacc
from support import DEVICE, assert_same, to_device

TYPES = [torch.complex64, torch.complex128]


def counted(work):
    """What `work` gives, and how many CPU fallbacks and compiled programs it took."""
    torchacc.sync()
    torchacc.reset_metrics()
    result = work()
    torchacc.sync()
    metrics = torchacc.metrics()
    return result, metrics["host_calls"] + metrics["immediate_runs"], metrics["compiles"]


def check(function, *arguments, rtol=1e-5, atol=1e-5):
    """Results and gradients of `function` are the CPU's; the third time nothing is compiled."""

    def work(arguments):
        results = function(*arguments)
        results = results if isinstance(results, tuple) else (results,)
        inputs = [a for a in arguments if isinstance(a, torch.Tensor) and a.requires_grad]
        outputs = [r for r in results if r.requires_grad]
        if not (inputs and outputs):
            return list(results)
        # Weights that are different for each element and part.
        weights = [
            (
                torch.arange(1.0, r.numel() + 1).sin().view(r.shape)
                * (1 + 0.5j if r.is_complex() else 1)
            )
            for r in outputs
        ]
        weights = [w.to(r.device, r.dtype) for w, r in zip(weights, outputs, strict=True)]
        gradients = torch.autograd.grad(outputs, inputs, weights, allow_unused=True)
        return [*results, *(g for g in gradients if g is not None)]

    expected = work(arguments)
    moved = to_device(arguments)
    for _ in range(3):
        actual, fallbacks, compiles = counted(lambda: work(moved))
        assert fallbacks == 0, torchacc.explain()
    assert compiles == 0
    for a, e in zip(actual, expected, strict=True):
        assert (a.shape, a.dtype) == (e.shape, e.dtype)
        assert_same(a.resolve_conj().resolve_neg(), e.resolve_conj().resolve_neg(), rtol, atol)


def drawn(*sizes, dtype=torch.complex64, grad=True):
    return torch.randn(*sizes, dtype=dtype).requires_grad_(grad)


def rotated(xq, xk, freqs):
    """Rotary embedding as Llama 4 has it."""
    xq_ = torch.view_as_complex(xq.float().reshape(*xq.shape[:-1], -1, 2))
    xk_ = torch.view_as_complex(xk.float().reshape(*xk.shape[:-1], -1, 2))
    freqs = freqs[:, :, None, :]
    return (
        torch.view_as_real(xq_ * freqs).flatten(3).type_as(xq),
        torch.view_as_real(xk_ * freqs).flatten(3).type_as(xk),
    )


def frequencies(positions, inverse):
    angles = (inverse[None, :, None].float() @ positions[:, None, :].float()).transpose(1, 2)
    return torch.polar(torch.ones_like(angles), angles) * 1.5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rotary_embedding(dtype):
    positions = torch.arange(7).expand(2, -1)
    inverse = 1 / 10000 ** (torch.arange(0, 8, 2) / 8)
    q = torch.randn(2, 7, 4, 8, dtype=dtype, requires_grad=True)
    k = torch.randn(2, 7, 2, 8, dtype=dtype, requires_grad=True)
    check(lambda q, k, p, i: rotated(q, k, frequencies(p, i)), q, k, positions, inverse)


def test_rotary_embedding_of_a_table():
    def work(x, positions):
        steps = torch.arange(16, device=x.device).float()
        inverse = 1 / 10000 ** (torch.arange(0, 8, 2, device=x.device) / 8)
        angles = torch.outer(steps, inverse)
        table = torch.polar(torch.ones_like(angles), angles)[positions]
        return torch.view_as_real(torch.view_as_complex(x) * table.view(1, 5, 1, 4)).flatten(3)

    check(work, torch.randn(2, 5, 3, 4, 2, requires_grad=True), torch.tensor([3, 1, 4, 1, 5]))


ELEMENTARY = """
exp2 expm1 log1p log2 log10 sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh sigmoid sinc
trace
"""
UNARY = {
    "neg": lambda z: -z,
    "conj": lambda z: z.conj(),
    "conj_physical": torch.conj_physical,
    "conj then more": lambda z: z.conj() * z + z.conj().imag,
    "conj of a part": lambda z: z[1:, ::2].conj().resolve_conj(),
    "adjoint": lambda z: z.mH.contiguous(),
    "negative view": lambda z: z.conj().imag * 2,
    "real": lambda z: z.real + 1,
    "imag": lambda z: z.imag + 1,
    "abs": torch.abs,
    "angle": torch.angle,
    "sgn": torch.sgn,
    "exp": torch.exp,
    "log": torch.log,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    **{name: getattr(torch, name) for name in ELEMENTARY.split()},
    "var": torch.var,
    "std and mean": lambda z: torch.std_mean(z, 1, correction=0, keepdim=True),
    "count_nonzero": lambda z: torch.count_nonzero(z, 0) + z.real.sum(),
    "take": lambda z: z.take(torch.tensor([3, -1, 3], device=z.device)),
    "index_fill": lambda z: z.index_fill(1, torch.tensor([2, -4], device=z.device), 1 - 2j),
    "cross": lambda z: torch.linalg.cross(z, z.flip(0) * 1j, dim=0),
    "square": torch.square,
    "cube": lambda z: z**3,
    "power": lambda z: z**1.5,
    "complex power": lambda z: z ** (0.5 + 1j),
    "sum": torch.sum,
    "sum of rows": lambda z: z.sum(-1, keepdim=True),
    "mean": torch.mean,
    "mean of columns": lambda z: z.mean(0),
    "cumsum": lambda z: z.cumsum(-1),
    "norm": lambda z: torch.linalg.vector_norm(z, dim=1),
    "transpose": lambda z: z.t().contiguous() * 2,
    "expand": lambda z: z[None].expand(2, 3, 4) * 1j,
    "reshape": lambda z: z.t().reshape(2, 6) + 1,
    "number": lambda z: (2 - z) / 3 + (1 + 2j) * z,
    "alpha": lambda z: torch.add(z, z.conj(), alpha=0.5 - 2j),
    "to real and back": lambda z: torch.view_as_complex(torch.view_as_real(z) * 2),
    "to a wider one": lambda z: z.to(torch.complex128) * z,
    "parts": lambda z: torch.complex(z.imag, z.real),
    "cat": lambda z: torch.cat([z, z.conj(), z.real]),
    "stack": lambda z: torch.stack([z, z * 1j], -1),
    "where": lambda z: torch.where(z.real > 0, z, z.conj()),
    "where a number": lambda z: torch.where(z.real > 0, z, 1.5),
    "masked_fill": lambda z: z.masked_fill(z.real > 0, 2 - 1j),
    "flip": lambda z: z.flip(0),
    "roll": lambda z: z.roll(1, 1),
    "tril": torch.tril,
    "diagonal": lambda z: z.diagonal() * 2,
    "pad": lambda z: torch.nn.functional.pad(z, (1, 2)),
    "addcmul": lambda z: torch.addcmul(z, z, z, value=0.5),
    "addcdiv": lambda z: torch.addcdiv(z, z, z + 3, value=0.5),
    "repeat": lambda z: z.repeat(2, 1),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", UNARY)
def test_functions(name, dtype):
    check(UNARY[name], drawn(3, 4, dtype=dtype))


EDGES = [0.0, -0.0, 1.0, -1.0, 0.3, -0.3, 25.0, -100.0, 1e-30, 1e20, math.inf, -math.inf]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", [n for n in ELEMENTARY.split() if n not in ("trace", "sinc")])
def test_functions_at_their_edges(name, dtype):
    """Beyond rounding other numbers than the CPU's only where the CPU has none."""
    z = torch.tensor([complex(re, im) for re in EDGES for im in EDGES])
    expected = torch.view_as_real(getattr(torch, name)(z.to(torch.complex128)))
    on_cpu = torch.view_as_real(getattr(torch, name)(z.to(dtype)))
    actual = torch.view_as_real(getattr(torch, name)(z.to(DEVICE, dtype)).cpu())
    tolerance = {torch.complex64: (2e-5, 1e-37), torch.complex128: (1e-12, 2e-15)}[dtype]
    close = [torch.isclose(actual.double(), e.double(), *tolerance) for e in (expected, on_cpu)]
    wrong = ~(close[0] | close[1] | on_cpu.isnan())
    # Of numbers both parts of which are endless C leaves some signs open.
    wrong &= ~(torch.view_as_real(z).isinf().all(-1, keepdim=True) & actual.isinf())
    assert not wrong.any(), (z[wrong.any(-1)], on_cpu[wrong], actual[wrong])


BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "conjugate products": lambda a, b: a.conj() * b + a * b.conj(),
    "power": lambda a, b: a**b,
    "equal": lambda a, b: (a == b, a != b, a == a.clone()),
    "outer": lambda a, b: torch.outer(a[0], b.reshape(-1)),
}


@pytest.mark.parametrize("types", [(a, b) for a in TYPES for b in [*TYPES, torch.float32]], ids=str)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name, types):
    a, b = (drawn(*sizes, dtype=t) for sizes, t in zip([(3, 4), (4,)], types, strict=True))
    check(BINARY[name], a, b, rtol=1e-4)


PRODUCTS = {
    "mm": (lambda a, b: a @ b, (3, 4), (4, 5)),
    "conjugate": (lambda a, b: a.conj() @ b, (3, 4), (4, 5)),
    "adjoint": (lambda a, b: a.mH @ b, (4, 3), (4, 5)),
    "both": (lambda a, b: a.mH @ b.mH, (4, 3), (5, 4)),
    "bmm": (lambda a, b: a @ b, (2, 3, 4), (2, 4, 5)),
    "matmul": (lambda a, b: a @ b, (2, 1, 3, 4), (5, 4, 2)),
    "mv": (lambda a, b: a @ b, (3, 4), (4,)),
    "dot": (lambda a, b: a @ b, (4,), (4,)),
    "vdot": (torch.vdot, (4,), (4,)),
    "einsum": (lambda a, b: torch.einsum("bij,bkj->bik", a, b.conj()), (2, 3, 4), (2, 5, 4)),
    "linear": (lambda a, b: torch.nn.functional.linear(a, b, b[:, 0]), (3, 4), (5, 4)),
    "addmm": (lambda a, b: torch.addmm(b[0], a, b, beta=2, alpha=0.5j), (3, 4), (4, 5)),
    "baddbmm": (lambda a, b: torch.baddbmm(b[:, :1], a, b, beta=0.5), (2, 3, 4), (2, 4, 5)),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name, dtype):
    function, *sizes = PRODUCTS[name]
    check(function, *(drawn(*s, dtype=dtype) for s in sizes))


INDEXING = {
    "rows": lambda z, i: z[i],
    "columns": lambda z, i: z[:, i, None],
    "index_select": lambda z, i: z.index_select(1, i),
    "gather": lambda z, i: z.gather(0, i.expand(3, 3)),
    "scatter": lambda z, i: z.scatter(0, i.sort().indices[:, None].expand(3, 4), z * 2),
    "scatter_add": lambda z, i: z.scatter_add(0, i[:, None].expand(3, 4), z * 2),
    "index_add": lambda z, i: z.index_add(0, i, z * 1j, alpha=2),
    "index_copy": lambda z, i: z.detach().index_copy(0, i[:2], z.detach()[:2] * 1j),
    "embedding": lambda z, i: torch.nn.functional.embedding(i, z.detach()),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", INDEXING)
def test_indexing(name, dtype):
    check(INDEXING[name], drawn(3, 4, dtype=dtype), torch.tensor([2, 0, 2]))


TRANSFORMS = {
    "fft": lambda z, x: torch.fft.fft(z),
    "ifft": lambda z, x: torch.fft.ifft(z, dim=0),
    "fft2": lambda z, x: torch.fft.fft2(z, norm="ortho"),
    "fftn of another length": lambda z, x: torch.fft.fftn(z, s=(4, 3), dim=(1, 0)),
    "rfft": lambda z, x: torch.fft.rfft(x),
    "rfftn": lambda z, x: torch.fft.rfftn(x, norm="forward"),
    "irfft": lambda z, x: torch.fft.irfft(z),
    "irfft of an odd length": lambda z, x: torch.fft.irfft(z, n=9),
    "irfftn": lambda z, x: torch.fft.irfftn(z, dim=(1, 0)),
    "hfft": lambda z, x: torch.fft.hfft(z, dim=0),
    "fftshift": lambda z, x: torch.fft.fftshift(torch.fft.fft(x)),
    "convolution": lambda z, x: torch.fft.irfft(torch.fft.rfft(x) * torch.fft.rfft(x[:1]), n=6),
    "stft": lambda z, x: torch.stft(
        x, 4, window=torch.hann_window(4, device=x.device), return_complex=True, center=False
    ),
}


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_fourier_transforms(name, dtype):
    x = drawn(3, 6, dtype=dtype.to_real())
    check(TRANSFORMS[name], drawn(3, 5, dtype=dtype), x, rtol=1e-4)


@pytest.mark.parametrize("length", [1, 2, 97, 1000, 4096])
def test_transforms_of_any_length(length):
    check(lambda z: torch.fft.fft(z, norm="ortho"), drawn(2, length, dtype=torch.complex128))


def in_place(z, w):
    z = z.clone()
    z += w
    z[1:] *= 1j
    z[:, 0] = w[:, 1]
    z[0, 0] = 3 - 1j
    z.real[2] = 5
    z.conj().imag[1] = 7
    z[torch.tensor([0, 2], device=z.device)] = w[:2].conj()
    z.conj().add_(w)
    return z


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_in_place(dtype):
    check(in_place, drawn(3, 4, dtype=dtype, grad=False), drawn(3, 4, dtype=dtype, grad=False))


def made(z):
    like = {"dtype": z.dtype, "device": z.device}
    return (
        torch.zeros(2, 3, **like) + 1,
        torch.ones(2, **like),
        torch.full((2,), 1 - 2j, **like),
        torch.full_like(z, 2j),
        torch.eye(3, **like),
        torch.zeros_like(z),
        torch.ones_like(z),
        torch.scalar_tensor(1.5, **like),
        z.new_tensor([1j, 2]) * 2,
        z.clone().fill_(3 - 1j),
        z.clone().zero_(),
    )


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_new_tensors(dtype):
    check(made, drawn(3, dtype=dtype, grad=False))


def test_conversions():
    def work(z, x, n):
        both = (z.to(torch.complex64), z.to(torch.complex128))
        here = torch.empty(3, dtype=torch.complex64, device=z.device)
        return (
            *both,
            x.to(torch.complex64),
            x.to(torch.complex128),
            n.to(torch.complex64),
            z.to(torch.bool),
            (z * 0).to(torch.bool),
            here.copy_(x),
            x.sum(dtype=torch.complex64),
            x * 1j,
            n * (1 + 1j),
        )

    check(work, drawn(3, grad=False), torch.randn(3), torch.tensor([1, 0, -2]))
    real, fallbacks, _ = counted(lambda: torch.full((2,), 1 + 2j, device=DEVICE).to(torch.float32))
    assert (real.tolist(), fallbacks) == ([1, 1], 0)


def test_numbers_that_are_not_finite():
    inf, nan = float("inf"), float("nan")
    z = torch.tensor(
        [complex(inf, nan), complex(nan, 1), complex(-inf, 0), 0j, complex(3e38, 3e38)]
    )
    check(lambda z: (torch.isnan(z), torch.isinf(z), torch.isfinite(z), z.abs() > 1), z)
    # On the negative axis the sign of a zero decides which root it is.
    z = torch.complex(torch.tensor([-4.0, -4.0, 4.0, 0.0]), torch.tensor([0.0, -0.0, -0.0, 0.0]))
    check(lambda z: (torch.sqrt(z), torch.angle(z), torch.log(z + 1)), z)
    tiny = torch.tensor([1e-30 + 1e-30j, 1e30 + 1e30j])
    check(lambda z: (z / z, z.abs(), z.sgn()), tiny, rtol=1e-5, atol=0)


def test_what_has_no_native_form_runs_on_the_cpu():
    z = torch.randn(4, dtype=torch.complex64)
    for function in (torch.sin, torch.tanh, torch.var, torch.prod):
        torch.testing.assert_close(function(z.to(DEVICE)).cpu(), function(z))
    half = z.to(torch.complex32)
    torch.testing.assert_close((half.to(DEVICE) * half.to(DEVICE)).cpu(), half * half)
