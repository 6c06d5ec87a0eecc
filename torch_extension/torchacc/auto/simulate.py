"""A rank's program on a cluster that is not there: how long its plan takes, what is exposed.

`world` makes this process one rank of many whose collectives nobody does, on the backend null,
which plans and runs nothing. `simulate` goes through a plan as its text has it: kernels one after
the other, as long as their work and bytes take on a device of the cluster; collectives on the lanes
of their groups, and copies to the host and back on those of their directions, from their step on,
until the step before which they are done.
"""

import contextlib
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch.distributed as dist

from torchacc import backend, distributed
from torchacc.auto import collectives
from torchacc.auto.cluster import Cluster
from torchacc.auto.collectives import Group

_OPERAND = re.compile(r"(host@|in|out|@|s)(\d+):(\w+)\[([\d,]*)\](\{[^}]*\})?")
_BYTES = {
    "c128": 16,
    "c64": 8,
    "f64": 8,
    "i64": 8,
    "f32": 4,
    "i32": 4,
    "f16": 2,
    "bf16": 2,
    "i16": 2,
}
_PRODUCTS = ("matmul", "grouped_matmul", "scaled_matmul")
# Kernels with much arithmetic, which is not estimated here, besides CPU fallbacks.
_UNKNOWN = ("conv", "conv_grad_input", "conv_grad_weight", "fft")
_NAMES = {"f64": "fp32", "f32": "fp32", "bf16": "bf16", "f16": "fp16"}


@dataclass(frozen=True)
class Operand:
    memory: str
    dtype: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...] | None

    @property
    def elements(self) -> int:
        """Of memory: what is broadcast is read once."""
        strides = self.strides or (1,) * len(self.sizes)
        return math.prod(n for n, stride in zip(self.sizes, strides, strict=True) if stride)

    @property
    def bytes(self) -> int:
        in_memory = not self.memory.startswith("s")
        return self.elements * _BYTES.get(self.dtype, 1) if in_memory else 0


@dataclass(frozen=True)
class Step:
    """A kernel of a plan, a copy to the host or back, or a collective on a communicator's lane,
    by its scalar."""

    name: str
    reads: tuple[Operand, ...]
    writes: tuple[Operand, ...]
    instructions: int
    done: int | None

    @property
    def is_collective(self) -> bool:
        return self.name.startswith("torchacc::")

    @property
    def copies(self) -> str | None:
        """Its direction if it copies between a device and its host; of copies from inputs,
        whose memory the plan does not name, those that are on lanes."""
        if self.name != "map" or self.instructions or len(self.reads) != 1:
            return None
        read, write = self.reads[0].memory, self.writes[0].memory
        if write.startswith("host@"):
            return "to the host"
        is_on_lane = self.done is not None
        return "from the host" if is_on_lane or read.startswith("host@") else None

    @property
    def flops(self) -> float:
        first = self.reads[0] if self.reads else None
        if first is None or self.is_collective:
            return 0.0
        pointwise = self.instructions * max((math.prod(w.sizes) for w in self.writes), default=0)
        if self.name in _PRODUCTS:
            return 2.0 * math.prod(first.sizes) * self.reads[1].sizes[-1] + pointwise
        if self.name.startswith("attention") and len(first.sizes) == 4:
            keys = self.reads[1].sizes[2]
            products = 4.0 if self.name == "attention" else 10.0
            return products * math.prod(first.sizes) * keys
        return float(pointwise)

    @property
    def bytes(self) -> int:
        return sum(operand.bytes for operand in (*self.reads, *self.writes))


