"""What a strategy costs: time, memory and exposed communication of a step, without running it.

Each rule is a function with its source. A product of matrices takes its FLOPs by what the cluster
reaches, an elementwise kernel its bytes by the memory's bandwidth, a collective what `collectives`
says. What runs at once is hidden in part (`_exposed`). docs/strategies.md compares predictions
with published runs.
"""

import dataclasses
import functools
import math
from dataclasses import dataclass, field

from torchacc.auto import collectives
from torchacc.auto.cluster import Cluster
from torchacc.auto.collectives import Group
from torchacc.auto.model import Amount, Block, Model
from torchacc.auto.strategy import Strategy
from torchacc.config import AXES, Config

# How often a number kept for the backward pass moves between kernels and memory: written and read
# in the forward pass; read, and its gradient written, in the backward pass.
_FORWARD_TRAFFIC, _BACKWARD_TRAFFIC = 2, 2
# If no scores are kept, attention's backward pass has five products, its forward pass two (Dao,
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
    # Seconds without computation, by the kind of parallelism that communicates.
    exposed: dict[str, float]
    bubble: float
    optimizer: float
    memory: list[Memory]
    # The model's FLOPs (without recomputation) by the devices' peak, and all FLOPs.
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
class _Share:
    """What a rank has of some parts of a model."""

    parameters: Amount = Amount()
    matmul: Amount = Amount()
    attention: float = 0
    saved: Amount = Amount()
    reduces: float = 0
    operations: float = 0

    def __add__(self, part: "Block | _Share") -> "_Share":
        is_block = isinstance(part, Block)
        return _Share(
            self.parameters + part.parameters,
            self.matmul + part.matmul,
            self.attention + (part.attention_computed if is_block else part.attention),
            self.saved + part.saved,
            self.reduces + part.reduces,
            self.operations + part.operations,
        )

    def __mul__(self, factor: float) -> "_Share":
        return _Share(*(getattr(self, one.name) * factor for one in dataclasses.fields(self)))


@dataclass(frozen=True)
class _Rank:
    """The blocks of a rank of a pipeline, those of them that are computed again, with the numbers
    that go into these, and what is of no block."""

    count: float
    blocks: _Share
    again: _Share
    again_inputs: float
    # The embedding, and the head. Only the head has a product.
    first: _Share
    last: _Share

    @functools.cached_property
    def every(self) -> _Share:
        return self.blocks + self.first + self.last

    def divided(self, ranks: int) -> _Share:
        """What a rank has of so many that share sequences: in the blocks; what comes before and
        after them sees whole ones."""
        return self.blocks * (1 / ranks) + self.first + self.last

    @functools.cached_property
    def weights(self) -> Amount:
        """Parameters that products read."""
        return self.blocks.parameters + self.last.parameters

    @functools.cached_property
    def ends(self) -> Amount:
        """Parameters of no block."""
        return self.first.parameters + self.last.parameters

    @functools.cached_property
    def saved(self) -> Amount:
        """Numbers that each micro-batch in flight keeps, besides inputs of what is computed
        again."""
        return self.blocks.saved + self.first.saved + self.again.saved * -1

    def __mul__(self, factor: float) -> "_Rank":
        return _Rank(*(getattr(self, one.name) * factor for one in dataclasses.fields(self)))


