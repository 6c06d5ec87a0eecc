"""Lists of tensors that are others in every step: what was collected, samples of a memory."""

import random

import pytest
import torch
import torchacc
from support import DEVICE


def compiled(program, steps):
    """How many programs each of `steps` calls compiles; each gives tensors on acc and those of the
    CPU."""
    made = []
    for _ in range(steps):
        torchacc.sync()
        before = torchacc.metrics()["compiles"]
        for found, expected in program():
            torch.testing.assert_close(found.cpu(), expected, rtol=1e-6, atol=1e-6)
        torchacc.sync()
        made.append(torchacc.metrics()["compiles"] - before)
    return made


def joined(work):
    """How many lists `work` puts together without a program."""
    before = torchacc.metrics()["concatenations"]
    work()
    return torchacc.metrics()["concatenations"] - before


def both(make):
    tensor = make()
    return tensor.to(DEVICE), tensor


def test_what_was_collected_so_far():
    weight, collected = both(lambda: torch.randn(4, 4)), []

    def program():
        x = both(lambda: torch.randn(3, 4))
        # The last one is of this very program.
        collected.append([(a @ w).sum() for a, w in zip(x, weight, strict=True)])
        return [[torch.stack(tensors).mean() for tensors in zip(*collected, strict=True)]]

    made = compiled(program, 20)
    assert sum(made) > 0
    # For the length that has a power of two more, sums have other kernels.
    assert joined(lambda: made.extend(compiled(program, 40))) == 40
    assert sum(made[20:]) <= 4


def test_samples_of_a_memory():
    """As the replay of Q-learning has them: some tensors are in two lists, and which ones they are,
    and how many, is another thing in every step."""
    draw, made = random.Random(0), []
    memory = [both(lambda: torch.randn(1, 4)) for _ in range(200)]

    def program():
        chosen = draw.sample(range(199), 64)
        later = [k + 1 for k in chosen if draw.random() > 0.1]
        results = []
        for side in range(2):
            now = torch.cat([memory[k][side] for k in chosen])
            then = torch.cat([memory[k][side] for k in later])
            results.append([now * 2 + 1, then.max(1).values, now.sum(0)])
        return list(zip(*results, strict=True))

    compiled(program, 20)
    assert joined(lambda: made.extend(compiled(program, 20))) == 40
    assert sum(made) == 0


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_lists_of_every_kind(dim):
    """Those that cannot be put together as bytes, too."""
    draw = random.Random(0)
    base = both(lambda: torch.randn(40, 6))
    kinds = {
        "rows": lambda k: [t[k : k + 1] for t in base],
        "columns": lambda k: [t.T[k % 6 : k % 6 + 1, :6] for t in base],
        "numbers": lambda k: both(lambda: torch.randn(1, 6).double()),
        "half": lambda k: [t[k : k + 1].half() for t in base],
        "long": lambda k: both(lambda: torch.randint(9, (1, 6))),
        "empty": lambda k: [t[k:k, :] for t in base],
        "strange": lambda k: [t[k : k + 2, ::2].repeat(1, 2)[:1] for t in base],
        "complex": lambda k: [torch.complex(t[k : k + 1], t[k : k + 1]).conj() for t in base],
    }

    def program(names):
        lists = [kinds[draw.choice(names)](draw.randrange(38)) for _ in range(draw.randint(8, 12))]
        return torch.cat([one[0] for one in lists], dim), torch.cat([one[1] for one in lists], dim)

    for names in ([name] for name in kinds if name != "empty" or dim == 0):
        count = joined(lambda names=names: compiled(lambda: [program(names)], 6))
        # Of the others none is both dense and in memory.
        assert (count > 0) == (names[0] in ("rows", "numbers", "long"))
    if dim == 0:
        compiled(lambda: [program([*kinds])], 12)


def test_what_is_overwritten_later_was_read_before():
    kept = [both(lambda: torch.randn(2, 3)) for _ in range(20)]
    draw = random.Random(0)

    def program():
        chosen = draw.sample(range(20), draw.randint(9, 19))
        found, expected = (torch.cat([kept[k][side] for k in chosen]) for side in range(2))
        for here, there in kept:
            here.mul_(0.5).add_(1)
            there.mul_(0.5).add_(1)
        # What is computed now is overwritten by the next step.
        torchacc.cut()
        yield found + 1, expected + 1

    assert joined(lambda: compiled(program, 12)) > 0


def test_gradients_flow_to_each():
    ours, theirs = zip(*(both(lambda: torch.randn(1, 3)) for _ in range(30)), strict=True)
    draw = random.Random(0)
    for tensor in (*ours, *theirs):
        tensor.requires_grad_()

    def work():
        for _ in range(8):
            chosen = draw.sample(range(30), draw.randint(9, 29))
            for side in (ours, theirs):
                torch.cat([side[k] for k in chosen]).pow(3).sum().backward()
            torchacc.cut()

    assert joined(work) > 0
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.grad.cpu(), other.grad)
