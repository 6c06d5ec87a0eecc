"""Looks for programs that fail: see `python -m random_programs --help`."""

import argparse
import faulthandler
import os
import random
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("TORCHACC_CACHE_DIR", "off")
os.environ.setdefault("TORCHACC_BACKEND", "cpu")

from .check import examine, report  # noqa: E402

# The seed that was last begun, for what ends the process.
LAST = Path(tempfile.gettempdir()) / f"random_programs.{os.getpid()}"


def main():
    parser = argparse.ArgumentParser(prog="random_programs", description=__doc__)
    seed = os.environ.get("TORCHACC_RANDOM_SEED")
    parser.add_argument("--seed", type=int, default=int(seed) if seed else None)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--programs", type=int, default=None, help="no more than so many")
    parser.add_argument("--device", default="acc")
    parser.add_argument("--keep-going", metavar="FOLDER", help="write failures there and go on")
    options = parser.parse_args()
    first = random.randrange(10**9) if options.seed is None else options.seed
    faulthandler.enable()
    print(f"seed {first}", flush=True)
    failures = hunt(first, options)
    sys.exit(1 if failures else 0)


def hunt(first, options):
    """Examines programs until the time is over; how many failed."""
    start, count, failures = time.monotonic(), 0, 0
    while time.monotonic() - start < options.seconds and count != options.programs:
        seed = first + count
        count += 1
        LAST.write_text(str(seed))
        faulthandler.dump_traceback_later(120, exit=True)
        found = examine(seed, options.device)
        faulthandler.cancel_dump_traceback_later()
        if not found:
            continue
        failures += 1
        text = report(seed, found, options.device)
        print(text, flush=True)
        if not options.keep_going:
            break
        folder = Path(options.keep_going)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{seed}.py").write_text(text)
    elapsed = time.monotonic() - start
    print(f"{count} programs, {failures} failed, {count / elapsed:.1f} a second", flush=True)
    return failures


if __name__ == "__main__":
    main()
