"""`AsyncLoader`: batches are padded and lie on the device before the program asks for them."""

import bisect
import contextlib
import copy
import dataclasses
import queue
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch

from torchacc.elastic import ElasticSampler
from torchacc.memory import native_device

# Keys that are padded by default, by their names in models of Hugging Face: -100 is no class.
PAD_VALUES = {"input_ids": 0, "attention_mask": 0, "labels": -100}


class AsyncLoader:
    """A loader whose batches a thread moves to `device`, at most `depth` of them ahead.

    Batches are tensors, lists, tuples, mappings and dataclasses of tensors, and whatever has a
    method `to`; what is neither is left alone. Tensors whose key is in `pad_value_dict`
    (`PAD_VALUES`, if not given) are padded at the end of a dimension, the last one or that of
    `pad_dims` (a tensor of one dimension only if that names its key), to the next of `buckets`, or
    of `num_buckets` (8) equal steps up to `max_length`; other keys are left alone. The device needs
    no buckets, since it compiles for lengths in general; other compilers do. What is longer than
    all buckets stays as it is, and warns once.

    The first batch of an epoch is fetched by the caller, so that what a sampler draws from
    PyTorch's generator does not depend on the time; others come from the thread, whose errors are
    raised where the batch is asked for. The thread ends with its epoch: when that is over or left,
    another one begins, or the program ends. Attributes of `loader` (`dataset`, `sampler`, ...) are
    this one's, too.

    `state_dict` says how far the program has come; after `load_state_dict` the next epoch goes on
    there, in the order that it had, without the batches that have been (they are fetched again).
    PyTorch's own random numbers stay the program's. Where the batches are an `ElasticSampler`'s, so
    is the state.

    With a `part` of (which, from 0, of how many) a batch is one of several processes together, and
    this one has rows of it: of all tensors that have as many as the first one. Parts differ by one
    row at most, and not at all if `is_even`; a batch that has no such parts is an error.

    Raises ValueError for buckets that are none.
    """

    def __init__(
        self,
        loader: Iterable,
        device: torch.device | str = "acc",
        buckets: Sequence[int] | None = None,
        max_length: int | None = None,
        num_buckets: int | None = None,
        pad_value_dict: Mapping[str, float] | None = None,
        pad_dims: int | Mapping[str, int] = -1,
        depth: int = 2,
        part: tuple[int, int] | None = None,
        is_even: bool = False,
    ) -> None:
        if depth < 1:
            raise ValueError(f"AsyncLoader: depth is {depth}: it must be at least 1")
        if part is not None and not 0 <= part[0] < part[1]:
            raise ValueError(f"AsyncLoader: part is {part}: it must be which, from 0, of how many")
        self._part, self._is_even = part, is_even
        self.loader = loader
        if part is not None and self._elastic() is not None:
            raise ValueError("AsyncLoader: an ElasticSampler's batches are parts; leave part out")
        self.device = torch.device(device)
        self._padding = _Padding(
            _lengths(buckets, max_length, num_buckets),
            dict(PAD_VALUES if pad_value_dict is None else pad_value_dict),
            pad_dims,
        )
        self._depth = depth
        self._place = {"epochs": 0, "batches": 0, "is_over": True, **self._random()}
        self._resumed: Mapping[str, Any] | None = None
        self._running: weakref.ref[_Epoch] | None = None

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name == "loader":  # while it is being unpickled
            raise AttributeError(name)
        return getattr(self.loader, name)

    def __iter__(self) -> Iterator:
        """An epoch. One that is still under way ends: it would take batches from this one."""
        self.close()
        state, self._resumed = self._resumed, None
        random = torch.get_rng_state()
        self._begin(state)
        epoch = _Epoch(iter(self.loader), self._prepare, self._depth, self._place["batches"])
        if state is not None and not state["is_over"]:
            torch.set_rng_state(random)  # the program's own
        self._running = weakref.ref(epoch)
        return self._counted(epoch, self._place)

    def close(self) -> None:
        """Ends the epoch that is under way, and its thread. Waits for the batch that it fetches."""
        epoch = self._running() if self._running is not None else None
        if epoch is not None:
            epoch.close()

    def state_dict(self) -> dict[str, Any]:
        """Where the program is: after the batch that it was given last."""
        if (sampler := self._elastic()) is not None:
            return sampler.state_dict()
        return dict(self._place if self._resumed is None else self._resumed)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes effect when the next epoch begins: it is that of `state`, or the one after it if
        that was over. Raises KeyError for what is no state of a loader."""
        if (sampler := self._elastic()) is not None:
            sampler.load_state_dict(state)
            return
        for name in self._place:
            state[name]
        self._resumed = dict(state)

    def _elastic(self) -> ElasticSampler | None:
        """What knows the place itself, in batches that other ranks will have."""
        sampler = getattr(self.loader, "batch_sampler", None)
        return sampler if isinstance(sampler, ElasticSampler) else None

    def _begin(self, state: Mapping[str, Any] | None) -> None:
        """A place in a new epoch, or that of a state, with its random numbers."""
        last = self._place if state is None else state
        if state is not None:
            number = state["epochs"] + state["is_over"]
            if number > 1 and getattr(self.loader, "persistent_workers", False):
                # That epoch ran on existing workers, which draws fewer random numbers.
                iter(self.loader)
            for generator, numbers in zip(self._generators(), state["generators"], strict=True):
                generator.set_state(numbers)
        if last["is_over"] or state is None:
            self._place = {"epochs": last["epochs"] + 1, "batches": 0, "is_over": False}
            self._place |= self._random()
        else:
            self._place = dict(state)
            torch.set_rng_state(state["random"])

    def _generators(self) -> list[torch.Generator]:
        """Those that an order may come from, besides PyTorch's."""
        places = ("", "sampler", "batch_sampler", "batch_sampler.sampler")
        found: list[torch.Generator] = []
        for place in places:
            owner = self.loader
            for name in filter(None, place.split(".")):
                owner = getattr(owner, name, None)
            generator = getattr(owner, "generator", None)
            if isinstance(generator, torch.Generator) and generator not in found:
                found.append(generator)
        return found

    def _random(self) -> dict[str, Any]:
        generators = [generator.get_state() for generator in self._generators()]
        return {"random": torch.get_rng_state(), "generators": generators}

    def _counted(self, epoch: "_Epoch", place: dict[str, Any]) -> Iterator:
        try:
            for batch in epoch:
                place["batches"] += 1
                yield batch
            if epoch.has_ended:
                place |= {"is_over": True, **self._random()}
        finally:
            epoch.close()

    def _prepare(self, batch: Any) -> Any:
        return self._moved(self._padding.pad(self._rows(batch)))

    def _rows(self, batch: Any) -> Any:
        if self._part is None:
            return batch
        at, count = self._part
        sizes: list[int] = []
        _changed(batch, lambda one: sizes.extend(one.shape[:1]))
        rows = sizes[0] if sizes else 0
        if rows < count or self._is_even and rows % count != 0:
            kind = "equal " if self._is_even else ""
            raise ValueError(
                f"AsyncLoader: a batch of {rows} rows has no {count} {kind}parts, one for each "
                "process: if it is the last one, let the loader leave it out (drop_last=True)"
            )

        def own(tensor: torch.Tensor) -> torch.Tensor:
            has_rows = tensor.ndim and len(tensor) == rows
            return tensor.tensor_split(count)[at] if has_rows else tensor

        return _changed(batch, own)

    def _moved(self, batch: Any) -> Any:
        def moved(tensor: torch.Tensor) -> torch.Tensor:
            # From memory that is not pinned, a copy to a GPU blocks this thread.
            if tensor.device.type == "cpu" and self.device.type != "cpu" and native_device():
                tensor = tensor.pin_memory()
            return tensor.to(self.device, non_blocking=True)

        return _changed(batch, moved, lambda value: value.to(self.device))


