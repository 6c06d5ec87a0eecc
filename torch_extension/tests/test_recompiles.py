"""What must never compile anything again, with the results that the same program has on the CPU.

After the first rounds `counts` must be (0, 0): nothing was recorded in full, nothing compiled.
"""

import random

import pytest
import torch
import torch.nn as nn
import torchacc
from support import DEVICE, GPT, assert_same, to_device, token_batch
from training import Training, counts, settle, update

KNOWN = (0, 0)


def small():
    return nn.Sequential(
        nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)
    )


def with_dropout():
    return GPT(dropout=0.2)


OPTIMIZERS = {
    "Adam": (torch.optim.Adam, {}),
    "AdamW": (torch.optim.AdamW, {}),
    "AdamW in a loop": (torch.optim.AdamW, {"foreach": False}),
    "AdamW, fused": (torch.optim.AdamW, {"fused": True}),
    "NAdam": (torch.optim.NAdam, {}),
    "RAdam": (torch.optim.RAdam, {}),
    "SGD": (torch.optim.SGD, {"momentum": 0.9}),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_schedule_and_a_growing_step_count(name):
    optimizer, options = OPTIMIZERS[name]
    training = Training(small, optimizer, **options)
    schedules = [
        torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.02, total_steps=40)
        for optimizer in training.optimizers
    ]

    def step():
        training.count += 1

        def work(model, optimizer, device):
            x = torch.randn(4, 8, generator=torch.Generator().manual_seed(training.count))
            loss = model(x.to(device)).square().mean()
            update(loss, optimizer)
            return loss

        cpu, acc = training.each(work)
        assert_same(acc, cpu, rtol=1e-3, atol=1e-5)
        for schedule in schedules:
            schedule.step()

    # RAdam takes another branch from its sixth step on.
    settle(step, 10)
    assert counts(lambda: settle(step, 12)) == KNOWN
    parameters = [list(model.parameters()) for model in training.models]
    assert_same(parameters[1], parameters[0], rtol=1e-3, atol=1e-4)


def test_numbers_that_agree_for_a_while():
    """A learning rate equal to the momentum, and to the decay, is not the same input."""
    training = Training(small, momentum=0.1, weight_decay=0.1, lr=0.1)

    def step(rate):
        def work(model, optimizer, device):
            optimizer.param_groups[0]["lr"] = rate
            loss = model(torch.linspace(-1, 1, 32, device=device).reshape(4, 8)).square().mean()
            update(loss, optimizer)
            return loss

        cpu, acc = training.each(work)
        assert_same(acc, cpu, rtol=1e-4, atol=1e-6)

    settle(lambda: step(0.1), 3)
    assert counts(lambda: [step(rate) for rate in (0.1, 0.05, 0.025, 0.1)]) == KNOWN


def test_seeds():
    model = with_dropout().to(DEVICE)
    tokens, targets = (t.to(DEVICE) for t in token_batch(0))

    def losses(seeds):
        kept = []
        for seed in seeds:
            torch.manual_seed(seed)
            loss = model(tokens, targets)
            loss.backward()
            model.zero_grad()
            torchacc.cut()
            kept.append(loss.detach())
        return [loss.item() for loss in kept]

    first = losses([1, 2, 3, 4])
    assert len(set(first)) == 4
    again = []
    assert counts(lambda: again.extend(losses([4, 1, 3, 2, 5]))) == KNOWN
    assert again[:4] == [first[i] for i in (3, 0, 2, 1)]


def test_accumulation_over_any_number_of_batches():
    training = Training(optimizer=torch.optim.AdamW)
    settle(lambda: [training.step(accumulate) for accumulate in (1, 2, 3, 4)], 2)
    order = random.Random(0).choices((1, 2, 3, 4), k=8)
    assert counts(lambda: [training.step(accumulate) for accumulate in order]) == KNOWN


def test_evaluation_now_and_then():
    training = Training()

    def epoch(steps):
        for _ in range(steps):
            training.step()
        training.evaluate()
        training.evaluate()

    settle(lambda: epoch(1), 3)
    assert counts(lambda: [epoch(steps) for steps in (3, 1, 4)]) == KNOWN


