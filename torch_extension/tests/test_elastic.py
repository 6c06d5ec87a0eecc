"""Elastic jobs: however many ranks there are, each sample counts once, in the same steps."""

import contextlib
import itertools
import json
import math
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import resized
import torch
import torchacc
from support import DEVICE
from torch.utils.data import DataLoader
from torchacc import AsyncLoader, ElasticSampler
from torchacc.config import Config, DistConfig, FSDPConfig, StrategyConfig, TPConfig


class Batches:
    """As a loader of them: the samples' numbers."""

    def __init__(self, sampler):
        self.batch_sampler = sampler

    def __iter__(self):
        return iter(self.batch_sampler)


def loader_of(sampler, **options):
    return DataLoader(torch.arange(sampler.samples), batch_sampler=sampler, **options)


def global_batches(samples, size, drop_last, seed, epochs):
    """In the order of `DistributedSampler`, of one rank."""
    made = []
    for epoch in range(epochs):
        order = torch.randperm(samples, generator=torch.Generator().manual_seed(seed + epoch))
        made += [one.tolist() for one in order.split(size) if len(one) == size or not drop_last]
    return made


def step_of_all(of_ranks, micro_batch):
    """The samples of a step that count, of all ranks, whose micro-batches are given."""
    ranks, counted = len(of_ranks), []
    assert len({len(pairs) for pairs in of_ranks}) == 1
    size = sum(len(batch) for pairs in of_ranks for batch, weight in pairs if weight)
    assert len(of_ranks[0]) == math.ceil(size / (ranks * micro_batch))
    for batch, weight in itertools.chain(*of_ranks):
        assert 1 <= len(batch) <= micro_batch
        assert weight == (pytest.approx(len(batch) * ranks / size) if weight else 0)
        counted += batch if weight else []
    weights = [weight for pairs in of_ranks for _, weight in pairs]
    assert sum(weights) / ranks == pytest.approx(1)
    # No rank has more to do than others by more than a sample.
    of_ranks = [sum(len(batch) for batch, weight in pairs if weight) for pairs in of_ranks]
    assert max(of_ranks) - min(of_ranks) <= 1
    return counted


@pytest.mark.parametrize("seed", range(100))
def test_no_sample_is_lost_or_seen_twice_however_often_ranks_change(seed):
    draw, epochs = random.Random(seed), 3
    size = draw.randrange(1, 40)
    drop_last = draw.random() < 0.5
    samples = draw.randrange(size if drop_last else 1, 300)
    expected = global_batches(samples, size, drop_last, seed, epochs)
    state, found = None, []
    while state is None or state["epoch"] < epochs:
        ranks, micro_batch = draw.randrange(1, size + 1), draw.randrange(1, 12)
        made = [
            ElasticSampler(
                range(samples), size, micro_batch, seed=seed, drop_last=drop_last, part=(at, ranks)
            )
            for at in range(ranks)
        ]
        for sampler in made if state is not None else []:
            sampler.load_state_dict(state)
        assert len({len(sampler) for sampler in made}) == 1
        assert made[0].steps_per_epoch == len(expected) / epochs
        left = draw.randrange(1, len(expected) + 1)
        while left and made[0].epoch < epochs:
            steps = zip(*(sampler.steps(Batches(sampler)) for sampler in made), strict=True)
            for micro_batches in itertools.islice(steps, left):
                found.append(step_of_all([[*one] for one in micro_batches], micro_batch))
                left -= 1
        (state,) = {tuple(sampler.state_dict().items()) for sampler in made}
        state = dict(state)
        assert state["step"] == len(found)
    assert found == expected


def test_without_shuffling_the_order_is_the_datasets():
    sampler = ElasticSampler(range(10), 4, 2, shuffle=False, part=(0, 1))
    assert [*sampler] == [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]
    assert len(sampler) == 5


