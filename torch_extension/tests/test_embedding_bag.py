"""Bags of rows: forms, padding, weights and derivatives as on the CPU, in the program."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from support import DEVICE, host_calls

INDICES = torch.tensor([1, 4, 4, 0, 2, 5, 1, 1, 3])
OFFSETS = torch.tensor([0, 2, 2, 6])


def bags(device, dtype=torch.float64, weights=None, indices=INDICES, offsets=OFFSETS, **how):
    draw = torch.Generator().manual_seed(0)
    table = torch.randn(6, 3, dtype=torch.float64, generator=draw).to(dtype)
    table = table.to(device).requires_grad_()
    if weights is not None:
        weights = weights.to(dtype).to(device).requires_grad_()
    offsets = offsets if offsets is None else offsets.to(device)
    y = F.embedding_bag(indices.to(device), table, offsets, per_sample_weights=weights, **how)
    (y * torch.linspace(-1, 1, y.numel(), dtype=dtype).view(y.shape).to(device)).sum().backward()
    found = [y.detach().cpu(), table.grad.cpu()]
    return found if weights is None else [*found, weights.grad.cpu()]


def check(**how):
    before = host_calls()
    found = bags(DEVICE, **how)
    # The CPU's kernel divides by frequencies.
    assert host_calls() == before + how.get("scale_grad_by_freq", False)
    torch.testing.assert_close(found, bags("cpu", **how))


@pytest.mark.parametrize(
    ("mode", "has_end", "padding", "by_frequency"),
    itertools.product(("sum", "mean", "max"), (False, True), (None, 1, -2), (False, True)),
)
def test_forms(mode, has_end, padding, by_frequency):
    if mode == "max" and by_frequency:
        pytest.skip("PyTorch refuses it")
    check(
        mode=mode,
        include_last_offset=has_end,
        padding_idx=padding,
        scale_grad_by_freq=by_frequency,
        offsets=torch.cat([OFFSETS, torch.tensor([9])]) if has_end else OFFSETS,
    )


@pytest.mark.parametrize("padding", [None, 4])
def test_weights_of_samples(padding):
    weights = torch.linspace(-1, 3, 9, dtype=torch.float64)
    check(mode="sum", weights=weights, padding_idx=padding)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_indices_of_two_dimensions_and_types(mode):
    check(mode=mode, indices=INDICES.view(3, 3), offsets=None)
    check(mode=mode, indices=INDICES.int(), offsets=OFFSETS.int())
    check(mode=mode, indices=INDICES[:0], offsets=OFFSETS[:2] * 0)
    check(mode=mode, dtype=torch.float32)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_a_padded_bag_and_equal_rows(mode):
    check(
        mode=mode,
        indices=torch.tensor([2, 2, 5, 5, 2]),
        offsets=torch.tensor([0, 2]),
        padding_idx=2,
    )


def test_module_trains_as_on_the_cpu():
    losses = {}
    for device in ("cpu", DEVICE):
        torch.manual_seed(0)
        bag = torch.nn.EmbeddingBag(20, 4, mode="mean", padding_idx=0).to(device)
        optimizer = torch.optim.SGD(bag.parameters(), lr=0.5)
        losses[device] = []
        for step in range(4):
            indices = (torch.arange(12) * (step + 3) % 20).view(4, 3).to(device)
            loss = bag(indices).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[device].append(loss.item())
    assert losses[DEVICE] == pytest.approx(losses["cpu"], rel=1e-5)


def test_what_is_refused():
    table = torch.ones(6, 3, device=DEVICE)

    def of(indices, offsets):
        return F.embedding_bag(indices.to(DEVICE), table, offsets.to(DEVICE)).cpu()

    with pytest.raises(RuntimeError, match=r"offsets\[0\] has to be 0"):
        of(INDICES, OFFSETS + 1)
    with pytest.raises(RuntimeError, match=r"offsets\[-1\] can not be greater"):
        of(INDICES, OFFSETS * 2)
    with pytest.raises(IndexError):
        of(INDICES + 1, OFFSETS)
