"""The page: one HTML document that needs nothing else, from the plain data of a `Run`."""

import base64
import hashlib
import statistics
from pathlib import Path

from torchacc._advice import Advice, advice
from torchacc._explain import CUT_CAUSES, compile_text, read_text
from torchacc._report import charts, lanes
from torchacc._report.html import Html, join, tag
from torchacc._report.run import Run
from torchacc._report.timeline import Row, by_kernel, by_line, usual_step
from torchacc._report.words import KINDS, milliseconds, percent, short, source
from torchacc.memory import _size_text as size_text

_ROWS = 40  # of a table; the rest is one more row
_STEPS = 120  # columns of the chart of steps
# Classes of the columns with these heads.
_CLASSES = {"line": "line", "tensor": "type", "first result": "type"}


def document(run: Run) -> str:
    """The document as text."""
    here = Path(__file__)
    style, script = (here.with_name(name).read_text() for name in ("style.css", "page.js"))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # Lets the page load nothing, and run only the script above.
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    made = [(name, title, build(run)) for name, title, build in _SECTIONS]
    made = [(name, title, content) for name, title, content in made if content]
    links = tag("ul", *(tag("li", tag("a", title, href=f"#{name}")) for name, title, _ in made))
    sections = join(
        tag("section", tag("h2", title, id=name), content, aria_labelledby=name)
        for name, title, content in made
    )
    title = f"torchacc: {run.title}"
    head = join(
        [
            Html('<meta charset="utf-8">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            tag("title", title),
            tag("style", Html(style)),
        ]
    )
    body = [
        tag("header", tag("h1", title), _facts(run), tag("nav", links, aria_label="Sections")),
        tag("main", sections),
        tag("script", Html(script)),
    ]
    whole = tag("html", tag("head", head), tag("body", *body), lang="en")
    return f"<!doctype html>\n{whole}\n"


def _table(caption: str, heads: str, rows: list[tuple]) -> Html:
    """`heads` are words, of which those that end in # are of numbers, separated by |."""
    names = heads.split("|")
    classes = ["number" if name.endswith("#") else None for name in names]
    classes = [_CLASSES.get(name, one) for name, one in zip(names, classes, strict=True)]
    top = [
        tag("th", name.removesuffix("#"), scope="col", class_=one)
        for name, one in zip(names, classes, strict=True)
    ]
    body = [
        tag(
            "tr",
            tag("th", row[0], scope="row", class_=classes[0]),
            *(tag("td", cell, class_=one) for cell, one in zip(row[1:], classes[1:], strict=True)),
        )
        for row in rows
    ]
    table = tag(
        "table", tag("caption", caption), tag("thead", tag("tr", *top)), tag("tbody", *body)
    )
    return tag("div", table, class_="table", role="region", aria_label=caption, tabindex=0)


def _line(site: str) -> Html:
    if not site:
        return Html("")
    line, text = tag("code", short(site), title=site), source(site)
    return join([line, Html("<br>"), tag("code", text, class_="source")]) if text else line


def _facts(run: Run) -> Html:
    numbers = run.metrics
    facts = {
        "when": run.when,
        "torchacc": f"{run.version}, PyTorch {run.torch}",
        "computed on": run.device,
        "steps": run.steps,
        "time": milliseconds(numbers["wall_ns"]),
        "median step": milliseconds(numbers["step_p50_ns"]),
        "programs compiled": numbers["compiles"],
        "memory at most": size_text(numbers["peak_bytes"]),
    }
    if not run.steps:
        del facts["median step"]
    return tag("dl", *(tag("div", tag("dt", name), tag("dd", it)) for name, it in facts.items()))


def _error(run: Run) -> Html:
    return tag("p", run.error, class_="error") if run.error else Html("")


def _advice(run: Run) -> Html:
    found = [*advice(run.explanation, run.metrics), *run.more_advice()]
    if not found:
        return tag("p", "Nothing stands out.")
    return tag("ol", *(_one(each, run) for each in found), class_="advice")


def _one(it: Advice, run: Run) -> Html:
    took = ""
    if it.time_ns:
        share = percent(it.time_ns, run.metrics["wall_ns"])
        took = f" ({milliseconds(it.time_ns)}, {share} of the time)"
    parts = [tag("p", tag("strong", it.what[:1].upper() + it.what[1:]), took)]
    if it.site:
        parts.append(tag("p", _line(it.site)))
    return tag("li", *parts, tag("p", it.change))


def _time(run: Run) -> Html:
    parts, wall = run.parts(), run.metrics["wall_ns"]
    if not wall:
        return tag("p", "The device was not used.")
    words = {kind: f"{percent(ns, wall)}, {milliseconds(ns)}" for kind, ns in parts.items()}
    bar = charts.stacked(
        "Where the time went",
        [(kind, KINDS[kind], ns / wall, words[kind]) for kind, ns in parts.items() if ns],
    )
    each = max(run.steps, 1)
    rows = [
        (KINDS[kind], percent(ns, wall), milliseconds(ns), milliseconds(ns / each))
        for kind, ns in parts.items()
    ]
    heads = "what|share#|in all#|a step#" if run.steps else "what|share#|in all#|on average#"
    return join([bar, _table("Each moment is in one row", heads, rows)])


def _steps(run: Run) -> Html:
    timeline = run.timeline
    if timeline is None or not timeline.steps():
        return Html("")
    all_steps = timeline.steps()
    first = max(len(all_steps) - _STEPS, 0)
    shown = [(at, all_steps[at]) for at in range(first, len(all_steps))]
    compiles = sorted(span.begin for span in timeline.spans if span.name == "graph")
    values = []
    for at, (begin, end) in shown:
        is_compiled = any(begin <= one < end for one in compiles)
        took = milliseconds((end - begin) * 1000)
        text = f"step {at + 2}: {took}" + (", with a compile" if is_compiled else "")
        values.append((end - begin, "compile" if is_compiled else "kernel", text))
    most = milliseconds(max(value for value, _, _ in values) * 1000)
    figure = charts.bars(
        "How long steps took", values, most, (f"step {first + 2}", f"step {len(all_steps) + 1}")
    )
    took = [(end - begin) * 1000 for begin, end in all_steps]
    rows = [
        (name, milliseconds(pick(took)))
        for name, pick in (("shortest", min), ("median", statistics.median), ("longest", max))
    ]
    keys = charts.legend([("kernel", "a step"), ("compile", "one with a compile")])
    before = (
        "The first step begins with the first operation, so the second is the first here. "
        "Recording may be nine steps ahead of the device: until then a step takes what it does."
    )
    table = _table(f"{len(took)} steps, from each cut to the next. {before}", "step|took#", rows)
    return join([figure, keys, table])


def _timeline(run: Run) -> Html:
    timeline = run.timeline
    if timeline is None:
        return tag(
            "p",
            "There is none: it is kept inside ",
            tag("code", "with torchacc.report(path):"),
            " and by ",
            tag("code", "python -m torchacc report script.py"),
            ".",
        )
    parts = []
    if timeline.lost:
        parts.append(tag("p", f"{timeline.lost} events before the last ones were not kept."))
    if steps := timeline.steps():
        at = usual_step(steps)
        title = f"Step {at + 2}, which took as long as most"
        parts.append(lanes.timeline(title, timeline, *steps[at]))
    elif timeline.spans:
        begin, end = timeline.spans[0].begin, max(span.end for span in timeline.spans)
        parts.append(lanes.timeline("All of it", timeline, begin, end))
    else:
        return tag("p", "Nothing ran.")
    return join(parts)


def _kernels(run: Run) -> Html:
    if run.timeline is None or not (work := list(run.timeline.work())):
        return Html("")
    whole = sum(span.took for span in work)

    def numbers(rows: list[Row]) -> tuple[str, str, int]:
        took = sum(row.took for row in rows)
        count = sum(row.count for row in rows)
        return milliseconds(took * 1000), percent(took, whole), count

    def table(caption: str, heads: str, rows: list[Row], first, others) -> Html:
        made = [(first(row), *numbers([row]), *others(row)) for row in rows[:_ROWS]]
        if rest := rows[_ROWS:]:
            made.append((f"{len(rest)} more", *numbers(rest), *[""] * len(others(rest[0]))))
        return _table(caption, heads, made)

    lines = by_line(work)
    by_lines = table(
        f"{len(work)} kernels, fallbacks and collectives of {len(lines)} lines",
        "line|time#|share#|number#|operators",
        lines,
        lambda row: _line(row.site),
        lambda row: (row.name,),
    )
    each = table(
        "By operator, kernel, type and line",
        "operator (kernel)|time#|share#|number#|line|first result|bytes read and written#",
        by_kernel(work),
        lambda row: f"{row.name} ({row.kernel})" if row.kernel else row.name,
        lambda row: (short(row.site), row.type, _speed(row)),
    )
    return join([by_lines, tag("details", tag("summary", "Every kernel"), each)])


def _speed(row: Row) -> str:
    return f"{row.nbytes / row.took / 1e3:.1f} GB/s" if row.took else ""


def _memory(run: Run) -> Html:
    it = run.memory
    if not it:
        return tag("p", "No program has run.")
    title = (
        f"Memory between inputs and results, over the {it['steps']} kernels of the program that "
        "takes most"
    )
    values = [
        (
            point["bytes"],
            "between",
            f"kernel {point['step'] + 1}, {point['operator']}: {size_text(point['bytes'])}"
            + (f", {short(point['site'])}" if point["site"] else ""),
        )
        for point in it["live"]
    ]
    most = max((point["bytes"] for point in it["live"]), default=0)
    ends = ("first kernel", f"kernel {it['steps']}")
    figure = charts.bars(title, values, size_text(most), ends) if most else Html("")
    parts = [
        ("inputs: parameters, optimizer state, the batch", it["input_bytes"]),
        ("results that are given no memory of inputs", it["result_bytes"]),
        ("between inputs and results, in memory of its own", it["arena_bytes"]),
        ("in use at most, of all programs and tensors", run.metrics["peak_bytes"]),
        ("free and kept for the next step", run.metrics["pool_bytes"]),
    ]
    sums = _table(
        "What it takes", "what|bytes#", [(name, size_text(nbytes)) for name, nbytes in parts]
    )
    heads = "tensor|bytes#|number#|line|made by|what it is"
    largest = _table("The largest tensors while most is in use", heads, _tensors(it))
    return join([figure, sums, largest])


def _tensors(memory: dict) -> list[tuple]:
    """Rows of those that are named, those that are alike together."""
    alike: dict[tuple, list[dict]] = {}
    for kind in ("between", "results", "inputs"):
        for row in memory[kind]:
            key = (row["bytes"], row["type"], kind, row.get("site", ""), row.get("operator", ""))
            alike.setdefault(key, []).append(row)
    made = []
    for (nbytes, type, kind, site, operator), rows in sorted(
        alike.items(), key=lambda one: -one[0][0] * len(one[1])
    ):
        what = kind.removesuffix("s")
        if kind == "between":
            first, last = min(row["first"] for row in rows), max(row["last"] for row in rows)
            what = f"between, in use from kernel {first + 1} to {last + 1}"
        made.append((type, size_text(nbytes), len(rows), _line(site), operator, what))
    return made


def _compiles(run: Run) -> Html:
    compiles = run.explanation["compiles"]
    if not compiles:
        return tag("p", "Nothing was compiled.")
    rows = [
        (
            it["number"],
            compile_text(it),
            _line(it.get("change", it)["site"]),
            it["operations"],
            milliseconds(it["took_ns"]),
        )
        for it in compiles[-_ROWS:]
    ]
    count = max(run.metrics["compiles"], len(compiles))
    caption = (
        f"{count} programs, the last {len(rows)} of them" if count > len(rows) else "All programs"
    )
    return _table(caption, "number#|why|line|operations#|took#", rows)


def _fallbacks(run: Run) -> Html:
    calls = sorted(run.explanation["host_calls"], key=lambda row: -row["time_ns"])
    if not calls:
        return tag("p", "None: every operator had a native form.")
    rows = [
        (row["name"], milliseconds(row["time_ns"]), row["count"], _line(row["site"]))
        for row in calls[:_ROWS]
    ]
    caption = f"{sum(row['count'] for row in calls)} calls of PyTorch's CPU kernels"
    return _table(caption, "operator|time#|calls#|line", rows)


def _cuts(run: Run) -> Html:
    cuts = sorted(run.explanation["cuts"], key=lambda row: -row["count"])
    if not cuts:
        return tag("p", "None.")
    rows = []
    for row in cuts[:_ROWS]:
        why = read_text(row) if row["cause"] == "read" else CUT_CAUSES[row["cause"]]
        rows.append((why, row["count"], _line(row["site"])))
    caption = f"{sum(row['count'] for row in cuts)} times what was recorded became a program"
    return _table(caption, "why|times#|line", rows)


def _collectives(run: Run) -> Html:
    rows = [
        (
            one["communicator"],
            one["name"].removeprefix("torchacc::"),
            one["tensor"],
            one["state"],
            _line(one["site"]),
            milliseconds(one["took_ns"]),
            milliseconds(one["exposed_ns"]),
            one["hidden_by"],
        )
        for one in run.explanation["collectives"][-_ROWS:]
    ]
    heads = "process group|collective|of|state|line|time#|of it exposed#|beside steps#"
    return _table("The last of each process group", heads, rows) if rows else Html("")


def _counters(run: Run) -> Html:
    rows = [(name, value) for name, value in run.metrics.items()]
    table = _table("torchacc.metrics()", "counter|value#", rows)
    return tag("details", tag("summary", f"All {len(rows)} counters"), table)


_SECTIONS = [
    ("error", "How it ended", _error),
    ("advice", "What to change", _advice),
    ("time", "Where the time went", _time),
    ("steps", "Steps", _steps),
    ("timeline", "Timeline", _timeline),
    ("kernels", "Kernels and their lines", _kernels),
    ("memory", "Memory", _memory),
    ("compiles", "Compiles", _compiles),
    ("fallbacks", "CPU fallbacks", _fallbacks),
    ("cuts", "Cuts", _cuts),
    ("collectives", "Collectives", _collectives),
    ("counters", "Counters", _counters),
]
