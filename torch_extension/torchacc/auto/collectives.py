"""How long collectives take: latency and bandwidth of rings, within nodes and between them.

Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH" (2005),
has the costs of rings. Those over several nodes are hierarchical, as NCCL's are: each device of a
node exchanges an equal part with its counterparts of the other nodes, by its own adapter.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torchacc.auto.cluster import Cluster


@dataclass(frozen=True)
class Group:
    """Ranks that communicate: `local` of them on each of `nodes` nodes."""

    local: int = 1
    nodes: int = 1

    @property
    def size(self) -> int:
        return self.local * self.nodes

    def __mul__(self, other: "Group") -> "Group":
        """Ranks of two kinds of parallelism together."""
        return Group(self.local * other.local, self.nodes * other.nodes)


def groups(mesh: Mapping[str, int], devices_per_node: int) -> dict[str, Group]:
    """The groups of each axis of a mesh, whose last axis has neighbours (`dist.topology`)."""
    made, near = {}, devices_per_node
    for axis, size in reversed(mesh.items()):
        local = max(math.gcd(size, near), 1)
        made[axis] = Group(local, size // local)
        # Ranks between which whole nodes lie share none.
        near = near // local if local == size else 1
    return made


def all_gather(size: float, group: Group, cluster: Cluster) -> float:
    """Seconds until each rank has all of `size` bytes, of which it had its part: (n-1)/n of them
    arrive."""
    between = _ring(size / group.local, group.nodes, cluster.inter_node, cluster)
    return between + _ring(size, group.local, cluster.intra_node, cluster)


def reduce_scatter(size: float, group: Group, cluster: Cluster) -> float:
    """Seconds until each rank has its part of the sum of `size` bytes: as many are sent as by
    `all_gather`."""
    return all_gather(size, group, cluster)


def all_reduce(size: float, group: Group, cluster: Cluster) -> float:
    """Seconds until each rank has the sum of `size` bytes: 2(n-1)/n of them are sent."""
    return reduce_scatter(size, group, cluster) + all_gather(size, group, cluster)


def all_to_all(size: float, group: Group, cluster: Cluster) -> float:
    """Seconds until each rank, which has `size` bytes, has sent an equal part to every other."""
    near, far = group.local - 1, group.size - group.local
    within = _message(size * near / group.size, cluster.intra_node, cluster) if near else 0.0
    between = _message(size * far / group.size, cluster.inter_node, cluster) if far else 0.0
    return within + between


def send(size: float, group: Group, cluster: Cluster) -> float:
    """Seconds of `size` bytes on the way to the next rank of the group."""
    return _message(size, cluster.inter_node if group.nodes > 1 else cluster.intra_node, cluster)


def _ring(size, ranks, link, cluster) -> float:
    bandwidth = link.bandwidth * cluster.link_efficiency
    return (ranks - 1) * (link.latency + size / ranks / bandwidth)


def _message(size, link, cluster) -> float:
    return link.latency + size / (link.bandwidth * cluster.link_efficiency)
