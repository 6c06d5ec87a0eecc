"""Every test ends with a sync, so that a late error fails the test that caused it."""

import os

import pytest
import torchacc

# Tests count what is compiled, leave the user's programs alone, and are of the CPU unless they are
# told of another backend. Read when the device starts.
os.environ["TORCHACC_CACHE_DIR"] = "off"
os.environ["TORCHACC_CACHE_FROM"] = "0"
os.environ["TORCHACC_BACKEND"] = os.environ.get("TORCHACC_BACKEND") or "cpu"


def pytest_addoption(parser):
    parser.addoption(
        "--sample-operators", action="store_true", help="a sample of PyTorch's operator table only"
    )
    parser.addoption(
        "--all-variants",
        action="store_true",
        help="all of that table with other layouts and numbers",
    )


@pytest.fixture(autouse=True)
def _nothing_left_over():
    yield
    torchacc.sync()
