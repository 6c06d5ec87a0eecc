"""Interpolation, grids, padding, windows, histograms: in the program, for images of any size."""

import pytest
import torch
import torch.nn.functional as F
import torchacc
from support import DEVICE, assert_same, check

SIZES = [(8, 12), (9, 13), (10, 11), (12, 16), (14, 15), (17, 9), (21, 33), (13, 21)]


def grid_of(x, align):
    theta = torch.tensor([[0.9, 0.2, 0.1], [-0.1, 1.1, 0.0]], device=x.device, dtype=x.dtype)
    return F.affine_grid(theta.expand(x.shape[0], 2, 3), x.shape, align_corners=align)


OPERATORS = {
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest to fewer": lambda x: F.interpolate(x, size=(5, 3)),
    "nearest-exact": lambda x: F.interpolate(x, size=(5, 31), mode="nearest-exact"),
    "bilinear": lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"),
    "bilinear to a size": lambda x: F.interpolate(x, (20, 30), mode="bilinear"),
    "bilinear by corners": lambda x: F.interpolate(x, (4, 30), mode="bilinear", align_corners=True),
    "bicubic": lambda x: F.interpolate(x, scale_factor=0.6, mode="bicubic"),
    "reflection": lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect"),
    "replication": lambda x: F.pad(x, (1, 20, -3, 2), mode="replicate"),
    "unfold": lambda x: F.unfold(x, (3, 2), padding=1, stride=2, dilation=(1, 3)),
    "fold": lambda x: F.fold(F.unfold(x, 3, padding=1), x.shape[2:], 3, padding=1),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2),
    "grid": lambda x: F.grid_sample(x, grid_of(x, False), align_corners=False),
    "grid of borders": lambda x: F.grid_sample(x, grid_of(x, True), "bilinear", "border", True),
    "grid of mirrors": lambda x: F.grid_sample(
        x, grid_of(x, False), "bicubic", "reflection", False
    ),
    "nearest of a grid": lambda x: F.grid_sample(x, grid_of(x, False), "nearest", "zeros", False),
    "masked_scatter": lambda x: x.masked_scatter(x > 0.1, x * 2),
    "nansum": lambda x: torch.where(x > 1, torch.nan, x).nansum(-1),
    "weight_norm": lambda x: torch._weight_norm(x, x[:, :1, :1, :1], 0),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_forward_and_backward_stay_in_the_program(name):
    before = torchacc.metrics()["host_calls"]
    x = torch.randn(2, 3, 8, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    on_cpu, on_acc = x.clone().requires_grad_(), x.to(DEVICE).requires_grad_()
    expected, actual = OPERATORS[name](on_cpu), OPERATORS[name](on_acc)
    weight = torch.linspace(-1, 1, expected.numel(), dtype=torch.float64).view(expected.shape)
    (expected * weight).sum().backward()
    (actual * weight.to(DEVICE)).sum().backward()
    assert_same(actual, expected, rtol=1e-9, atol=1e-9)
    assert_same(on_acc.grad, on_cpu.grad, rtol=1e-9, atol=1e-9)
    assert torchacc.metrics()["host_calls"] == before


@pytest.mark.parametrize(
    "name", ["bilinear to a size", "bilinear by corners", "reflection", "fold", "pixel_shuffle"]
)
def test_images_of_other_sizes_soon_compile_nothing(name):
    compiled = []
    for seed, size in enumerate(SIZES):
        x = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(seed))
        # As no other test has it: with other paddings among them, sizes explain nothing.
        check(lambda x: OPERATORS[name](x) * 1.25, x, rtol=1e-4, atol=1e-5)
        # Templates are learnt beside the programs.
        torchacc.sync()
        compiled.append(torchacc.metrics()["compiles"])
    assert compiled[-1] - compiled[0] < len(SIZES) - 3, compiled


# A weight of the bicubic filter may be 0 or nearly so: infinity times it is NaN or not.
@pytest.mark.parametrize(
    ("mode", "number"),
    [
        ("bilinear", torch.inf),
        ("bilinear", -torch.inf),
        ("bilinear", torch.nan),
        ("bicubic", torch.nan),
    ],
)
def test_what_is_not_finite_stays_in_its_windows(mode, number):
    def run(x, size):
        x = x.clone().requires_grad_()
        y = F.interpolate(x, size, mode=mode, antialias=True)
        weight = torch.ones_like(y)
        weight[..., 2, 1] = number
        return y, *torch.autograd.grad((y * weight).sum(), x)

    x = torch.randn(2, 3, 19, 32, generator=torch.Generator().manual_seed(0))
    x[0, 1, 3, 5] = number
    for size in ((8, 8), (40, 7), (19, 5), (3, 3)):
        check(lambda x, size=size: run(x, size), x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("keywords", [{"mode": "linear"}, {"mode": "nearest"}])
def test_a_scale_that_leaves_a_size_as_it_is_leaves_lines_as_they_are(keywords):
    for n in (40, 53, 67, 81, 95, 110, 64, 19, 18, 7):
        x = torch.arange(float(n)).view(1, 1, n)
        check(lambda x: F.interpolate(x * 1, scale_factor=1.05, **keywords), x)


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("scale", [1.1, 0.45, 2.5, (1.1, 0.3)])
@pytest.mark.parametrize("align", [False, True])
def test_scales_of_images_without_aliasing(mode, scale, align):
    def run(x, **target):
        x = x.clone().requires_grad_()
        y = F.interpolate(x, mode=mode, antialias=True, align_corners=align, **target)
        weight = torch.linspace(-1, 1, y.numel(), device=x.device).view(y.shape)
        return y, *torch.autograd.grad((y * weight).sum(), x)

    for size in SIZES:
        x = torch.randn(1, 2, *size, generator=torch.Generator().manual_seed(1))
        check(lambda x: run(x, scale_factor=scale), x, rtol=1e-4, atol=1e-5)
        check(lambda x: run(x, size=(6, 11)), x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_halves_are_computed_in_f32(dtype):
    x = torch.randn(2, 3, 8, 12, generator=torch.Generator().manual_seed(0)).to(dtype)
    for name in ("bilinear", "bicubic", "reflection", "unfold"):
        function = OPERATORS[name]
        exact = function(x.double())
        assert_same(function(x.to(DEVICE)).double(), exact, rtol=torch.finfo(dtype).eps, atol=1e-3)


def test_a_histogram_of_what_is_not_finite_is_refused():
    x = torch.tensor([1.0, float("nan")], device=DEVICE)
    with pytest.raises((RuntimeError, IndexError)):
        torch.histc(x, 4).cpu()
    check(lambda x: torch.histc(x, 4, 0, 2), torch.tensor([0.0, 0.5, 1.0, 2.0, 3.0, torch.nan]))


def test_too_few_elements_for_a_mask_are_refused():
    x, mask = torch.zeros(4, device=DEVICE), torch.tensor([True, True, True, False], device=DEVICE)
    with pytest.raises((RuntimeError, IndexError)):
        x.masked_scatter(mask, torch.ones(2, device=DEVICE)).cpu()
