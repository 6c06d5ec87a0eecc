"""Adaptive maxima and unpooling: numbers, places and derivatives as on the CPU, in the program."""

import pytest
import torch
import torch.nn.functional as F
from support import DEVICE, host_calls


def numbers(sizes, dtype=torch.float64, special=False):
    draw = torch.Generator().manual_seed(5)
    x = torch.randint(-4, 5, sizes, generator=draw).to(dtype)
    if special:
        flat = x.view(-1)
        flat[::7] = float("nan")
        flat[3::11], flat[5::11] = float("inf"), -float("inf")
    return x


def both(call, x):
    found = []
    for device in (DEVICE, "cpu"):
        leaf = x.clone().to(device).requires_grad_()
        results = call(leaf)
        values = results[0] if isinstance(results, tuple) else results
        weight = torch.linspace(-1, 1, values.numel(), dtype=x.dtype).view(values.shape)
        (values * weight.to(device)).nan_to_num(0, 0, 0).sum().backward()
        places = [results[1].cpu()] if isinstance(results, tuple) else []
        found.append([values.detach().cpu(), leaf.grad.cpu(), *places])
    return found


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(
    ("sizes", "to"),
    [
        ((2, 3, 8, 6), (4, 3)),
        ((2, 3, 7, 5), (3, 2)),
        ((1, 2, 5, 4), (7, 9)),
        ((3, 6, 9), (1, None)),
        ((2, 1, 1, 13), (1, 5)),
        ((2, 2, 4, 5, 6), (2, 3, 4)),
    ],
    ids=str,
)
def test_adaptive_maxima(sizes, to, special):
    pool = F.adaptive_max_pool3d if len(to) == 3 else F.adaptive_max_pool2d
    before = host_calls()
    found, expected = both(
        lambda x: pool(x, to, return_indices=True), numbers(sizes, special=special)
    )
    assert host_calls() == before
    torch.testing.assert_close(found, expected, equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_types_and_lines(dtype):
    found, expected = both(lambda x: F.adaptive_max_pool1d(x, 3), numbers((2, 3, 10), dtype))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("sizes", [(2, 3, 6, 8), (3, 4, 4)], ids=str)
def test_what_was_pooled_goes_back(sizes):
    places = torch.arange(sizes[-1] * sizes[-2], dtype=torch.float64).sin().view(sizes[-2:])
    x = places.expand(sizes) + numbers(sizes[:-2])[..., None, None]

    def call(x):
        values, places = F.max_pool2d(x, 2, return_indices=True)
        return F.max_unpool2d(values * 2, places, 2)

    before = host_calls()
    found, expected = both(call, x)
    assert host_calls() == before
    torch.testing.assert_close(found, expected)


DILATED = [
    (F.max_pool1d, (1, 1, 3), 1, 4),
    (F.max_pool1d, (2, 3, 6), 1, 7),
    (F.max_pool2d, (1, 1, 3, 3), 1, 4),
    (F.max_pool2d, (2, 3, 3), (1, 0), (4, 1)),
    (F.max_pool2d, (1, 2, 6, 3), 1, (2, 4)),
    (F.max_pool3d, (1, 2, 3, 3, 3), 1, 4),
]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int32], ids=str
)
@pytest.mark.parametrize("pool", DILATED, ids=lambda pool: str(pool[1:]))
def test_windows_that_meet_padding_only(pool, dtype):
    call, sizes, padding, dilation = pool
    if call is F.max_pool1d and not dtype.is_floating_point:
        pytest.skip("PyTorch has none")
    found = []
    for device in (DEVICE, "cpu"):
        x = numbers(sizes, dtype).to(device)
        values, places = call(x, 2, 1, padding, dilation, return_indices=True)
        alone = call(x, 2, 1, padding, dilation)
        found.append([values.cpu(), places.cpu(), alone.cpu()])
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_windows_that_meet_padding_only_have_no_slope():
    # The place is beyond the plane; PyTorch's CPU kernel adds there, in memory that is another's.
    x = torch.ones(2, 1, 3, 3, device=DEVICE, requires_grad=True)
    F.max_pool2d(x, 2, 1, 1, 4).sum().backward()
    assert x.grad.cpu().eq(0).all()
    # Here all are in the plane.
    found = []
    for device in (DEVICE, "cpu"):
        x = torch.zeros(1, 1, 6, 3).to(device).requires_grad_()
        F.max_pool2d(x, 2, 1, 1, (2, 4)).sum().backward()
        found.append(x.grad.cpu())
    torch.testing.assert_close(*found)


def test_places_that_there_are_not():
    places = torch.tensor([[[9]]], device=DEVICE)
    with pytest.raises((IndexError, RuntimeError)):
        F.max_unpool1d(torch.ones(1, 1, 1, device=DEVICE), places, 2).cpu()
