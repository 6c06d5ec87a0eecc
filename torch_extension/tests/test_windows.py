"""Parts of one tensor that are read at changing places: batches of a data set on the device."""

import random

import pytest
import torch
import torchacc
from support import DEVICE


def numbers(*sizes, dtype=torch.float32):
    draw = torch.Generator().manual_seed(7)
    return torch.randint(-50, 50, sizes, generator=draw).to(dtype)


def places(count, most, seed=1):
    draw = random.Random(seed)
    return [draw.randrange(most) for _ in range(count)]


def both(step, *tensors, count=12, most=60):
    """What `step(place, *tensors)` gives on the device and on the CPU, step by step."""
    found, expected = (
        [step(place, *there).tolist() for place in places(count, most)]
        for there in ([t.to(DEVICE) for t in tensors], [t.clone() for t in tensors])
    )
    return found, expected


def later(step, *tensors, count=40, most=60):
    """The same, of which the metrics when all has been seen."""
    on_device = [t.to(DEVICE) for t in tensors]
    for n, place in enumerate(places(count, most)):
        if n == 10:
            torchacc.reset_metrics()
        step(place, *on_device).tolist()
    return torchacc.metrics()


STEPS = {
    "rows": lambda i, x: (x[i : i + 7] * 2).sum(1),
    "flat": lambda i, x: x.view(-1)[i : i + 35].cos().view(5, 7),
    "columns": lambda i, x: x[:, i % 3 : i % 3 + 4] + 1,
    "overlapping": lambda i, x: x[i : i + 5] - x[i + 1 : i + 6],
    "the same twice": lambda i, x: x[i : i + 5] * x[i : i + 5].exp(),
    "and all of it": lambda i, x: x[i : i + 5] + x.sum(0),
    "one element": lambda i, x: x[i, 2] * 3,
    "transposed": lambda i, x: x[i : i + 4].t() @ x[i + 3 : i + 7],
}


@pytest.mark.parametrize("name", STEPS)
def test_numbers(name):
    found, expected = both(STEPS[name], numbers(80, 8))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_parts_of_what_each_step_makes_are_no_windows():
    """Their places follow from their lengths, also where two have the same one by chance."""
    torch.manual_seed(0)
    draw = random.Random(1)
    x, weights = torch.randn(40, 8, device=DEVICE), torch.randn(3, 8, 8, device=DEVICE)
    for n in range(80):
        if n == 12:
            torchacc.reset_metrics()
        lengths = [draw.randrange(5, 18), draw.randrange(5, 18)]
        made = x * 2
        made.sum().item()
        parts = made.split([*lengths, 40 - sum(lengths)])
        sum(((part @ w).sin() @ w.t()).sum() for part, w in zip(parts, weights, strict=True)).item()
    assert torchacc.metrics()["compiles"] == 0


@pytest.mark.parametrize("name", STEPS)
def test_a_moving_window_is_replayed(name):
    metrics = later(STEPS[name], numbers(80, 8))
    assert metrics["compiles"] == 0
    assert metrics["carried_over"] == 0
    assert metrics["replayed_ops"] == metrics["recorded_ops"]


@pytest.mark.parametrize("dtype", [torch.bool, torch.int8, torch.half, torch.int64, torch.float64])
def test_other_types_at_any_byte(dtype):
    def step(place, x):
        return x[place : place + 5].to(torch.float32) + 1

    found, expected = both(step, numbers(70, dtype=dtype))
    assert found == expected


def test_two_data_sets():
    def step(place, x, y):
        return (x[place : place + 4] * 2).sum() + y[place : place + 4].float().sum()

    assert later(step, numbers(80, 3), numbers(80, dtype=torch.int64))["compiles"] == 0


def test_a_loop_over_batches_compiles_twice():
    model, data = torch.nn.Linear(8, 3).to(DEVICE), numbers(600, 8).to(DEVICE)
    target = (numbers(600).long() % 3).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torchacc.reset_metrics()
    for i in range(100):
        at = 5 * i
        loss = torch.nn.functional.cross_entropy(model(data[at : at + 8]), target[at : at + 8])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torchacc.sync()
    # Of the first step, whose weights have no gradients; of the second; of that with windows.
    assert torchacc.metrics()["compiles"] <= 3
    assert torchacc.metrics()["carried_over"] == 0


def test_what_a_window_showed_before_it_was_written():
    def step(place, x):
        before = x[place : place + 5] * 1
        x[place + 1 : place + 3] = -before[:2]
        x[:2].add_(1)
        after = x[place : place + 5] * 1
        return torch.stack([before, after]).sum(1)

    found, expected = both(step, numbers(80, 4), count=100)
    assert found == expected


def test_what_a_window_showed_before_all_was_written():
    def step(place, x):
        before = x[place : place + 5] * 2
        x.add_(1)
        return before.sum(0) + x[place : place + 2].sum(0) + x.sum(0)

    found, expected = both(step, numbers(80, 4), count=30)
    assert found == expected


