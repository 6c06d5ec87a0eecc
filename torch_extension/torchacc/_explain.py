"""Why programs were compiled, which operators ran on the host, and what cut the traces."""

import atexit
import collections
import functools
import itertools
import json
import os
import re
import sys

import torch

from torchacc._advice import advice, kind_of
from torchacc._metrics import metrics
from torchacc.memory import _size_text


def explanation() -> dict:
    """What `explain` says, as data; `torchacc_explain` in torchacc.h documents the fields."""
    lists = ("compiles", "host_calls", "cuts", "collectives", "engines", "products")
    empty = {name: [] for name in lists}
    return empty | {"earlier_compiles": 0} | json.loads(torch.ops.acc.explain())


def explain() -> str:
    """Every compile, CPU fallback and cut since the start or `reset_metrics`: why, and which line.
    Then which of two engines was chosen for a program (backend "auto"), what computes which matrix
    products where that was measured, the last 16 collectives of each process group, the one that
    runs or failed among them, and what to change, at which line.

    A compile names the first thing in which its trace differs from the nearest one known: the
    operation, which of its arguments, what of it, old and new. Does not wait: what still runs, or
    compiles, is missing (`torchacc.sync()` first).
    """
    data = explanation()
    compiles, earlier = data["compiles"], data["earlier_compiles"]
    counters = metrics()
    lines = [f"{earlier + len(compiles)} compiles"]
    origins = {
        "disk_hits": "came from disk",
        "carried_over": "have other sizes",
        "padded_programs": "are of buckets",
    }
    for counter, origin in origins.items():
        if counters[counter]:
            lines.append(f"  ({counters[counter]} more programs {origin})")
    if earlier:
        lines.append(f"  (the first {earlier} are forgotten)")
    alike = collections.Counter()
    for compile in compiles:
        kind = kind_of(compile)
        alike[kind] += 1
        if kind is None or alike[kind] <= _SHOWN:
            lines += _compile(compile) + _recomputed(compile)
    for kind, count in alike.items():
        if kind is not None and count > _SHOWN:
            lines.append(f"  … and {count - _SHOWN} more like the last one at {kind[0]}")
    calls = sum(row["count"] for row in data["host_calls"])
    lines.append(f"{calls} CPU fallbacks")
    for row in sorted(data["host_calls"], key=lambda row: -row["time_ns"]):
        lines.append(
            f"  {row['count']} x {row['name']}, {_milliseconds(row['time_ns'])}{_at(row['site'])}"
        )
    if counters["immediate_runs"]:
        lines.append(_immediate(counters))
    lines.append(f"{sum(row['count'] for row in data['cuts'])} cuts")
    lines += [_cut(rows) for rows in _alike(data["cuts"])]
    lines += [_engine(row) for row in data["engines"]]
    lines += _products(data["products"])
    lines += described_collectives(data["collectives"])
    lines += _advice(data, counters)
    return "\n".join(lines)


def set_recompile_limit(limit: int) -> None:
    """How many recompiles one line may cause before it is warned of, or is an error (8)."""
    torch.ops.acc.set_recompile_limit(limit)


def set_strict(recompiles: bool = True, host_calls: bool = False) -> None:
    """Makes recompiles beyond the limit, and CPU fallbacks, errors instead of warnings and counts.

    The RuntimeError comes from the next cut, sync or read after it happened. Nothing is lost: the
    program has run, and what a failed read did not return can be read again.
    """
    torch.ops.acc.set_strict(recompiles, host_calls)


# Number of recompiles shown of those that one line keeps causing.
_SHOWN = 3
# The sizes in "the result of aten::gt (operation 0), bool[10]".
_SIZES = re.compile(r"\[[\d, ]*\]$")


def _compile(compile: dict) -> list[str]:
    head = (
        f"  #{compile['number']}  {_milliseconds(compile['took_ns'])},"
        f" {compile['operations']} operations"
    )
    if compile["why"] == "again":
        return [f"{head}: {compile_text(compile)}"]
    if compile["why"] != "changed":
        return [f"{head}: {compile_text(compile)}{_at(compile['site'])}"]
    change = compile["change"]
    lines = [f"{head}:{_at(change['site'])}", f"      {compile_text(compile)}"]
    if change["old_site"] not in (change["site"], ""):
        lines.append(f"      (before:{_at(change['old_site'])})")
    return lines


def compile_text(compile: dict) -> str:
    """Why a program was compiled, without the line."""
    match compile["why"]:
        case "first":
            return "the first program"
        case "new":
            return "a program that begins like no other"
        case "again":
            return "compiled before, but dropped from the cache"
    return f"{compile['change']['text']}{_parameter(compile['change'])}"


def _recomputed(compile: dict) -> list[str]:
    """What the memory limit cost."""
    it = compile.get("recomputed")
    if it is None:
        return []
    what = []
    if it["steps"] or not it["offloads"]:
        what.append(f"{it['steps']} steps run again")
    if it["offloads"]:
        size = _size_text(it["offloaded_bytes"])
        what.append(f"{it['offloads']} values ({size}) wait on the host")
    lines = [
        f"      {' and '.join(what)} to take {_size_text(it['bytes'])} instead of"
        f" {_size_text(it['bytes_without'])} (the limit is {_size_text(it['limit'])}); estimated to"
        f" take {it['time']:.2f} times as long"
    ]
    for row in it["largest"] + it["largest_offloads"]:
        size = _size_text(row["bytes"])
        lines.append(f"        {row['count']} x {row['operator']}, {size}{_at(row['site'])}")
    return lines


