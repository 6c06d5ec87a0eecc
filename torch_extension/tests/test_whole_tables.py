"""A sample of the tables that `make test-operators` runs whole: some tests of each topic."""

import pytest
from whole_tables.pool import outcome
from whole_tables.report import reason_for
from whole_tables.topics import TOPICS, listed

COUNT = 12

# What the whole tables found.
FOUND = [
    ("results", "linspace int64"),
    ("results", "_upsample_bilinear2d_aa float32"),
    ("gradients", "_upsample_bilinear2d_aa float64"),
    ("reference inputs", "exp complex64"),
    ("reference inputs", "sqrt complex64"),
    ("reference inputs", "nn.functional.multi_margin_loss float32"),
    ("in place", "conj_physical complex64"),
    ("out=", "add float32"),
    ("out=", "arange int64"),
    ("out=", "svd complex64"),
    ("what operators refuse", "cat bfloat16"),
    ("out=", "all int64"),
    ("out=", "mode float32"),
]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("topic", TOPICS)
def test_topic(topic):
    known = listed(topic)
    chosen = list(known)[:: max(len(known) // COUNT, 1)]
    wrong = {}
    for name in chosen:
        kind, what = outcome(topic, known[name])
        if kind in ("failed", "error") and not reason_for(topic, name):
            wrong[name] = what
    assert not wrong


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("topic, name", FOUND)
def test_what_was_wrong(topic, name):
    kind, what = outcome(topic, listed(topic)[name])
    assert kind == "passed", what
