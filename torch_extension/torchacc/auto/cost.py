"""What a strategy costs: time, memory and exposed communication of a step, without running it.

Each rule is a function with its source. A product of matrices takes its FLOPs by what the cluster
reaches, an elementwise kernel its bytes by the memory's bandwidth, a collective what `collectives`
says. What runs at once is hidden in part (`_exposed`). docs/strategies.md compares predictions
with published runs.
"""

import dataclasses
import functools
import math
from collections.abc import Iterable
from dataclasses import dataclass, field

from torchacc.auto import collectives
from torchacc.auto.cluster import Cluster
from torchacc.auto.collectives import Group
from torchacc.auto.model import Amount, Model
from torchacc.auto.strategy import Strategy
from torchacc.config import Config

# How often a number that is kept for the backward pass goes between kernels and memory: written and
# read in the forward pass; read, and its gradient written, in the backward pass.
_FORWARD_TRAFFIC, _BACKWARD_TRAFFIC = 2, 2
# The part of a computation's time that communication beside it can hide in: kernels of both share
# the device (Rashidi et al., "Enabling Compute-Communication Overlap", 2021, measure the loss).
_OVERLAP = 0.8
# Where no scores are kept, attention's backward pass has five products, its forward pass two (Dao,
# "FlashAttention-2", 2023).
_ATTENTION_BACKWARD = 2.5
# Bytes of a parameter, of its gradient and of Adam's two averages: f32 ("ZeRO", 2020, section 3.1).
_PARAMETER, _GRADIENT, _OPTIMIZER = 4, 4, 8
# Adam reads all of these, and writes all but the gradient.
_STEP_TRAFFIC = 28


@dataclass(frozen=True)
class Memory:
    """Bytes of a rank, at their peak."""

    parameters: float
    gradients: float
    optimizer: float
    activations: float
    temporary: float

    @property
    def total(self) -> float:
        parts = (self.parameters, self.gradients, self.optimizer, self.activations, self.temporary)
        return sum(parts)


@dataclass(frozen=True)
class Prediction:
    """Of a step: seconds and their parts, and the memory of a rank of each pipeline stage."""

    seconds: float
    compute: float
    # Seconds in which nothing is computed, by the kind of parallelism that communicates.
    exposed: dict[str, float]
    bubble: float
    optimizer: float
    memory: list[Memory]
    # The model's FLOPs (without what is computed again) by the devices' peak, and all FLOPs.
    mfu: float
    hfu: float

    @property
    def peak_memory(self) -> float:
        """Bytes of the rank that needs most."""
        return max(one.total for one in self.memory)


def precision_of(config: Config) -> str:
    """In which of a cluster's precisions products are computed."""
    compute = config.compute
    if compute.fp8:
        return "fp8"
    return "bf16" if compute.bf16 else "fp16" if compute.fp16 else "fp32"


def predict(model: Model, cluster: Cluster, config: Config, batch: int) -> Prediction:
    """What a step of `batch` sequences costs on all of the cluster, as `config` says. Raises
    ValueError for what does not fit the model, the batch or the cluster."""
    strategy = Strategy.of(config, model, cluster.devices)
    for name, problem in strategy.problems(model, batch):
        raise ValueError(f"config: {name}: {problem}")
    return Costs(model, cluster, config, batch).predict(strategy)


@dataclass(frozen=True)
class _Rank:
    """Sums over the parts of a model that a rank of a pipeline has."""

    parameters: Amount
    weights: Amount  # of them, those of products
    matmul: Amount
    attention_computed: float
    saved: Amount
    reduces: float  # by tensor parallel, for a forward and a backward pass
    blocks: int
    ends: Amount  # parameters of no block
    # Of the blocks that are computed again:
    again_matmul: Amount
    again_attention: float
    again_saved: Amount
    again_reduces: float
    again_inputs: float  # numbers that are kept of them