def test_a_short_last_batch_of_every_epoch():
    data = torch.utils.data.TensorDataset(*token_batch(0, batch=19))
    training = Training()

    def epoch():
        def work(model, optimizer, device):
            losses = []
            for batch in torch.utils.data.DataLoader(data, batch_size=8):
                loss = model(*(t.to(device) for t in batch))
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                losses.append(loss.detach())
            return losses

        cpu, acc = training.each(work)
        assert_same(acc, cpu, rtol=1e-4, atol=1e-5)

    settle(epoch, 2)
    assert counts(lambda: settle(epoch, 3)) == KNOWN


def test_a_read_at_any_place():
    layers = [nn.Linear(16, 16) for _ in range(6)]
    ours = [nn.Linear(16, 16).to(DEVICE) for _ in layers]
    for layer, ours_too in zip(layers, ours, strict=True):
        ours_too.load_state_dict(layer.state_dict())
    x = torch.randn(4, 16)

    def work(layers, x, place):
        seen = None
        for index, layer in enumerate(layers):
            x = torch.tanh(layer(x))
            if index == place:
                seen = x.sum().item()
        loss = x.square().sum()
        loss.backward()
        gradients = [parameter.grad for layer in layers for parameter in layer.parameters()]
        for layer in layers:
            layer.zero_grad()
        torchacc.cut()
        return seen, loss.detach(), gradients

    def step(place):
        expected, actual = work(layers, x, place), work(ours, x.to(DEVICE), place)
        assert actual[0] == (None if place is None else pytest.approx(expected[0], rel=1e-4))
        assert_same(actual[1:], expected[1:], rtol=1e-4)

    places = [None, 0, 1, 2, 3, 4, 5]
    settle(lambda: [step(place) for place in places], 2)
    order = random.Random(0).choices(places, k=10)
    assert counts(lambda: [step(place) for place in order]) == KNOWN


NUMBERS = [0.5, 0.0, -0.0, 1.0, -1.0, float("inf"), float("-inf"), float("nan"), 1e-310, 3.0]
USES = {
    "add": lambda x, n: x + n,
    "multiply": lambda x, n: x * n,
    "divide": lambda x, n: x / n,
    "divide by it": lambda x, n: n / x,
    "fill": torch.full_like,
    "clamp": lambda x, n: x.clamp(min=n) if n == n else x * n,
    "less": lambda x, n: (x < n).float(),
    "add with alpha": lambda x, n: torch.add(x, x, alpha=n),
    "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
    "leaky": lambda x, n: nn.functional.leaky_relu(x, n),
    "masked fill": lambda x, n: x.masked_fill(x > 0, n),
}


@pytest.mark.parametrize("name", USES)
def test_odd_numbers_keep_their_bits(name):
    use = USES[name]
    x = torch.tensor([1.5, -2.0, 0.0, -0.0, float("inf"), float("nan")], dtype=torch.float64)
    ours = x.to(DEVICE)

    def step(number):
        expected, actual = use(x, number), use(ours, number).cpu()
        # Bit by bit, but for NaNs, of which there are many.
        actual, expected = (torch.nan_to_num(t, nan=7e77) for t in (actual, expected))
        assert torch.equal(actual.view(torch.int64), expected.view(torch.int64)), number

    def round_():
        for number in NUMBERS:
            step(number)

    settle(round_, 2)
    assert counts(round_) == KNOWN


def test_traces_that_differ_in_the_origin_of_an_operand():
    """The same operators on the same shapes: only which tensor goes where is different."""
    programs = [
        lambda a, b, c: (a - b) * a - c,
        lambda a, b, c: (a - b) * b - c,
        lambda a, b, c: (b - a) * a - c,
        lambda a, b, c: (a - b) * c - a,
        lambda a, b, c: (a - a) * b - c,
        lambda a, b, c: (a - b) * a - a,
        lambda a, b, c: torch.mm(a, b) - torch.mm(b, a) * c,
        lambda a, b, c: torch.mm(a, b) - torch.mm(a, b) * c,
    ]
    tensors = [torch.randn(3, 3) for _ in range(3)]
    ours = to_device(tensors)

    def round_(order):
        for index in order:
            assert_same(programs[index](*ours), programs[index](*tensors))

    round_(range(8))
    assert counts(lambda: round_([3, 0, 7, 1, 6, 2, 5, 4])) == KNOWN


