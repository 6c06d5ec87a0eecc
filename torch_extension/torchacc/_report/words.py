"""Numbers, lines and parts of the time in words."""

import linecache
import os

# Classes of colours, and their meanings.
KINDS = {
    "python": "your Python code",
    "record": "recording operations",
    "key": "looking programs up",
    "compile": "compiling",
    "launch": "preparing launches",
    "kernel": "kernels",
    "fallback": "CPU fallbacks",
    "collective": "waiting for collectives",
    "idle": "nothing recorded, nothing to run",
}


def milliseconds(nanoseconds: float) -> str:
    """With three digits or so: "0.042 ms", "17.3 ms", "12.5 s"."""
    if nanoseconds >= 1e10:
        return f"{nanoseconds / 1e9:.1f} s"
    value = nanoseconds / 1e6
    return (
        f"{value:.3f} ms" if value < 1 else f"{value:.1f} ms" if value < 1000 else f"{value:.0f} ms"
    )


def percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "0 %"


def place(site: str) -> str:
    """ ", train.py:12", or nothing."""
    return f", {short(site)}" if site else ""


def short(site: str) -> str:
    """A line in a file below the current folder, or of its last two folders."""
    folder = os.getcwd() + os.sep
    if site.startswith(folder):
        return site[len(folder) :]
    parts = site.split("/")
    return "/".join(["…", *parts[-3:]]) if len(parts) > 4 else site


def source(site: str) -> str:
    """The text of that line, where it can be read."""
    file, _, line = site.rpartition(":")
    return linecache.getline(file, int(line)).strip()[:160] if line.isdigit() else ""
