"""Process groups of the device: the calls of `torch.distributed`, its engines, what goes wrong.

Ranks are processes that live for a whole list of calls or engines: starting one takes seconds.
"""

import os
import random
import subprocess
import sys
from pathlib import Path

import group_calls
import group_parts
import pytest
import ranks
import torch
import torchacc  # noqa: F401
from documented import scripts
from engines import ENGINES
from support import emulated

CALLS = [*group_calls.CALLS, *group_parts.CALLS]
SECONDS = 5
# What is told at once is told long before this, and ranks that wait for it are not done in time.
NEVER = 3600
# Of losses, against the CPU's.
BOUND = 1e-5
# Halves are rounded between other operations than the CPU's.
BOUNDS = {"fsdp2_bf16": 1e-3}
# Besides the end of the step: which parameters were used is read, the optimizer has one in it,
# gradients go to the CPU, weights are averaged every other step, ranks ask who has left.
CUTS = {
    "ddp_unused": {2},
    "zero1": {2},
    "fsdp2_offload": {3},
    "ddp_local_sgd": {1, 2},
    "ranks_join": {4, 5},
}
# Pipelines cut where something comes from another rank or goes there: at most as many as a rank's
# schedule has actions. There and back for eight parts of a batch, by one or two stages, whose
# gradients of weights are apart in some; scaling each stage's gradients; the optimizer's step.
ACTIONS = {"gpipe": 18, "one_forward_one_backward": 18, "interleaved": 35, "breadth_first": 35}
ACTIONS |= dict.fromkeys(["zero_bubble", "zero_bubble_v", "dual_pipe_v"], 51)
# From when on steps are alike; others from the fourth on.
ALIKE = {"ddp_static_graph": 4, "ddp_power_sgd": 4, "ddp_local_sgd": 5}
# Whose bytes the CPU's run does not tell: it has another program, or sends from threads of its own.
UNCOUNTED = {"ring_attention", "zero_bubble_v", "dual_pipe_v", "ddp_power_sgd"}
# Whose losses are those of one process: a rank's mean over its part of all batches, or all of one.
AS_ONE = {
    "global": ["ddp", "ddp_buckets", "ddp_static_graph", "replicated", "zero1"]
    + ["fsdp2", "fsdp2_keep", "fsdp2_meta", "fsdp2_offload", "hsdp", "fsdp1"],
    "same": ["tp", "sequence_parallel", "tp_loss_parallel", "fsdp2_tp", "ring_attention"],
}
WHOLE = os.environ.get("TORCHACC_DISTRIBUTED") == "whole"
if WHOLE:
    STEPS = 20
    TABLE = {(size, model): [*ENGINES] for size in (2, 4) for model in ("llama", "gpt2")}
else:
    STEPS = 6
    # Every engine in two processes, and in four those that have another form there.
    TABLE = {
        (2, "llama"): [*ENGINES],
        (4, "gpt2"): ["ddp_buckets", "fsdp2", "hsdp", "fsdp2_tp", "sequence_parallel"]
        + ["ring_attention", "interleaved", "zero_bubble_v"],
    }
TRAINED = [(*where, name) for where, names in TABLE.items() for name in names]


@pytest.fixture(scope="module")
def trained():
    """What every rank says of each engine, by number of processes and model."""
    made = {}

    def of(size, model):
        if (size, model) not in made:
            names = TABLE[size, model]
            made[size, model] = ranks.run("engines.train", size, model, STEPS, *names, timeout=900)
        return made[size, model]

    return of


@pytest.fixture(scope="module")
def called():
    return ranks.called(2, CALLS)


@pytest.mark.parametrize(("size", "model", "name"), TRAINED, ids=lambda x: str(x))
def test_engines_train_as_on_the_cpu(trained, size, model, name):
    for rank, of_rank in enumerate(trained(size, model)):
        made = of_rank[name]
        assert len(made["acc"]) == STEPS
        assert made["acc"] == pytest.approx(made["cpu"], rel=BOUNDS.get(name, BOUND)), rank
        # Nothing is compiled any more and nothing runs beside the program.
        for number in range(ALIKE.get(name, 3), STEPS):
            counts = made["counts"][number]
            assert counts["compiles"] == 0, (number, counts)
            assert counts["host_calls"] == counts["immediate_runs"] == 0, (number, counts)
            if name in ACTIONS:
                assert 1 < counts["cuts"] <= ACTIONS[name], (number, counts)
            else:
                assert counts["cuts"] in CUTS.get(name, {1}), (number, counts)
            assert counts["collectives"] > 0, (number, counts)
            if name not in UNCOUNTED:
                assert counts["collective_bytes"] == made["sent"][number], number


@pytest.mark.parametrize(("size", "model"), TABLE)
def test_engines_train_as_one_process(trained, size, model):
    (one, *_) = ranks.run("engines.one_process", size, model, STEPS)
    of_ranks = trained(size, model)
    for kind, names in AS_ONE.items():
        for name in set(names) & set(TABLE[size, model]):
            losses = [made[name]["acc"] for made in of_ranks]
            means = [sum(step) / size for step in zip(*losses, strict=True)]
            assert means == pytest.approx(one[kind], rel=BOUND), name


@pytest.mark.parametrize("name", [call.__name__ for call in CALLS])
def test_calls_are_the_cpus(called, name):
    for rank, of_rank in enumerate(called):
        assert of_rank[name] == "ok", f"rank {rank}: {of_rank[name]}"


