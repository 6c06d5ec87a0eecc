"""`Watch`: looks after a training while it runs."""

import atexit
import collections
import contextlib
import os
import statistics
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.tensor import DTensor

from torchacc._future import Future, future
from torchacc.event_log import event, steps
from torchacc.health import exits
from torchacc.health.heartbeat import Heart
from torchacc.health.module_hooks import ModuleHooks

WINDOW, ENOUGH = 64, 16  # losses to which a loss is compared, and their least number
BEHIND = 4  # steps whose numbers may be pending


class Alarm(exits.NumbersError):
    """Something that `Watch` noticed: `kind` is "non-finite", "loss spike", "straggler", "hang" or
    "store"; of `rank`, in `step`."""

    def __init__(self, kind: str, step: int, rank: int, text: str):
        super().__init__(f"step {step}, rank {rank}: {kind}: {text}")
        self.kind, self.step, self.rank = kind, step, rank


class Watch:
    """Watches a training, until `close` or the end of a `with`.

        with Watch(model, folder="runs/health") as watch:
            for batch in loader:
                loss = ...
                loss.backward()
                optimizer.step()
                watch.step(loss)

    Numbers: the first NaN or infinity in what the modules of `model` return, in the gradients of
    that, and in the loss, with its step, module and line; and losses more than `spike` deviations
    above the last ones. They are read when the device has them, a step or more later. Without
    `model` the loss alone is watched; without `spike`, that is None, no loss is too large.

    Ranks: one that is busy more than `lag` times as long in a step as the others; and one on which
    nothing has happened for `timeout` seconds, or that has not been heard of: all ranks then write
    their Python stacks and last collectives to `folder`, or stderr, and with `exit` end with 75.
    With `timeout` None nothing of this is watched. Every rank makes a `Watch`; it takes a thread,
    which beats every `interval` seconds, and `faulthandler.dump_traceback_later`.

    What is noticed is an event, and `alarm`'s: "warn" warns of it, "raise" raises the `Alarm` from
    `step` or `close` if it is about numbers; what is about ranks both write to stderr. A function
    is called with the `Alarm`, from any thread.

    From then on an error that ends the process gives it `exit_code(error)`.
    """

    def __init__(
        self,
        model: nn.Module | None = None,
        *,
        spike: float | None = 10.0,
        lag: float = 2.0,
        timeout: float | None = 600.0,
        exit: bool = False,
        alarm: str | Callable[[Alarm], None] = "warn",
        folder: str | os.PathLike | None = None,
        interval: float = 5.0,
    ):
        if not callable(alarm) and alarm not in ("warn", "raise"):
            raise ValueError(f'Watch: alarm is {alarm!r}: "warn", "raise" or a function')
        for name, number in (("spike", spike), ("timeout", timeout), ("interval", interval)):
            if number is not None and number <= 0:
                raise ValueError(f"Watch: {name} is {number}: more than 0")
        if lag <= 1:
            raise ValueError(f"Watch: lag is {lag}: more than 1")
        exits.install()
        self._alarm, self._spike = alarm, spike
        self._rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
        self._step = 0
        self._names: list[tuple[str, str]] = []
        self._largest: list[torch.Tensor] = []
        self._pending: collections.deque[_Read] = collections.deque()
        self._losses: collections.deque[float] = collections.deque(maxlen=WINDOW)
        self._usual: set[tuple[str, str]] = set()  # infinite in a healthy step
        self._is_ill = False
        self._raised: Alarm | None = None
        self._hooks = ModuleHooks(model, self._see) if model is not None else None
        self._heart = None
        if timeout is not None:
            place = Path(folder) if folder is not None else None
            about = {"timeout": timeout, "lag": lag, "interval": interval}
            self._heart = Heart(self._notice_rank, **about, folder=place, exit=exit)
            # A thread that returns from C++ while the interpreter exits would end it badly.
            atexit.register(self._end)

    def step(self, loss: torch.Tensor | None = None) -> None:
        """A step is over, of which `loss`, of one element, is the loss. Reads what earlier steps
        computed, where it is there.

        Raises, if `alarm` is "raise", the `Alarm` of an earlier step.
        """
        numbers = self._largest
        if loss is not None:
            loss = loss.full_tensor() if isinstance(loss, DTensor) else loss
            device = numbers[0].device if numbers else loss.device
            numbers = [*numbers, loss.detach().float().reshape(()).to(device)]
        if numbers:
            value = future(torch.stack(numbers))
            self._pending.append(_Read(self._step, self._names, loss is not None, value))
        self._names, self._largest = [], []
        self._step += 1
        while self._pending and (len(self._pending) > BEHIND or self._pending[0].value.done()):
            self._examine(self._pending.popleft())
        self._raise()

    def close(self) -> None:
        """Reads the rest, and ends the watch. Raises as `step` does."""
        # Ranks may hang in pending computations.
        try:
            while self._pending:
                self._examine(self._pending.popleft())
        finally:
            self._end()
        self._raise()

    def __enter__(self) -> "Watch":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None:
            self.close()
            return
        self._end()
        # A non-finite number may have caused the error.
        with contextlib.suppress(Exception):
            while self._pending and self._pending[0].value.done():
                self._examine(self._pending.popleft())
        where = traceback.extract_tb(trace)[-1]
        event(
            "torchacc.error",
            error=f"{kind.__name__}: {error}",
            site=f"{where.filename}:{where.lineno}",
            code=exits.exit_code(error),
        )

    def _end(self) -> None:
        if self._hooks is not None:
            self._hooks.remove()
            self._hooks = None
        if self._heart is not None:
            atexit.unregister(self._end)
            self._heart.stop()
            self._heart = None

    def _see(self, name: str, site: str, tensor: torch.Tensor) -> None:
        if tensor.numel():
            self._names.append((name, site))
            self._largest.append(torch.linalg.vector_norm(tensor, float("inf")).float())

    def _examine(self, read: "_Read") -> None:
        numbers = read.value.result()
        loss = numbers[-1].item() if read.has_loss else None
        largest = numbers[: len(read.names)]
        if loss is not None:
            event("torchacc.loss", step=read.step, loss=loss)
        odd = [read.names[at] for at in (~largest.isfinite()).nonzero().flatten().tolist()]
        is_ill = bool(largest.isnan().any()) or (loss is not None and not _is_finite(loss))
        if not is_ill:
            # A mask of -inf is intended.
            self._usual.update(odd)
        elif not self._is_ill:
            self._notice("non-finite", read.step, self._rank, self._first(read, largest, odd, loss))
        self._is_ill = is_ill
        if loss is not None and not is_ill:
            self._compare(read.step, loss)

    def _first(self, read, largest, odd, loss) -> str:
        new = [one for one in odd if one not in self._usual]
        if not new:
            return f"the loss is {loss}; everything that the model's modules return is finite"
        at = read.names.index(new[0])
        name, site = read.names[at]
        text = f"the {name} ({site}) has {'NaN' if largest[at].isnan() else 'infinity'}"
        if at > 0:
            before, line = read.names[at - 1]
            text += f"; the {before} ({line}), before it, was finite"
        return text

    def _compare(self, step: int, loss: float) -> None:
        """With the losses before, whose median and deviation one that jumps does not move."""
        if self._spike is not None and len(self._losses) >= ENOUGH:
            middle = statistics.median(self._losses)
            deviation = statistics.median(abs(one - middle) for one in self._losses)
            # For normally distributed numbers, 1.4826 of these are a standard deviation; a loss
            # that hardly moves gets a least deviation.
            usual = max(1.4826 * deviation, 0.01 * abs(middle), 1e-12)
            if loss > middle + self._spike * usual:
                text = f"the loss is {loss:.6g}, {(loss - middle) / usual:.0f} deviations above "
                self._notice("loss spike", step, self._rank, text + f"the last ones ({middle:.6g})")
        self._losses.append(loss)

    def _notice_rank(self, kind: str, rank: int, text: str) -> None:
        self._notice(kind, steps.count, rank, text)

    def _notice(self, kind: str, step: int, rank: int, text: str) -> None:
        alarm = Alarm(kind, step, rank, text)
        event("torchacc.alarm", alarm=kind, step=step, of=rank, text=text)
        if callable(self._alarm):
            self._alarm(alarm)
            return
        if kind not in ("non-finite", "loss spike"):
            # Printed, since warnings of a thread have no line, and these may be the last words of
            # the process.
            print(f"torchacc: {alarm}", file=sys.__stderr__, flush=True)
        elif self._alarm == "raise":
            self._raised = self._raised or alarm
        else:
            warnings.warn(f"torchacc: {alarm}", stacklevel=4)

    def _raise(self) -> None:
        alarm, self._raised = self._raised, None
        if alarm is not None:
            raise alarm


class _Read:
    """What of a step is on its way: the largest magnitude of each tensor, then the loss."""

    def __init__(self, step: int, names: list[tuple[str, str]], has_loss: bool, value: Future):
        self.step, self.names, self.has_loss, self.value = step, names, has_loss, value


def _is_finite(number: float) -> bool:
    return number - number == 0
