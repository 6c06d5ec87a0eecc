"""The scripts of docs/distributed.md, as a rank runs them."""

import os
import pathlib
import re

PAGE = pathlib.Path(__file__).parents[2] / "docs/distributed.md"


def scripts():
    return re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.M | re.S)


def run(*ports):
    """All of them, each by a port of its own: ranks that are slow to leave a group must not find
    the next one's store for the last one's."""
    for script, port in zip(scripts(), ports, strict=True):
        os.environ["MASTER_PORT"] = port
        exec(compile(script, str(PAGE), "exec"), {"__name__": "__main__"})
    return len(scripts())