@dataclass
class Simulation:
    """Seconds of one run of a plan, and bytes."""

    seconds: float
    compute: float
    communication: float
    # Seconds in which nothing else was computed.
    exposed: float
    arena: int
    # (name, lane or None, begin, end), in seconds.
    spans: list[tuple[str, str | None, float, float]]

    @property
    def exposed_part(self) -> float:
        return self.exposed / self.seconds if self.seconds else 0.0

    def write_timeline(self, path: str | Path) -> None:
        """In Chrome's trace format, which Perfetto opens."""
        lanes = ["kernels", *sorted({lane for _, lane, _, _ in self.spans if lane})]
        events = [
            {"name": "thread_name", "ph": "M", "pid": 0, "tid": n, "args": {"name": lane}}
            for n, lane in enumerate(lanes)
        ]
        for name, lane, begin, end in self.spans:
            times = {"ts": begin * 1e6, "dur": (end - begin) * 1e6}
            tid = lanes.index(lane or "kernels")
            events.append({"name": name, "ph": "X", "pid": 0, "tid": tid, **times})
        Path(path).write_text(json.dumps({"traceEvents": events}))


@contextlib.contextmanager
def world(size: int, rank: int = 0) -> Iterator[None]:
    """Inside, this process is that rank of a job of `size` GPUs; nothing is sent, and
    `init_process_group` has been called. Raises RuntimeError where the device computes: collectives
    leave their results as they are, so every number would be wrong."""
    if backend.named() != "null":
        raise RuntimeError('simulate.world: numbers would be wrong: torchacc.set_backend("null")')
    from torch._C._distributed_c10d import FakeProcessGroup

    def nobody(store, rank, size, options):
        return FakeProcessGroup._create_internal(rank, size, FakeProcessGroup.Options())

    module = dist.distributed_c10d
    names = ("init_process_group", "destroy_process_group")
    before = {name: getattr(module, name) for name in names}
    host = distributed.host_backend, distributed.host_gathers
    distributed.host_backend, distributed.host_gathers = nobody, lambda *_: None
    try:
        dist.init_process_group("acc", rank=rank, world_size=size, store=dist.HashStore())
        for name in names:
            setattr(module, name, lambda *args, **options: None)
            setattr(dist, name, lambda *args, **options: None)
        yield
    finally:
        distributed.host_backend, distributed.host_gathers = host
        for name, function in before.items():
            setattr(module, name, function)
            setattr(dist, name, function)
        if dist.is_initialized():
            dist.destroy_process_group()


def steps_of(text: str) -> tuple[list[Step], int]:
    """The plan in what `torchacc.last_program` or a file of `TORCHACC_DUMP` says, and the bytes of
    its arena."""
    plan = text[text.index("# plan") :]
    arena = int(re.search(r"^arena (\d+)", plan, re.MULTILINE).group(1))
    for output in re.findall(r"^(out\d+): .* on host$", plan, re.MULTILINE):
        plan = re.sub(rf"\b{output}:", f"host@{output[3:]}:", plan)
    return [_step(line) for line in plan.splitlines() if re.match(r"\d+: ", line)], arena


def simulate(text: str, cluster: Cluster, groups: dict[str, Group]) -> Simulation:
    """A run of the plan in `text` by each rank of `cluster`. `groups`: the ranks of each
    communicator in the order in which the plan first uses them, by any name; one name stands for
    all. A process group has one, as on GPUs. Communicators of equal groups share a link.

    Raises ValueError for a plan with convolutions, transforms or CPU fallbacks: their time is not
    estimated; and for one with more communicators than several names stand for."""
    steps, arena = steps_of(text)
    # Devices that take turns.
    turns = cluster.devices_per_node / cluster.at_once
    known: dict[str, tuple[str, Group]] = {}
    names = [*groups.items()]
    now, exposed, compute, communication = 0.0, 0.0, 0.0, 0.0
    free: dict[Group | str, float] = {}
    flying: list[tuple[int, float]] = []
    spans = []
    for index, step in enumerate(steps):
        due = [end for done, end in flying if done <= index]
        flying = [(done, end) for done, end in flying if done > index]
        if due and max(due) > now:
            exposed += max(due) - now
            now = max(due)
        if step.done and step.copies:
            took = seconds_of(step, cluster)
            begin = max(now, free.get(step.copies, 0.0))
            free[step.copies] = begin + took
            communication += took
            spans.append((step.name, step.copies, begin, begin + took))
            flying.append((step.done, begin + took))
            continue
        if not step.is_collective:
            took = turns * seconds_of(step, cluster)
            spans.append((step.name, None, now, now + took))
            now, compute = now + took, compute + took
            continue
        token = _chain(step)
        if token not in known:
            used = len({name for name, _ in known.values()})
            if used == len(names) > 1:
                raise ValueError(
                    f"simulate: the plan has more communicators than {', '.join(groups)}: the next"
                    f" is of a {step.name}"
                )
            known[token] = names[min(used, len(names) - 1)]
        lane, group = known[token]
        known[_next_token(step)] = known[token]
        took = collective_seconds(step, group, cluster)
        begin = max(now, free.get(group, 0.0))
        free[group] = begin + took
        communication += took
        spans.append((step.name.removeprefix("torchacc::"), lane, begin, begin + took))
        flying.append((step.done or index + 1, begin + took))
    last = max((end for _, end in flying), default=now)
    exposed += max(last - now, 0.0)
    return Simulation(max(now, last), compute, communication, exposed, arena, spans)


