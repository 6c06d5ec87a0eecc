"""`plan`: the fastest strategy that fits, of all that there are.

The space is small enough to look at all of it: sizes that make up the devices, times how a batch is
cut, pipelines' schedules, what is computed again. A bound of each one's time says in which order to
look and when to stop.
"""

import dataclasses
import functools
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.nn as nn

from torchacc.auto.cluster import Cluster
from torchacc.auto.cost import Costs, Prediction
from torchacc.auto.dry_run import measure
from torchacc.auto.model import Model
from torchacc.auto.report import Considered, Plan
from torchacc.auto.strategy import Strategy
from torchacc.config import AXES, Config

# Number of runners-up that are reported, besides the best of each combination.
_TOLD = 5
# Most stages on a rank that are tried: each costs another message.
_MOST_STAGES = 8


def plan(
    model: Model | nn.Module,
    cluster: Cluster | str | Path | None = None,
    *,
    batch: int,
    inputs: Sequence | Mapping[str, Any] | None = None,
    config: Config | None = None,
    time_limit: float | None = None,
    accumulates: bool = True,
) -> Plan:
    """How to train `model` on all of `cluster` in the least time, with `batch` sequences a step.

    `model` is a shape (`transformer`), or a module with example `inputs` (`measure`). `cluster`, or
    `config.strategy.cluster` if not given, is one, a profile's name or a file. Of `config`, whose
    `strategy.mode` "auto" is the default here, nothing is fixed but precision and topology; with
    "semi" also all that differs from `Config()`; with "manual" everything, and it is only
    predicted. With `memory.budget` a step makes do with so many bytes. Micro-batches without a
    pipeline are gradients that the program accumulates, if it does.

    A search ends after about `time_limit` seconds (`config.strategy.time_limit`, if not given) with
    the best that it has seen, once there is one; before that the same arguments give the same plan.
    Raises ValueError where nothing fits, with what comes nearest, and for arguments that are wrong.
    """
    return plans(model, cluster, batch, inputs, config, time_limit, accumulates, 1)[0]


def plans(
    model: Model | nn.Module,
    cluster: Cluster | str | Path | None,
    batch: int,
    inputs: Sequence | Mapping[str, Any] | None,
    config: Config | None,
    time_limit: float | None,
    accumulates: bool,
    count: int,
) -> list[Plan]:
    """As `plan`: so many that are predicted to be the best, if there are, in this order."""
    start = time.monotonic()
    if config is None:
        config = Config()
        config.strategy.mode = "auto"
    config.validate()
    model = _model(model, inputs, config)
    cluster = _cluster(cluster if cluster is not None else config.strategy.cluster)
    if batch < 1:
        raise ValueError(f"plan: batch is {batch!r}: it must be at least 1")
    if time_limit is not None and time_limit <= 0:
        raise ValueError(f"plan: time_limit is {time_limit!r}: it must be more than 0 seconds")
    search = _Search(model, cluster, config, batch, accumulates)
    search.run(start, time_limit or config.strategy.time_limit)
    return search.plans(time.monotonic() - start, count)


def _model(model, inputs, config: Config) -> Model:
    if isinstance(model, Model):
        return model
    if not isinstance(model, nn.Module):
        raise ValueError(f"plan: model is a {type(model).__name__}: it must be a Model or a Module")
    if inputs is None:
        raise ValueError("plan: inputs is None: a module is run with examples of its inputs")
    return measure(model, inputs, plan=config.dist.tp.plan)


def _cluster(cluster) -> Cluster:
    if cluster is None:
        raise ValueError("plan: cluster is None, and so is config.strategy.cluster")
    if not isinstance(cluster, Cluster):
        return Cluster.load(cluster)
    cluster.validate("cluster.")
    return cluster


# ---- the space


