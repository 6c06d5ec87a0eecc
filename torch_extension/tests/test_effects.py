"""Operators without results, and results that nobody keeps: what they do is done, in order, and
their errors are raised once, to whom they concern."""

import os

import pytest
import torch
import torchacc
from support import DEVICE, run_python

BACKENDS = ["cpu", "reference"]
# For as long as the process: PyTorch looks for the operators of every library that there was.
LIBRARY = torch.library.Library("test_effects_python", "DEF")
LIBRARY.define("note(Tensor x) -> ()")


@pytest.fixture(scope="module")
def notes(compiled_operators):
    return torch.ops.test_effects


def fails():
    return pytest.raises(RuntimeError, match="Expected Tensor with single nonzero value")


@pytest.mark.parametrize("backend", BACKENDS)
def test_asserts_among_other_work(backend):
    code = """
import torch
x = torch.arange(4.0, device="acc")
for limit in (5, -5, 5):
    y = x + 1
    torch._assert_async(x[0] < limit)
    try:
        print(y.tolist())
    except RuntimeError as error:
        print(str(error).splitlines()[0])
torch._assert_async(x[0] < -1)
try:
    torch.acc.synchronize()
except RuntimeError as error:
    print(str(error).splitlines()[0])
torch.acc.synchronize()
"""
    done = run_python(code, TORCHACC_BACKEND=backend)
    failed = "aten::_assert_async: Expected Tensor with single nonzero value, but got zero"
    right = "[1.0, 2.0, 3.0, 4.0]"
    assert done.stdout.splitlines() == [right, failed, right, failed], done.stderr


def test_an_assert_is_raised_in_its_step_of_a_loop():
    w = torch.ones(3, device=DEVICE)

    def step():
        w.mul_(1.5)
        loss = w.sum()
        torch._assert_async(loss < 200, "the loss is too large")
        loss.item()

    for _ in range(10):
        step()
    for _ in range(2):
        with pytest.raises(RuntimeError, match="the loss is too large"):
            step()
    assert torchacc.metrics()["replayed_ops"] > 0


def test_an_assert_after_a_cut_waits_for_nobody_and_is_raised_by_the_next_sync():
    x = torch.zeros(2, device=DEVICE)
    for _ in range(3):
        torch._assert_async(x[0] > 1)
        torchacc.cut()
    with fails() as error:
        torch.acc.synchronize()
    assert "test_effects.py:" in str(error.value)
    torch.acc.synchronize()


def test_effects_run_in_order_also_alone_and_when_replayed(notes):
    x = torch.ones(2, device=DEVICE)
    for step in range(4):
        notes.note(x.sum(), 1.0)
        y = x * 2
        notes.note(y[0], 10.0)
        notes.note(x[0], 100.0)
        if step == 2:
            assert y.tolist() == [2, 2]
        torch.acc.synchronize()
        assert notes.take() == [2, 20, 100]
    notes.note(x[1], 3.0)
    assert notes.take() == []
    torchacc.cut()
    torch.acc.synchronize()
    assert notes.take() == [3]


def test_effects_of_equal_operands_are_all_run(notes):
    x = torch.ones(1, device=DEVICE)
    torchacc.reset_metrics()
    for _ in range(3):
        notes.note(x[0], 2.0)
    torch.acc.synchronize()
    assert notes.take() == [2, 2, 2]
    # Recorded: kernels in C++ run on the launch thread, whatever their file is called.
    assert torchacc.metrics()["immediate_runs"] == 0


def test_operators_that_write_an_argument_and_return_nothing(notes):
    x, y = torch.ones(3, device=DEVICE), torch.full((3,), 2.0, device=DEVICE)
    for _ in range(2):
        notes.add_to(x, y)
        notes.note(x[0], 1.0)
    assert x.tolist() == [5, 5, 5]
    assert notes.take() == [3, 5]


def test_kernels_of_the_cpu_heed_the_number_of_threads(notes):
    """Also those that change it after the thread that runs them has begun to use some."""
    before = torch.get_num_threads()
    x = torch.ones(1, device=DEVICE)
    try:
        for wanted in (2, 1, 3):
            torch.set_num_threads(wanted)
            notes.threads(x)
            torchacc.cut()
            torch.acc.synchronize()
            assert notes.take() == [wanted]
    finally:
        torch.set_num_threads(before)


def test_effects_of_kernels_in_python_come_after_what_was_recorded(notes):
    LIBRARY.impl("note", lambda x: notes.note(x, -1.0), "CPU")
    LIBRARY.impl("note", lambda x: None, "Meta")
    x, done = torch.ones(1, device=DEVICE), torch.full((), 7.0, device=DEVICE)
    torch.acc.synchronize()
    notes.note(x[0], 1.0)
    torch.ops.test_effects_python.note(done)
    notes.note(x[0], 2.0)
    torch.acc.synchronize()
    assert notes.take() == [1, -7, 2]


NAN = float("nan")


def test_errors_of_results_that_nobody_kept_are_raised_by_the_next_sync():
    kept = torch.ones(2, device=DEVICE)
    torch.linalg.eig(torch.full((3, 3), NAN, device=DEVICE))
    assert (kept + 1).tolist() == [2, 2]  # not here: no result of it is read
    torch.linalg.svdvals(torch.full((2, 2), NAN, device=DEVICE))
    with pytest.raises(RuntimeError) as error:
        torch.acc.synchronize()
    text = str(error.value)
    assert "linalg_eig" in text.splitlines()[0]
    assert text.index("infs or NaNs") < text.index("and later:") < text.index("svd")
    assert text.count("test_effects.py:") == 2
    torch.acc.synchronize()


