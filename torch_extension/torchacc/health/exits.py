"""Exit codes that say whether to start a training again, and where: those of `sysexits.h`."""

import os
import signal
import sys

import torch
import torch.distributed as dist

# Another start would end the same way: the program, its configuration, its memory.
PROGRAM = os.EX_SOFTWARE
# Likewise, unless data or learning rate change: non-finite numbers, a loss that jumped.
NUMBERS = os.EX_DATAERR
# This machine or device is at fault: start again without it.
DEVICE = os.EX_UNAVAILABLE
# Start again: a rank was lost, did not come, was terminated, or hung.
AGAIN = os.EX_TEMPFAIL

# Failures that others see only as a lost rank; the first in this order is the cause.
_RANKED = (DEVICE, NUMBERS, PROGRAM)
_ENDED = {signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGABRT}
# In messages of the transports, whose errors are RuntimeErrors: gloo's and NCCL's.
_LOST = (
    "Connection closed by peer",
    "Connection reset by peer",
    "Connection refused",
    "Broken pipe",
    "Timed out",
    "NCCL communicator was aborted",
    "ncclRemoteError",
    "Watchdog caught collective operation timeout",
)


class NumbersError(RuntimeError):
    """What a training computes is no number any more."""


def exit_code(error: BaseException) -> int:
    """The code to end a process with that `error` ended, in the manner of `sysexits.h`:

    65, EX_DATAERR: numbers that are none. 69, EX_UNAVAILABLE: this device. 70, EX_SOFTWARE: the
    program, as another start would show again. 75, EX_TEMPFAIL: start it again. SystemExit has its
    own code, KeyboardInterrupt 130.
    """
    chain, seen = [], error
    while seen is not None and seen not in chain:
        chain.append(seen)
        seen = seen.__cause__ or seen.__context__
    return next((code for one in chain if (code := _code(one)) is not None), PROGRAM)


def _code(error: BaseException) -> int | None:
    """None for what may be due to another error, in whose handling it came."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    if isinstance(error, KeyboardInterrupt):
        return 130
    if isinstance(error, NumbersError):
        return NUMBERS
    if isinstance(error, torch.OutOfMemoryError):
        return PROGRAM
    if isinstance(error, torch.AcceleratorError):
        return DEVICE
    if isinstance(error, (ConnectionError, TimeoutError, dist.DistError)):
        return AGAIN
    if isinstance(error, RuntimeError) and any(text in str(error) for text in _LOST):
        return AGAIN
    return None


def of_processes(codes: list[int]) -> int:
    """That of a job whose processes ended with these; negative ones are signals, as in
    `subprocess`."""
    made = [AGAIN if -code in _ENDED else PROGRAM if code < 0 else code for code in codes]
    reasons = [code for code in _RANKED if code in made] or [code for code in made if code != AGAIN]
    return reasons[0] if reasons else AGAIN


_is_installed = False


def install() -> None:
    """Makes an error that nobody catches end this process with its `exit_code`, from now on."""
    global _is_installed
    if _is_installed:
        return
    _is_installed = True
    shown = sys.excepthook

    def end(kind, error, trace):
        shown(kind, error, trace)
        # As if the program had exited with the code: functions registered with atexit run.
        raise SystemExit(exit_code(error))

    sys.excepthook = end