def test_ranks_of_a_mesh_that_share_a_batch_have_the_same(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "8")
    config = Config(dist=DistConfig(fsdp=FSDPConfig(2), tp=TPConfig(2)))
    parts, alone = [], []
    for rank in range(8):
        monkeypatch.setenv("RANK", str(rank))
        sampler = ElasticSampler(range(8), 8, 2, config=config)
        parts.append((sampler.rank, sampler.ranks))
        alone.append(ElasticSampler(range(8), 8, 2).rank)
    assert parts == [(at, 4) for at in (0, 0, 1, 1, 2, 2, 3, 3)]
    assert alone == [*range(8)]


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_that_are_fetched_ahead_do_not_count(workers):
    def made():
        sampler = ElasticSampler(range(50), 12, 4, seed=1, part=(0, 1))
        return sampler, AsyncLoader(loader_of(sampler, num_workers=workers), DEVICE, depth=4)

    expected = global_batches(50, 12, False, 1, 2)
    sampler, loader = made()
    steps, found = sampler.steps(loader), []
    for micro_batches in itertools.islice(steps, 3):
        before = sampler.state_dict()
        for at, (batch, _) in enumerate(micro_batches):
            found += batch.tolist()
            # A step that is not over is made anew.
            assert loader.state_dict() == before
            assert at < len(micro_batches)
        assert sampler.position == len(found)
    state = loader.state_dict()
    steps.close()
    loader.close()
    # Of a loader that is saved with its sampler, too.
    sampler, loader = made()
    sampler.load_state_dict(state)
    loader.load_state_dict(state)
    random_numbers = torch.get_rng_state()
    for epoch in (0, 1):
        assert sampler.epoch == epoch
        for micro_batches in sampler.steps(loader):
            found += sum((batch.tolist() for batch, _ in micro_batches), [])
        if epoch == 0:
            # Those that an epoch takes were taken when it began.
            assert torch.equal(torch.get_rng_state(), random_numbers)
    assert found == sum(expected, [])


def test_what_is_left_of_a_step_is_left_out():
    sampler = ElasticSampler(range(20), 8, 2, shuffle=False, part=(0, 1))
    found = []
    for micro_batches in sampler.steps(loader_of(sampler)):
        for batch, _ in micro_batches:
            found.append(batch.tolist())
            break
    assert found == [[0, 1], [8, 9], [16, 17]]
    assert sampler.state_dict() | {"epoch": 1, "position": 0, "step": 3} == sampler.state_dict()


def test_a_place_after_which_nothing_is_left_is_the_next_epochs():
    sampler = ElasticSampler(range(20), 6, 3, drop_last=True, part=(0, 1))
    for _ in itertools.islice(sampler.steps(loader_of(sampler)), 2):
        pass
    assert sampler.position == 6
    larger = ElasticSampler(range(20), 15, 3, drop_last=True, part=(0, 1))
    larger.load_state_dict(sampler.state_dict())
    assert (larger.epoch, larger.position) == (1, 0)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((range(8), 8, 0), {}, "micro_batch is 0: it must be at least 1"),
        ((range(8), 0, 2), {}, "global_batch is 0: it must be at least 1"),
        ((range(0), 8, 2), {}, "samples is 0: it must be at least 1"),
        ((range(8), 4, 2), {"part": (0, 6)}, "4 / 6 is less than one sample for each"),
        ((range(8), 8, 2), {"part": (2, 2)}, r"part is \(2, 2\)"),
        ((range(8), 9, 2), {"drop_last": True}, "drop_last leaves nothing of 8 samples"),
    ],
)
def test_what_fits_no_ranks_is_said(arguments, options, message):
    with pytest.raises(ValueError, match=f"^ElasticSampler: .*{message}"):
        ElasticSampler(*arguments, **options)


