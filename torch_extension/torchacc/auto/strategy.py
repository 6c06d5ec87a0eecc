"""`Strategy`: the fields of a `Config` that a search chooses, as one small value.

How layers become stages, and what a strategy must fit, is here; what it costs is in `cost`.
"""

import copy
import functools
from collections.abc import Iterator
from dataclasses import dataclass

from torchacc.auto.model import Model
from torchacc.config import AXES, Config

# Stages on each rank of "interleaved" if split points do not determine them.
_INTERLEAVED_STAGES = 2


@dataclass(frozen=True, order=True)
class Strategy:
    """Sizes and choices by the names that they have in `Config`."""

    dp: int = 1
    fsdp: int = 1
    pp: int = 1
    sp: int = 1
    tp: int = 1
    # With `pp` of 1: number of accumulated gradients before the optimizer's step.
    num_micro_batches: int = 1
    schedule: str = "1f1b"
    # Stages on each rank of a pipeline.
    stages: int = 1
    # Number of leading blocks that are recomputed in the backward pass.
    gc_cnt: int = 0
    reshard_after_forward: bool = True
    sp_mode: str = "ulysses"
    ulysses_size: int | None = None
    # Blocks with which stages after the first begin; equal numbers of blocks, if empty.
    split_points: tuple[int, ...] = ()

    @property
    def ulysses(self) -> int:
        """Ranks that exchange heads for rows; `sp` / `ulysses` send keys and values round."""
        return {"ulysses": self.sp, "ring": 1, "2d": self.ulysses_size or 1}[self.sp_mode]

    @property
    def copies(self) -> int:
        """Parts that a batch is cut into."""
        return self.dp * self.fsdp

    @classmethod
    def of(cls, config: Config, model: Model, devices: int) -> "Strategy":
        """What `config` says of so many devices. Raises ValueError for sizes that do not make them
        up, for split points that are no blocks, and for what is not predicted."""
        sizes = config.mesh(devices)
        pp, memory, fsdp = config.dist.pp, config.memory, config.dist.fsdp
        if memory.offload or fsdp.cpu_offload:
            name = "memory.offload" if memory.offload else "dist.fsdp.cpu_offload"
            raise ValueError(f"config: {name} is True: what it costs is not predicted")
        names = [block.name for block in model.blocks]
        for name in pp.split_points:
            if name not in names:
                raise ValueError(
                    f"config: dist.pp.split_points is {pp.split_points}: {name} is none of the "
                    f"blocks {names[0]} to {names[-1]}"
                )
        count = len(names) if memory.gc_cnt is None else min(memory.gc_cnt, len(names))
        stages = (len(pp.split_points) + 1) // pp.size if pp.split_points else 1
        if pp.schedule == "interleaved" and pp.size > 1 and not pp.split_points:
            stages = _INTERLEAVED_STAGES
        return cls(
            **sizes,
            num_micro_batches=pp.num_micro_batches,
            schedule=pp.schedule if pp.size > 1 else "1f1b",
            stages=stages,
            gc_cnt=count if memory.gc else 0,
            reshard_after_forward=fsdp.reshard_after_forward or fsdp.size == 1,
            sp_mode=config.dist.sp.mode if config.dist.sp.size > 1 else "ulysses",
            ulysses_size=config.dist.sp.ulysses_size,
            split_points=tuple(sorted(names.index(name) for name in pp.split_points)),
        )

    def config(self, base: Config, model: Model) -> Config:
        """A copy of `base` with what this says, for a program that chooses nothing more."""
        made = copy.deepcopy(base)
        dist, memory = made.dist, made.memory
        for axis in AXES:
            getattr(dist, axis).size = getattr(self, axis)
        dist.pp.num_micro_batches = self.num_micro_batches
        # Fields without effect at these sizes keep their values.
        if self.pp > 1:
            dist.pp.schedule = self.schedule
        if self.fsdp > 1:
            dist.fsdp.reshard_after_forward = self.reshard_after_forward
        if self.sp > 1 or dist.sp.mode == "2d":
            dist.sp.mode, dist.sp.ulysses_size = self.sp_mode, self.ulysses_size
        begins = [] if self.pp == 1 else [model.blocks[i].name for i, _ in self.bounds(model)[1:]]
        dist.pp.split_points = begins
        memory.gc, memory.auto, memory.budget = self.gc_cnt > 0, False, None
        is_part = 0 < self.gc_cnt < len(model.blocks)
        memory.gc_cnt = self.gc_cnt if is_part else None
        memory.gc_cls = memory.gc_cls if memory.gc else None
        made.strategy.mode = "manual"
        made.validate()
        return made

    def bounds(self, model: Model) -> tuple[tuple[int, int], ...]:
        """The blocks [begin, end) of each stage, in the order of the model."""
        return _bounds(len(model.blocks), self.pp * self.stages, self.split_points)

    def problems(self, model: Model, batch: int) -> Iterator[tuple[str, str]]:
        """Fields, and why what they say does not fit the model or the batch (sequences a step)."""
        if batch % self.copies:
            yield "dist.dp.size", f"{self.copies} copies do not divide batch, {batch}"
        elif batch // self.copies % self.num_micro_batches:
            yield (
                "dist.pp.num_micro_batches",
                f"{self.num_micro_batches} do not divide a rank's {batch // self.copies} sequences",
            )
        yield from self._tensor_problems(model)
        yield from self._sequence_problems(model)
        yield from self._pipeline_problems(model)

    def _tensor_problems(self, model: Model):
        if self.tp == 1:
            return
        if not any(part.parameters.split for part in model.parts):
            yield "dist.tp.size", "the model has no plan of what is split"
        for name, size in (("heads", model.heads), ("kv_heads", model.kv_heads)):
            if size is not None and size % self.tp:
                yield "dist.tp.size", f"{self.tp} does not divide {name}, {size}"
        for name, size in model.split_sizes.items():
            if size % self.tp:
                yield "dist.tp.size", f"{self.tp} does not divide the {size} of {name}"

    def _sequence_problems(self, model: Model):
        if self.sp == 1:
            return
        if model.heads is None or model.kv_heads is None:
            yield "dist.sp.size", "nothing is known of the model's heads"
            return
        # Rings are balanced by two pieces on each rank (zig-zag).
        pieces = self.sp * (2 if self.ulysses < self.sp else 1)
        if model.sequence % pieces:
            yield "dist.sp.size", f"{pieces} pieces do not divide sequence, {model.sequence}"
        for name, heads in (("heads", model.heads), ("kv_heads", model.kv_heads)):
            if heads % (self.tp * self.ulysses):
                yield "dist.sp.size", f"{self.tp * self.ulysses} does not divide {name}, {heads}"

    def _pipeline_problems(self, model: Model):
        stages = self.pp * self.stages
        if stages > len(model.blocks):
            yield "dist.pp.size", f"{stages} stages are more than {len(model.blocks)} blocks"
        if self.schedule == "interleaved" and self.num_micro_batches % self.pp:
            yield (
                "dist.pp.num_micro_batches",
                f"{self.num_micro_batches} is no multiple of {self.pp} ranks, as interleaved wants",
            )
        is_sharded = self.fsdp > 1 or self.tp > 1 and self.dp * self.sp > 1
        if self.schedule == "zero-bubble" and self.pp > 1 and is_sharded:
            yield "dist.pp.schedule", "zero-bubble does not go with parameters that are sharded"
        if self.stages > 1 and self.schedule != "interleaved":
            yield "dist.pp.schedule", f"{self.schedule} has one stage on a rank"

    def __str__(self) -> str:
        """Fields that say something, as "fsdp 8 x tp 4, gc of 12"."""
        sizes = {axis: getattr(self, axis) for axis in AXES}
        words = [" x ".join(f"{axis} {n}" for axis, n in sizes.items() if n > 1) or "one device"]
        if self.sp > 1:
            words.append(self.sp_mode + (f" {self.ulysses_size}" if self.ulysses_size else ""))
        if self.pp > 1:
            words.append(self.schedule + (f" of {self.stages}" if self.stages > 1 else ""))
        if self.num_micro_batches > 1:
            words.append(f"{self.num_micro_batches} micro-batches")
        if self.gc_cnt:
            words.append(f"gc of {self.gc_cnt}")
        if not self.reshard_after_forward:
            words.append("no reshard")
        return ", ".join(words)


@functools.cache
def _bounds(count: int, stages: int, points: tuple[int, ...]) -> tuple[tuple[int, int], ...]:
    begins = [0, *points]
    if not points:
        sizes = [count // stages] * stages
        # The first and the last stage also have an embedding or a head: they are the last to get an
        # extra block.
        for stage in [*range(1, stages - 1), 0, stages - 1][: count % stages]:
            sizes[stage] += 1
        begins = [sum(sizes[:stage]) for stage in range(stages)]
    return tuple(zip(begins, [*begins[1:], count], strict=True))
