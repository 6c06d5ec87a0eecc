"""What a known trace computes runs while it is recorded, where the host waited for it last time."""

import os
import time

import pytest
import torch
import torch.nn as nn
import torchacc
from support import DEVICE, twins

ONE_PROCESSOR = len(os.sched_getaffinity(0)) < 2
pytestmark = pytest.mark.skipif(ONE_PROCESSOR, reason="there is no processor to run early on")


def chain():
    layers = [module for _ in range(40) for module in (nn.Linear(32, 32), nn.LayerNorm(32))]
    return nn.Sequential(*layers)


def wait_for_kernels(before, is_sure):
    """Until something has run since the counters were `before`; for a moment only, unless it is
    `is_sure` to."""
    deadline = time.monotonic() + (60 if is_sure else 0.02)
    while torchacc.metrics()["execute_ns"] == before["execute_ns"]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.001)


def early_kernels(model, x, ends=torch.sum, is_sure=False):
    """Records most of the model, waits until some of it has run, records the rest and reads the
    result of `ends`; that, and how many kernels had run early."""
    # What still runs would keep the launch thread from it.
    torchacc.sync()
    before = torchacc.metrics()
    with torch.no_grad():
        x = model[:60](x)
        wait_for_kernels(before, is_sure)
        value = ends(model[60:](x)).item()
    return value, torchacc.metrics()["early_kernels"] - before["early_kernels"]


def test_what_is_known_runs_while_the_rest_is_recorded():
    cpu, acc = twins(chain)
    for step in range(6):
        x = torch.randn(4, 32)
        is_known = step > 0
        value, kernels = early_kernels(acc, x.to(DEVICE), is_sure=is_known)
        torch.testing.assert_close(value, cpu(x).sum().item(), rtol=1e-4, atol=1e-4)
        assert (kernels > 0) == is_known


def test_another_end_of_what_began_early():
    cpu, acc = twins(chain)
    x = torch.randn(4, 32)
    ends = [torch.sum, torch.sum, torch.sum, torch.amax, torch.sum, torch.amin, torch.amax]
    for end in ends:
        value, _ = early_kernels(acc, x.to(DEVICE), end)
        torch.testing.assert_close(value, end(cpu(x)).item(), rtol=1e-4, atol=1e-4)


def test_inputs_that_change_after_they_were_read():
    """What began early has read the values of that moment, as the recorded operations do."""
    cpu, acc = twins(chain)
    for step in range(5):
        x = torch.full((4, 32), float(step))
        on_acc = x.to(DEVICE)
        with torch.no_grad():
            expected, y = cpu(x).sum() + 1, acc[:60](on_acc)
            time.sleep(0.02)
            on_acc.fill_(1)
            value = (acc[60:](y).sum() + on_acc.mean()).item()
        torch.testing.assert_close(value, expected.item(), rtol=1e-4, atol=1e-4)
        assert on_acc.tolist() == torch.ones(4, 32).tolist()


def test_what_is_refused_early_is_reported_once():
    table, layers = nn.Embedding(10, 32).to(DEVICE), chain().to(DEVICE)
    for step in range(6):
        index = torch.tensor([[10 if step == 4 else step]], device=DEVICE)
        with torch.no_grad():
            y = layers[:60](table(index))
            time.sleep(0.02)
            total = layers[60:](y).sum()
        if step == 4:
            with pytest.raises(IndexError, match="out of range"):
                total.item()
            torchacc.sync()
        else:
            assert total.isfinite().item()


def test_training_steps_that_read_the_loss():
    """The read comes before the update, which overwrites what the early kernels have read."""
    cpu, acc = twins(chain)
    peers = [(m, torch.optim.SGD(m.parameters(), lr=1e-2, momentum=0.9)) for m in (cpu, acc)]
    for _ in range(6):
        x = torch.randn(4, 32)
        losses = []
        for model, optimizer in peers:
            optimizer.zero_grad()
            y = model[:60](x.to(next(model.parameters()).device))
            time.sleep(0.01)
            loss = model[60:](y).square().mean()
            losses.append(loss.item())
            loss.backward()
            optimizer.step()
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)


def image_classifier():
    """Its batch norms update their statistics early in the program."""
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True)]
    for _ in range(12):
        layers += [nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * 64, 5))


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("make", [chain, image_classifier])
def test_steps_that_end_with_the_update(make, optimizer):
    """The whole step is one program, which overwrites parameters: what comes before that runs
    early, with the same bits as without."""
    shape = (4, 32) if make is chain else (4, 3, 8, 8)

    def train(waits):
        torch.manual_seed(3)
        model = make().to(DEVICE)
        steps = optimizer(model.parameters(), lr=1e-2)
        losses, early = [], []
        for step in range(8):
            x = torch.randn(shape, generator=torch.Generator().manual_seed(step)).to(DEVICE)
            if waits:
                torchacc.sync()
            torchacc.reset_metrics()
            before = torchacc.metrics()
            steps.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            if waits:
                wait_for_kernels(before, is_sure=step >= 3)
            steps.step()
            losses.append(loss.item() if waits else loss.detach())
            early.append(torchacc.metrics()["early_kernels"])
        torchacc.sync()
        state = [value.cpu() for value in model.state_dict().values()]
        return [float(loss) for loss in losses], state, early

    losses, state, early = train(True)
    expected = train(False)
    assert losses == expected[0]
    assert all(torch.equal(a, b) for a, b in zip(state, expected[1], strict=True))
    assert early[0] == 0
    assert all(early[3:])


def test_numbers_that_were_the_same_and_change():
    """A scalar that was the same twice is taken to be so again before the program says it."""
    cpu, acc = twins(chain)
    for step, factor in enumerate([2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 5.0, 7.0, 7.0, 7.0, 2.0]):
        x = torch.randn(4, 32, generator=torch.Generator().manual_seed(step))
        with torch.no_grad():
            y = acc[:60](x.to(DEVICE))
            time.sleep(0.02)
            value = acc[60:](y * factor).sum().item()
            expected = cpu[60:](cpu[:60](x) * factor).sum().item()
        torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-4)


def test_steps_of_which_every_other_one_is_longer():
    """What is recorded begins like a shorter program that was awaited: its early run is dropped."""
    cpu, acc = twins(chain)
    peers = [(m, torch.optim.SGD(m.parameters(), lr=1e-2)) for m in (cpu, acc)]
    for step in range(12):
        x = torch.randn(4, 32, generator=torch.Generator().manual_seed(step))
        losses = []
        for model, optimizer in peers:
            loss = model(x.to(next(model.parameters()).device)).square().mean()
            loss.backward()
            if step % 2:
                time.sleep(0.01)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