def test_a_place_in_another_order_is_refused():
    state = ElasticSampler(range(9), 3, 2, seed=1).state_dict()
    sampler = ElasticSampler(range(8), 3, 2)
    before = sampler.state_dict()
    with pytest.raises(ValueError, match="another order: samples is 8, was 9, seed is 0, was 1"):
        sampler.load_state_dict(state)
    with pytest.raises(KeyError, match="position"):
        sampler.load_state_dict({"epoch": 3})
    assert sampler.state_dict() == before


def test_batches_that_are_not_the_samplers_are_refused():
    sampler = ElasticSampler(range(8), 4, 2)
    with pytest.raises(ValueError, match="make it with this sampler as its batch_sampler"):
        next(sampler.steps(DataLoader(range(8), batch_size=2)))
    with pytest.raises(ValueError, match="ElasticSampler's batches are parts"):
        AsyncLoader(loader_of(sampler), DEVICE, part=(0, 2))
    config = Config(strategy=StrategyConfig(mode="auto"))
    with pytest.raises(ValueError, match="ElasticSampler has each process's own"):
        torchacc.accelerate(torch.nn.Linear(2, 2), loader_of(sampler), config)


def test_an_epoch_under_way_does_not_go_on_from_another_place():
    sampler = ElasticSampler(range(8), 4, 2)
    steps = sampler.steps(loader_of(sampler))
    next(steps)
    sampler.load_state_dict(sampler.state_dict())
    with pytest.raises(RuntimeError, match="the place was set in an epoch that is under way"):
        next(steps)
    steps = sampler.steps(loader_of(sampler))
    next(steps)
    next(sampler.steps(loader_of(sampler)))
    with pytest.raises(RuntimeError, match="another loop was begun"):
        next(steps)


def undisturbed():
    """What one process does in each step, and its weights."""
    sampler, model, loader, optimizer = resized.made(resized.GLOBAL_BATCH, part=(0, 1))
    steps = []
    while sampler.epoch < resized.EPOCHS:
        for micro_batches in sampler.steps(loader):
            steps.append(resized.stepped(model, optimizer, micro_batches))
    return steps, {name: one.cpu() for name, one in model.state_dict().items()}


class Job:
    """Two nodes of torchrun on this machine."""

    def __init__(self, folder):
        self.folder, self.agents = folder, {}
        Path(folder, "log").mkdir()
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def start(self, node):
        options = f"is_host={int(node == 'a')},last_call_timeout=1"
        command = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run"]
        command += ["--nnodes", f"1:{resized.NODES}", "--rdzv-backend", "c10d", "--rdzv-id", "job"]
        command += ["--rdzv-endpoint", f"127.0.0.1:{self.port}", "--max-restarts", "3"]
        command += ["--rdzv-conf", options]
        command += ["--nproc-per-node", str(resized.RANKS_OF_NODE), "--monitor-interval", "0.1"]
        script = Path(__file__).with_name("resized.py")
        self.agents[node] = subprocess.Popen(
            [*command, script, self.folder],
            env={
                **os.environ,
                "NODE": node,
                # PyTorch 2.11 else tells nodes that come later no address.
                "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
                "OMP_NUM_THREADS": "1",
                "TORCHACC_NUM_THREADS": "1",
                "TORCHACC_SNAPSHOTS": str(self.folder),
                "TORCHACC_CACHE_DIR": str(self.folder / "programs"),
            },
            stdout=subprocess.DEVNULL,
            stderr=(self.folder / f"{node}.txt").open("a"),
        )

    def said(self):
        """By node and rank, what each has said."""
        lines = {log.name: log.read_text() for log in Path(self.folder, "log").iterdir()}
        return {
            name: [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]
            for name, text in lines.items()
        }

    def wait(self, is_so, seconds=240):
        until = time.monotonic() + seconds
        while not is_so():
            assert time.monotonic() < until, self.errors()
            assert not self.agents["a"].poll(), self.errors()
            time.sleep(0.05)

    def errors(self):
        return "\n".join(path.read_text() for path in self.folder.glob("?.txt"))

    def end(self):
        for agent in self.agents.values():
            with contextlib.suppress(ProcessLookupError):
                agent.send_signal(signal.SIGTERM)  # which it passes on to its ranks
            agent.wait(60)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """One that loses a node, and gets it back."""
    job = Job(tmp_path_factory.mktemp("job"))
    try:
        job.start("a")
        job.start("b")
        job.wait(lambda: job.agents["b"].poll() is not None)
        job.wait(lambda: any(one.get("waits") == resized.BACK for one in job.said().get("a-0", [])))
        job.start("b")
        job.wait(lambda: all(agent.poll() is not None for agent in job.agents.values()))
        assert [agent.poll() for agent in job.agents.values()] == [0, 0], job.errors()
        yield job
    finally:
        job.end()


