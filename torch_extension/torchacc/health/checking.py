"""`check`: products of matrices, exchanges of each two ranks, and collectives of all find devices
and links that are wrong or slow, before a training does.

What is wrong is found by numbers that are known: small integers, whose products and sums no order
of summation and no type rounds. What is slow is found by comparing ranks, in rounds by turns, so
that what else the machine does meets all of them; and only what is slow twice is said to be.
"""

import dataclasses
import datetime
import math
import os
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.distributed as dist

import torchacc
from torchacc.event_log import span
from torchacc.memory import native_device

ROUNDS = 7
_TYPES = (torch.float32, torch.bfloat16, torch.float16)
# Side of the matrices, products of a round, bytes of an exchange; on a GPU, and on the host.
_GPU, _HOST = (4096, 8, 2**26), (512, 4, 2**21)
PATIENCE = 300  # seconds to wait for a rank
_PAIRINGS = 16  # most pairings of ranks
_LINK_FACTOR = 3.0  # a link is measured by the clock, which goes on while others have the processor


@dataclasses.dataclass
class Finding:
    """A rank, or the link between two, that is "wrong" or "slow"."""

    kind: str
    ranks: tuple[int, ...]
    text: str

    def __str__(self) -> str:
        what = "rank" if len(self.ranks) == 1 else "link"
        return f"{what} {' - '.join(map(str, self.ranks))} is {self.kind}: {self.text}"


@dataclasses.dataclass
class Report:
    """What `check` found. `seconds` are each rank's for products, `hosts` their machines."""

    findings: list[Finding]
    seconds: list[float]
    hosts: list[str]

    def __str__(self) -> str:
        lines = [
            f"rank {rank} on {host}: {seconds * 1e3:.1f} ms for the products"
            for rank, (host, seconds) in enumerate(zip(self.hosts, self.seconds, strict=True))
        ]
        lines += [str(finding) for finding in self.findings] or ["nothing is slow or wrong"]
        return "\n".join(lines)


def check(*, factor: float = 1.75) -> Report:
    """Checks the device of every rank, and the links between them; all ranks call it together, and
    all get the same report.

    A rank is slow if its products take `factor` times as long as those of the median rank, in
    processor time where the device is the host; a link, if an exchange takes three times as long as
    that of the median pair of two ranks on one machine, or on two. Both are measured again before
    they are said to be. With one rank, or one pair, nothing can be slow. More than 17 ranks meet 16
    others each.

    Raises ValueError for a factor of at most 1, and what a collective raises where a rank does not
    come.
    """
    if factor <= 1:
        raise ValueError(f"check: the factor is {factor}: more than 1")
    with span("torchacc.check") as about:
        first = _measure()
        findings, suspects = first.wrong(), first.slow(factor)
        # Suspects must be found by two measurements.
        if suspects:
            again = _measure()
            findings += again.wrong()
            found = {finding.ranks for finding in again.slow(factor)}
            findings += [finding for finding in suspects if finding.ranks in found]
        about["findings"] = "; ".join(map(str, findings)) or "none"
    once = {(finding.kind, finding.ranks): finding for finding in findings}
    seconds = [statistics.median(rank["products"]) for rank in first.ranks]
    return Report([*once.values()], seconds, [rank["host"] for rank in first.ranks])


