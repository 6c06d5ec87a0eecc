"""TORCHACC_WATCHDOG says what hangs, and where; it goes on, or ends the process if told to."""

import signal

import pytest
from support import run_python


def nap(library, seconds):
    code = f"""
import torch
torch.ops.load_library({str(library)!r})
x = torch.ones(2, device="acc")
torch.ops.test_effects.nap(x, {seconds})
print((x + 1).tolist())
"""
    # The line of a program that has a name.
    return f"exec(compile({code!r}, '/nap.py', 'exec'))"


def test_a_step_that_hangs_is_reported_with_its_line_and_goes_on(compiled_operators):
    done = run_python(nap(compiled_operators, 3), TORCHACC_WATCHDOG="0.5")
    assert done.stdout.split() == ["[2.0,", "2.0]"], done.stderr
    report = [line for line in done.stderr.splitlines() if "nothing has ended for 0.5 s" in line]
    # Once by itself, once as a warning, which has the line.
    assert len(report) == 2, done.stderr
    assert all("test_effects::nap" in line for line in report)
    assert any("/nap.py:5" in line for line in report)
    assert "torchacc-launch" in done.stderr


def test_a_step_that_hangs_ends_the_process_if_that_is_asked_for(compiled_operators):
    done = run_python(nap(compiled_operators, 100), TORCHACC_WATCHDOG="0.5,abort")
    assert done.returncode == -signal.SIGABRT
    assert "test_effects::nap" in done.stderr


def test_nothing_is_said_where_everything_ends_in_time(compiled_operators):
    done = run_python(nap(compiled_operators, 0.1), TORCHACC_WATCHDOG="60")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("wrong", ["soon", "-1", "0", "60,kill"])
def test_what_is_no_number_of_seconds_is_refused(wrong):
    done = run_python("import torch; torch.ones(1, device='acc')", TORCHACC_WATCHDOG=wrong)
    assert f"TORCHACC_WATCHDOG={wrong} is not a number of seconds" in done.stderr
