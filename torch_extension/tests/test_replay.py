"""A step that comes again is compared with the known one, not recorded; the results stay the same.

What must be equal is compared with the same program on the CPU.
"""

import threading

import pytest
import torch
import torch.nn as nn
import torchacc
from support import DEVICE, assert_same, token_batch
from training import Training, counts, settle


def test_a_training_step_is_replayed():
    training = Training(momentum=0.9)
    settle(training.step)
    assert counts(lambda: settle(training.step)) == (0, 0)


def alternation(training):
    training.step()
    training.evaluate()
    training.step()


def accumulation(training):
    for accumulate in (1, 3, 2):
        training.step(accumulate)


def reading(training):
    training.step(read=True)
    training.step()


def last_batch(training):
    training.step()
    training.step(batch=3)


def schedule(training):
    for optimizer in training.optimizers:
        optimizer.param_groups[0]["lr"] *= 0.9
    training.step()


@pytest.mark.parametrize(
    "round_", [alternation, accumulation, reading, last_batch, schedule], ids=lambda f: f.__name__
)
def test_programs_that_take_turns_stay_on_known_paths(round_):
    training = Training(momentum=0.9)
    settle(lambda: round_(training))
    assert counts(lambda: settle(lambda: round_(training))) == (0, 0)


def test_a_step_that_differs_in_the_middle_once():
    training = Training()
    x = torch.randn(5, device=DEVICE)
    settle(training.step)

    def odd():
        def work(model, optimizer, device):
            loss = model(*(t.to(device) for t in token_batch(1)))
            (loss * 2 + model.head.weight.sum()).backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        cpu, acc = training.each(work)
        assert_same(acc, cpu, rtol=1e-4, atol=1e-5)

    full, _ = counts(odd)
    assert full > 0
    assert counts(training.step) == (0, 0), "back on the path"
    assert counts(odd) == (0, 0), "and the detour is known as well"
    assert x.sum().item() == pytest.approx(x.cpu().sum().item(), rel=1e-5)


def test_an_error_in_the_middle_leaves_the_path_alone():
    x, y = torch.randn(4, 4), torch.randn(3, 3)
    ours, other = x.to(DEVICE), y.to(DEVICE)

    def work():
        z = ours * 2
        with pytest.raises(RuntimeError):
            torch.mm(ours, other)
        result = torch.mm(z, ours)
        torchacc.cut()
        assert_same(result, torch.mm(x * 2, x))

    settle(work, 2)
    assert counts(work) == (0, 0)


def test_results_that_are_kept_only_sometimes():
    x = torch.randn(4, 4)
    ours = x.to(DEVICE)

    def work(keep):
        y = ours.exp()
        z = y.sum(0)
        if not keep:
            y = None
        torchacc.cut()
        assert_same(z, x.exp().sum(0))
        if keep:
            assert_same(y, x.exp())

    for keep in (True, False, True, False):
        work(keep)
    assert counts(lambda: [work(keep) for keep in (True, False, False, True)]) == (0, 0)


def test_views_and_writes_in_place():
    def work(device):
        x = torch.arange(24.0, device=device).reshape(4, 6)
        x[:, 1] += 1
        y = x.t()
        y[2:4].mul_(3)
        x.view(-1)[::5] = 7
        z = y + x.as_strided((6, 4), (1, 6))
        x[0] = z[:, 1]
        return x, y, z

    expected = work("cpu")
    for _ in range(3):
        assert_same(work(DEVICE), expected)
    torchacc.cut()
    assert counts(lambda: torch.utils._pytree.tree_map(torch.Tensor.cpu, work(DEVICE))) == (0, 0)


def test_other_aliases_are_other_programs():
    x, y = torch.randn(3), torch.randn(3)

    def work(a, b):
        a, b = a.clone(), b.clone()
        a += b
        b *= a
        return a, b

    def aliased(a):
        a = a.clone()
        b = a[:]
        a += b
        b *= a
        return a, b

    for _ in range(3):
        assert_same(work(x.to(DEVICE), y.to(DEVICE)), work(x, y))
        assert_same(aliased(x.to(DEVICE)), aliased(x))


def test_random_numbers_go_on_along_a_path():
    dropout = nn.Dropout(0.5)
    x = torch.ones(1000, device=DEVICE)

    def masks(count):
        kept = []
        for _ in range(count):
            kept.append(dropout(x))
            torchacc.cut()
        return torch.stack([mask.cpu() for mask in kept])

    torch.manual_seed(3)
    first = masks(6)
    assert len({tuple(mask.tolist()) for mask in first}) == 6
    torch.manual_seed(3)
    torchacc.sync()
    torchacc.reset_metrics()
    again = masks(6)
    assert torchacc.metrics()["compiles"] == 0
    assert torchacc.metrics()["recorded_ops"] == torchacc.metrics()["replayed_ops"]
    assert torch.equal(first, again)


def test_a_read_in_the_middle_does_not_shift_random_numbers():
    def run(read):
        torch.manual_seed(5)
        x = torch.ones(64, device=DEVICE)
        results = []
        for step in range(4):
            y = nn.functional.dropout(x, 0.5)
            if read and step % 2:
                y.sum().item()
            results.append(nn.functional.dropout(y, 0.5))
            torchacc.cut()
        return torch.stack([r.cpu() for r in results])

    assert torch.equal(run(False), run(True))


def test_numbers_that_change_the_algorithm_are_compiled_at_most_twice():
    x = torch.rand(16) + 0.5
    ours = x.to(DEVICE)

    def work(number):
        assert_same(ours.pow(number) + torch.full_like(ours, number), x.pow(number) + number)

    settle(lambda: work(2.0), 2)
    full, compiles = counts(lambda: [work(number) for number in (3.0, 0.5, 1.0, 0.0, 2.5)])
    assert compiles <= 1
    assert counts(lambda: [work(number) for number in (3.0, 0.5, 1.0, 0.0, 2.5)]) == (0, 0)


def test_two_threads_may_record():
    tensors = [torch.randn(8, 8) for _ in range(2)]
    failures = []

    def work(x):
        try:
            ours, theirs = x.to(DEVICE), x.clone()
            for _ in range(50):
                ours = (ours @ x.to(DEVICE)).tanh() + 1
                theirs = (theirs @ x).tanh() + 1
            torch.testing.assert_close(ours.cpu(), theirs, rtol=1e-3, atol=1e-4)
        except Exception as error:
            failures.append(error)

    for _ in range(3):
        threads = [threading.Thread(target=work, args=(x,)) for x in tensors]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not failures


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_power_keeps_its_bits_when_its_exponent_becomes_an_input(dtype):
    x = torch.linspace(0.5, 2, 1000, dtype=dtype).to(DEVICE)

    def powers(exponent):
        torchacc.sync()
        y = x**exponent
        torchacc.sync()
        return y.cpu()

    first = [powers(exponent) for exponent in (2, 3, -1)]
    for _ in range(3):
        for exponent, y in zip((2, 3, -1), first, strict=True):
            assert torch.equal(powers(exponent), y)


def test_a_root_stays_one_when_other_exponents_became_inputs():
    x = torch.tensor([4.0, -torch.inf, -0.0, -1.0])

    def power(exponent):
        torchacc.sync()
        return (x.to(DEVICE) ** exponent).cpu()

    for exponent in (2, 3, 4, 0.5, 1.5, 0.5):
        torch.testing.assert_close(power(exponent), x**exponent, equal_nan=True)