def _changed(value: Any, change: Callable, other: Callable = lambda value: value) -> Any:
    """A copy of a batch with `change` of each tensor, and `other` of what has a method `to`."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, Mapping):
        made = {} if type(value) is dict else copy.copy(value)
        for key, one in value.items():
            made[key] = _changed(one, change, other)
        return made
    if callable(getattr(value, "to", None)):
        return other(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_changed(one, change, other) for one in value))
    if isinstance(value, list | tuple):
        return type(value)(_changed(one, change, other) for one in value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        made = copy.copy(value)
        for one in dataclasses.fields(value):
            changed = _changed(getattr(value, one.name), change, other)
            object.__setattr__(made, one.name, changed)
        return made
    return value


class _Padding:
    def __init__(self, lengths, values, dims) -> None:
        self.lengths = lengths
        self.values = values
        self.dims = dims
        self.has_warned = False

    def pad(self, batch: Any) -> Any:
        if type(batch) in (list, tuple):
            return type(batch)(map(self.pad, batch))
        if not self.lengths or not isinstance(batch, Mapping):
            return batch
        padded = copy.copy(batch)
        for key, value in batch.items():
            if key not in self.values or not isinstance(value, torch.Tensor):
                continue
            is_said = isinstance(self.dims, Mapping) and key in self.dims
            dim = self.dims[key] if is_said else self.dims if isinstance(self.dims, int) else -1
            # The first dimension is the batch, unless `dims` says otherwise.
            if value.dim() > 1 or is_said:
                padded[key] = self._padded(key, value, dim)
        return padded

    def _padded(self, key: str, tensor: torch.Tensor, dim: int) -> torch.Tensor:
        length = tensor.size(dim)
        at = bisect.bisect_left(self.lengths, length)
        if at == len(self.lengths):
            self._warn(key, length)
            return tensor
        sizes = list(tensor.shape)
        sizes[dim] = self.lengths[at] - length
        if sizes[dim] == 0:
            return tensor
        return torch.cat([tensor, tensor.new_full(sizes, self.values[key])], dim)

    def _warn(self, key: str, length: int) -> None:
        if self.has_warned:
            return
        self.has_warned = True
        warnings.warn(
            f"AsyncLoader: {key} is {length} long, and the longest bucket {self.lengths[-1]}: it "
            "stays as it is, and so will others. Raise max_length, or cut the data",
            stacklevel=2,
        )


def _lengths(buckets, max_length, num_buckets) -> list[int]:
    """What batches are padded to, the shortest first; nothing where no length is named."""
    if buckets is not None:
        lengths = sorted(set(buckets))
        if not lengths or lengths[0] < 1:
            raise ValueError(f"AsyncLoader: buckets is {buckets!r}: lengths of at least 1 are")
        return lengths
    if max_length is None:
        return []
    count = 8 if num_buckets is None else num_buckets
    if max_length < 1 or count < 1:
        raise ValueError(
            f"AsyncLoader: {count} buckets up to a length of {max_length}: both must be at least 1"
        )
    # Rounded up, so that the last one is the longest.
    return sorted({-(-max_length * number // count) for number in range(1, count + 1)})


class _End:
    """What is put after the last batch: nothing, or the error that ended the loader."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error