class Costs:
    """Costs of strategies of one model, cluster and batch, which fit them."""

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
        self.largest = max((block.parameters for block in model.blocks), key=lambda one: one.total)
        self.most_saved = max(model.blocks, key=lambda block: block.saved.total)
        # Many strategies share these results.
        self.ranks = functools.cache(self._ranks)
        self.groups = functools.cache(self._groups)
        self.even_pace = functools.cache(self._even_pace)
        self.even_share = functools.cache(self._even_share)

    # ---- memory

    def memory(self, strategy: Strategy) -> list[Memory]:
        """Of a rank of each pipeline stage."""
        return [
            Memory(*self._state(strategy, parts), *self._activations(strategy, rank, parts))
            for rank, parts in enumerate(self._stages(strategy))
        ]

    def least_memory(self, strategy: Strategy) -> float:
        """Bytes that some rank needs at least: its part of parameters, gradients and optimizer."""
        numbers = self.model.parameters / strategy.tp / strategy.pp / strategy.fsdp
        return numbers * (_PARAMETER + _GRADIENT + _OPTIMIZER)

    def _state(self, strategy: Strategy, parts: _Rank) -> tuple[float, float, float]:
        """Bytes of parameters, gradients and the optimizer's state."""
        numbers = parts.every.parameters.on(strategy.tp)
        kept = numbers / strategy.fsdp
        block = self.largest.on(strategy.tp)
        parameters, gradients = _PARAMETER * kept, _GRADIENT * kept
        if strategy.fsdp > 1 and strategy.reshard_after_forward:
            # The parameters of this block, of the next, which are being gathered, and of no block,
            # which are gathered first and dropped last; gradients before they are reduced.
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
        return parameters, gradients, _OPTIMIZER * kept

    def _activations(self, strategy: Strategy, rank: int, parts: _Rank) -> tuple[float, float]:
        """Bytes that wait for their backward pass, and the most that it needs for a moment."""
        each = self._sequences(strategy) * self.width
        # The last stage goes back at once, unless all forward passes come first.
        heads = strategy.num_micro_batches if strategy.schedule == "gpipe" else 1
        kept = parts.saved.on(strategy.tp) + parts.again_inputs
        waiting = kept * in_flight(strategy, rank)
        waiting += parts.last.saved.on(strategy.tp) * heads
        temporary = self.most_saved.largest.on(strategy.tp)
        if rank == strategy.pp - 1:
            temporary = max(temporary, self.model.last.largest.on(strategy.tp))
        if parts.again_inputs:
            temporary += self.most_saved.saved.on(strategy.tp)
        return waiting * each, temporary * each

    # ---- time

    def predict(self, strategy: Strategy) -> Prediction:
        ranks, near = self._stages(strategy), self._near(strategy)
        micro = strategy.num_micro_batches
        # The slowest rank sets the pace of a pipeline.
        paces = [self._pace(strategy, near, parts) for parts in ranks]
        pace = max(paces, key=lambda one: one.seconds)
        bubble = (strategy.pp - 1) / strategy.stages * pace.slot(strategy.schedule)
        once = [self._once(strategy, near, *one) for one in zip(ranks, paces, strict=True)]
        exposed = {kind: micro * part for kind, part in pace.exposed.items()}
        for kind, seconds in max(once, key=lambda one: sum(one.values())).items():
            exposed[kind] += seconds
        kept = max(parts.every.parameters.on(strategy.tp) for parts in ranks) / strategy.fsdp
        optimizer = kept * _STEP_TRAFFIC / self.bandwidth
        compute = micro * (pace.forward + pace.backward)
        alone = compute + sum(exposed.values()) + bubble + optimizer
        # If devices wait for their turn, computation takes correspondingly longer, and meanwhile
        # the bubbles of others are no loss.
        turns = self.cluster.devices_per_node / self.cluster.at_once
        compute, optimizer = turns * compute, turns * optimizer
        busy = compute + sum(exposed.values()) + optimizer
        bubble, seconds = max(alone - busy, 0.0), max(alone, busy)
        again = self.model.blocks[: strategy.gc_cnt]
        more = sum(block.matmul.total + block.attention for block in again)
        peak = self.cluster.nodes * self.cluster.at_once * self.cluster.peak(self.precision)
        rate = self.batch / seconds / peak
        return Prediction(
            seconds,
            compute,
            exposed,
            bubble,
            optimizer,
            self.memory(strategy),
            mfu=3 * self.model.flops * rate,
            hfu=(3 * self.model.flops + more) * rate,
        )

    def least_seconds(self, strategy: Strategy) -> float:
        """A bound: no step takes less. All ranks have as much to do, and shards and gradients are
        gathered and reduced in no time; costs grow no slower than what a rank has."""
        alike = dataclasses.replace(strategy, schedule="1f1b", reshard_after_forward=True)
        waits = 0 if strategy.schedule == "zero-bubble" else (strategy.pp - 1) / strategy.stages
        return self.even_pace(alike) * (strategy.num_micro_batches + waits)

    def _even_pace(self, strategy: Strategy) -> float:
        near = self._near(strategy) | {"fsdp": Group()}
        return self._pace(strategy, near, self.even_share(strategy.pp)).seconds

    def _even_share(self, ranks: int) -> _Rank:
        (whole,) = self.ranks(((0, len(self.model.blocks)),), 1, 0)
        return whole * (1 / ranks)

    def _near(self, strategy: Strategy) -> dict[str, Group]:
        sizes = {axis: getattr(strategy, axis) for axis in AXES}
        return self.groups(Strategy(**sizes))

    def _pace(self, strategy: Strategy, near: dict[str, Group], parts: _Rank) -> "_Pace":
        """A micro-batch on a rank."""
        pace = self._compute(strategy, parts)
        output = self.model.first.output * self._sequences(strategy) * self.width
        exposed = dict.fromkeys(AXES, 0.0)
        if strategy.tp > 1:
            reduces = parts.every.reduces + parts.again.reduces / 2
            exposed["tp"] = reduces * collectives.all_reduce(output, near["tp"], self.cluster)
        if strategy.sp > 1:
            exposed["sp"] = self._exchange(strategy, near["sp"], parts, output / strategy.tp)
            # The blocks' input is split, and their output put together again.
            whole = collectives.all_gather(output * strategy.sp, near["sp"], self.cluster)
            exposed["sp"] += 2 * strategy.stages * whole
        if near["fsdp"].size > 1 and strategy.reshard_after_forward:
            gather, scatter = self._shards(strategy, near, parts)
            exposed["fsdp"] = self._exposed(gather, pace.forward, parts.count)
            exposed["fsdp"] += self._exposed(gather + scatter, pace.backward, parts.count)
        if strategy.pp > 1:
            sends = 2 * strategy.stages
            exposed["pp"] = sends * collectives.send(output * strategy.sp, near["pp"], self.cluster)
        return dataclasses.replace(pace, exposed=exposed)

    def _compute(self, strategy: Strategy, parts: _Rank) -> "_Pace":
        """The forward and the backward pass of a micro-batch, where some is computed again.

        Products take the longer of their arithmetic and of moving their weights (Williams et al.,
        "Roofline", 2009): these once for each pass, their gradients read and written in f32.
        """
        sequences, tp = self._sequences(strategy) * strategy.sp, strategy.tp
        mine = parts.every if strategy.sp == 1 else parts.divided(strategy.sp)
        matmul = sequences * mine.matmul.on(tp) / self.matmul_rate
        weights = parts.weights.on(tp) / self.bandwidth
        product = max(matmul, weights * self.width)
        gradients = max(matmul, 2 * weights * _GRADIENT)
        attention = sequences * mine.attention / tp / self.attention_rate
        kept = sequences * mine.saved.on(tp) * self.width / self.bandwidth
        again = parts.again.matmul.on(tp) / self.matmul_rate
        again += parts.again.attention / tp / self.attention_rate
        again += _FORWARD_TRAFFIC * parts.again.saved.on(tp) * self.width / self.bandwidth
        forward = product + attention + _FORWARD_TRAFFIC * kept
        backward = product + gradients + _ATTENTION_BACKWARD * attention
        backward += _BACKWARD_TRAFFIC * kept + sequences / strategy.sp * again
        # The host records both passes; the forward pass has a third of the operations.
        recording = parts.every.operations * self.cluster.operation_seconds
        return _Pace(forward + recording / 3, backward + 2 * recording / 3, gradients)

    def _shards(
        self, strategy: Strategy, near: dict[str, Group], parts: _Rank
    ) -> tuple[float, float]:
        """Seconds in which a rank's parameters are gathered, and its gradients reduced, a block at
        a time."""
        block = parts.every.parameters.on(strategy.tp) / parts.count
        gather = collectives.all_gather(block * self.width, near["fsdp"], self.cluster)
        scatter = collectives.reduce_scatter(block * _GRADIENT, near["fsdp"], self.cluster)
        return parts.count * gather, parts.count * scatter

    def _exchange(self, strategy: Strategy, group: Group, parts: _Rank, queries: float) -> float:
        """Seconds of sequence parallel, of so many bytes of queries on a rank.

        Heads for rows: of queries, keys, values and the result, forward and backward (Jacobs et
        al., "DeepSpeed Ulysses", 2023). Round: keys and values, backward with their gradients,
        behind attention (Liu et al., "Ring Attention", 2023).
        """
        keys = 2 * queries * self.model.kv_share
        ulysses, seconds = strategy.ulysses, 0.0
        # The ranks that exchange heads are neighbours.
        local = math.gcd(group.local, ulysses)
        if ulysses > 1:
            inner = Group(local, ulysses // local)
            exchange = collectives.all_to_all(queries, inner, self.cluster)
            exchange += collectives.all_to_all(keys / 2, inner, self.cluster)
            seconds += 4 * parts.count * exchange
        if (rings := strategy.sp // ulysses) > 1:
            ring = Group(group.local // local, rings * local // group.local)
            hop = collectives.send(keys, ring, self.cluster)
            moved = parts.count * (3 * (rings - 1) + 1) * hop
            attention = parts.every.attention / strategy.tp / self.attention_rate
            attention *= (1 + _ATTENTION_BACKWARD) * self._sequences(strategy)
            seconds += self._exposed(moved, attention, rings)
        return seconds

    def _once(
        self, strategy: Strategy, near: dict[str, Group], parts: _Rank, pace: "_Pace"
    ) -> dict[str, float]:
        """Seconds of what is communicated once a step: gradients behind the last micro-batch's
        backward pass, parameters that stay gathered behind the first one's forward pass."""
        seconds, room = {}, pace.backward
        if strategy.fsdp > 1 and not strategy.reshard_after_forward:
            gather, scatter = self._shards(strategy, near, parts)
            seconds["fsdp"] = self._exposed(gather, pace.forward, parts.count)
            seconds["fsdp"] += self._exposed(scatter, room, parts.count)
            room = max(room - scatter, 0.0)
        # Ranks that share sequences have gradients of the same parameters, too.
        if (copies := near["dp"] * near["sp"]).size > 1:
            size = parts.every.parameters.on(strategy.tp) / strategy.fsdp * _GRADIENT
            reduced = collectives.all_reduce(size, copies, self.cluster)
            seconds["dp"] = self._exposed(reduced, room, parts.count)
        return seconds

    def _exposed(self, communication: float, computation: float, blocks: float) -> float:
        """Seconds of communication that computation beside it does not hide: of the first or the
        last block nothing is hidden, of the others what does not fit (Zhao et al., "PyTorch FSDP",
        2023, section 3.3)."""
        alone = communication / blocks
        return alone + max(communication - alone - self.cluster.overlap * computation, 0.0)

    # ---- the ranks' shares

    def _groups(self, strategy: Strategy) -> dict[str, Group]:
        order = [*self.topology, *(axis for axis in AXES if axis not in self.topology)]
        mesh = {axis: getattr(strategy, axis) for axis in order}
        return collectives.groups(mesh, self.cluster.devices_per_node)

    def _sequences(self, strategy: Strategy) -> float:
        """Of a micro-batch on a rank; a part of one where ranks share sequences."""
        return self.batch / strategy.copies / strategy.num_micro_batches / strategy.sp

    def _ranks(self, bounds: tuple[tuple[int, int], ...], ranks: int, again: int) -> list[_Rank]:
        """Of a pipeline whose stages have the blocks [begin, end)."""
        model, made = self.model, []
        inputs = [model.first.output, *(block.output for block in model.blocks)]
        for rank in range(ranks):
            blocks = [index for bound in bounds[rank::ranks] for index in range(*bound)]
            repeated = [index for index in blocks if index < again]
            first, last = _Share(), _Share()
            if rank == 0:
                first += model.first
            if rank == ranks - 1:
                last += model.last
            if ranks == 1:
                first += _Share(self._tied() * -1)
            made.append(
                _Rank(
                    len(blocks),
                    sum((model.blocks[index] for index in blocks), _Share()),
                    sum((model.blocks[index] for index in repeated), _Share()),
                    sum(inputs[index] for index in repeated),
                    first,
                    last,
                )
            )
        return made

    def _tied(self) -> Amount:
        """What ranks with both ends of the model have once."""
        is_split = self.model.first.parameters.split >= self.model.tied
        return Amount(0, self.model.tied) if is_split else Amount(self.model.tied)

    def _stages(self, strategy: Strategy) -> list[_Rank]:
        return self.ranks(strategy.bounds(self.model), strategy.pp, strategy.gc_cnt)


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
