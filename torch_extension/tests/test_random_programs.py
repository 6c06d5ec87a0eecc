"""Random short programs on acc against the CPU: a fixed set, and a minute of others.

The minute begins with the same program every time, so that a change is measured by itself.
`make test-random` looks for an hour, at programs that nobody has seen. TORCHACC_RANDOM_SEED and
TORCHACC_RANDOM_SECONDS say which programs, and how long.
"""

import os
import re
import time

import pytest
from random_programs.check import examine, failure_of, report
from random_programs.draw import STATEMENTS
from random_programs.generate import generate
from random_programs.known import KNOWN
from random_programs.program import Program
from random_programs.shadows import on_host

CORPUS = 300
FIRST = 1_000_000
PARTS = 10


def check(seed):
    found = examine(seed)
    if found:
        pytest.fail(report(seed, found), pytrace=False)


@pytest.mark.parametrize("part", range(PARTS))
def test_the_same_programs_every_time(part):
    for seed in range(part, CORPUS, PARTS):
        check(seed)


def test_as_many_programs_as_there_is_time_for():
    first = int(os.environ.get("TORCHACC_RANDOM_SEED") or FIRST)
    seconds = float(os.environ.get("TORCHACC_RANDOM_SECONDS") or 60)
    print(f"seed {first}")
    end, seed = time.monotonic() + seconds, first
    while time.monotonic() < end:
        check(seed)
        seed += 1
    assert seed > first


def test_a_seed_is_a_program():
    assert generate(7) == generate(7)
    assert generate(7) != generate(8)


def test_every_kind_of_statement_is_drawn(monkeypatch):
    drawn = set()

    def noting(maker):
        def make(d):
            line = maker(d)
            drawn.update([maker.__name__] if line else [])
            return line

        return make

    makers = [noting(maker) for _, maker in STATEMENTS]
    monkeypatch.setattr("random_programs.generate.MAKERS", makers)
    for seed in range(150):
        generate(seed)
    assert drawn == {maker.__name__ for _, maker in STATEMENTS}


def test_most_of_a_program_is_compared():
    drawn = compared = 0
    for seed in range(100):
        program = generate(seed)
        decided, _ = on_host(program)
        drawn += len(program.setup + program.body)
        compared += len(decided.setup + decided.body)
    assert compared > 0.9 * drawn


WRONG = [
    ("t1 = data(1, (4,), 'f32')", "t1.add_(0.001 if device == 'acc' else 0)", "values"),
    ("t1 = data(1, (4,), 'i64')", "t1 += device == 'acc'", "values"),
    ("t1 = data(1, (4,), 'f32')", "t1 = t1.to(f64) if device == 'acc' else t1", "dtype"),
    ("t1 = data(1, (4,), 'f32')", "t1 = t1[None] if device == 'acc' else t1", "shape"),
    ("t1 = data(1, (4,), 'f32')", "r1 = t1.sum().item() + (device == 'acc')", "values"),
    ("t1 = data(1, (4,), 'f32')", "t1.view(5 if device == 'acc' else 4)", "raised RuntimeError"),
    ("t1 = data(1, (4,), 'f32')", "t1.view(4 if device == 'acc' else 5)", "raised None"),
    ("t1 = data(1, (4,), 'f32')", "t1.requires_grad_(device == 'acc')", "requires_grad"),
]


@pytest.mark.parametrize("setup, body, kind", WRONG)
def test_a_difference_is_found_and_shrunk(setup, body, kind):
    around = ("t8 = data(2, (3, 5), 'bf16', 'normal')", "t9 = F.softmax(t8, -1)", "t9.mul_(t8)")
    program = Program((around[0], setup), (around[1], body, around[2]), 2)
    failure = failure_of(program)
    assert failure.kind.startswith(kind)
    text = report(0, (program, failure))
    assert re.search(r"\bdevice\b", text.split("torchacc.sync()")[1])
    assert "softmax" not in text


def test_what_rounding_decides_is_not_compared():
    program = Program(("t1 = data(1, (64,), 'f32', 'normal')",), ("t2 = (t1 * 3 / 3 == t1)",))
    decided, _ = on_host(program)
    assert decided.body == ()


def test_every_known_failure_has_a_reason():
    assert all(known.reason for known in KNOWN.values())