def seconds_of(step: Step, cluster: Cluster) -> float:
    """Of a kernel: what takes longer, its arithmetic or its bytes.

    Raises ValueError for convolutions, transforms and CPU fallbacks, whose time is not known."""
    if step.name in _UNKNOWN or "::" in step.name:
        raise ValueError(f"simulate: the plan has {step.name}, whose time is not estimated yet")
    if step.copies:
        return step.writes[0].bytes / cluster.host_bandwidth
    moved = step.bytes / (cluster.memory_bandwidth * cluster.bandwidth_efficiency)
    is_attention = step.name.startswith("attention")
    if step.name not in _PRODUCTS and not is_attention:
        return moved
    efficiency = cluster.attention_efficiency if is_attention else cluster.matmul_efficiency
    name = _NAMES.get(step.reads[0].dtype, "fp32")
    peak = cluster.flops.get(name) or max(cluster.flops.values())
    return max(moved, step.flops / (peak * efficiency))


def collective_seconds(step: Step, group: Group, cluster: Cluster) -> float:
    data = [operand.bytes for operand in (*step.reads, *step.writes)]
    kind = step.name.removeprefix("torchacc::")
    ways = {
        "all_reduce": collectives.all_reduce,
        "all_gather": collectives.all_gather,
        "reduce_scatter": collectives.reduce_scatter,
        "all_to_all": collectives.all_to_all,
        "all_to_all_v": collectives.all_to_all,
    }
    return ways.get(kind, collectives.send)(max(data, default=0), group, cluster)


def _step(line: str) -> Step:
    line = line.split(": ", 1)[1]
    left, _, right = line.rpartition(" = ") if "{ r" not in line else _split(line)
    name = re.match(r'(?:host<"([\w:]+)"|(\w+))', right)
    body = right[right.find(" { ") :] if " { " in right else ""
    call = right[: len(right) - len(body)]
    done = re.search(r"done before (\d+)$", right)
    operands = _operands(call[call.rfind(">(") + 1 :] if ">(" in call else call)
    return Step(
        name.group(1) or name.group(2),
        operands,
        _operands(left),
        body.count(" = "),
        int(done.group(1)) if done else None,
    )


def _split(line: str) -> tuple[str, str, str]:
    head, body = line.split(" { ", 1)
    left, equals, right = head.rpartition(" = ")
    return left, equals, f"{right} {{ {body}"


def _operands(text: str) -> tuple[Operand, ...]:
    def numbers(list_):
        return tuple(int(n) for n in list_.strip("{}").split(",") if n)

    return tuple(
        Operand(f"{place}{at}", dtype, numbers(sizes), numbers(strides) if strides else None)
        for place, at, dtype, sizes, strides in _OPERAND.findall(text)
    )


def _chain(step: Step) -> str:
    """The token that a collective follows."""
    return [operand for operand in step.reads if not operand.memory.startswith("s")][-1].memory


def _next_token(step: Step) -> str:
    return step.writes[-1].memory
