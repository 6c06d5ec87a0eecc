"""What to change in a program, and at which line, by what the runtime counted of it."""

import os
from collections.abc import Iterator
from typing import NamedTuple

# Parts of the time from which something is worth advice, and number of reads of a line that is not.
_MUCH, _LITTLE, _FEW = 0.3, 0.01, 2
# Programs after which a run's times are representative; before, they are those of the start.
_SETTLED = 10


class Advice(NamedTuple):
    """`what` is the case at the line `site` ("file:line", or "" for the whole program), `change`
    what to do about it, `time_ns` how long it took in all, where that is known."""

    what: str
    change: str
    site: str = ""
    time_ns: int = 0


def advice(explanation: dict, metrics: dict[str, int]) -> list[Advice]:
    """By what `explanation` and `metrics` give; what took longest first."""
    found = [
        *_recompiles(explanation["compiles"]),
        *_fallbacks(explanation["host_calls"], metrics["wall_ns"]),
        *_cuts(explanation["cuts"]),
        *_whole(metrics, sum(row["count"] for row in explanation["cuts"])),
    ]
    return sorted(found, key=lambda one: -one.time_ns)


def kind_of(compile: dict) -> tuple | None:
    """Equal for recompiles of one line that the same thing of the same operator is due to."""
    change = compile.get("change")
    if change is None:
        return None
    return tuple(change.get(name) for name in ("site", "operator", "aspect", "argument", "result"))


def _recompiles(compiles: list[dict]) -> Iterator[Advice]:
    alike: dict[tuple, list[dict]] = {}
    for compile in compiles:
        if (kind := kind_of(compile)) is not None:
            alike.setdefault(kind, []).append(compile)
    for group in alike.values():
        # A single compile is normal at the start: an optimizer makes its state in its first step.
        if len(group) > 1:
            change = group[-1]["change"]
            what = f"compiled again {len(group)} times; the last time {change['text']}"
            took = sum(one["took_ns"] for one in group)
            yield Advice(what, change["advice"], change["site"], took)
    again = [compile for compile in compiles if compile["why"] == "again"]
    if again:
        yield Advice(
            f"{len(again)} programs were compiled before, and dropped for others",
            "Keep to fewer shapes, or pad sizes to buckets (TORCHACC_BUCKETS). "
            "TORCHACC_CACHE_DIR keeps programs on disk.",
            time_ns=sum(one["took_ns"] for one in again),
        )


def _fallbacks(calls: list[dict], wall_ns: int) -> Iterator[Advice]:
    forced = [name for name in ("TORCHACC_FORCE_HOST", "TORCHACC_HOST_OPS") if os.environ.get(name)]
    if calls and forced:
        what = "PyTorch's CPU kernels compute what has native kernels, too"
        took = sum(row["time_ns"] for row in calls)
        yield Advice(what, f"Unset {' and '.join(forced)}.", time_ns=took)
        return
    for row in calls:
        if row["time_ns"] >= _LITTLE * wall_ns:
            yield Advice(
                f"{row['name']} has no native form for what it is given: PyTorch's CPU kernel ran "
                f"{row['count']} times",
                "Compute it less often, before the loop, or from operators that are native; "
                "float32 has more of these than other types.",
                row["site"],
                row["time_ns"],
            )


def _cuts(cuts: list[dict]) -> Iterator[Advice]:
    lines: dict[tuple[str, str], list[dict]] = {}
    for row in cuts:
        lines.setdefault((row["cause"], row["site"]), []).append(row)
    for (cause, site), rows in lines.items():
        count = sum(row["count"] for row in rows)
        if cause == "limit":
            yield Advice(
                f"{count} times so much was recorded without a cut that it was cut anywhere",
                "Call torchacc.mark_step() at the end of each iteration of the loop.",
                site,
            )
        elif cause == "sync" and count > _FEW:
            yield Advice(
                f"waited {count} times for everything",
                "Leave it out: reads wait for what they read. To measure time, wait once at the "
                "end.",
                site,
            )
        elif cause == "read" and count > _FEW:
            values = {row.get("value", "") for row in rows}
            yield Advice(
                f"the host read a value {count} times and waited for it", _less(values), site
            )


def _less(values: set[str]) -> str:
    """Instead of reads of these: "the result of aten::gt (operation 0), bool[10]"."""
    types = {value.rpartition(", ")[2] for value in values}
    if any(one.startswith("bool") and one != "bool[]" for one in types):
        return (
            "A mask that selects elements gives a size that the host has to know: use torch.where, "
            "or multiply by the mask."
        )
    if "bool[]" in types:
        return (
            "Python decides by a value: compute both and choose with torch.where, or decide once "
            "in many steps."
        )
    return (
        "Read it once in many steps, or after the loop; torchacc.future(x) gives it later, without "
        "waiting."
    )


def _whole(metrics: dict[str, int], programs: int) -> Iterator[Advice]:
    if programs < _SETTLED:
        return
    wall = max(metrics["wall_ns"], 1)
    # Shape functions run while the program seems to be in its own Python code, or idle.
    shapes = metrics["shape_function_ns"]
    python = max(metrics["wall_python_ns"] - shapes, 0)
    idle = metrics["wall_idle_ns"] - max(shapes - metrics["wall_python_ns"], 0)
    host = python + metrics["wall_record_ns"]
    if host > _MUCH * wall and host > metrics["wall_device_ns"]:
        yield Advice(
            "kernels wait for Python, which has not recorded the next ones yet",
            "Larger batches, fewer and larger operations, an optimizer with fused=True.",
            time_ns=host,
        )
    if metrics["wall_compile_ns"] > _MUCH * wall:
        yield Advice(
            "compiling is much of the time",
            "Nothing, if this was a short run: what is compiled is kept, on disk too unless "
            "TORCHACC_CACHE_DIR is off.",
            time_ns=metrics["wall_compile_ns"],
        )
    if shapes > _MUCH * wall:
        yield Advice(
            "PyTorch's shape functions, mostly Python, were asked for results of new sizes",
            "Nothing, if sizes come again. Else pad or bucket them.",
            time_ns=shapes,
        )
    if idle > _MUCH * wall:
        yield Advice(
            "nothing was recorded, and nothing was there to run: the program was at something else",
            "If it was loading data: torchacc.AsyncLoader loads while steps run.",
            time_ns=idle,
        )
    if metrics["collective_exposed_ns"] > 0.1 * wall:
        yield Advice(
            "kernels wait for collectives",
            "Larger batches for each process, or gradients in other buckets (bucket_cap_mb): see "
            "overlapped_collectives in the counters.",
            time_ns=metrics["collective_exposed_ns"],
        )
