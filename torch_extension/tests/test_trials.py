"""Trials of what a search finds best: on one process and on two."""

import pytest
import ranks
import tried
from torchacc.config import StrategyConfig

# By the profile that `tried` takes, in this order.
BEST = ("dp 2", "fsdp 2, no reshard", "fsdp 2")


@pytest.fixture(scope="module")
def searches():
    calls = (tried.plain, tried.slow, tried.failing, tried.hopeless, tried.hurried, tried.on_meta)
    return ranks.called(2, [*calls, tried.trained], backend="acc")


def of(searches, call):
    made = [rank[call.__name__] for rank in searches]
    for one in made:
        assert isinstance(one, dict), one  # else what went wrong
    return made


def test_the_fastest_is_taken_and_all_ranks_agree(searches):
    first, last = of(searches, tried.plain)
    assert first == last
    assert len(first["tried"]) == 3
    assert {strategy for strategy, _, _ in first["others"]} | {first["strategy"]} == {*BEST}
    for strategy, why, measured in first["others"]:
        assert measured >= first["measured"]
        assert why.startswith("measured ")
        assert why.endswith("% slower")
        assert f"{strategy}: {why}" in first["text"]
    assert "measured" in first["text"].splitlines()[0]


def test_what_is_predicted_best_may_lose(searches):
    first, last = of(searches, tried.slow)
    assert first == last
    assert first["others"][0][0] == BEST[0]
    assert first["strategy"] in BEST[1:]
    assert first["others"][0][2] > first["measured"]


def test_a_trial_that_fails_is_passed_over(searches):
    first, last = of(searches, tried.failing)
    assert first == last
    assert len(first["tried"]) == 3
    assert first["others"][0][1:] == ["failed: MemoryError: as if there were none left", None]
    assert first["others"][0][0] == BEST[0]
    assert "failed: MemoryError: as if there were none left" in first["text"]
    assert first["measured"] is not None


def test_trials_that_all_fail_are_an_error(searches):
    for made in of(searches, tried.hopeless):
        assert made["said"].startswith("accelerate: all trials failed (strategy.trials): ")
        assert made["said"].count("failed: MemoryError: as if there were none left") == 3


def test_trials_end_in_time(searches):
    for made in of(searches, tried.hurried):
        assert len(made["tried"]) == 1
        assert made["measured"] is None
        assert [why for _, why, _ in made["others"]] == ["not tried: the time was up"] * 2
        assert "In its trial a step was not over" in made["text"]


@pytest.mark.parametrize(
    "call", [tried.plain, tried.slow, tried.failing, tried.hopeless, tried.on_meta]
)
def test_trials_leave_everything_as_it_was(searches, call):
    for made in of(searches, call):
        assert made["tried"]
        assert made["same"] == [True] * 5


def test_a_training_goes_on_after_trials(searches):
    made = of(searches, tried.trained)
    means = [sum(step) / 2 for step in zip(*(one["losses"] for one in made), strict=True)]
    assert means == pytest.approx(made[0]["expected"], rel=1e-5)
    assert made[0]["measured"] == made[1]["measured"] > 0


def test_distributed_tensors_are_those_of_the_trials():
    """Those of equal meshes are the same to PyTorch, whose groups must be there."""
    made = ranks.run("tried.trained_in_parts", 4, backend="acc")
    means = [sum(step) / 4 for step in zip(*(one["losses"] for one in made), strict=True)]
    assert means == pytest.approx(made[0]["expected"], rel=1e-5)
    assert "tp 2" in made[0]["strategy"]
    assert made[0]["measured"] > 0


def test_a_process_alone_tries_too():
    (made,) = of(ranks.called(1, [tried.plain], backend="none"), tried.plain)
    assert made["strategy"] == "one device"
    assert made["measured"] > 0
    assert made["same"] == [True] * 5


def test_a_number_of_trials_is_checked():
    with pytest.raises(ValueError, match="config: trials is -1: it must be at least 0"):
        StrategyConfig(trials=-1).validate()
