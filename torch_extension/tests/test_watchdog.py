"""TORCHACC_WATCHDOG says what hangs, and where; it goes on, or ends the process if told to."""

import os
import signal
import subprocess
import sys
import threading

import pytest
from support import run_python

TOLD = "nothing has ended for"


def held(library):
    """A program with a step that ends when something comes from its stdin, or its end."""
    code = f"""
import torch
torch.ops.load_library({str(library)!r})
x = torch.ones(2, device="acc")
torch.ops.test_effects.hold(x, 0)
print((x + 1).tolist())
"""
    # The line of a program that has a name.
    return f"exec(compile({code!r}, '/held.py', 'exec'))"


def run_held(library, limit, told):
    """Of such a program, whose step ends when so many lines of its stderr have told that it hangs
    (None: not before the program): the code, stdout, and stderr."""
    process = subprocess.Popen(
        [sys.executable, "-c", held(library)],
        env=os.environ | {"TORCHACC_WATCHDOG": limit},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    late = threading.Timer(120, process.kill)
    late.start()
    lines = []
    while len(reports(lines)) != told and (line := process.stderr.readline()):
        lines.append(line)
    said, rest = process.communicate("x")
    late.cancel()
    return process.returncode, said, "".join(lines) + rest


def reports(lines):
    # On a busy machine another step may take as long.
    return [line for line in lines if TOLD in line and "test_effects::hold" in line]


def test_a_step_that_hangs_is_reported_with_its_line_and_goes_on(compiled_operators):
    # Once by itself, once as a warning, which has the line.
    code, said, errors = run_held(compiled_operators, "0.5", told=2)
    assert (code, said.split()) == (0, ["[2.0,", "2.0]"]), errors
    report = reports(errors.splitlines())
    assert len(report) == 2, errors
    assert all(f"{TOLD} 0.5 s" in line for line in report)
    assert any("/held.py:5" in line for line in report)
    assert "torchacc-launch" in errors


def test_a_step_that_hangs_ends_the_process_if_that_is_asked_for(compiled_operators):
    # Longer than any other step of it takes.
    code, _, errors = run_held(compiled_operators, "3,abort", told=None)
    assert code == -signal.SIGABRT, errors
    assert "test_effects::hold" in errors


def test_nothing_is_said_where_everything_ends_in_time(compiled_operators):
    code, _, errors = run_held(compiled_operators, "60", told=0)
    assert (code, errors) == (0, "")


@pytest.mark.parametrize("wrong", ["soon", "-1", "0", "60,kill"])
def test_what_is_no_number_of_seconds_is_refused(wrong):
    done = run_python("import torch; torch.ones(1, device='acc')", TORCHACC_WATCHDOG=wrong)
    assert f"TORCHACC_WATCHDOG={wrong} is not a number of seconds" in done.stderr