@pytest.fixture(scope="module")
def lives(job):
    """Of each life of the job that made steps: the number of ranks, and by step what they did."""
    made = {}
    for lines in job.said().values():
        for line in lines:
            if "begin" in line:
                steps = made.setdefault((line["begin"], line["world"]), {})
            elif "step" in line:
                steps.setdefault(line["step"], []).append(line)
    return [(world, steps) for (_, world), steps in sorted(made.items()) if steps]


def test_a_job_goes_on_from_its_last_snapshot_with_the_nodes_that_there_are(lives):
    assert [(world, min(steps)) for world, steps in lives] == [(4, 0), (2, 6), (4, 10), (4, 12)]


def test_each_sample_of_an_epoch_counts_once(lives):
    # What a life did after its last snapshot the next one did again.
    counted = {step: lines for _, steps in lives for step, lines in steps.items()}
    epochs = [[] for _ in range(resized.EPOCHS)]
    for _, lines in sorted(counted.items()):
        for line in lines:
            epochs[line["epoch"]] += line["seen"]
    assert [sorted(seen) for seen in epochs] == [[*range(resized.SAMPLES)]] * resized.EPOCHS


def test_steps_are_those_of_a_job_that_nothing_disturbs(job, lives):
    expected, weights = undisturbed()
    for world, steps in lives:
        for step, lines in steps.items():
            if len(lines) < world:
                continue  # in which a rank was lost
            assert {at for line in lines for at in line["seen"]} == {*expected[step][0]}
            # As gradients are, of all ranks.
            loss = sum(line["loss"] for line in lines) / world
            assert loss == pytest.approx(expected[step][1], rel=1e-4)
    assert {step for _, steps in lives for step in steps} == {*range(len(expected))}
    made = torch.load(job.folder / "weights.pt")
    assert made.keys() == weights.keys()
    for name, one in made.items():
        torch.testing.assert_close(one, weights[name], rtol=1e-3, atol=1e-4)


def test_programs_come_from_disk_where_the_ranks_are_as_many_as_before(job):
    counts = [line for lines in job.said().values() for line in lines if "compiles" in line]
    assert len(counts) == resized.NODES * resized.RANKS_OF_NODE
    for line in counts:
        assert line["compiles"] == 0
        assert line["disk_hits"] > 0


def test_the_example_goes_on(tmp_path):
    sizes = "--layers 1 --width 32 --heads 2 --context 16 --samples 40 --epochs 4 --lr 0.01".split()
    said = ""
    for options in (["--stop-at", "12"], []):
        script = Path(__file__).parents[2] / "examples" / "train_elastic.py"
        made = subprocess.run(
            [sys.executable, script, *sizes, "--out", tmp_path / "out", *options],
            env=os.environ | {"TORCHACC_SNAPSHOTS": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert made.returncode == 0, made.stderr
        said += made.stdout
    assert re.findall(r"begin with step (\d+)", said) == ["0", "12"]
    assert re.findall(r"epoch (\d), step (\d+)", said) == [
        ("0", "4"), ("1", "8"), ("2", "12"), ("3", "16"), ("3", "20")
    ]  # fmt: skip
    losses = [float(loss) for loss in re.findall(r"loss (.*)", said)]
    assert losses[-1] < losses[0]
