"""Cuts: where the recorded operations become a program.

A training loop needs none of this: the end of every optimizer step is a cut.
"""

import contextlib
import warnings
from collections.abc import Callable, Iterator

import torch
from torch._guards import TracingContext, detect_fake_mode
from torch.optim.optimizer import Optimizer, register_optimizer_step_post_hook

from torchacc.event_log import steps

# Called once, when the device is first used, or never.
at_first_use: list[Callable[[], None]] = []

_hook = None
_is_one_program = False


def cut() -> None:
    """Hands what was recorded so far over to be compiled and run. Returns at once."""
    if not _is_one_program:
        emit_warnings(torch.ops.acc.cut())


mark_step = cut


def sync() -> None:
    """Cuts and waits until everything has run.

    Raises the errors of recorded operations that no read has reported yet, those of results that
    were never read too: as one, of the first's type, whose message names each one's operator and
    the Python line that recorded it.
    """
    emit_warnings(torch.ops.acc.sync())


@contextlib.contextmanager
def one_program() -> Iterator[None]:
    """Nothing that is recorded inside is handed over by a cut, an optimizer's neither."""
    global _is_one_program
    before, _is_one_program = _is_one_program, True
    try:
        yield
    finally:
        _is_one_program = before


def emit_warnings(messages: list[str]) -> None:
    for message in messages:
        warnings.warn(message, UserWarning, stacklevel=3)


def end_step(optimizer: int) -> None:
    """Tells of a step of the optimizer with this `id`, also of one that Dynamo has captured, which
    calls this with fake tensors first."""
    if not _is_one_program and not _is_traced():
        steps.end(optimizer)


def _is_traced() -> bool:
    """Whether Dynamo calls, with fake tensors. PyTorch's own answer takes longer than all else."""
    is_plain = TracingContext.try_get() is None and not torch._C._len_torch_dispatch_stack()
    return not is_plain and detect_fake_mode() is not None


def install_optimizer_hook() -> None:
    """Makes every optimizer step over acc parameters end with a cut, from now on.

    Installed with the first use of the device, so that programs that never use it pay nothing.
    """
    global _hook
    if _hook is None:
        _hook = register_optimizer_step_post_hook(_cut_after_step)


def _cut_after_step(optimizer: Optimizer, args: tuple, kwargs: dict) -> None:
    # The first parameter nearly always decides; the search goes on only past other devices'
    # parameters.
    parameters = (p for group in optimizer.param_groups for p in group["params"])
    if any(p.device.type == "acc" for p in parameters):
        cut()
        end_step(id(optimizer))
