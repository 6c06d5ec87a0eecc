"""How long collectives take: latency and bandwidth of rings, within nodes and between them.

Thakur, Rabenseifner, Gropp, "Optimization of Collective Communication Operations in MPICH" (2005),
has the costs of rings. Those over several nodes are hierarchical, as NCCL's are: each device of a
node exchanges an equal part with its counterparts of the other nodes, by its own adapter.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from torchacc.auto.cluster import Cluster, Link


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
        # Ranks that are whole nodes apart share none.
        near = near // local if local == size else 1
    return made


def all_gather(size: float, group: Group, cluster: Cluster) -> float:
    """Seconds until each rank has all of `size` bytes, of which it had its part: (n-1)/n of them
    arrive."""
    return _rings("all_gather", size, group, cluster)


def reduce_scatter(size: float, group: Group, cluster: Cluster) -> float:
    """Seconds until each rank has its part of the sum of `size` bytes: as many are sent as by
    `all_gather`."""
    return _rings("reduce_scatter", size, group, cluster)


def all_reduce(size: float, group: Group, cluster: Cluster) -> float:
    """Seconds until each rank has the sum of `size` bytes: 2(n-1)/n of them are sent."""
    return 2 * _rings("all_reduce", size, group, cluster)


def all_to_all(size: float, group: Group, cluster: Cluster) -> float:
    """Seconds until each rank, which has `size` bytes, has sent an equal part to every other."""
    near, far = group.local - 1, group.size - group.local
    within = between = 0.0
    if near:
        within = _message("all_to_all", size * near / group.size, cluster.intra_node, cluster)
    if far:
        between = _message("all_to_all", size * far / group.size, cluster.inter_node, cluster)
    return within + between


def send(size: float, group: Group, cluster: Cluster) -> float:
    """Seconds of `size` bytes on the way to the next rank of the group."""
    link = cluster.inter_node if group.nodes > 1 else cluster.intra_node
    return _message("send", size, link, cluster)


def _rings(kind: str, size: float, group: Group, cluster: Cluster) -> float:
    between = _ring(kind, size / group.local, group.nodes, cluster.inter_node, cluster)
    return between + _ring(kind, size, group.local, cluster.intra_node, cluster)


def _ring(kind: str, size: float, ranks: int, link: Link, cluster: Cluster) -> float:
    return (ranks - 1) * _message(kind, size / ranks, link, cluster)


def _message(kind: str, size: float, link: Link, cluster: Cluster) -> float:
    reached = cluster.link_efficiency * cluster.collectives.get(kind, 1.0)
    return link.latency + size / (link.bandwidth * reached)