def test_four_ranks_move_uneven_parts():
    calls = [group_calls.uneven, group_calls.point_to_point, group_calls.groups]
    calls += [group_calls.parts_of_a_group]
    for of_rank in ranks.called(4, calls):
        assert of_rank == dict.fromkeys((call.__name__ for call in calls), "ok")


def test_a_group_of_acc_alone_has_the_hosts_barriers():
    for of_rank in ranks.called(2, [group_calls.parts_of_a_group], backend="acc"):
        assert of_rank == {"parts_of_a_group": "ok"}


def test_memory_of_a_device_stays_there():
    """On the CUDA backend of debug builds, with PyTorch's own device for the same memory."""
    calls = [*CALLS, group_calls.natively]
    for of_rank in ranks.called(2, calls, **emulated()):
        assert of_rank == dict.fromkeys((call.__name__ for call in calls), "ok")


def test_the_device_chooses_the_backend():
    assert ranks.run("group_calls.chosen", 2, backend="") == ["ok", "ok"]


def test_a_rank_that_dies_is_told_of():
    (made, _) = ranks.run("faults.killed", 2, fails=[1], seconds=NEVER)
    for part in ("all_reduce", 'process group "0"', "rank 0 of 2", "c10d::allreduce_"):
        assert part in made["error"]


def test_a_rank_that_does_not_come_is_a_timeout():
    (made, _) = ranks.run("faults.late", 2, fails=[1], seconds=SECONDS)
    assert made["seconds"] > SECONDS - 1
    assert f"Timed out waiting {1000 * SECONDS}ms" in made["error"]
    # Only the first one has waited.
    assert "the group failed before" in made["again"]["error"]
    for error in (made["error"], made["again"]["error"]):
        assert "faults.py" in error


def test_ranks_that_disagree_are_told_so():
    for rank, made in enumerate(ranks.run("faults.other_shapes", 2, seconds=NEVER)):
        for other, elements in enumerate(("3 elements", "4 elements")):
            assert f"{elements} of type Float on rank {other}" in made["error"], rank
        assert "faults.py" in made["error"]


def test_ranks_are_compared_after_each_large_tensor():
    for made in ranks.run("faults.other_reduction", 2, seconds=NEVER):
        assert "the ranks of the group do not do the same: collective 71 is" in made["error"]
        assert "faults.py" in made["error"]


# A rank that goes wrong: how, which of three, in which step.
FAULTS = [("stopped", 0, 3), ("skips", 2, 5), ("killed", 0, 4), ("late", 1, 2)]
if WHOLE:
    _random = random.Random(20261125)
    WAYS = ["killed", "stopped", "late", "raises", "skips", "other_shape"]
    FAULTS = [
        (_random.choice(WAYS), _random.randrange(3), _random.randrange(20)) for _ in range(50)
    ]
FAULT_SECONDS = 5


@pytest.mark.parametrize(("how", "victim", "at"), FAULTS)
def test_a_rank_goes_wrong(how, victim, at):
    # Those that do not agree are told so all alike.
    alike = how in ("skips", "other_shape")
    fails = () if alike else (victim,)
    made = ranks.run("faults.goes_wrong", 3, how, victim, at, fails=fails, seconds=FAULT_SECONDS)
    for rank, of_rank in enumerate(made):
        if rank in fails:
            continue
        assert f"its rank {rank} of 3" in of_rank["error"]
        assert "faults.py" in of_rank["error"]
        # The flight recorder has what failed, and what came before.
        failed = [line for line in of_rank["flight"].splitlines() if " failed after" in line]
        # Only one has been waited for.
        assert len(failed) == 1, of_rank["flight"]
        assert "faults.py" in failed[0]
        if alike:
            for other in {0, 1, 2} - {rank}:
                assert f"rank {other} gave up" in of_rank["error"]
            assert of_rank["error"].count("faults.py") >= 3


@pytest.mark.parametrize("how", ["killed", "stopped", "late"])
def test_a_rank_goes_wrong_while_collectives_run_beside_kernels(how):
    made, *_ = ranks.run("faults.goes_wrong_beside", 2, how, fails=[1], seconds=FAULT_SECONDS)
    assert made["overlapped"] >= 3 * 4
    assert made["seconds"] < 4 * FAULT_SECONDS
    assert made["beside"] == 200 * 200
    for part in ("all_reduce", "its rank 0 of 2", "faults.py"):
        assert part in made["error"]


def test_torchrun_starts_a_training_again(tmp_path):
    said = []
    for step in (3, -1):
        folder = tmp_path / str(step)
        folder.mkdir()
        code = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
        code += ["--nproc-per-node", "2", "--max-restarts", "1", "--monitor-interval", "0.1"]
        script = Path(__file__).with_name("restarted.py")
        made = subprocess.run(
            [*code, script, folder, str(step)],
            env=os.environ | {"OMP_NUM_THREADS": "1", "TORCHACC_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=150,
        )
        assert made.returncode == 0, made.stderr
        (line,) = [line for line in made.stdout.splitlines() if line.startswith("began with")]
        said.append(line.removeprefix("began with step ").split(", "))
    # As if nothing had happened.
    assert [begin for begin, _ in said] == ["3", "0"]
    assert said[0][1] == said[1][1]


def test_without_a_group_the_error_is_pytorchs():
    with pytest.raises(ValueError, match="process group"):
        torch.distributed.all_reduce(torch.ones(1, device="acc"))


def test_the_scripts_of_the_page_run():
    stores = [ranks.hosted_store() for _ in scripts("distributed.md")]
    ports = [store.port for store in stores]
    made = ranks.run("documented.run", 2, "distributed.md", *ports, backend="none")
    assert made == [len(ports)] * 2