def test_tensors_made_and_dropped_in_any_order():
    """Numbers of buffers, ages and the order of dropping are no part of a program."""
    x = torch.randn(6)
    ours = x.to(DEVICE)
    shuffle = random.Random(0).shuffle

    def step():
        others = [torch.empty(3, device=DEVICE) for _ in range(random.randrange(5))]
        parts = {name: ours * (index + 1) for index, name in enumerate("abcdef")}
        y = sum(parts.values())
        names = list(parts)
        shuffle(names)
        for name in names:
            del parts[name]
        del others
        torchacc.cut()
        assert_same(y, x * 21)

    settle(step, 2)
    assert counts(lambda: settle(step, 10)) == KNOWN


def test_types_are_not_asked_for_again():
    """PyTorch's Meta kernels, mostly Python, run once for each distinct call and never after."""
    training = Training(with_dropout, torch.optim.AdamW)

    def step():
        def work(model, optimizer, device):
            loss = model(*(t.to(device) for t in token_batch(training.count)))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            for parameter in model.parameters():
                parameter.data.lerp_(parameter.data, 0.5).addcdiv_(parameter, parameter, value=0.0)

        training.count += 1
        work(training.models[1], training.optimizers[1], DEVICE)
        torchacc.cut()

    settle(step)
    assert counts(lambda: settle(step)) == KNOWN
    metrics = torchacc.metrics()
    assert metrics["shape_cache_misses"] == 0
    assert metrics["immediate_runs"] == 0


def test_products_of_groups_of_other_sizes_compile_nothing():
    x, weights = torch.randn(8, 16), torch.randn(3, 16, 8)

    def step(device, ends):
        leaves = [leaf.to(device, copy=True).requires_grad_() for leaf in (x, weights)]
        offsets = torch.tensor(ends, dtype=torch.int32).to(device)
        y = torch.nn.functional.grouped_mm(*leaves, offs=offsets)
        y.square().sum().backward()
        return [tensor.detach().cpu() for tensor in (y, *(leaf.grad for leaf in leaves))]

    step(DEVICE, [2, 4, 8])
    compiles = torchacc.metrics()["compiles"]
    for ends in ([3, 3, 8], [0, 7, 8], [8, 8, 8]):
        torch.testing.assert_close(step(DEVICE, ends), step("cpu", ends), rtol=1e-5, atol=1e-5)
    assert torchacc.metrics()["compiles"] == compiles


def test_experts_that_are_asked_one_after_the_other_compile_nothing():
    """Each has a number of tokens of its own, another one in each step."""
    torch.manual_seed(0)
    experts = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(6)).to(DEVICE)
    optimizer = torch.optim.SGD(experts.parameters(), 0.1)
    sizes = random.Random(0)

    def step():
        x = torch.randn(64, 8).to(DEVICE)
        y = torch.zeros_like(x)
        for expert in experts:
            rows = torch.randperm(64)[: sizes.randrange(8, 40)].to(DEVICE)
            y = y.index_add(0, rows, expert(x[rows]).relu())
        y.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        torchacc.sync()

    for _ in range(24):
        step()
    metrics = torchacc.metrics()
    for _ in range(8):
        step()
    assert torchacc.metrics()["compiles"] - metrics["compiles"] <= 1


