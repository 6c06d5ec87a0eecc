"""Every model trains on acc as on the CPU, compiles nothing after its third step, stays on acc."""

import pytest
from models import PROGRAMS
from report import faults

# What is known not to work, by model and kind of fault, and why.
EXPECTED = {}


@pytest.mark.parametrize("name", PROGRAMS)
def test_model(figures, name):
    found = faults(figures(name))
    expected = EXPECTED.get(name, {})
    assert found.keys() == expected.keys(), (found, expected)
