"""Process groups of the device: the calls of `torch.distributed`, its engines, what goes wrong.

Ranks are processes that live for a whole list of calls or engines: starting one takes seconds.
"""

import pytest
import ranks
import torch
import torchacc  # noqa: F401
from documented import scripts
from engines import ENGINES, GRIDS, STEPS
from group_calls import CALLS

SECONDS = 5
# Of losses, against the CPU's.
BOUND = 1e-5
# Halves are rounded between other operations than the CPU's: one of their last bits.
BOUNDS = {"fsdp2_bf16": 1e-2}
# Besides the end of the step: which parameters were used is read, the optimizer has one in it, and
# gradients go to the CPU.
CUTS = {"ddp_unused": 2, "zero1": 2, "fsdp2_offload": 3}
# Every engine in two processes, and in four those that have another form there.
TABLE = {
    2: [engine.__name__ for engine in ENGINES],
    4: ["ddp_buckets", "fsdp2", "sequence_parallel", "interleaved"]
    + [grid.__name__ for grid in GRIDS],
}
TRAINED = [(size, name) for size, names in TABLE.items() for name in names]


@pytest.fixture(scope="module")
def trained():
    """What every rank says of each engine, by number of processes."""
    made = {}

    def of(size):
        if size not in made:
            made[size] = ranks.run("engines.train", size, *TABLE[size], timeout=300)
        return made[size]

    return of


@pytest.fixture(scope="module")
def called():
    return ranks.run("group_calls.call", 2, *(call.__name__ for call in CALLS), timeout=300)


@pytest.mark.parametrize(("size", "name"), TRAINED, ids=lambda x: str(x))
def test_engines_train_as_on_the_cpu(trained, size, name):
    for rank, of_rank in enumerate(trained(size)):
        made = of_rank[name]
        assert len(made["acc"]) == STEPS
        assert made["acc"] == pytest.approx(made["cpu"], rel=BOUNDS.get(name, BOUND)), rank
        # From the fourth step on nothing is compiled and nothing runs beside the program.
        for counts in made["counts"][4 if name == "ddp_static_graph" else 3 :]:
            assert counts["compiles"] == 0, counts
            assert counts["host_calls"] == counts["immediate_runs"] == 0, counts
            assert counts["cuts"] == CUTS.get(name, 1), counts
            assert counts["collectives"] > 0, counts


@pytest.mark.parametrize("name", [call.__name__ for call in CALLS])
def test_calls_are_the_cpus(called, name):
    for rank, of_rank in enumerate(called):
        assert of_rank[name] == "ok", f"rank {rank}: {of_rank[name]}"


def test_four_ranks_move_uneven_parts():
    names = ["uneven", "point_to_point", "groups"]
    for of_rank in ranks.run("group_calls.call", 4, *names):
        assert of_rank == dict.fromkeys(names, "ok")


def test_the_device_chooses_the_backend():
    assert ranks.run("group_calls.chosen", 2, backend="") == ["ok", "ok"]


def test_a_rank_that_dies_is_told_of():
    (made, _) = ranks.run("faults.killed", 2, fails=[1], seconds=SECONDS)
    assert made["seconds"] < SECONDS + 2
    for part in ("all_reduce", 'process group "0"', "rank 0 of 2", "c10d::allreduce_"):
        assert part in made["error"]


def test_a_rank_that_does_not_come_is_a_timeout():
    (made, _) = ranks.run("faults.late", 2, fails=[1], seconds=SECONDS)
    assert SECONDS - 1 < made["seconds"] < SECONDS + 2
    assert "Timed out" in made["error"]
    assert made["again"]["seconds"] < 1
    for error in (made["error"], made["again"]["error"]):
        assert "faults.py" in error


def test_ranks_that_disagree_are_told_so():
    for rank, made in enumerate(ranks.run("faults.other_shapes", 2, seconds=SECONDS)):
        assert made["seconds"] < SECONDS + 2
        for other, elements in enumerate(("3 elements", "4 elements")):
            assert f"{elements} of type Float on rank {other}" in made["error"], rank
        assert "faults.py" in made["error"]


def test_without_a_group_the_error_is_pytorchs():
    with pytest.raises(ValueError, match="process group"):
        torch.distributed.all_reduce(torch.ones(1, device="acc"))


def test_the_scripts_of_the_page_run():
    ports = [ranks.free_port() for _ in scripts()]
    assert ranks.run("documented.run", 2, *ports, backend="none") == [len(ports)] * 2