def _parameter(change: dict) -> str:
    """What PyTorch calls the argument, where the operator is PyTorch's."""
    name, _, overload = change["operator"].partition(".")
    if "argument" not in change or not torch._C._dispatch_has_kernel(change["operator"]):
        return ""
    schema = torch._C._get_schema(name, overload)
    if change["argument"] >= len(schema.arguments):
        return ""
    return f" ({schema.arguments[change['argument']].name})"


CUT_CAUSES = {
    "asked": "the program cut (optimizer step, mark_step, send, recv)",
    "sync": "the program waited for everything",
    "limit": "the trace had grown to its limit",
    "overwrite": "what it had read at a changing place was about to be written",
}


def _immediate(counters: dict[str, int]) -> str:
    """Of operations that no program has."""
    runs, copies = counters["immediate_runs"], counters["immediate_copies"]
    host = f"; {copies} of their tensors came to the host" if copies else ""
    return f"  ({runs} more operations ran at once, outside of programs{host})"


def _alike(cuts: list[dict]) -> list[list[dict]]:
    """Cuts that differ in nothing but the sizes of what was read."""
    groups: dict[tuple, list[dict]] = {}
    for row in cuts:
        value = _SIZES.sub("", row.get("value", ""))
        key = (row["cause"], row["site"], value, row.get("value_site"))
        groups.setdefault(key, []).append(row)
    return list(groups.values())


def _cut(rows: list[dict]) -> str:
    count = sum(row["count"] for row in rows)
    if len(rows) == 1:
        return f"  {count} x {cut_text(rows[0])}"
    one = rows[0] | {"value": _SIZES.sub(f"[{len(rows)} shapes]", rows[0]["value"])}
    return f"  {count} x {cut_text(one)}"


def cut_text(row: dict) -> str:
    """Why a trace was cut, and at which line."""
    why = read_text(row) if row["cause"] == "read" else CUT_CAUSES[row["cause"]]
    return f"{why}{_at(row['site'])}"


def _engine(row: dict) -> str:
    """Which engine runs a program, of two."""
    measured = ", as an earlier process had measured"
    if "first_ns" in row:
        first, second = (_milliseconds(row[name]) for name in ("first_ns", "second_ns"))
        measured = f": a run took {first}, and {second} on the second engine"
    operations = row["operations"]
    return f"  {operations} operations run on {row['engine']}{measured}{_at(row['site'])}"


def _products(rows: list[dict]) -> list[str]:
    """Who multiplies matrices of f32, block by block: rows x terms x columns, and how they lie."""
    kinds = collections.defaultdict(list)
    for row in rows:
        kinds[row["by"]].append(row["blocks"])
    return [
        f"  blocks of products of f32 multiplied by {by}: {'; '.join(blocks)}"
        for by, blocks in kinds.items()
    ]


def read_text(row: dict) -> str:
    """What the host read, of a cut for that."""
    made = f" of{_at(row['value_site'])}" if row.get("value_site") else ""
    return f"the host read {row.get('value', 'a value')}{made}"


def _advice(data: dict, counters: dict[str, int]) -> list[str]:
    lines = []
    for one in advice(data, counters):
        lines.append(f"  {one.site or 'the whole program'}: {one.what}")
        lines.append(f"      {one.change}")
    return ["what to change", *lines] if lines else []


def described_collectives(rows: list[dict]) -> list[str]:
    """The flight recorder: of each process group the last ones."""
    lines = []
    for communicator, group in itertools.groupby(rows, key=lambda row: row["communicator"]):
        lines.append(f"the last collectives of process group {communicator}")
        for row in group:
            name = row["name"].removeprefix("torchacc::")
            given = f" of {row['tensor']}, {row['bytes']} bytes" if row["tensor"] else ""
            word = "for" if row["state"] == "running" else "after"
            took = f"{row['state']} {word} {_milliseconds(row['took_ns'])}"
            lines.append(f"  {row['number']} {name}{given}, {took}{hiding(row)}{_at(row['site'])}")
    return lines


def hiding(collective: dict) -> str:
    """What may run meanwhile, and for how long nothing did."""
    if not collective["hidden_by"]:
        return ""
    first, last = collective["first_site"], collective["last_site"]
    between = f" ({first} to {last})" if first and last else ""
    exposed = _milliseconds(collective["exposed_ns"])
    return f", {exposed} of it exposed, {collective['hidden_by']} steps beside it{between}"


def _at(site: str) -> str:
    return f" {site}" if site else ""


def _milliseconds(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e6:.1f} ms"


@functools.cache
def explain_at_exit() -> None:
    """With TORCHACC_EXPLAIN=1 in the environment, prints the report when the process ends."""
    if os.environ.get("TORCHACC_EXPLAIN", "0") not in ("", "0"):
        atexit.register(lambda: print(explain(), file=sys.stderr))
