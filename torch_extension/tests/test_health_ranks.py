"""Ranks that are slow, wrong, late, lost, or compute what is no number are found and named."""

import json
import os
import time

import pytest
import ranks
from torchacc.health import exits
from torchacc.health.heartbeat import Heart

# `make test-chaos` runs the whole.
TRIES = 20 if os.environ.get("TORCHACC_HEALTH") == "whole" else 1


def checked(kind, size=2):
    made = ranks.run("planted.check", size, *[kind] * TRIES, timeout=600)
    assert all(one == made[0] for one in made), "all ranks have the same report"
    assert len(made[0]) == TRIES
    return made[0]


def test_a_slow_rank_is_named():
    for found in checked("slow"):
        assert [one[:2] for one in found] == [["slow", [1]]], found


def test_one_flipped_bit_is_named():
    for found in checked("wrong"):
        assert [one[:2] for one in found] == [["wrong", [1]]], found
        assert "1 wrong elements of 262144" in found[0][2]


def test_nothing_is_said_of_ranks_that_are_well():
    for found in checked("nothing", size=3):
        assert found == []


@pytest.mark.parametrize("kind", ["slow", "wrong"])
def test_a_link_is_named(kind):
    for found in checked(f"{kind} link", size=3):
        assert [one[:2] for one in found] == [[kind, [1, 2]]], found


def test_the_rank_and_line_that_computed_no_number_first():
    well, ill = ranks.run("planted.spoil", 2)
    assert ill[0][:3] == ["non-finite", 3, 1]
    assert "the output of middle (" in ill[0][3]
    assert "planted.py:" in ill[0][3]
    assert len(ill) == 1, "said once"
    # By the sum of gradients the other one gets it a step later.
    assert [one[1:3] for one in well] == [[4, 0]]


def test_modules_are_seen_on_every_engine(tmp_path):
    for rank, made in enumerate(ranks.run("planted.engines", 2, tmp_path)):
        for kind, said in made.items():
            assert len(said) == 3, (kind, said)
            # Recomputed in the backward pass, by both runs alike.
            assert said[2] == "None", (kind, said)
            for text in said[:2]:
                assert text.startswith(f"step 2, rank {rank}: non-finite: the output of"), kind
                assert "down (" in text, (kind, text)


def test_a_rank_that_lags_is_named():
    first, second = ranks.run("planted.lag", 2, 0.05)
    # How often depends on the machine; the next test says when.
    assert first
    assert all(one[:2] == ["straggler", 1] for one in first), first
    assert second == []


def test_a_rank_that_lags_is_said_once_until_it_has_caught_up():
    """By beats that are made up: of three ranks, the last of which is busy for so long."""
    said, beats = [], {}
    heart = object.__new__(Heart)
    heart.rank, heart.size, heart._seen, heart._lags = 0, 3, {}, {}
    heart._alarm = lambda *about: said.append((step, *about))
    heart._timeout, heart._interval, heart._lag = 60.0, 1.0, 2.0
    heart._read = lambda key: beats[key]

    def beat(rank, step, busy):
        pace = {"seconds": 4.0, "busy": busy}
        return {"host": f"host {rank}", "step": step, "pace": pace}

    for step, busy in enumerate([1, 3, 3, 1, 3, 3, 3, 3, 3, 1, 3, 3, 3]):
        beats |= {
            str(rank): json.dumps(beat(rank, step, busy if rank == 2 else 1)) for rank in (1, 2)
        }
        for _ in range(4):  # beats without a step between say nothing new
            heart._find_lagging(float(step), beat(0, step, 1))
    assert [one[:3] for one in said] == [(6, "straggler", 2), (12, "straggler", 2)]
    assert said[0][3] == "rank 2 on host 2 is busy for 3 s of 4 s a step, the others for 1 s"


def ended(name, *arguments):
    _, processes = ranks.start(name, 2, *arguments)
    written = [process.communicate(timeout=120)[0] for process in processes]
    return [process.returncode for process in processes], written


def test_ranks_that_hang_say_where_and_end(tmp_path):
    codes, written = ended("planted.hang", tmp_path)
    assert codes == [exits.AGAIN] * 2, written
    stacks = [(tmp_path / f"rank_{rank}.txt").read_text() for rank in range(2)]
    assert "in never_comes" in stacks[1]
    assert "in never_comes" not in stacks[0]
    assert "the last collectives of process group" in stacks[0]
    assert all("nothing has happened on rank" in text for text in stacks)
    assert any("hang: nothing has happened" in text for text in written)
    assert any("others wait there for rank 1\n" in text for text in written), written


def test_a_rank_that_holds_the_interpreter_is_missed(tmp_path):
    _, processes = ranks.start("planted.hold", 2, tmp_path)
    written = processes[0].communicate(timeout=120)[0]
    # By a timer of the system, which runs out about when the other rank ends.
    stacks, until = tmp_path / "rank_1.txt", time.monotonic() + 120
    while "in hold" not in stacks.read_text():
        assert time.monotonic() < until, written
        time.sleep(0.05)
    processes[1].kill()
    processes[1].communicate()
    assert processes[0].returncode == exits.AGAIN, written
    assert "rank 1 has not been heard of for" in written or "heard of no more" in written


def test_codes_say_whose_fault_it_is():
    codes, written = ended("planted.lose")
    assert codes == [exits.AGAIN, exits.PROGRAM], written
    assert exits.of_processes(codes) == exits.PROGRAM
