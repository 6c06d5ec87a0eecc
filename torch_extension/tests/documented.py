"""The scripts of the pages of docs about many processes, as a rank runs them."""

import os
import pathlib
import re

import torch.distributed as dist

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def scripts(page):
    return re.findall(r"^```python\n(.*?)^```", (DOCS / page).read_text(), re.M | re.S)


def run(page, *ports):
    """All of them, each by a port of its own: ranks that are slow to leave a group must not find
    the next one's store for the last one's."""
    for script, port in zip(scripts(page), ports, strict=True):
        os.environ["MASTER_PORT"] = port
        exec(compile(script, page, "exec"), {"__name__": "__main__"})
        if dist.is_initialized():
            dist.destroy_process_group()
    return len(ports)