# What is read of the second tensor is what that was before: on the CPU it is a copy.
WRITES = {
    "a column": lambda i, x, y: x.sub_(y[:, i : i + 1]),
    "columns": lambda i, x, y: x[:, :2].add_(y[:, 2 + i : 4 + i]),
    "all by a product": lambda i, x, y: x.addmm_(y[:, i : i + 1], y[:1]),
    "rows": lambda i, x, y: x[i : i + 3].copy_(y[i + 3 : i + 6] + 1),
    "rows as they are": lambda i, x, y: x[i : i + 3].copy_(y[i + 3 : i + 6]),
    "from another": lambda i, x, y: torch.add(y[i : i + 3], 1, out=x[i + 3 : i + 6]),
}


@pytest.mark.parametrize("between", [True, False])
@pytest.mark.parametrize("name", WRITES)
def test_what_is_read_and_written_by_one_operation(name, between):
    def run(place):
        results = []
        for n in range(6):
            x = numbers(20, 10, dtype=torch.float64).to(place)
            for at in (0, 1, 2 + n):
                results.append((x[at : at + 3] * 2 + x[:3, at : at + 1]).sum(1))
                if between and place == DEVICE:
                    torchacc.mark_step()
            WRITES[name](n, x, x if place == DEVICE else x.clone())
            results.append(x[n : n + 3].sum(1))
            if place == DEVICE:
                torchacc.mark_step()
            results.append((x[n : n + 3] * 2).sum(1))
        return torch.stack(results).tolist()

    assert run(DEVICE) == run("cpu")


def growth(step, x, begin, count):
    """Of the bytes that are taken, by steps from `begin` on, in relation to those of `x`."""
    for n, place in enumerate(places(count, 1000)):
        if n == begin:
            torchacc.sync()
            torchacc.reset_metrics()
            before = torchacc.metrics()["peak_bytes"]
        step(n, place)
        torchacc.mark_step()
    torchacc.sync()
    return (torchacc.metrics()["peak_bytes"] - before) / x.nbytes


def test_a_ring_is_written_where_it_lies():
    ring, x = torch.zeros(1 << 22, device=DEVICE).add_(1), numbers(64).to(DEVICE)

    def step(n, place):
        total = (x + ring[place : place + 64]).sum()
        ring[place * 64 : place * 64 + 64] = x * n
        return total

    assert growth(step, ring, 100, 200) < 0.5


def test_buffers_that_go_within_a_step():
    def step(place, x):
        data = x + place
        torchacc.mark_step()
        total = data[place : place + 3].sum()
        del data
        others = [torch.full((80,), float(n), device=x.device) * 2 for n in range(3)]
        if x.device.type == DEVICE:
            torchacc.mark_step()
        return total + sum(other[place : place + 3].sum() for other in others)

    found, expected = both(step, numbers(80), count=30)
    assert found == expected


def test_of_what_is_not_computed_yet():
    def step(place, x):
        x.mul_(-1)
        torchacc.mark_step()
        return x[place : place + 3] * 2

    found, expected = both(step, numbers(80, 300), count=20)
    assert found == expected


def test_of_what_could_not_be_computed():
    good, index = numbers(80, 3).to(DEVICE), torch.tensor([5, 200], device=DEVICE)
    for place in (1, 4, 9):
        (good[place : place + 2] + 1).tolist()
    bad = torch.cat([good, good])[:80]
    bad = bad.index_select(0, index.repeat(40))
    torchacc.mark_step()
    with pytest.raises(IndexError):
        (bad[3:5] + 1).tolist()
    assert (good[2:4] + 1).tolist() == (good.cpu()[2:4] + 1).tolist()


def test_gradients_to_all_of_it():
    def step(place, x):
        x = x.detach().requires_grad_()
        (x[place : place + 5] ** 2).sum().backward()
        return x.grad

    found, expected = both(step, numbers(80, 4), count=10)
    assert found == expected


def test_windows_of_other_sizes():
    def step(place, x):
        return x[place : place + 3 + place % 7].exp().sum(0)

    found, expected = both(step, numbers(80, 4).div(50), count=40)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)


def test_memory_that_is_read_and_written_is_not_doubled():
    x = torch.zeros(1 << 22, device=DEVICE).add_(1)

    def step(n, place):
        total = (x[place : place + 64] * 2).sum()
        if n % 3 == 0:
            x.mul_(0.5)
        return total

    assert growth(step, x, 20, 120) < 0.5


def test_another_tensor_than_the_one_read_is_partly_written():
    x, y = numbers(4).to(DEVICE), numbers(4).add(100).to(DEVICE)
    expected = [*x[2:4].tolist(), *y[2:4].tolist()]
    torchacc.sync()
    x[0:2].copy_(x[2:4])
    torchacc.mark_step()
    y[0:2].copy_(x[2:4])
    torchacc.mark_step()
    assert y.tolist() == expected
