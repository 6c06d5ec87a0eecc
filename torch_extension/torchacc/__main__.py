"""`python -m torchacc explain script.py args…`: runs it, then says what was compiled and why."""

import os
import runpy
import sys

import torchacc

USAGE = "usage: python -m torchacc explain script.py [argument ...]"


def main() -> None:
    if len(sys.argv) < 3 or sys.argv[1] != "explain":
        sys.exit(USAGE)
    script = sys.argv[2]
    sys.argv = sys.argv[2:]
    sys.path[0] = os.path.dirname(os.path.abspath(script))
    try:
        runpy.run_path(script, run_name="__main__")
        torchacc.sync()
    finally:
        sys.stdout.flush()
        print(torchacc.explain())


if __name__ == "__main__":
    main()
