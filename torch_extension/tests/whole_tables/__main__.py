"""Runs the tables: `python -m whole_tables [--topic NAME] [--rows REGEX] [--write PAGE]`."""

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path

os.environ.setdefault("TORCHACC_CACHE_DIR", "off")
os.environ.setdefault("TORCHACC_BACKEND", "cpu")
os.environ.setdefault("PYTHONWARNINGS", "ignore")


def main():
    from .pool import Pool
    from .report import page, unexpected
    from .topics import TOPICS, listed

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topic", action="append", choices=TOPICS, help="only this one")
    parser.add_argument("--rows", default="", help="tests whose names have this")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--write", type=Path, help="the page of results")
    parser.add_argument("--log", type=Path, help="a line of JSON for each test")
    options = parser.parse_args()
    names = [
        (topic, name)
        for topic in options.topic or TOPICS
        for name in listed(topic)
        if re.search(options.rows, name)
    ]
    pool, results, start = Pool(options.workers), {}, time.monotonic()
    log = options.log.open("w") if options.log else None
    try:
        for (topic, name), (kind, what) in pool.run(names):
            results.setdefault(topic, {})[name] = kind, what
            if log:
                print(json.dumps([topic, name, kind, what]), file=log, flush=True)
    finally:
        pool.stop()
    print(f"{len(names)} tests in {time.monotonic() - start:.0f} s")
    wrong = unexpected(results, whole=not (options.topic or options.rows))
    print(*wrong, sep="\n")
    if options.write:
        options.write.write_text(page(results))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
