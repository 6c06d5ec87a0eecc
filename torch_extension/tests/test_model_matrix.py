"""Programs of the model matrix that need no other package: its fast part (`make test-models`)."""

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "tests_matrix"))

import measure
from torch_examples import PROGRAMS


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_trains_as_on_the_cpu(name, monkeypatch):
    monkeypatch.setattr(measure, "TIMED_SECONDS", 0.5)
    assert measure.faults(measure.measure(PROGRAMS[name].make, lambda: None)) == {}
