"""Optimizers follow the CPU's, in every mode they have."""

import copy

import pytest
import torch
import torch.nn as nn
import torchacc
from support import DEVICE, assert_same, check, to_device, twins

MODES = [{}, {"foreach": False}, {"foreach": True}, {"fused": True}, {"amsgrad": True}]
OPTIMIZERS = [
    *((torch.optim.AdamW, {"lr": 0.01, **mode}) for mode in MODES),
    (torch.optim.AdamW, {"lr": 0.01, "capturable": True}),
    (torch.optim.Adam, {"lr": 0.01, "weight_decay": 0.1}),
    (torch.optim.SGD, {"lr": 0.1}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
    (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "fused": True}),
    (torch.optim.RMSprop, {"lr": 0.01}),
    (torch.optim.Adagrad, {"lr": 0.1}),
]


def name_of(value):
    if isinstance(value, dict):
        return ",".join(f"{k}={v}" for k, v in value.items())
    return value.__name__


def model():
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))


def train(model, optimizer, steps, x, schedule=True):
    for step in range(steps):
        if schedule:
            for group in optimizer.param_groups:
                group["lr"] *= 0.9
        model(x + step).square().sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


@pytest.mark.parametrize("optimizer, keywords", OPTIMIZERS, ids=name_of)
def test_follows_the_cpu(optimizer, keywords):
    cpu, acc = twins(model)
    x = torch.randn(5, 8)
    on_cpu = {k: v for k, v in keywords.items() if k != "capturable"}
    train(cpu, optimizer(cpu.parameters(), **on_cpu), 4, x)
    train(acc, optimizer(acc.parameters(), **keywords), 4, x.to(DEVICE))
    assert_same(list(acc.parameters()), list(cpu.parameters()), 1e-4, 1e-5)


@pytest.mark.parametrize("mode", MODES, ids=name_of)
def test_state_can_be_saved_and_loaded(mode):
    _, acc = twins(model)
    twin = copy.deepcopy(acc)
    x = torch.randn(5, 8, device=DEVICE)
    first = torch.optim.AdamW(acc.parameters(), lr=0.01, **mode)
    train(acc, first, 2, x)
    second = torch.optim.AdamW(twin.parameters(), lr=0.01, **mode)
    twin.load_state_dict(acc.state_dict())
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    train(acc, first, 2, x)
    train(twin, second, 2, x)
    for p, q in zip(acc.parameters(), twin.parameters(), strict=True):
        assert torch.equal(p.cpu(), q.cpu())


def test_optimizer_step_cuts_once():
    parameter = nn.Parameter(torch.ones(2, device=DEVICE))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    parameter.sum().backward()
    torchacc.sync()
    torchacc.reset_metrics()
    (parameter * 2).sum().backward()
    assert torchacc.metrics()["cuts"] == 0
    optimizer.step()
    assert torchacc.metrics()["cuts"] == 1


def test_cut_mark_step_and_sync():
    torchacc.sync()
    torchacc.reset_metrics()
    x = torch.ones(2, device=DEVICE) + 1
    torchacc.cut()
    y = x * 2
    torchacc.mark_step()
    z = y + 1
    torchacc.sync()
    assert torchacc.metrics()["cuts"] == 3
    assert z.tolist() == [5, 5]


def test_clip_gradients_by_norm_and_value():
    gradient = torch.tensor([3.0, 4.0])
    for device in ("cpu", DEVICE):
        parameter = nn.Parameter(torch.zeros(2, device=device))
        parameter.grad = gradient.to(device, copy=True)
        norm = nn.utils.clip_grad_norm_([parameter], 1.0)
        torch.testing.assert_close(norm.cpu(), torch.tensor(5.0))
        torch.testing.assert_close(parameter.grad.cpu(), gradient / 5, rtol=1e-4, atol=1e-5)
        nn.utils.clip_grad_value_([parameter], 0.7)
        torch.testing.assert_close(
            parameter.grad.cpu(), torch.tensor([0.6, 0.7]), atol=1e-5, rtol=0
        )


def test_ema_and_swa_averages():
    cpu, acc = twins(model)
    averages = [torch.optim.swa_utils.AveragedModel(m) for m in (cpu, acc)]
    for m, average in zip((cpu, acc), averages, strict=True):
        with torch.no_grad():
            for p in m.parameters():
                p.add_(1)
        average.update_parameters(m)
    assert_same(list(averages[1].parameters()), list(averages[0].parameters()))
    assert_same(to_device(averages[0].n_averaged), averages[1].n_averaged.cpu())


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD])
def test_a_parameter_that_got_other_sizes_keeps_its_state(optimizer):
    keywords = {"momentum": 0.9} if optimizer is torch.optim.SGD else {"amsgrad": True}

    def trained(device):
        x = torch.arange(4.0, device=device).requires_grad_()
        fused = optimizer([x], lr=0.1, fused=True, **keywords)
        x.grad = torch.arange(4.0, device=device)
        fused.step()
        with torch.no_grad():
            x.set_(x.detach().reshape(2, 2).clone())
        fused.step()
        return x.detach()

    assert_same(trained(DEVICE), trained("cpu"))


@pytest.mark.parametrize("mode", [{}, {"fused": True}])
def test_an_infinite_parameter_stays_infinite(mode):
    def trained(device):
        x = torch.tensor([-float("inf"), 1.0], device=device).requires_grad_()
        x.grad = torch.zeros(2, device=device)
        torch.optim.AdamW([x], lr=0.1, **mode).step()
        return x.detach()

    assert_same(trained(DEVICE), trained("cpu"))


def twice(name, w):
    one = torch.full((), 0.5, device=w.device)
    calls = {
        "_foreach_add_": lambda: torch._foreach_add_([w, w], 1.0),
        "_foreach_mul_": lambda: torch._foreach_mul_([w[:2], w, w[:2]], 3.0),
        "unscale": lambda: torch._amp_foreach_non_finite_check_and_unscale_([w, w], one * 0, one),
    }
    calls[name]()
    return w


@pytest.mark.parametrize("name", ["_foreach_add_", "_foreach_mul_", "unscale"])
def test_a_tensor_twice_in_a_list_is_updated_twice(name):
    check(lambda w: twice(name, w), torch.arange(1.0, 4))


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.AdamW])
def test_a_parameter_that_is_there_twice(kind):
    def train(w):
        w = w.clone().requires_grad_()
        optimizer = kind([w, w], lr=0.1, fused=True)
        for _ in range(2):
            optimizer.zero_grad()
            w.square().sum().backward()
            optimizer.step()
        return w.detach()

    check(train, torch.arange(1.0, 4))
