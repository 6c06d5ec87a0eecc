"""A program may overwrite what nobody needs any more, and nothing else; the CPU tells.

Each case runs several times, so that programs are found again that once donated.
"""

import gc
import io
import threading

import pytest
import torch
import torch.nn as nn
import torchacc
from support import DEVICE, GPT, assert_same, to_device, token_batch
from training import Training, counts, settle


def test_the_same_sum_in_place_and_out_of_place():
    """What one program may overwrite, the next one, equal but for that, may not."""
    a, b = torch.randn(5), torch.randn(5)
    x, y = to_device((a, b))
    for step in range(8):
        if step % 2:
            x += y
            a += b
            torchacc.cut()
            continue
        z, expected = x + y, a + b
        torchacc.cut()
        assert_same((z, x, y), (expected, a, b))


def test_a_number_that_was_overwritten_is_whole_the_next_time():
    for _ in range(4):
        x = torch.tensor(42.0, device=DEVICE)
        y = torch.ones((), device=DEVICE)
        z = torch.zeros(3, device=DEVICE)
        x *= 2
        y += 1
        z += 1
        torchacc.cut()
        assert (x.item(), y.item(), z.tolist()) == (84.0, 2.0, [1.0] * 3)
        assert torch.tensor(42.0, device=DEVICE).item() == 42.0


def test_an_input_that_stays_alive():
    """Every way to hold on to an old value: a copy, a result that equals it, a saved tensor."""
    a = torch.randn(4, 4, requires_grad=True)
    x = to_device(a)
    for _ in range(4):

        def work(x):
            kept = x.detach().clone()
            same = x.detach() + 0
            loss = (x * x).sum()
            with torch.no_grad():
                x.mul_(0.5)
            torchacc.cut()
            return kept, same, loss.detach(), x

        assert_same(work(x), work(a))


@pytest.mark.parametrize("cut_between", [False, True])
def test_a_tensor_changed_several_times_in_one_step(cut_between):
    a = torch.randn(6, 4)
    x = a.to(DEVICE)

    def work(x):
        x += 1
        x[1:3].mul_(2)
        if cut_between:
            torchacc.cut()
        x.t().sub_(0.5)
        x.view(-1)[::3] = 7
        y = x.exp()
        x.add_(y)
        torchacc.cut()
        return y, x

    for _ in range(4):
        assert_same(work(x), work(a), rtol=1e-4)
        a.sigmoid_()
        x.sigmoid_()
    # Two in-place changes of a parameter in a step stay in one piece of memory.
    gc.collect()  # what tests before this one left, which would go at any moment
    torchacc.sync()
    before = torchacc.metrics()["live_bytes"]
    settle(lambda: work(x).__class__, 3)
    torchacc.sync()
    assert torchacc.metrics()["live_bytes"] == before


def test_views_of_a_tensor_that_is_updated():
    a = torch.randn(4, 6)
    x = a.to(DEVICE)
    rows, ours = list(a), list(x)
    for _ in range(4):
        for t, parts in ((a, rows), (x, ours)):
            t.mul_(1.5)
            parts[0].add_(parts[1])
            t[:, 2] = parts[3].sum()
            torchacc.cut()
        assert_same((x, *ours), (a, *rows))


def test_saving_part_of_a_model_in_the_middle_of_a_step():
    """A read is a partial cut: it donates nothing, so what was not read is there as well."""
    training = Training(momentum=0.9)

    def step(save):
        training.count += 1

        def work(model, optimizer, device):
            loss = model(*(t.to(device) for t in token_batch(training.count)))
            loss.backward()
            saved = {}
            if save:
                state = {k: v for k, v in model.state_dict().items() if "norm" in k}
                file = io.BytesIO()
                torch.save((state, [p.grad for p in list(model.parameters())[:3]]), file)
                file.seek(0)
                saved = torch.load(file, map_location="cpu")
            optimizer.step()
            if save:
                saved = saved, {k: v.cpu() for k, v in list(model.state_dict().items())[::5]}
            optimizer.zero_grad()
            return loss, saved

        (loss, saved), (our_loss, our_saved) = training.each(work)
        assert_same(our_loss, loss, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(our_saved, saved, rtol=1e-3, atol=1e-4)

    def round_():
        for save in (False, True, False):
            step(save)

    settle(round_, 3)
    assert counts(round_) == (0, 0)
    cpu, acc = ([p.detach().cpu() for p in model.parameters()] for model in training.models)
    torch.testing.assert_close(acc, cpu, rtol=1e-3, atol=1e-4)


def test_a_failed_program_gives_back_what_it_took():
    a = torch.randn(4)
    x = a.to(DEVICE)
    bad = torch.tensor([9], device=DEVICE)
    for _ in range(3):
        x += 1
        a += 1
        torchacc.cut()
        torch.index_select(x, 0, bad)
        y = x.index_select(0, bad)
        x.copy_(x + y)
        with pytest.raises(Exception, match="index"):
            torchacc.sync()
        assert_same(x, a)


def test_threads_that_train_and_cut_by_themselves():
    """Their operations share traces, cuts come at any moment; nobody's values change."""
    failures = []

    def work(seed):
        try:
            generator = torch.Generator().manual_seed(seed)
            a = torch.randn(6, 6, generator=generator) / 4
            x, w = a.to(DEVICE), torch.eye(6, device=DEVICE)
            v = torch.eye(6)
            for step in range(30):
                w += (w @ x).tanh()
                v += (v @ a).tanh()
                w *= 0.5
                v *= 0.5
                if step % 3 == seed % 3:
                    torchacc.cut()
                if step % 7 == seed:
                    torch.testing.assert_close(w.cpu(), v, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(w.cpu(), v, rtol=1e-4, atol=1e-5)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_threads_with_models_of_their_own():
    failures = []

    def work(seed):
        try:
            torch.manual_seed(seed)
            training = Training(lambda: GPT(layers=1), momentum=0.9)
            for _ in range(6):
                training.step()
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_layer_shared_by_two_optimizers():
    torch.manual_seed(0)
    layer = nn.Linear(4, 4)
    ours = nn.Linear(4, 4).to(DEVICE)
    ours.load_state_dict(layer.state_dict())
    x = torch.randn(3, 4)

    def work(layer, x):
        first = torch.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)
        second = torch.optim.AdamW([layer.weight], lr=0.01)
        for _ in range(3):
            layer(x).square().mean().backward()
            first.step()
            second.step()
            first.zero_grad()
        return list(layer.parameters())

    for _ in range(3):
        assert_same(work(ours, x.to(DEVICE)), work(layer, x), rtol=1e-4)
