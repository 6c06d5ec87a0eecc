"""What is known of the machines: `Cluster`, from a small file, a profile's name, or measured."""

import dataclasses
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import torch

from torchacc.config import _mapping, _Section, _yaml

_PROFILES = Path(__file__).with_name("clusters")
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass
class Link(_Section):
    """A way from device to device: the time of a message is latency + bytes / bandwidth."""

    # Seconds.
    latency: float
    # Bytes a second that one device sends while it receives as many.
    bandwidth: float

    def _problems(self):
        if self.latency < 0:
            yield "latency", "it must be at least 0 seconds"
        if self.bandwidth <= 0:
            yield "bandwidth", "it must be more than 0 bytes a second"


@dataclass
class Cluster(_Section):
    """Equal nodes of equal devices, a process on each.

    Figures are those that are published; the efficiencies say which part of them a program gets.
    """

    name: str
    nodes: int
    devices_per_node: int
    # Dense peak of a device, in FLOP/s, by precision: "fp32", "bf16", "fp16", "fp8".
    flops: dict[str, float]
    # The part of the peak that large products of matrices reach, and attention.
    matmul_efficiency: float
    attention_efficiency: float
    # Of a device: bytes, the part of them that is neither the runtime's nor lost between blocks,
    # bytes a second, and the part of those that elementwise kernels reach.
    memory: int
    usable_memory: float
    memory_bandwidth: float
    bandwidth_efficiency: float
    intra_node: Link
    inter_node: Link
    # The part of the links' bandwidth that collectives reach.
    link_efficiency: float

    @property
    def devices(self) -> int:
        return self.nodes * self.devices_per_node

    def peak(self, precision: str) -> float:
        """FLOP/s of a device. Raises ValueError for a precision that it has not."""
        if precision not in self.flops:
            raise ValueError(
                f"cluster: {self.name} has no flops of {precision}: there are "
                f"{', '.join(self.flops)}"
            )
        return self.flops[precision]

    def _problems(self):
        for name in ("nodes", "devices_per_node", "memory"):
            if getattr(self, name) < 1:
                yield name, "it must be at least 1"
        if not self.flops or min(self.flops.values()) <= 0:
            yield "flops", "it must have numbers of FLOP/s more than 0"
        if self.memory_bandwidth <= 0:
            yield "memory_bandwidth", "it must be more than 0 bytes a second"
        for field in dataclasses.fields(self):
            is_part = field.name.endswith("_efficiency") or field.name == "usable_memory"
            if is_part and not 0 < getattr(self, field.name) <= 1:
                yield field.name, "it must be more than 0 and at most 1"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], path: str = "cluster.") -> Self:
        wanted = {field.name for field in dataclasses.fields(cls)}
        if missing := sorted(wanted - set(values)):
            raise ValueError(f"cluster: there is no {', '.join(missing)}")
        return super().from_dict(values, path)

    def to_yaml(self) -> str:
        return _yaml().safe_dump(self.to_dict(), sort_keys=False)

    @classmethod
    def load(cls, source: str | Path, **changes: Any) -> Self:
        """The profile of that name ("v100", "a100", "h100"), "local_cpu", which is measured, or
        what a file of YAML or JSON says; with some fields changed, as `nodes=128`. Raises
        ValueError for a source that there is not, and for fields that are wrong."""
        if source == "local_cpu":
            return dataclasses.replace(cls.local_cpu(), **changes)
        names = sorted(path.stem for path in _PROFILES.glob("*.yaml"))
        path = _PROFILES / f"{source}.yaml" if source in names else Path(source)
        if not path.is_file():
            raise ValueError(
                f"cluster: there is no file {str(source)!r}, and no profile of that name: there "
                f"are {', '.join(names)}, local_cpu"
            )
        # JSON is YAML.
        return cls.from_dict({**_mapping(_yaml().safe_load(path.read_text())), **changes})

    @classmethod
    def local_cpu(
        cls,
        processes: int = 1,
        precisions: tuple[str, ...] = ("fp32",),
        latency: float = 1e-4,
        bandwidth: float = 1e9,
    ) -> Self:
        """This machine, shared by so many processes: FLOP/s of a product of 1024 x 1024 matrices
        and bytes a second of a copy are measured now, in about a tenth of a second. `latency`
        (seconds) and `bandwidth` (bytes a second) are those of gloo between two of them."""
        flops = {}
        for precision in precisions:
            if precision not in _DTYPES:
                raise ValueError(
                    f"cluster: precision is {precision!r}: it must be of {', '.join(_DTYPES)}"
                )
            matrix = torch.ones(1024, 1024, dtype=_DTYPES[precision])
            flops[precision] = 2 * 1024**3 / _seconds(lambda m=matrix: m @ m) / processes
        source = torch.ones(2**23)
        target = torch.empty_like(source)
        copied = 2 * source.nbytes / _seconds(lambda: target.copy_(source))
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        link = Link(latency, bandwidth)
        return cls(
            name="local_cpu",
            nodes=1,
            devices_per_node=processes,
            flops=flops,
            matmul_efficiency=1.0,
            attention_efficiency=1.0,
            memory=memory // processes,
            usable_memory=0.8,
            memory_bandwidth=copied / processes,
            bandwidth_efficiency=1.0,
            intra_node=link,
            inter_node=link,
            link_efficiency=1.0,
        )


def _seconds(call: Callable[[], Any], times: int = 5) -> float:
    """The shortest of several times: the others had company."""
    taken = []
    for _ in range(times):
        start = time.perf_counter()
        call()
        taken.append(time.perf_counter() - start)
    return min(taken)