def test_a_read_raises_the_errors_of_its_own_tensor_only():
    table = torch.ones(4, 3, device=DEVICE)
    bad = torch.nn.functional.embedding(torch.tensor([7], device=DEVICE), table)
    further = bad * 2
    other = table + 1
    torchacc.cut()
    assert other.sum().item() == 24
    with pytest.raises(IndexError):
        further.sum().item()
    torch.acc.synchronize()  # it was reported
    with pytest.raises(IndexError):
        bad.cpu()
    torch.acc.synchronize()


def test_a_failed_update_is_raised_by_the_next_read_of_it_or_of_what_follows_from_it():
    index = torch.tensor([9], device=DEVICE)
    for read in (lambda x, y: x, lambda x, y: y):
        x, other = torch.ones(3, device=DEVICE), torch.ones(3, device=DEVICE)
        torch.acc.synchronize()
        x.index_add_(0, index, torch.ones(1, device=DEVICE))
        torchacc.cut()
        y, z = x * 2, other * 2
        torchacc.cut()
        assert z.tolist() == [2, 2, 2]
        with pytest.raises((IndexError, RuntimeError), match="index_add_"):
            read(x, y).cpu()
        # Reported once: then it is as if the call had raised.
        assert (x.tolist(), y.tolist()) == ([1, 1, 1], [2, 2, 2])
        torch.acc.synchronize()


def kinds():
    return {
        "linear algebra": lambda d: torch._linalg_svd(torch.full((2, 2), NAN, device=d)),
        "index": lambda d: torch.take(torch.ones(2, device=d), torch.tensor([5], device=d)),
    }


@pytest.mark.parametrize("name", kinds())
def test_a_fallback_raises_pytorchs_exceptions(name):
    with pytest.raises(Exception) as expected:  # noqa: PT011
        kinds()[name]("cpu")
    for use in (lambda result: torch.acc.synchronize(), lambda result: result.cpu()):
        result = kinds()[name](DEVICE)
        with pytest.raises(expected.type):
            use(result[0])
    del result


def test_an_event_answers_without_waiting_and_gets_there(compiled_operators, notes):
    x = torch.zeros(1, device=DEVICE)
    event, stream = torch.Event(DEVICE), torch.acc.current_stream()
    event.record()
    torch.acc.synchronize()
    assert event.query()
    assert stream.query()
    event.record()
    assert event.query()  # nothing was recorded before it
    read, write = os.pipe()
    notes.hold(x, read)
    event.record()
    y = x + 1  # after it
    cuts = torchacc.metrics()["cuts"]
    assert not event.query()
    assert not stream.query()
    assert torchacc.metrics()["cuts"] == cuts + 1
    os.write(write, b"x")
    while not event.query():
        pass
    assert torchacc.metrics()["cuts"] == cuts + 1
    assert y.item() == 1
    os.close(read)
    os.close(write)
    # Of what was dropped nothing runs.
    _ = x * 3
    del _
    event.record()
    assert event.query()


DROPPED = {
    "an index": lambda x, n: x[n],
    "index_select": lambda x, n: x.index_select(0, n),
    "gather": lambda x, n: x.gather(0, n),
    "embedding": lambda x, n: torch.nn.functional.embedding(n, x.view(3, 1)),
    "nll_loss": lambda x, n: torch.nn.functional.nll_loss(x.view(1, 3), n),
    "scatter_add": lambda x, n: x.scatter_add(0, n, x),
    "index_add": lambda x, n: x.index_add(0, n, x[:1]),
    "index_put": lambda x, n: x.index_put((n,), x[0]),
    "floor division": lambda x, n: (n + 7) // (3 - n),
    "remainder": lambda x, n: (n + 7) % (3 - n),
}


# Every index out of range is an IndexError here; PyTorch's CPU says RuntimeError of these.
INDEX_ERRORS = {"gather", "scatter_add"}


@pytest.mark.parametrize("name", DROPPED)
def test_bad_numbers_are_refused_though_the_result_is_dropped(name):
    x, right, wrong = torch.ones(3), torch.tensor([0]), torch.tensor([3])
    with pytest.raises(Exception) as expected:  # noqa: PT011
        DROPPED[name](x, wrong)
    x, right, wrong = (tensor.to(DEVICE) for tensor in (x, right, wrong))
    for _ in range(2):
        DROPPED[name](x, right)
        torch.acc.synchronize()
        DROPPED[name](x, wrong)
        with pytest.raises(Exception) as raised:  # noqa: PT011
            torch.acc.synchronize()
        assert raised.type is (IndexError if name in INDEX_ERRORS else expected.type)
        torch.acc.synchronize()


def test_numbers_that_meet_no_element_are_not_looked_at():
    x, five = torch.ones(3, 0, device=DEVICE), torch.tensor([5], device=DEVICE)
    x.index_put_((five,), torch.tensor(1.0, device=DEVICE))
    x[five]
    x.index_add(0, five, x[:1])
    five[:0] // (five - 5)
    torch.acc.synchronize()
    rows = x.clone()
    rows.index_put_((five,), torch.ones(1, 0, device=DEVICE), accumulate=True)
    assert (rows.shape, x.index_add(0, five, x[:1]).cpu().shape) == ((3, 0), (3, 0))
    rows.cpu()


def test_a_result_that_is_the_argument_itself_is_nothing_to_compute():
    """PyTorch's `channel_shuffle` of an empty batch is what it was given."""
    w = torch.ones(3, device="acc") * 3
    x = torch.zeros(0, 4, 4, 6, device="acc")
    y = torch.nn.functional.channel_shuffle(x, 2)
    after = w + 1
    assert y.shape == x.shape
    assert w.tolist() == [3.0] * 3
    assert after.tolist() == [4.0] * 3
    assert y.cpu().numel() == 0