class Costs:
    """Costs of one model, cluster and batch by strategies, which fit them."""

    def __init__(self, model: Model, cluster: Cluster, config: Config, batch: int):
        self.model, self.cluster, self.batch = model, cluster, batch
        self.topology = [*config.dist.topology]
        self.precision = precision_of(config)
        # Attention and elementwise kernels stay in halves beside products of 8-bit floats.
        half = "fp16" if config.compute.fp16 else "bf16"
        wide = half if self.precision == "fp8" else self.precision
        self.width = 4 if wide == "fp32" else 2
        self.matmul_rate = cluster.peak(self.precision) * cluster.matmul_efficiency
        self.attention_rate = cluster.peak(wide) * cluster.attention_efficiency
        self.bandwidth = cluster.memory_bandwidth * cluster.bandwidth_efficiency
        self.rank = functools.cache(self._rank)
        self.largest_block = max(model.blocks, key=lambda block: block.parameters.total)
        self.most_saved = max(model.blocks, key=lambda block: block.saved.total)

    # ---- memory

    def memory(self, strategy: Strategy) -> list[Memory]:
        """Of a rank of each pipeline stage."""
        return [
            self._memory(strategy, rank, parts) for rank, parts in enumerate(self._ranks(strategy))
        ]

    def _memory(self, strategy: Strategy, rank: int, parts: _Rank) -> Memory:
        numbers = parts.parameters.on(strategy.tp)
        kept = numbers / strategy.fsdp
        block = self.largest_block.parameters.on(strategy.tp)
        parameters, gradients = _PARAMETER * kept, _GRADIENT * kept
        if strategy.fsdp > 1 and strategy.reshard_after_forward:
            # This block's parameters and those of the next, which are on their way, and those of no
            # block, which are gathered first and dropped last; gradients before they are reduced.
            ends = parts.ends.on(strategy.tp)
            parameters += (2 * block + ends) * self.width
            gradients += max(block, ends) * (self.width + _GRADIENT)
        elif strategy.fsdp > 1:
            parameters += numbers * self.width
            is_summed = strategy.num_micro_batches > 1
            gradients += (numbers if is_summed else block) * _GRADIENT
        else:
            # Copies in halves are kept for the backward pass, and gradients in buckets.
            parameters += numbers * self.width if self.width < _PARAMETER else 0
            gradients += numbers * _GRADIENT if strategy.copies > 1 else 0
        return Memory(
            parameters, gradients, _OPTIMIZER * kept, *self._activations(strategy, rank, parts)
        )

    def _activations(self, strategy: Strategy, rank: int, parts: _Rank) -> tuple[float, float]:
        """Bytes that wait for their backward pass, and the most that it needs for a moment."""
        each = self._sequences(strategy) / strategy.sp * self.width
        is_last = rank == strategy.pp - 1
        head = self.model.last.saved.on(strategy.tp) if is_last else 0.0
        saved = parts.saved.on(strategy.tp) - head
        saved += parts.again_inputs - parts.again_saved.on(strategy.tp)
        # The last stage goes back at once, but where all go forward first.
        heads = strategy.num_micro_batches if strategy.schedule == "gpipe" else 1
        activations = each * (saved * in_flight(strategy, rank) + head * heads)
        temporary = self.most_saved.largest.on(strategy.tp)
        if is_last:
            temporary = max(temporary, self.model.last.largest.on(strategy.tp))
        if parts.again_inputs:
            temporary += self.most_saved.saved.on(strategy.tp)
        return activations, temporary * each

    # ---- time

    def predict(self, strategy: Strategy) -> Prediction:
        ranks = self._ranks(strategy)
        near = self.groups(strategy)
        micro = strategy.num_micro_batches
        # The slowest rank sets the pace of a pipeline.
        paces = [self._pace(strategy, near, parts) for parts in ranks]
        pace = max(paces, key=lambda one: one.seconds)
        bubble = (strategy.pp - 1) / strategy.stages * pace.slot(strategy.schedule)
        once = [self._once(strategy, near, p, q) for p, q in zip(ranks, paces, strict=True)]
        gradients = max(once, key=lambda one: sum(one.values()))
        exposed = {name: micro * part for name, part in pace.exposed.items()}
        for axis, seconds in gradients.items():
            exposed[axis] += seconds
        kept = max(parts.parameters.on(strategy.tp) for parts in ranks) / strategy.fsdp
        optimizer = kept * _STEP_TRAFFIC / self.bandwidth
        compute = micro * (pace.forward + pace.backward)
        seconds = compute + sum(exposed.values()) + bubble + optimizer
        flops = 3 * self.model.flops
        again = self.model.blocks[: strategy.gc_cnt]
        more = sum(block.matmul.total + block.attention for block in again)
        rate = self.batch / seconds / self.cluster.devices / self.cluster.peak(self.precision)
        return Prediction(
            seconds,
            compute,
            exposed,
            bubble,
            optimizer,
            self.memory(strategy),
            mfu=flops * rate,
            hfu=(flops + more) * rate,
        )

    def least_seconds(self, strategy: Strategy) -> float:
        """No step takes less: all is computed at once, evenly, and nothing waits but the pipeline
        for its first micro-batch."""
        seconds = self._all_seconds / self.cluster.devices
        is_waiting = strategy.schedule != "zero-bubble"
        waits = (strategy.pp - 1) / strategy.stages / strategy.num_micro_batches
        return seconds * (1 + is_waiting * waits)

    @functools.cached_property
    def _all_seconds(self) -> float:
        whole = self.rank(((0, len(self.model.blocks)),), 0)
        return self._compute(Strategy(), whole, self.batch).seconds

    def _compute(self, strategy: Strategy, parts: _Rank, sequences: float) -> "_Pace":
        """A rank's forward and backward pass of so many sequences, some of it computed again.

        Products take the longer of their arithmetic and of moving their weights (Williams et al.,
        "Roofline", 2009): these once for each pass, their gradients read and written in f32.
        """
        share = sequences / strategy.sp
        matmul = share * parts.matmul.on(strategy.tp) / self.matmul_rate
        weights = parts.weights.on(strategy.tp)
        product = max(matmul, weights * self.width / self.bandwidth)
        gradients = max(matmul, 2 * weights * _GRADIENT / self.bandwidth)
        attention = share * parts.attention_computed / strategy.tp / self.attention_rate
        elementwise = share * parts.saved.on(strategy.tp) * self.width / self.bandwidth
        forward = product + attention + _FORWARD_TRAFFIC * elementwise
        backward = product + gradients + _ATTENTION_BACKWARD * attention
        backward += _BACKWARD_TRAFFIC * elementwise
        again = parts.again_matmul.on(strategy.tp) / self.matmul_rate
        again += parts.again_attention / strategy.tp / self.attention_rate
        saved_again = parts.again_saved.on(strategy.tp) * self.width / self.bandwidth
        again += _FORWARD_TRAFFIC * saved_again
        return _Pace(forward, backward + share * again, gradients)

    def _pace(self, strategy: Strategy, near: dict[str, Group], parts: _Rank) -> "_Pace":
        """A micro-batch on a rank."""
        sequences = self._sequences(strategy)
        pace = self._compute(strategy, parts, sequences)
        bytes_of = sequences / strategy.sp * self.width
        exposed = dict.fromkeys(("dp", "fsdp", "pp", "sp", "tp"), 0.0)
        if strategy.tp > 1:
            size = self.model.first.output * bytes_of
            exposed["tp"] = collectives.all_reduce(size, near["tp"], self.cluster)
            exposed["tp"] *= parts.reduces + parts.again_reduces
        if strategy.sp > 1:
            exposed["sp"] = self._attention_exchange(strategy, near["sp"], parts, bytes_of)
        if strategy.fsdp > 1 and strategy.reshard_after_forward:
            gather, scatter = self._shards(strategy, near, parts)
            exposed["fsdp"] = _exposed(gather, pace.forward, parts.blocks)
            exposed["fsdp"] += _exposed(gather + scatter, pace.backward, parts.blocks)
        if strategy.pp > 1:
            size = self.model.first.output * bytes_of
            exposed["pp"] = 2 * strategy.stages * collectives.send(size, near["pp"], self.cluster)
        return dataclasses.replace(pace, exposed=exposed)

    def _shards(
        self, strategy: Strategy, near: dict[str, Group], parts: _Rank
    ) -> tuple[float, float]:
        """Seconds in which a rank's parameters are gathered, and its gradients reduced."""
        numbers, group = parts.parameters.on(strategy.tp) / parts.blocks, near["fsdp"]
        gather = collectives.all_gather(numbers * self.width, group, self.cluster)
        scatter = collectives.reduce_scatter(numbers * _GRADIENT, group, self.cluster)
        return parts.blocks * gather, parts.blocks * scatter

    def _attention_exchange(
        self, strategy: Strategy, group: Group, parts: _Rank, bytes_of: float
    ) -> float:
        """Seconds of sequence parallel on a rank: heads for rows, of queries, keys, values and the
        result, forward and backward (Jacobs et al., "DeepSpeed Ulysses", 2023); keys and values
        round, with their gradients backward, behind attention (Liu et al., "Ring Attention",
        2023)."""
        queries = self.model.first.output / strategy.tp * bytes_of
        keys = 2 * queries * self.model.kv_share
        ulysses, seconds = strategy.ulysses, 0.0
        # The ranks that exchange are neighbours.
        inner = Group(math.gcd(group.local, ulysses), ulysses // math.gcd(group.local, ulysses))
        if ulysses > 1:
            exchange = collectives.all_to_all(2 * queries + keys, inner, self.cluster)
            seconds += 2 * parts.blocks * exchange
        if (rings := strategy.sp // ulysses) > 1:
            local = group.local // inner.local
            ring = Group(local, rings // local)
            hop = collectives.send(keys, ring, self.cluster)
            moved = 3 * parts.blocks * (rings - 1) * hop  # backward with their gradients
            work = parts.attention_computed / strategy.tp / self.attention_rate
            work *= (1 + _ATTENTION_BACKWARD) * bytes_of / self.width
            seconds += _exposed(moved, work, rings)
        return seconds

    def _once(
        self, strategy: Strategy, near: dict[str, Group], parts: _Rank, pace: "_Pace"
    ) -> dict[str, float]:
        """Seconds of what is communicated once a step: gradients behind the last micro-batch's
        backward pass, parameters that stay gathered behind the first one's forward pass."""
        seconds = {"dp": 0.0, "fsdp": 0.0}
        room = pace.backward
        if strategy.fsdp > 1 and not strategy.reshard_after_forward:
            gather, scatter = self._shards(strategy, near, parts)
            seconds["fsdp"] = _exposed(gather, pace.forward, parts.blocks)
            seconds["fsdp"] += _exposed(scatter, room, parts.blocks)
            room = max(room - scatter, 0.0)
        # Ranks that share sequences have gradients of the same parameters, too.
        if (copies := near["dp"] * near["sp"]).size > 1:
            size = parts.parameters.on(strategy.tp) / strategy.fsdp * _GRADIENT
            reduced = collectives.all_reduce(size, copies, self.cluster)
            seconds["dp"] = _exposed(reduced, room, parts.blocks)
        return seconds

    # ---- what ranks have

    def groups(self, strategy: Strategy) -> dict[str, Group]:
        order = [*self.topology, *({"dp", "fsdp", "pp", "sp", "tp"} - {*self.topology})]
        mesh = {axis: getattr(strategy, axis) for axis in order}
        return collectives.groups(mesh, self.cluster.devices_per_node)

    def _sequences(self, strategy: Strategy) -> float:
        """Of a micro-batch."""
        return self.batch / strategy.copies / strategy.num_micro_batches

    def _ranks(self, strategy: Strategy) -> list[_Rank]:
        bounds = strategy.bounds(self.model)
        return [
            self.rank(tuple(bounds[rank :: strategy.pp]), strategy.gc_cnt)
            for rank in range(strategy.pp)
        ]

    def _rank(self, bounds: tuple[tuple[int, int], ...], again_count: int) -> _Rank:
        model = self.model
        blocks = [index for begin, end in bounds for index in range(begin, end)]
        parts = [model.blocks[index] for index in blocks]
        again = [model.blocks[index] for index in blocks if index < again_count]
        others = [model.first] if bounds[0][0] == 0 else []
        if bounds[-1][1] == len(model.blocks):
            others.append(model.last)
        every = parts + others
        parameters = _total(part.parameters for part in every)
        if len(others) == 2:
            parameters += Amount(*_tied(model))
        inputs = sum(_input(model, index) for index in blocks if index < again_count)
        return _Rank(
            parameters=parameters,
            weights=_total(part.parameters for part in every if part is not model.first),
            matmul=_total(part.matmul for part in every),
            attention_computed=sum(part.attention_computed for part in every),
            saved=_total(part.saved for part in every),
            reduces=sum(part.reduces for part in every),
            blocks=max(len(parts), 1),
            ends=parameters + _total(_negative(part.parameters) for part in parts),
            again_matmul=_total(block.matmul for block in again),
            again_attention=sum(block.attention_computed for block in again),
            again_saved=_total(block.saved for block in again),
            again_reduces=sum(block.reduces / 2 for block in again),
            again_inputs=inputs,
        )


@dataclass(frozen=True)
class _Pace:
    """Seconds of a micro-batch on a rank, and of the part of the backward pass that are gradients
    of weights."""

    forward: float
    backward: float
    weights: float
    exposed: dict[str, float] = field(default_factory=dict)

    @property
    def seconds(self) -> float:
        return self.forward + self.backward + sum(self.exposed.values())

    def slot(self, schedule: str) -> float:
        """Seconds that a rank waits for each other rank of its pipeline: a micro-batch (Narayanan
        et al., "Efficient Large-Scale Language Model Training", 2021, section 2.2), by stages on a
        rank; less where gradients of weights fill it: forward + backward - weights, as of ZB-H1 (Qi
        et al., "Zero Bubble Pipeline Parallelism", 2023, table 2)."""
        return self.seconds - 2 * self.weights if schedule == "zero-bubble" else self.seconds


def in_flight(strategy: Strategy, rank: int) -> float:
    """Micro-batches of which a rank keeps activations, of all its stages: all of "gpipe" (Huang et
    al., 2019); as many as ranks follow, and its own ("1f1b"; Narayanan et al., 2021); as many as
    there are ranks ("zero-bubble", ZB-H1); of "interleaved" two stages for each that follows, and
    all but one of its stages for each rank (as Megatron-LM warms up)."""
    ranks, micro = strategy.pp, strategy.num_micro_batches
    if ranks == 1:
        return 1
    if strategy.schedule == "gpipe":
        return micro
    if strategy.schedule == "zero-bubble":
        return min(ranks, micro)
    if strategy.schedule == "interleaved":
        started = 2 * (ranks - rank - 1) + (strategy.stages - 1) * ranks + 1
        return min(started / strategy.stages, micro)
    return min(ranks - rank, micro)


def _exposed(communication: float, computation: float, blocks: int) -> float:
    """Seconds of communication that computation beside it does not hide: of the first or the last
    block nothing is hidden, of the others what does not fit (Zhao et al., "PyTorch FSDP", 2023,
    section 3.3)."""
    alone = communication / blocks
    return alone + max(communication - alone - _OVERLAP * computation, 0.0)


def _total(amounts: Iterable[Amount]) -> Amount:
    amounts = [*amounts]
    return Amount(sum(one.whole for one in amounts), sum(one.split for one in amounts))


def _negative(amount: Amount) -> Amount:
    return Amount(-amount.whole, -amount.split)


def _tied(model: Model) -> tuple[float, float]:
    """What a rank with both ends of the model has once."""
    is_split = model.first.parameters.split >= model.tied
    return (0, -model.tied) if is_split else (-model.tied, 0)


def _input(model: Model, index: int) -> float:
    """Numbers that go into a block, which are all that is kept of one that is computed again."""
    return (model.blocks[index - 1] if index else model.first).output
