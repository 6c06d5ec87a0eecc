"""Gradients lie where activations were: the same bits, and whoever keeps one keeps little else."""

import torch
import torchacc
from support import DEVICE

WIDTH, LAYERS, ROWS = 384, 12, 768
WEIGHT = WIDTH * WIDTH * 4
GRADIENTS = LAYERS * WEIGHT
ACTIVATION = ROWS * WIDTH * 4


def chain(device):
    torch.manual_seed(0)
    layers = [
        layer
        for _ in range(LAYERS)
        for layer in (torch.nn.Linear(WIDTH, WIDTH, bias=False), torch.nn.Tanh())
    ]
    model = torch.nn.Sequential(*layers).to(device)
    return model, torch.randn(ROWS, WIDTH).to(device)


def gradients(model, x):
    """A program of its own; nobody holds its gradients but the parameters."""
    model.zero_grad()
    model(x).square().mean().backward()
    torchacc.cut()


def taken_by(work):
    """Bytes that it takes at most beyond what there is before it, and those that it leaves."""
    torchacc.sync()
    torch.acc.reset_peak_memory_stats()
    before = torch.acc.memory_allocated()
    work()
    torchacc.sync()
    return torch.acc.max_memory_allocated() - before, torch.acc.memory_allocated() - before


def test_a_step_takes_less_than_what_lies_between_and_its_gradients():
    model, x = chain(DEVICE)
    torch.acc.empty_cache()
    gradients(model, x)
    model.zero_grad()
    torchacc.sync()
    program = torchacc.last_program()
    arena, block = (
        int(program.split(f"{name} ")[-1].split()[0].strip(",")) for name in ("arena", "results")
    )
    assert block == GRADIENTS
    # One layer's gradient is wanted beside all activations at the most.
    assert arena <= (LAYERS + 2) * ACTIVATION - GRADIENTS + WEIGHT
    taken, _ = taken_by(lambda: gradients(model, x))
    assert taken <= GRADIENTS * 9 // 8


def test_gradients_that_are_dropped_while_the_next_step_is_recorded():
    """The loss is read in every step, so that the next one begins before its end is known."""
    model, x = chain(DEVICE)

    def step():
        loss = model(x).square().mean()
        model.zero_grad()
        loss.backward()
        torchacc.cut()
        return loss.item()

    losses = [step() for _ in range(4)]
    torch.acc.empty_cache()
    taken, left = taken_by(lambda: losses.extend(step() for _ in range(4)))
    assert len(set(losses)) == 1
    arena = (LAYERS + 2) * ACTIVATION - GRADIENTS + WEIGHT
    assert taken <= (arena + GRADIENTS) * 9 // 8
    assert left <= arena * 9 // 8


def test_gradients_that_are_kept_stay_what_they_are():
    (model, x), (twin, y) = chain(DEVICE), chain("cpu")
    kept, wanted = [], []
    for step in range(8):
        gradients(model, x * (step + 1))
        twin.zero_grad()
        twin(y * (step + 1)).square().mean().backward()
        # Of every step another one.
        kept.append(list(model.parameters())[step % LAYERS].grad)
        wanted.append(list(twin.parameters())[step % LAYERS].grad)
    for one, other in zip(kept, wanted, strict=True):
        torch.testing.assert_close(one.cpu(), other)


def test_who_keeps_one_gradient_of_each_step_keeps_two_blocks_at_most():
    model, x = chain(DEVICE)
    gradients(model, x)
    model.zero_grad()
    kept, steps = [], 8

    def work():
        for _ in range(steps):
            gradients(model, x)
            kept.append(model[0].weight.grad)
        model.zero_grad()

    _, left = taken_by(work)
    assert left <= (steps + 1) * WEIGHT + 2 * (GRADIENTS * 9 // 8)
    for gradient in kept[1:]:
        assert torch.equal(gradient, kept[0])


def test_a_failed_step_leaves_its_gradients_alone():
    """An index that is out of range is found when the program runs."""
    model, x = chain(DEVICE)
    table = torch.nn.Embedding(8, WIDTH).to(DEVICE)
    bad = torch.full((ROWS,), 9, device=DEVICE)
    gradients(model, x)
    whole = [p.grad.cpu() for p in model.parameters()]
    model.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    other = table(bad).sum()
    torchacc.cut()
    assert all(torch.equal(p.grad.cpu(), w) for p, w in zip(model.parameters(), whole, strict=True))
    try:
        other.item()
    except IndexError:
        return
    raise AssertionError("the index was taken")