def test_samples_of_a_data_set_on_the_device_compile_nothing():
    """Windows, rows, columns and labels at random places, put together as batches are."""
    draw = random.Random(0)
    text, table, labels = torch.arange(500), torch.randn(3, 60), torch.arange(40)
    ours = to_device((text, table, labels))

    def batch(text, table, labels, places):
        return (
            torch.stack([text[i : i + 8] for i in places]),
            torch.cat([text[i : i + 8] for i in places]),
            torch.stack([table[:, i] for i in places], dim=1),
            torch.cat([table[:, i : i + 2] for i in places], dim=-1),
            torch.stack([table.T[i] for i in places]).contiguous(),
            torch.utils.data.default_collate([(labels[i], 2 * i) for i in places])[0],
        )

    def step():
        places = [draw.randrange(39) for _ in range(5)]
        assert_same(batch(*ours, places), batch(text, table, labels, places), rtol=0, atol=0)

    settle(step, 4)
    assert counts(lambda: settle(step, 20)) == KNOWN


def test_rolls_by_any_shift_compile_nothing():
    draw = random.Random(0)
    x = torch.randn(4, 12, requires_grad=True)
    leaves = x, x.detach().to(DEVICE).requires_grad_()

    def step():
        shift, turn = draw.randint(-20, 20), draw.randint(-3, 3)

        def work(x):
            y = torch.roll(x, shift, 1) * torch.roll(x, (turn, shift), (0, 1))
            (gradient,) = torch.autograd.grad((y + torch.roll(x, shift)).square().sum(), x)
            return y, gradient

        cpu, acc = (work(leaf) for leaf in leaves)
        assert_same(acc, cpu, rtol=1e-5, atol=1e-5)

    settle(step, 4)
    assert counts(lambda: settle(step, 20)) == KNOWN


def differentiates_without_compiling(x, draw, loss_of, first):
    """After `first` steps none compiles; `loss_of` is of `x * 2` and what was drawn."""
    leaves = x.requires_grad_(), x.detach().to(DEVICE).requires_grad_()

    def step():
        drawn = draw()
        cpu, acc = (torch.autograd.grad(loss_of(leaf * 2, drawn), leaf) for leaf in leaves)
        assert_same(acc, cpu, rtol=1e-5, atol=1e-5)

    settle(step, first)
    assert counts(lambda: settle(step, 20)) == KNOWN


def places(number, end):
    draw = random.Random(0)
    return lambda: [draw.randrange(end) for _ in range(number)]


def test_columns_at_any_place_are_differentiated_without_compiling():
    def loss_of(y, places):
        return torch.stack([y[:, place] for place in places]).square().sum()

    differentiates_without_compiling(torch.randn(4, 30), places(6, 30), loss_of, first=4)


def test_windows_at_any_place_are_differentiated_without_compiling():
    def loss_of(y, places):
        windows = [y[:, place : place + 3] for place in places[:2]]
        windows += [y[:, place - 30 : place - 27] for place in places[2:]]
        return torch.cat(windows, 1).square().sum() + torch.stack(windows).exp().sum()

    differentiates_without_compiling(torch.randn(5, 30), places(4, 26), loss_of, first=6)


def test_fixed_windows_stay_a_copy():
    """What never changes is part of the program: no index is computed."""
    x = torch.randn(4, 30, device=DEVICE)

    def step():
        rolled = torch.roll(x, 3, 1)
        torch.stack([rolled[:, place] for place in range(8)]).sum().item()

    settle(step, 6)
    before = torchacc.metrics()["recorded_ops"]
    step()
    assert torchacc.metrics()["recorded_ops"] - before == 3


def test_places_that_change_in_one_program_stay_in_another():
    draw = random.Random(0)
    x = torch.randn(4, 30, device=DEVICE, requires_grad=True)

    def step(function, places):
        y = function(x)
        loss = torch.stack([y[:, place] for place in places]).exp().sum()
        return torch.autograd.grad(loss, x)[0].cpu()

    def recorded():
        before = torchacc.metrics()["recorded_ops"]
        step(torch.tanh, range(3))
        return torchacc.metrics()["recorded_ops"] - before

    settle(lambda: step(torch.tanh, range(3)), 4)
    fixed = recorded()
    # An index is computed where the places change, and nowhere else.

    def changing():
        step(torch.sin, [draw.randrange(30) for _ in range(3)])

    settle(changing, 6)
    assert counts(changing) == KNOWN
    assert recorded() == fixed
