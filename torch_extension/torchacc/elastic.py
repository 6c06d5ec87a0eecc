"""`ElasticSampler`: the same global batches in the same order, however many ranks share them."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sized
from typing import Any

import torch
from torch.utils.data import Sampler

from torchacc.config import Config

# The fields that determine the order of an epoch, and those of a position in it.
_ORDER = ("samples", "shuffle", "seed")
_PLACE = ("epoch", "position", "step")


class ElasticSampler(Sampler[list[int]]):
    """A batch sampler for jobs whose number of ranks changes from one start to the next.

        sampler = ElasticSampler(data, global_batch=512, micro_batch=16)
        loader = DataLoader(data, batch_sampler=sampler)
        ...  # Checkpointer.restore, with `sampler` in the state
        for epoch in range(sampler.epoch, epochs):
            for micro_batches in sampler.steps(loader):
                for batch, weight in micro_batches:
                    (loss_of(model(batch)) * weight).backward()
                optimizer.step()
                optimizer.zero_grad()

    The order of an epoch follows from `seed` and `epoch` alone (as `DistributedSampler`'s does),
    and each `global_batch` samples of it are a step of the optimizer. A step's samples are divided
    between the data-parallel ranks, and of each rank into as many micro-batches as keep them at
    `micro_batch` samples or less: equal ones, or such that differ by one sample.

    The ranks are those of `config`'s mesh that have batches of their own (dp x fsdp), of all
    processes without a `config`; `part` says it otherwise: (which, from 0, of how many).

    The last step of an epoch has what is left, unless `drop_last` leaves that out: every sample is
    seen once. Where there are fewer samples than micro-batches, which all ranks have as many of, a
    sample stands in, with a weight of 0.

    `epoch`, `position` (samples of the epoch that were used) and `step` (steps since the training
    began) are the place that `state_dict` and `load_state_dict` save and restore, with any number
    of ranks. Only `steps` moves it, when a step's batches have been used: batches that a loader
    fetches ahead do not count, nor does a step that is not over.

    Raises ValueError for sizes below 1, for a global batch smaller than the number of ranks, and
    for data of which `drop_last` leaves nothing.
    """

    def __init__(
        self,
        dataset: Sized,
        global_batch: int,
        micro_batch: int,
        *,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        config: Config | None = None,
        part: tuple[int, int] | None = None,
    ) -> None:
        if part is None:
            from torchacc._accelerate import part_of_data  # imports the loader, which imports this

            part = part_of_data(config if config is not None else Config())
        self.rank, self.ranks = part
        self.samples = len(dataset)
        self.global_batch, self.micro_batch = global_batch, micro_batch
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = self.position = self.step = 0
        if not 0 <= self.rank < self.ranks:
            raise ValueError(
                f"ElasticSampler: part is {part}: it must be which, from 0, of how many"
            )
        for name in ("samples", "global_batch", "micro_batch"):
            if (size := getattr(self, name)) < 1:
                raise ValueError(f"ElasticSampler: {name} is {size}: it must be at least 1")
        if global_batch < self.ranks:
            raise ValueError(
                f"ElasticSampler: global_batch is {global_batch}, and there are {self.ranks} data-"
                f"parallel ranks: {global_batch} / {self.ranks} is less than one sample for each"
            )
        if self.steps_per_epoch == 0:
            raise ValueError(
                f"ElasticSampler: drop_last leaves nothing of {self.samples} samples, which are "
                f"less than a global_batch of {global_batch}"
            )

    @property
    def steps_per_epoch(self) -> int:
        """Steps of the optimizer, which do not depend on the number of ranks."""
        whole, rest = self._left(0)
        return whole + (rest > 0)

    def __len__(self) -> int:
        """Micro-batches of an epoch, of each rank."""
        whole, rest = self._left(0)
        return whole * self._count(self.global_batch) + self._count(rest)

    def __iter__(self) -> Iterator[list[int]]:
        """The samples of this rank's micro-batches, from the place on to the end of the epoch."""
        if self.shuffle:
            generator = torch.Generator().manual_seed(self.seed + self.epoch)
            order = torch.randperm(self.samples, generator=generator)
        else:
            order = torch.arange(self.samples)
        # Reads the position now: it may have moved when the first batch is asked for.
        return self._indices(order, self.position)

    def steps(self, loader: Iterable) -> Iterator["MicroBatches"]:
        """The rest of the epoch, step by step: of each step this rank's micro-batches, from a
        loader whose `batch_sampler` this is (a `DataLoader`, an `AsyncLoader` of one).

        The place moves on when the last micro-batch of a step has been used. What a program leaves
        of a step is left out, and the step counts.

        Raises ValueError for a loader of other batches, and RuntimeError in an epoch under way if
        the place is set, or other `steps` are begun.
        """
        if getattr(loader, "batch_sampler", None) is not self:
            raise ValueError(
                "ElasticSampler: the loader has batches of its own: make it with this sampler as "
                "its batch_sampler"
            )
        begun = self._begun = object()
        # A loader draws a seed for its workers; in an epoch that is continued it has done so
        # already.
        with torch.random.fork_rng(devices=[], enabled=self.position > 0):
            batches = iter(loader)
        for size in self._sizes(self.position):
            micro_batches = MicroBatches(self, self._fetched(batches, begun), size)
            yield micro_batches
            for _ in micro_batches:
                pass
        next(batches, None)  # the loader ends when it is asked past its last batch

    def state_dict(self) -> dict[str, Any]:
        """The place, and what the order follows from: the same on all ranks."""
        return {name: getattr(self, name) for name in (*_ORDER, *_PLACE)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes effect when `steps` are begun, which go on from the same sample also with another
        `global_batch`.

        Raises ValueError for a place in another order, where samples would be lost and others seen
        twice, and KeyError for what is no state of a sampler; nothing is changed then.
        """
        place = {name: state[name] for name in _PLACE}
        other = [name for name in _ORDER if state[name] != getattr(self, name)]
        if other:
            texts = (f"{name} is {getattr(self, name)}, was {state[name]}" for name in other)
            raise ValueError(
                f"ElasticSampler: the state is a place in another order: {', '.join(texts)}"
            )
        self._begun = None
        self.epoch, self.position, self.step = place.values()
        self._end_epoch()

    def _left(self, begin: int) -> tuple[int, int]:
        """Whole global batches of an epoch from there on, and samples of one that is not whole."""
        whole, rest = divmod(self.samples - begin, self.global_batch)
        return whole, 0 if self.drop_last else rest

    def _sizes(self, begin: int) -> Iterator[int]:
        """Of the epoch's global batches from there on."""
        whole, rest = self._left(begin)
        return itertools.chain(itertools.repeat(self.global_batch, whole), [rest] if rest else [])

    def _count(self, size: int) -> int:
        """Micro-batches that each rank has of a global batch of that size."""
        return -(-size // (self.ranks * self.micro_batch))

    def _parts(self, size: int) -> list[tuple[int, int]]:
        """Where this rank's micro-batches begin and end in a global batch."""
        own, count = self._count(size), self._count(size) * self.ranks
        parts = range(self.rank * own, (self.rank + 1) * own)
        return [(size * part // count, size * (part + 1) // count) for part in parts]

    def _indices(self, order: torch.Tensor, at: int) -> Iterator[list[int]]:
        for size in self._sizes(at):
            for begin, end in self._parts(size):
                # One sample stands in for an empty part.
                yield order[at + begin : at + max(end, begin + 1)].tolist()
            at += size

    def _fetched(self, batches: Iterator, begun: object) -> Iterator:
        while self._begun is begun:
            yield next(batches)
        raise RuntimeError(
            "ElasticSampler: the place was set in an epoch that is under way, or another loop was "
            "begun: leave this one, whose batches are others"
        )

    def _use(self, size: int) -> None:
        self.position += size
        self.step += 1
        self._end_epoch()

    def _end_epoch(self) -> None:
        """The place after the last step is the beginning of the next epoch."""
        if not any(self._left(self.position)):
            self.epoch, self.position = self.epoch + 1, 0


class MicroBatches:
    """This rank's micro-batches of one step, each with what its loss is to be multiplied by.

    Gradients added up of these losses, which are means over the samples of a micro-batch, and
    averaged over the ranks (as `DistributedDataParallel` and `fully_shard` do), are those of the
    mean over the global batch. The weights of all ranks, added up and averaged likewise, are 1.
    """

    def __init__(self, sampler: ElasticSampler, batches: Iterator, size: int) -> None:
        parts = sampler._parts(size)
        self._length = len(parts)
        weights = [(end - begin) * sampler.ranks / size for begin, end in parts]
        self._rest = self._pairs(sampler, batches, size, weights)

    def __len__(self) -> int:
        """How many there are on each rank."""
        return self._length

    def __iter__(self) -> Iterator[tuple[Any, float]]:
        return self._rest

    @staticmethod
    def _pairs(sampler, batches, size, weights) -> Iterator[tuple[Any, float]]:
        for weight in weights:
            yield next(batches), weight
        sampler._use(size)
