"""What is known of the machines: `Cluster`, from a small file, a profile's name, or measured."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from torchacc.auto import measuring
from torchacc.config import _mapping, _Section, _yaml

_PROFILES = Path(__file__).with_name("clusters")
_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


@dataclass
class Link(_Section):
    """A way from device to device: the time of a message is latency + bytes / bandwidth."""

    # Seconds.
    latency: float
    # Bytes per second that a device sends while it receives as many.
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
    # The part of the peak that large matrix products reach, and attention.
    matmul_efficiency: float
    attention_efficiency: float
    # Of a device: bytes; the part of them neither taken by the runtime nor lost between blocks;
    # bytes per second; the part of those that elementwise kernels reach.
    memory: int
    usable_memory: float
    memory_bandwidth: float
    bandwidth_efficiency: float
    intra_node: Link
    inter_node: Link
    # The part of the links' bandwidth that collectives reach.
    link_efficiency: float
    # Speed of kinds of collectives relative to gathers, to which the links' figures refer:
    # "all_reduce", "reduce_scatter", "all_to_all", "send"; 1 if not given.
    collectives: dict[str, float] = field(default_factory=dict)
    # The part of a computation's time in which concurrent communication can hide: kernels of both
    # share the device (Rashidi et al., "Enabling Compute-Communication Overlap", 2021, measure the
    # loss). Nothing hides where the same cores copy and compute.
    overlap: float = 0.8
    # Number of a node's devices that compute at once while the others wait for their turn:
    # processes of a machine that has fewer cores. All, if not given.
    devices_at_once: int | None = None
    # Seconds of the host for an operation and its backward pass, during which the device waits; 0
    # where the host is ahead of the device.
    operation_seconds: float = 0.0
    # Bytes per second between a device and its host, one way: 16 lanes of PCI Express 4, of whose
    # 31.5 GB/s copies reach about 25.
    host_bandwidth: float = 2.5e10

    @property
    def devices(self) -> int:
        return self.nodes * self.devices_per_node

    @property
    def at_once(self) -> int:
        """Devices of a node that compute at once, to which figures of a device belong."""
        return min(self.devices_at_once or self.devices_per_node, self.devices_per_node)

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
        if self.host_bandwidth <= 0:
            yield "host_bandwidth", "it must be more than 0 bytes a second"
        for name in (one.name for one in dataclasses.fields(self)):
            is_part = name.endswith("_efficiency") or name == "usable_memory"
            if is_part and not 0 < getattr(self, name) <= 1:
                yield name, "it must be more than 0 and at most 1"
        if not set(self.collectives) <= {*measuring.SENT}:
            yield "collectives", f"there are {', '.join(measuring.SENT)}"
        if min(self.collectives.values(), default=1) <= 0:
            yield "collectives", "it must have numbers more than 0"
        if not 0 <= self.overlap <= 1:
            yield "overlap", "it must be at least 0 and at most 1"
        if self.devices_at_once is not None and self.devices_at_once < 1:
            yield "devices_at_once", "it must be at least 1"
        if self.operation_seconds < 0:
            yield "operation_seconds", "it must be at least 0 seconds"

    @classmethod
    def from_dict(cls, values: Mapping[str, Any], path: str = "cluster.") -> "Cluster":
        wanted = {
            one.name
            for one in dataclasses.fields(cls)
            if one.default is one.default_factory is dataclasses.MISSING
        }
        if missing := sorted(wanted - set(values)):
            raise ValueError(f"cluster: there is no {', '.join(missing)}")
        return super().from_dict(values, path)

    def to_yaml(self) -> str:
        return _yaml().safe_dump(self.to_dict(), sort_keys=False)

    @classmethod
    def load(cls, source: str | Path, **changes: Any) -> "Cluster":
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
        precisions: Sequence[str] = ("fp32",),
        latency: float | None = None,
        bandwidth: float | None = None,
        device: str = "cpu",
        together: bool = False,
    ) -> "Cluster":
        """This machine, shared by so many processes, as measured now on `device` ("acc": by the
        kernels that train there), with the threads that this process has.

        With `together` all processes of the process group call this, and each is measured while
        all are busy, collectives included: seconds. Otherwise this process is alone: tenths of a
        second, and `latency` (seconds) and `bandwidth` (bytes a second) are those of gloo between
        two of them, 1e-4 and 1e9 if not given. Raises ValueError for a precision that no product
        is measured in."""
        for precision in precisions:
            if precision not in _DTYPES:
                raise ValueError(
                    f"cluster: precision is {precision!r}: it must be of {', '.join(_DTYPES)}"
                )
        flops = {
            precision: measuring.product_rate(_DTYPES[precision], device, together)
            for precision in precisions
        }
        # In the first precision: the model has one efficiency for all.
        attention = measuring.attention_rate(_DTYPES[precisions[0]], device, together)
        copied = measuring.copy_rate(device, together)
        recording = measuring.operation_seconds(device, together)
        factors = {}
        if together and processes > 1:
            latency, bandwidth = measuring.gather_costs(device)
            rates = measuring.collective_rates(device)
            factors = {kind: rate / bandwidth for kind, rate in rates.items()}
        link = Link(latency or 1e-4, bandwidth or 1e9)
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return cls(
            name="local_cpu",
            nodes=1,
            devices_per_node=processes,
            flops=flops,
            matmul_efficiency=1.0,
            attention_efficiency=min(attention / flops[precisions[0]], 1.0),
            memory=memory // processes,
            usable_memory=0.8,
            memory_bandwidth=copied,
            bandwidth_efficiency=1.0,
            intra_node=link,
            inter_node=link,
            link_efficiency=1.0,
            collectives=factors,
            overlap=0.0,
            devices_at_once=max(len(os.sched_getaffinity(0)) // measuring.threads(), 1),
            operation_seconds=recording,
        )
