"""Every test ends with a sync, so that a late error fails the test that caused it. What hangs ends
the run, with a report of what it is."""

import faulthandler
import os
import threading
from pathlib import Path

import pytest
import torch
import torchacc
from support import OWN_PREDICTIONS, build_operators

LIMIT = 60

# Tests count what is compiled, leave the user's programs alone, and are of the CPU unless they are
# told of another backend. Read when the device starts.
os.environ["TORCHACC_CACHE_DIR"] = "off"
os.environ["TORCHACC_CACHE_FROM"] = "0"
# What is predicted of every distinct call's results is compared with the CPU's kernel.
os.environ["TORCHACC_VERIFY_SHAPES"] = "1"
os.environ["TORCHACC_BACKEND"] = os.environ.get("TORCHACC_BACKEND") or "cpu"
# A step that hangs is reported, with its operator and line and all stacks; SIGABRT then makes
# pytest's fault handler show those of Python.
os.environ.setdefault("TORCHACC_WATCHDOG", f"{LIMIT},abort")

# A device that is not there would keep each seed for later, with the stack it was given by: a third
# of the time that the operator table takes.
for _absent in (torch.cuda, torch.xpu, torch.mtia):
    if not _absent.is_available():
        _absent.manual_seed_all = lambda seed: None

_test_ended = threading.Event()
_WRONG_IN_WORKERS = pytest.StashKey[list]()


def pytest_configure(config):
    # Output is not captured here, but will be.
    _watch(os.dup(2))


def _watch(stderr):
    """Ends the run when for twice the limit neither a test nor a process of a test has ended.

    What hangs while it holds the interpreter keeps the thread from putting that off.
    """

    def watch():
        while True:
            faulthandler.dump_traceback_later(2 * LIMIT, exit=True, file=stderr)
            while not _test_ended.wait(LIMIT / 4) and not _has_children():
                pass
            _test_ended.clear()

    threading.Thread(target=watch, daemon=True, name="watchdog").start()


def _has_children():
    tasks = Path("/proc/self/task").glob("*/children")
    return any(task.read_text().strip() for task in tasks)


def pytest_addoption(parser):
    parser.addoption(
        "--sample-operators", action="store_true", help="a sample of PyTorch's operator table only"
    )
    parser.addoption(
        "--all-variants",
        action="store_true",
        help="all of that table with other layouts and numbers",
    )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    wrong = torch.ops.acc.wrong_shapes().splitlines()
    wrong = [line for line in wrong if not OWN_PREDICTIONS.match(line)]
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["wrong_shapes"] = wrong
        return
    wrong += session.config.stash.get(_WRONG_IN_WORKERS, [])
    if wrong:
        print("\npredicted wrongly (TORCHACC_VERIFY_SHAPES):", *wrong, sep="\n")
        session.exitstatus = exitstatus or pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    """A worker of pytest-xdist has ended; one that crashed has told nothing."""
    told = getattr(node, "workeroutput", {}).get("wrong_shapes", [])
    node.config.stash.setdefault(_WRONG_IN_WORKERS, []).extend(told)


@pytest.fixture(autouse=True)
def _nothing_left_over():
    yield
    _test_ended.set()
    torchacc.sync()


@pytest.fixture(scope="session")
def compiled_operators(tmp_path_factory):
    """The library of `operators.cxx`, loaded."""
    source = Path(__file__).with_name("operators.cxx")
    return build_operators(source, tmp_path_factory.mktemp("operators"))