def _measure() -> "_Measured":
    rank, size = (dist.get_rank(), dist.get_world_size()) if _is_group() else (0, 1)
    is_gpu = native_device() is not None
    side, count, nbytes = _GPU if is_gpu else _HOST
    a, b, expected = _known_product(side)
    said: dict[str, Any] = {"host": socket.gethostname(), "products": [], "links": {}, "wrong": []}
    on_device = {dtype: (a.to(dtype).to("acc"), b.to(dtype).to("acc")) for dtype in _TYPES}
    clock = time.perf_counter if is_gpu else time.process_time
    # Side by side, two ranks may share a core, where both are slower, while a slow one has a core
    # to itself for most of its time. So ranks of one machine take turns.
    place, places = (0, 1) if is_gpu else _place(rank)
    seconds, products = 0.0, []
    for turn in range(1 + ROUNDS):
        _meet()
        for dtype, (left, right) in on_device.items():
            said["wrong"] += _wrong_product(multiply(left, right), expected, dtype)
        operands = on_device[torch.float32]
        for whose in range(places):
            _meet()
            if whose == place:
                seconds, products = _timed(partial(_multiply_often, *operands, count), clock)
        _meet()
        for at, product in enumerate(products):
            said["wrong"] += _wrong_product(product, expected * 2**at, torch.float32)
        for pair in _pairings(size):
            _meet()
            other = pair.get(rank)
            if other is not None:
                taken, wrong = _exchange(rank, other, nbytes)
                said["links"].setdefault(other, []).append(taken)
                said["wrong"] += wrong
        # The first turn compiled, and connected.
        if turn > 0:
            said["products"].append(seconds)
        else:
            said["links"].clear()
    if size > 1:
        said["wrong"] += _wrong_collectives(rank, size, nbytes)
    return _Measured(_gathered(said))


class _Measured:
    """What each rank said."""

    def __init__(self, ranks: list[dict]):
        self.ranks = ranks

    def wrong(self) -> list[Finding]:
        found = []
        for rank, said in enumerate(self.ranks):
            texts = {one["ranks"] or (rank,): one["text"] for one in reversed(said["wrong"])}
            found += [Finding("wrong", ranks, text) for ranks, text in texts.items()]
        return found

    def slow(self, factor: float) -> list[Finding]:
        times = [statistics.median(said["products"]) for said in self.ranks]
        found = _above("products take", {(rank,): one for rank, one in enumerate(times)}, factor)
        slow = {finding.ranks[0] for finding in found}
        # Of many measurements by the clock, the shortest is the link's real time. Links between
        # machines are compared separately from those within one.
        links: dict[bool, dict] = {True: {}, False: {}}
        for rank, said in enumerate(self.ranks):
            for other, taken in said["links"].items():
                if rank < other and not slow & {rank, other}:
                    there = self.ranks[other]
                    both = max(min(taken), min(there["links"][rank]))
                    links[said["host"] == there["host"]][rank, other] = both
        for one in links.values():
            found += _above("exchanges take", one, max(factor, _LINK_FACTOR))
        return found


def _above(what: str, times: dict[tuple, float], factor: float) -> list[Finding]:
    if len(times) < 2:
        return []
    # Of two, the faster one.
    usual = statistics.median_low(times.values())
    return [
        Finding("slow", ranks, f"{what} {taken * 1e3:.3g} ms, where others take {usual * 1e3:.3g}")
        for ranks, taken in times.items()
        if taken > factor * usual and (len(ranks) == 1 or len(times) > 2)
    ]