class _Epoch:
    """Batches of an iterator, prepared by a thread that never holds more than `depth`."""

    def __init__(self, source: Iterator, prepare, depth: int, skipped: int) -> None:
        self._ready: queue.Queue = queue.Queue(depth)
        self._is_over = False
        self.has_ended = False  # at the end of the data
        stops = threading.Event()
        # The thread has no reference to this object, which goes when the program drops it.
        arguments = (source, prepare, self._ready, stops)
        thread = threading.Thread(target=_feed, args=arguments, daemon=True)
        first = _next(source, prepare, skipped)
        self._ready.put(first)
        if not isinstance(first, _End):
            thread.start()
        self._thread = thread
        self._finalizer = weakref.finalize(self, _stop, thread, stops)

    def __iter__(self) -> Iterator:
        return self

    def __next__(self) -> Any:
        batch = _End() if self._is_over else self._ready.get()
        if not isinstance(batch, _End):
            return batch
        self.has_ended = not self._is_over and batch.error is None
        self._is_over = True
        if batch.error is not None:
            raise batch.error
        raise StopIteration

    def close(self) -> None:
        self._is_over = True
        self._finalizer()
        _join(self._thread)
        # Another thread of the program may be waiting for a batch.
        with contextlib.suppress(queue.Full):
            self._ready.put_nowait(_End())


def _stop(thread: threading.Thread, stops: threading.Event) -> None:
    """Of an epoch that was dropped, or with the program: a source that blocks must not hold it."""
    stops.set()
    _join(thread, 5)


def _join(thread: threading.Thread, seconds: float | None = None) -> None:
    # The thread may itself be dropping the epoch.
    if thread.ident is not None and thread is not threading.current_thread():
        thread.join(seconds)


def _next(source: Iterator, prepare, skipped: int = 0) -> Any:
    """The next batch, or the end with what went wrong."""
    try:
        for _ in range(skipped):
            next(source)
        return prepare(next(source))
    except StopIteration:
        return _End()
    except BaseException as error:
        return _End(error)


def _feed(source: Iterator, prepare, ready: queue.Queue, stops: threading.Event) -> None:
    while not stops.is_set():
        batch = _next(source, prepare)
        while not stops.is_set():
            try:
                ready.put(batch, timeout=0.05)
                break
            except queue.Full:
                continue
        if isinstance(batch, _End):
            return
