"""Events and torch.utils.benchmark measure the work they are put around."""

import time
import timeit
import warnings

import pytest
import torch
import torch.utils.benchmark
import torchacc
from support import DEVICE
from torch.utils.benchmark import Timer

SIDE = 512
SECONDS = 0.05


def milliseconds(work):
    """Of what `work` returns by the device's events, and by the clock around them."""
    start, end = (torch.acc.Event(enable_timing=True) for _ in range(2))
    torch.acc.synchronize()
    executed = torchacc.metrics()["execute_ns"]
    begin = time.perf_counter()
    start.record()
    result = work()
    end.record()
    torch.acc.synchronize()
    whole = 1000 * (time.perf_counter() - begin)
    executed = (torchacc.metrics()["execute_ns"] - executed) / 1e6
    del result
    device = start.elapsed_time(end)
    # It holds all that ran, and lies inside the whole, however busy the machine is: how large a
    # part of the whole it is depends on that.
    assert executed <= device <= whole
    return device, whole


@pytest.fixture(scope="module")
def sleeps():
    """An operator that takes `SECONDS` at least, on whatever machine."""
    library = torch.library.Library("test_timing", "DEF")
    library.define("sleeps(Tensor x) -> Tensor")

    def kernel(x):
        time.sleep(SECONDS)
        return x + 1

    library.impl("sleeps", kernel, "CPU")
    library.impl("sleeps", torch.empty_like, "Meta")
    yield torch.ops.test_timing.sleeps
    library._destroy()


@pytest.fixture
def matrix():
    x = torch.ones(SIDE, SIDE, device=DEVICE)
    torch.acc.synchronize()
    return x


def test_the_time_between_events_is_that_of_the_products(matrix):
    kernels = torchacc.metrics()["kernels"]
    assert milliseconds(lambda: matrix @ matrix)[0] > 0
    # Eight products, none of which is another's.
    assert milliseconds(lambda: [matrix @ (matrix + i) for i in range(8)])[0] > 0
    assert torchacc.metrics()["kernels"] - kernels >= 1 + 8


def test_the_time_between_events_is_what_an_operator_takes(matrix, sleeps):
    assert milliseconds(lambda: sleeps(matrix))[0] >= 1000 * SECONDS


def test_what_the_host_does_is_not_the_devices(matrix):
    def slowly():
        time.sleep(0.1)
        return matrix + 1

    device, whole = milliseconds(slowly)
    assert device <= whole - 100
    assert milliseconds(lambda: None)[0] == 0


def test_what_ran_before_is_not_between(matrix):
    kept = [matrix @ (matrix + i) for i in range(8)]
    assert milliseconds(lambda: None)[0] == 0
    assert kept[0][0, 0].item() == SIDE


def test_resetting_the_metrics_between_changes_nothing(matrix):
    start, end = (torch.Event(DEVICE, enable_timing=True) for _ in range(2))
    kept = matrix @ (matrix + 1)
    start.record()
    torchacc.reset_metrics()
    end.record()
    assert start.elapsed_time(end) == 0
    assert kept[0, 0].item() == 2 * SIDE


def test_operators_that_run_at_once_are_the_devices_work():
    x = torch.ones(1 << 20, device=DEVICE)
    torch.acc.synchronize()
    assert milliseconds(lambda: x.nonzero())[0] > 0


def test_events_around_what_is_dropped_warn(matrix):
    start, middle, end = (torch.acc.Event(enable_timing=True) for _ in range(3))
    start.record()
    for _ in range(3):
        matrix @ matrix  # noqa: B018
    middle.record()
    kept = matrix @ matrix
    end.record()
    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        with pytest.warns(UserWarning, match="nobody holds .* Keep the results") as said:
            assert start.elapsed_time(middle) == 0
        assert said[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert middle.elapsed_time(end) > 0
            assert start.elapsed_time(start) == 0
            assert start.elapsed_time(end) > 0
    finally:
        torch.set_warn_always(always)
    assert kept[0, 0].item() == SIDE


def test_events_without_timing_wait_for_nothing_and_have_none(matrix):
    start, end = torch.acc.Event(), torch.acc.Event()
    cuts = torchacc.metrics()["cuts"]
    start.record()
    kept = matrix + 3
    end.record()
    assert torchacc.metrics()["cuts"] == cuts
    with pytest.raises((RuntimeError, ValueError), match="timing"):
        start.elapsed_time(end)
    end.synchronize()
    assert end.query()
    assert kept[0, 0].item() == 4


# ---- torch.utils.benchmark


@pytest.mark.parametrize("statement", ["x @ x", "y = x @ x", "if True:\n    x @ x"])
def test_a_timer_times_the_product_whose_result_is_dropped(matrix, statement):
    timer = Timer(statement, globals={"x": matrix})
    timer.timeit(1)  # finds out that it records
    clock, readings = timer._timer.steps.timer, []

    def read():
        """The time that the timer goes by, and what had run by then."""
        now, counters = clock(), torchacc.metrics()
        readings.append((now, counters["kernels"], counters["execute_ns"]))
        return now

    timer._timer.steps.timer = read
    begin = time.perf_counter()
    measured = 10 * timer.timeit(10).mean
    whole = time.perf_counter() - begin
    assert measured <= whole
    # Ten, each computed by itself; two runs to warm up are no part of it.
    (first, *before), (last, *after) = readings[-2:]
    assert readings[0][1] == before[0] - 2
    assert after[0] - before[0] == 10
    assert 0 < (after[1] - before[1]) / 1e9 <= last - first == pytest.approx(measured)


def test_a_timer_times_what_an_operator_takes(matrix, sleeps):
    timer = Timer("sleeps(x)", globals={"x": matrix, "sleeps": sleeps})
    assert timer.timeit(3).mean >= SECONDS


def test_autorange_times_it_too(matrix):
    kernels = torchacc.metrics()["kernels"]
    begin = time.perf_counter()
    measured = Timer("x @ x", globals={"x": matrix}).blocked_autorange(min_run_time=0.05)
    whole = time.perf_counter() - begin
    runs = len(measured.times) * measured.number_per_run
    assert torchacc.metrics()["kernels"] - kernels >= runs
    assert 0.05 <= sum(measured.times) * measured.number_per_run <= whole


def test_a_timed_statement_runs_as_it_stands(matrix):
    counts = {"runs": 0}
    statement = """
    for i in range(2):
        counts["runs"] += 1
        torch.relu(x)
    "a text\\nof two lines"
    def inner():
        x + 1
    inner()
    """
    timer = Timer(statement, setup="z = 1", globals={"x": matrix, "counts": counts})
    result = timer.timeit(3)
    assert result.number_per_run == 3
    # One that finds out whether acc is used, two to warm up, three that count.
    assert counts["runs"] == 2 * (1 + 2 + 3)
    assert timer._task_spec.stmt.startswith("for i in range(2)")


def test_statements_of_the_cpu_are_timed_as_ever():
    timer = Timer("x + 1", globals={"x": torch.ones(2)})
    torchacc.sync()
    timer.timeit(5)
    cuts = torchacc.metrics()["cuts"]
    timer.timeit(100)
    assert torchacc.metrics()["cuts"] == cuts
    assert timer._timer.records is False


def test_a_timer_of_the_hosts_clock_is_left_alone(matrix):
    timer = Timer("x + 1", globals={"x": matrix}, timer=timeit.default_timer)
    assert type(timer._timer) is timeit.Timer
