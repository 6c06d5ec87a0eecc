"""One program on the CPU and on the device: whether they agree, and the smallest that does not."""

import warnings

import torchacc

from .compare import Failure, compare, same_bits
from .generate import generate
from .known import is_known
from .program import script
from .run import kind_of, on_device
from .shadows import on_host
from .shrink import shrink


def examine(seed, device="acc"):
    """The program of a seed and its failure, if it fails."""
    program = generate(seed)
    failure = failure_of(program, device)
    return (program, failure) if failure and not is_known(failure.message) else None


def failure_of(program, device="acc"):
    """What is wrong with a program on the device, if anything is."""
    program, expected = on_host(program)
    first = None
    # The second run finds compiled programs and warm caches.
    for turn in ("first", "second"):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got = on_device(program, device, expected.eager.errors)
        except Exception as error:
            _settle()
            kind = type(error).__name__
            return Failure(f"reading raised {kind}", f"reading results: {kind}: {error}")
        failure = compare(got, expected)
        if failure:
            _settle()
            return Failure(failure.kind, f"{failure.message} ({turn} run)")
        if first and (failure := same_bits(first, got)):
            return failure
        first = got
    return None


def _settle():
    """Errors that nobody has read belong to the program that failed."""
    for _ in range(10):
        try:
            torchacc.sync()
            return
        except Exception:
            continue


def report(seed, found, device="acc", seconds=60.0):
    """The smallest program that fails alike, as a script, and what is wrong with it."""
    program, failure = found

    def fails(candidate):
        try:
            other = failure_of(candidate, device)
        except SyntaxError:
            return False
        return other is not None and other.kind == failure.kind and not is_known(other.message)

    small = shrink(program, fails, seconds)
    small, expected = on_host(small)
    last = failure_of(small, device) or failure
    errors = {place: kind_of(error) for place, error in expected.eager.errors.items()}
    message = "\n".join(f"# {line}" for line in last.message.splitlines())
    head = f"# seed {seed}: {last.kind}\n{message}\n"
    return head + script(small, errors)
