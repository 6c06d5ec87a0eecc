"""Every test ends with a sync, so that a late error fails the test that caused it."""

import pytest
import torchacc


def pytest_addoption(parser):
    parser.addoption(
        "--all-operators", action="store_true", help="all of PyTorch's operator table, not a sample"
    )


@pytest.fixture(autouse=True)
def _nothing_left_over():
    yield
    torchacc.sync()