@dataclass(frozen=True)
class Space:
    """Which strategies there are: what a configuration leaves open, of so many devices."""

    model: Model
    devices: int
    batch: int
    # Fields of `Strategy` with the values that they must have.
    fixed: Mapping[str, Any]
    accumulates: bool = True

    @classmethod
    def of(
        cls, config: Config, model: Model, devices: int, batch: int, accumulates: bool = True
    ) -> "Space":
        mode = config.strategy.mode
        if mode == "manual":
            fixed = dataclasses.asdict(Strategy.of(config, model, devices))
        else:
            fixed = _fixed(config, model) if mode == "semi" else {}
        return cls(model, devices, batch, fixed, accumulates)

    def options(self, name: str, values: Iterable) -> list:
        return [self.fixed[name]] if name in self.fixed else [*values]

    def sizes(self) -> Iterator[Strategy]:
        """Those that differ in their sizes only."""

        def rest(axes: tuple[str, ...], devices: int) -> Iterator[dict[str, int]]:
            if not axes:
                if devices == 1:
                    yield {}
                return
            for size in self.options(axes[0], _divisors(devices)):
                if devices % size == 0:
                    for others in rest(axes[1:], devices // size):
                        yield {axes[0]: size, **others}

        for sizes in rest(AXES, self.devices):
            yield Strategy(**sizes)

    def variants(self, base: Strategy) -> Iterator[Strategy]:
        """Those of the same sizes, without what is computed again."""
        points = self.fixed.get("split_points", ())
        cuts = self.accumulates or base.pp > 1
        several = _divisors(self.batch // base.copies) if cuts else [1]
        for micro in self.options("num_micro_batches", several):
            for schedule, stages in self._schedules(base.pp):
                for reshard in self._reshards(base.fsdp):
                    for mode, ulysses in self._modes(base.sp):
                        yield dataclasses.replace(
                            base,
                            num_micro_batches=micro,
                            schedule=schedule,
                            stages=stages,
                            reshard_after_forward=reshard,
                            sp_mode=mode,
                            ulysses_size=ulysses,
                            split_points=points,
                        )

    def again(self, base: Strategy) -> Sequence[int]:
        """How many blocks may be computed again, from few to many. Of a pipeline all or none: its
        slowest stage is no faster if others compute less."""
        blocks = len(self.model.blocks)
        if "gc_cnt" in self.fixed:
            return (self.fixed["gc_cnt"],)
        return range(blocks + 1) if base.pp == 1 else (0, blocks)

    def _schedules(self, ranks: int) -> Iterator[tuple[str, int]]:
        if ranks == 1:
            yield "1f1b", 1
            return
        # "gpipe" takes as long as "1f1b", and more memory: it is used on request only.
        for schedule in self.options("schedule", ("1f1b", "zero-bubble", "interleaved")):
            if "stages" in self.fixed:
                yield schedule, self.fixed["stages"]
            elif schedule != "interleaved":
                yield schedule, 1
            else:
                blocks = len(self.model.blocks)
                for stages in range(2, min(blocks // ranks, _MOST_STAGES) + 1):
                    if blocks % (ranks * stages) == 0:
                        yield schedule, stages

    def _reshards(self, ranks: int) -> list[bool]:
        return self.options("reshard_after_forward", (True, False)) if ranks > 1 else [True]

    def _modes(self, ranks: int) -> Iterator[tuple[str, int | None]]:
        if ranks == 1:
            yield "ulysses", None
            return
        for mode in self.options("sp_mode", ("ulysses", "ring", "2d")):
            if mode != "2d":
                yield mode, None
                continue
            for size in self.options("ulysses_size", _divisors(ranks)[1:-1]):
                if ranks % size == 0:
                    yield mode, size


def _fixed(config: Config, model: Model) -> dict[str, Any]:
    """What differs from the defaults, as fields of `Strategy`."""
    default = Config()
    fixed: dict[str, Any] = {}
    for axis in AXES:
        size = getattr(config.dist, axis).size
        if size != getattr(default.dist, axis).size:
            fixed[axis] = size
    pairs = (
        ("pp", "num_micro_batches", "num_micro_batches"),
        ("pp", "schedule", "schedule"),
        ("fsdp", "reshard_after_forward", "reshard_after_forward"),
        ("sp", "mode", "sp_mode"),
        ("sp", "ulysses_size", "ulysses_size"),
    )
    for section, name, field in pairs:
        value = getattr(getattr(config.dist, section), name)
        if value != getattr(getattr(default.dist, section), name):
            fixed[field] = value
    # Split points and recomputation are read as for a program that chooses for itself; its sizes do
    # not affect them, except those of a pipeline.
    whole = Strategy.of(_alone(config), model, config.dist.pp.size)
    if config.dist.pp.split_points:
        fixed |= {"split_points": whole.split_points, "stages": whole.stages}
        fixed["pp"] = config.dist.pp.size
    if config.memory.gc:
        fixed["gc_cnt"] = whole.gc_cnt
    return fixed


def _alone(config: Config) -> Config:
    """Its pipeline, and nothing else in parallel."""
    dist = dataclasses.replace(Config().dist, pp=config.dist.pp)
    return dataclasses.replace(config, dist=dist)


@functools.cache
def _divisors(number: int) -> list[int]:
    return [one for one in range(1, number + 1) if number % one == 0]


# ---- the search


class _Search:
    def __init__(
        self, model: Model, cluster: Cluster, config: Config, batch: int, accumulates: bool
    ):
        self.config, self.cluster = config, cluster
        self.space = Space.of(config, model, cluster.devices, batch, accumulates)
        self.costs = Costs(model, cluster, config, batch)
        self.limit = cluster.memory * cluster.usable_memory
        if config.memory.budget is not None:
            self.limit = min(self.limit, config.memory.budget)
        self.counts: Counter[str] = Counter()
        self.fitting: list[tuple[tuple, Strategy, Prediction]] = []
        self.over: list[tuple[float, Strategy]] = []
        self.slower: list[tuple[float, Strategy]] = []
        self.refused: dict[str, Considered] = {}
        self.is_complete = True

    def run(self, start: float, limit: float) -> None:
        waiting = []
        for index, strategy in enumerate(self._valid()):
            # Listing the strategies may take half of the time.
            if index % 64 == 63 and time.monotonic() > start + limit / 2:
                self.is_complete = False
                break
            waiting.append((self.costs.least_seconds(strategy), strategy))
        waiting.sort()
        best = float("inf")
        for index, (least, strategy) in enumerate(waiting):
            if _about(least) > _about(best):
                self.slower = waiting[index:]
                self.counts["slower at best"] += len(self.slower)
                break
            if index % 64 == 0 and time.monotonic() > start + limit and self.fitting:
                self.counts["not looked at"] += len(waiting) - index
                self.is_complete = False
                break
            if (chosen := self._fit(strategy)) is None:
                continue
            prediction = self.costs.predict(chosen)
            self.counts["fits"] += 1
            self.fitting.append((order(chosen, prediction), chosen, prediction))
            best = min(best, prediction.seconds)
        self.fitting.sort(key=lambda one: one[0])

    def _valid(self) -> Iterator[Strategy]:
        """Strategies that fit model and batch; of others it is kept why they do not."""
        for base in self.space.sizes():
            # Whether the mode of sequence parallelism fits is checked for variants.
            if self._refuse(dataclasses.replace(base, sp=1), base):
                continue
            if (least := self.costs.least_memory(base)) > self.limit:
                self.counts["too much memory"] += 1
                self.over.append((least, base))
                continue
            for strategy in self.space.variants(base):
                if not self._refuse(strategy, strategy):
                    yield strategy

    def _refuse(self, strategy: Strategy, shown: Strategy) -> bool:
        problem = next(strategy.problems(self.space.model, self.space.batch), None)
        if problem is None:
            return False
        self.counts["does not fit the model or the batch"] += 1
        field, why = problem
        self.refused.setdefault(field, Considered(str(shown), f"{field}: {why}"))
        return True

    def _fit(self, strategy: Strategy) -> Strategy | None:
        """With as few blocks computed again as memory allows: fewer take less time. None where all
        of them are not enough."""
        counts = self.space.again(strategy)
        low, high = 0, len(counts)
        while low < high:
            middle = (low + high) // 2 if low else 0  # most often none is needed, or all
            tried = dataclasses.replace(strategy, gc_cnt=counts[middle])
            needed = max(one.total for one in self.costs.memory(tried))
            if needed <= self.limit:
                high = middle
            else:
                low = middle + 1
        if low < len(counts):
            return dataclasses.replace(strategy, gc_cnt=counts[low])
        self.counts["too much memory"] += 1
        self.over.append((needed, tried))
        return None

    def plans(self, seconds: float, count: int) -> list[Plan]:
        if not self.fitting:
            self._fail()
        told = self._told(self.fitting[0][2].seconds)
        return [
            Plan(
                config=strategy.config(self.config, self.space.model),
                strategy=str(strategy),
                prediction=prediction,
                model=self.space.model.name,
                cluster=self.cluster,
                batch=self.space.batch,
                limit=self.limit,
                considered=told + [self.refused[field] for field in sorted(self.refused)],
                counts=dict(self.counts),
                seconds=seconds,
                is_complete=self.is_complete,
            )
            for _, strategy, prediction in self.fitting[:count]
        ]

    def _told(self, fastest: float) -> list[Considered]:
        """Those that come next, and of each other combination of kinds of parallelism what came
        furthest: the fastest that fits, what needs the least memory, or what was not looked at."""
        kinds = {_kinds(self.fitting[0][1])}
        told = []
        for index, (_, strategy, prediction) in enumerate(self.fitting[1:]):
            if index >= _TOLD and _kinds(strategy) in kinds:
                continue
            kinds.add(_kinds(strategy))
            slower = prediction.seconds / fastest - 1
            why = f"{slower:.1%} slower" if slower > 5e-4 else "about as fast"
            figures = prediction.seconds, prediction.peak_memory, prediction.mfu
            told.append(Considered(str(strategy), why, *figures))
        for least, strategy in self.slower:
            if _kinds(strategy) not in kinds:
                kinds.add(_kinds(strategy))
                slower = least / fastest - 1
                told.append(Considered(str(strategy), f"at least {slower:.1%} slower", least))
        for needed, strategy in sorted(self.over):
            if _kinds(strategy) not in kinds:
                kinds.add(_kinds(strategy))
                why = f"at least {(needed - self.limit) / 1e9:.3g} GB too much"
                told.append(Considered(str(strategy), why, memory=needed))
        return told

    def _fail(self) -> None:
        where = f"{self.cluster.devices} devices of {self.cluster.name}"
        if self.over:
            needed, strategy = min(self.over)
            raise ValueError(
                f"plan: nothing fits on {where}: {strategy} comes nearest, with at "
                f"least {needed / 1e9:.3g} GB on a device that has {self.limit / 1e9:.3g}"
            )
        whys = "; ".join(one.why for one in self.refused.values())
        raise ValueError(f"plan: no strategy fits on {where}: {whys or 'sizes do not make it up'}")


def _kinds(strategy: Strategy) -> frozenset[str]:
    return frozenset(axis for axis in AXES if getattr(strategy, axis) > 1)


def order(strategy: Strategy, prediction: Prediction) -> tuple:
    """What comes first: less time; of what takes about as long the fewest kinds of parallelism,
    then the fewest micro-batches, then the least memory."""
    kinds, micro = len(_kinds(strategy)), strategy.num_micro_batches
    exact = prediction.peak_memory, prediction.seconds, str(strategy)
    return _about(prediction.seconds), kinds, micro, *exact


def _about(seconds: float) -> float:
    """To three digits: predictions are not as exact as that."""
    return float(f"{seconds:.3g}")
