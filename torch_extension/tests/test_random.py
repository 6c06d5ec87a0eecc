"""Seeds, generator states, dropout and activation checkpoints replay what they drew."""

import pytest
import torch
import torch.nn as nn
from support import DEVICE
from torch.utils.checkpoint import checkpoint


def draws():
    return torch.cat([torch.randn(5, device=DEVICE), torch.rand(5, device=DEVICE)]).cpu()


def test_manual_seed_repeats_and_seeds_differ():
    torch.manual_seed(3)
    first = draws()
    assert not torch.equal(first, draws())
    torch.manual_seed(3)
    assert torch.equal(first, draws())
    torch.acc.manual_seed(4)
    assert not torch.equal(first, draws())
    assert torch.acc.initial_seed() == 4


def test_state_can_be_saved_and_restored():
    torch.manual_seed(0)
    draws()
    state = torch.acc.get_rng_state()
    first = draws()
    torch.acc.set_rng_state(state)
    assert torch.equal(first, draws())
    assert state.dtype == torch.uint8
    assert state.device.type == "cpu"
    torch.acc.set_rng_state_all(torch.acc.get_rng_state_all())


def test_own_generator():
    generator = torch.Generator(device=DEVICE)
    generator.manual_seed(5)
    torch.rand(3, device=DEVICE, generator=generator)
    state = generator.get_state()
    first = torch.rand(3, device=DEVICE, generator=generator)
    generator.set_state(state)
    assert torch.equal(first.cpu(), torch.rand(3, device=DEVICE, generator=generator).cpu())


def test_fork_rng_leaves_the_state():
    torch.manual_seed(1)
    state = torch.acc.get_rng_state()
    with torch.random.fork_rng(devices=[0], device_type=DEVICE):
        draws()
    assert torch.equal(state, torch.acc.get_rng_state())


def test_distributions():
    torch.manual_seed(0)
    n = 20000
    uniform = torch.rand(n, device=DEVICE).cpu()
    assert uniform.min() >= 0
    assert uniform.max() < 1
    assert abs(uniform.mean() - 0.5) < 0.02
    normal = torch.randn(n, device=DEVICE).cpu()
    assert abs(normal.mean()) < 0.05
    assert abs(normal.std() - 1) < 0.05
    # Kolmogorov and Smirnov: one sample in a thousand is farther off than 1.95.
    ranks = (torch.arange(n) + 0.5) / n
    reached = torch.special.ndtr(normal.double().sort().values)
    assert (reached - ranks).abs().max() * n**0.5 < 1.95
    integers = torch.randint(2, 9, (n,), device=DEVICE).cpu()
    assert set(integers.tolist()) == set(range(2, 9))
    coin = torch.bernoulli(torch.full((n,), 0.3, device=DEVICE)).cpu()
    assert abs(coin.mean() - 0.3) < 0.03
    assert sorted(torch.randperm(50, device=DEVICE).tolist()) == list(range(50))
    picked = torch.multinomial(torch.tensor([0.0, 1, 0], device=DEVICE), 4, replacement=True)
    assert picked.tolist() == [1, 1, 1, 1]


def test_in_place_initialisers():
    x = torch.empty(1000, device=DEVICE)
    assert abs(nn.init.normal_(x, std=0.02).std().item() - 0.02) < 0.005
    assert nn.init.uniform_(x, -1, 1).abs().max().item() <= 1
    nn.init.trunc_normal_(x, std=0.02, a=-0.04, b=0.04)
    assert x.abs().max().item() <= 0.04 + 1e-6


def test_dropout_scales_repeats_and_differs_between_calls():
    dropout, x = nn.Dropout(0.25), torch.ones(8000, device=DEVICE)
    torch.manual_seed(2)
    first, second = dropout(x).cpu(), dropout(x).cpu()
    torch.manual_seed(2)
    assert torch.equal(first, dropout(x).cpu())
    assert not torch.equal(first, second)
    assert first.unique().tolist() == pytest.approx([0, 4 / 3])
    assert abs((first == 0).float().mean() - 0.25) < 0.03
    assert torch.equal(dropout.eval()(x).cpu(), torch.ones(8000))


def test_dropout_mask_is_the_same_in_backward():
    x = torch.ones(1000, device=DEVICE, requires_grad=True)
    y = nn.functional.dropout(x, 0.5)
    y.sum().backward()
    assert torch.equal(y.detach().cpu(), x.grad.cpu())


def test_the_same_program_draws_anew_each_time():
    x = torch.ones(64, device=DEVICE)
    seen = {tuple(nn.functional.dropout(x, 0.5).tolist()) for _ in range(6)}
    assert len(seen) == 6


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_replays_dropout(reentrant):
    torch.manual_seed(0)
    block = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5), nn.GELU()).to(DEVICE)
    x = torch.randn(8, 16, device=DEVICE, requires_grad=True)

    def gradient(run):
        x.grad = None
        torch.manual_seed(1)
        run().sum().backward()
        return x.grad.cpu()

    replayed = gradient(lambda: checkpoint(block, x, use_reentrant=reentrant))
    assert torch.equal(replayed, gradient(lambda: block(x)))
