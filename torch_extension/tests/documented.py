"""The scripts of the pages of docs about many processes, as a rank runs them."""

import os
import pathlib
import re

import torch.distributed as dist

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def scripts(page):
    """Those of a page, or of all pages of a folder, each of which has some."""
    path, found = DOCS / page, []
    for one in sorted(path.glob("*.md")) if path.is_dir() else [path]:
        of_page = re.findall(r"^```python\n(.*?)^```", one.read_text(), re.M | re.S)
        assert of_page, one
        found += of_page
    return found


def run(page, *ports):
    """All of them, each by a port of its own: ranks that are slow to leave a group must not find
    the next one's store for the last one's."""
    for script, port in zip(scripts(page), ports, strict=True):
        os.environ["MASTER_PORT"] = port
        exec(compile(script, page, "exec"), {"__name__": "__main__"})
        if dist.is_initialized():
            dist.destroy_process_group()
    return len(ports)
