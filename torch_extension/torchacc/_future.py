"""Values that are read later, so that a program that logs its loss does not wait for it."""

import atexit
import concurrent.futures
import queue
import threading

import torch

_pending: queue.SimpleQueue = queue.SimpleQueue()
_worker: threading.Thread | None = None
_lock = threading.Lock()


class Future(concurrent.futures.Future):
    """A value on its way: a `concurrent.futures.Future` whose result is a CPU tensor.

    It is done some time after the cut that ends the trace which computes the value: that of the
    optimizer step, say. Callbacks run on a thread of their own; that cannot be cancelled.
    """

    def __init__(self, snapshot: torch.Tensor | None):
        super().__init__()
        self.set_running_or_notify_cancel()
        # Kept until it has been read.
        self._snapshot = snapshot

    def result(self, timeout: float | None = None) -> torch.Tensor:
        """Waits for the value; cuts, as `Tensor.item()` does, if it is still being recorded.

        Raises what kept it from being computed, which the next `sync` or read raises as well;
        TimeoutError after `timeout` seconds.
        """
        self._request()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """As `result`, but returns what that raises, or None."""
        self._request()
        return super().exception(timeout)

    def _request(self):
        snapshot = self._snapshot
        if snapshot is not None:
            torch.ops.acc.request(snapshot)


def future(tensor: torch.Tensor) -> Future:
    """The value that `tensor` has now, to be read later: changes in place do not change it.

    Waits for nothing and cuts nothing. Records a copy of the tensor, so it is meant for losses and
    other small ones.
    """
    snapshot = tensor.detach().clone()
    if tensor.device.type != "acc":
        waiting = Future(None)
        waiting.set_result(snapshot.cpu())
        return waiting
    waiting = Future(snapshot)
    _start()
    _pending.put(waiting)
    return waiting


def _start() -> None:
    global _worker
    with _lock:
        if _worker is None:
            _worker = threading.Thread(target=_resolve, name="torchacc-futures", daemon=True)
            _worker.start()
            # A thread that returns from C++ while the interpreter exits would end it badly.
            atexit.register(_finish)


def _resolve() -> None:
    """Reads one value after the other: they become ready in the order in which they were asked."""
    while (waiting := _pending.get()) is not None:
        try:
            value = torch.ops.acc.read_after_cut(waiting._snapshot)
        except Exception as error:
            waiting.set_exception(error)
        else:
            waiting.set_result(value)
            del value
        waiting._snapshot = None
        del waiting


def _finish() -> None:
    if not torch.ops.acc.bad_fork():
        torch.ops.acc.cut()
        _pending.put(None)
        _worker.join()