def multiply(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The product that is measured."""
    return a @ b


def _multiply_often(a: torch.Tensor, b: torch.Tensor, count: int) -> list[torch.Tensor]:
    # Of different operands, as equal products would be one.
    return [multiply(a * (2.0**at), b) for at in range(count)]


def _timed(call: Callable[[], Any], clock: Callable[[], float]) -> tuple[float, Any]:
    torchacc.sync()
    start = clock()
    made = call()
    torchacc.sync()
    return clock() - start, made


def _known_product(side: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Two matrices of -1, 0 and 1, so many zeros among them that every sum of their products, in
    any order, is a whole number of less than 256, which bf16 has; and their product."""
    generator = torch.Generator().manual_seed(side)
    part = math.sqrt(32 / side)

    def drawn():
        chance = torch.rand(side, side, generator=generator)
        sign = torch.randint(0, 2, (side, side), generator=generator) * 2 - 1
        return (chance < part).int() * sign.int()

    a, b = drawn(), drawn()
    # Integer products of a GPU's size would take the host minutes; f64 represents them exactly.
    whole = a @ b if side <= 1024 else (a.double() @ b.double()).int()
    return a, b, whole


def _wrong_product(result: torch.Tensor, expected: torch.Tensor, dtype: torch.dtype) -> list[dict]:
    here = result.cpu().float()
    differs = (here != expected).nonzero()
    if not len(differs):
        return []
    row, column = differs[0].tolist()
    text = (
        f"a product of {dtype} has {len(differs)} wrong elements of {expected.numel()}: "
        f"[{row}, {column}] is {here[row, column].item():g}, not {expected[row, column].item()}"
    )
    return [{"ranks": None, "text": text}]


def _pairings(size: int) -> Iterator[dict[int, int]]:
    """Each pair of ranks once, in rounds in which every rank has one partner, or with an odd number
    of ranks one has none: the circle method."""
    places = [*range(size)] + [None] * (size % 2)
    for _ in range(min(len(places) - 1, _PAIRINGS) if size > 1 else 0):
        half = len(places) // 2
        pairs = zip(places[:half], reversed(places[half:]), strict=True)
        whole = [pair for pair in pairs if None not in pair]
        yield {one: other for pair in whole for one, other in (pair, pair[::-1])}
        places = [places[0], places[-1], *places[1:-1]]


def _exchange(rank: int, other: int, nbytes: int) -> tuple[float, list[dict]]:
    """Seconds in which two ranks send one another so many bytes, and what came that is wrong."""
    mine, theirs = _pattern(rank, nbytes), _pattern(other, nbytes)
    away, here = mine.to("acc"), torch.zeros_like(theirs).to("acc")

    def send():
        ops = [dist.P2POp(dist.isend, away, other), dist.P2POp(dist.irecv, here, other)]
        for work in dist.batch_isend_irecv(ops if rank < other else ops[::-1]):
            work.wait()

    taken, _ = _timed(send, time.perf_counter)
    differs = (here.cpu() != theirs).nonzero()
    if not len(differs):
        return taken, []
    text = f"{len(differs)} of {len(theirs)} numbers came otherwise than rank {other} sent them"
    return taken, [{"ranks": (min(rank, other), max(rank, other)), "text": text}]


def _pattern(rank: int, nbytes: int) -> torch.Tensor:
    return torch.arange(nbytes // 4, dtype=torch.int32) * 40503 + rank


def _wrong_collectives(rank: int, size: int, nbytes: int) -> list[dict]:
    count = nbytes // 4 // size
    part = torch.arange(count, dtype=torch.float32) % 1021
    summed = (part + rank).to("acc")
    dist.all_reduce(summed)
    gathered = torch.empty(count * size, device="acc")
    dist.all_gather_into_tensor(gathered, (part + rank).to("acc"))
    expected = {
        "all_reduce": (summed, part * size + sum(range(size))),
        "all_gather": (gathered, torch.cat([part + one for one in range(size)])),
    }
    made = []
    for name, (result, wanted) in expected.items():
        if wrong := int((result.cpu() != wanted).sum()):
            text = f"{wrong} of {len(wanted)} numbers of an {name} of all ranks"
            made.append({"ranks": None, "text": text})
    return made


def _is_group() -> bool:
    return dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1


def _meet() -> None:
    if _is_group():
        dist.barrier()


def _place(rank: int) -> tuple[int, int]:
    """Which of the ranks on its machine this is, and how many a machine has at the most."""
    hosts = _gathered(socket.gethostname())
    return hosts[:rank].count(hosts[rank]), max(map(hosts.count, hosts))


def _gathered(said: Any) -> list[Any]:
    if not _is_group():
        return [said]
    made: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(made, said)
    return made


def check_ranks(factor: float) -> Report:
    """`check` by a process group of its own: what each process does that `launch` or torchrun
    starts."""
    dist.init_process_group(timeout=datetime.timedelta(seconds=PATIENCE))
    try:
        return check(factor=factor)
    finally:
        dist.destroy_process_group()


def launch(processes: int, factor: float) -> Report:
    """`check` in so many processes on this machine, by PyTorch's launcher. Those that compute on
    the host share its processors.

    Raises torch.distributed.elastic's ChildFailedError where one fails.
    """
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    threads = str(max(1, (os.cpu_count() or 1) // processes))
    for name in ("OMP_NUM_THREADS", "TORCHACC_NUM_THREADS"):
        os.environ.setdefault(name, threads)
    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=processes,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        max_restarts=0,
    )
    return elastic_launch(config, check_ranks)(factor)[0]
