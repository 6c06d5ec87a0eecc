"""What a timeline of `torchacc.profile` says: spans, steps, and what took the time by line."""

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Span(NamedTuple):
    """Something that took time; `begin` and `end` are microseconds since the timeline began."""

    name: str
    category: str
    begin: float
    end: float
    thread: str
    site: str
    kernel: str
    nbytes: int
    type: str  # of the first result

    @property
    def took(self) -> float:
        return self.end - self.begin


@dataclasses.dataclass
class Timeline:
    """Spans in the order of their beginnings; `full_cuts` are the moments at which steps ended,
    `live` pairs of a moment and the bytes in use then; `lost` counts earlier events."""

    spans: list[Span]
    full_cuts: list[float]
    live: list[tuple[float, int]]
    lost: int

    def steps(self) -> list[tuple[float, float]]:
        """From each full cut to the next."""
        return list(zip(self.full_cuts, self.full_cuts[1:], strict=False))

    def work(self) -> Iterator[Span]:
        """What computes: kernels, CPU fallbacks and collectives."""
        return (span for span in self.spans if span.category in WORK)


WORK = ("kernel", "CPU fallback", "collective")


def parse(text: str) -> Timeline:
    """Of a text in Chrome's trace format, an event at a time: as Python objects all events of a
    long run would take a hundred times the page's memory."""
    threads: dict[int, str] = {}
    texts: dict[str, str] = {}  # each text is stored once
    timeline = Timeline([], [], [], 0)
    for event in _events(text):
        kind, arguments = event["ph"], event.get("args", {})
        if kind == "M":
            threads[event["tid"]] = arguments["name"]
        elif kind == "C":
            timeline.live.append((event["ts"], arguments["bytes"]))
        elif kind == "X":
            begin, end = event["ts"], event["ts"] + event["dur"]
            words = (event["name"], event["cat"], threads.get(event["tid"], "another thread"))
            words += (arguments.get("site", ""), arguments.get("kernel", ""))
            words += ((arguments.get("writes") or [""])[0],)
            name, category, thread, site, kernel, made = (
                texts.setdefault(one, one) for one in words
            )
            nbytes = arguments.get("bytes_read", 0) + arguments.get("bytes_written", 0)
            timeline.spans.append(
                Span(name, category, begin, end, thread, site, kernel, nbytes, made)
            )
            if arguments.get("full_cut"):
                timeline.full_cuts.append(end)
    timeline.spans.sort(key=lambda span: span.begin)
    timeline.full_cuts.sort()
    timeline.lost = _head(text)["otherData"]["lost_events"]
    return timeline


_LIST = '"traceEvents": ['


def _head(text: str) -> dict:
    """The object without its events, which are its last field."""
    return json.loads(text[: text.index(_LIST)] + _LIST + "]}")


def _events(text: str) -> Iterator[dict]:
    decode, at = json.JSONDecoder().raw_decode, text.index(_LIST) + len(_LIST)
    while text[at] != "]":
        event, at = decode(text, at)
        yield event
        while text[at] in ", ":
            at += 1


class Row(NamedTuple):
    """What spans that are alike did in all."""

    site: str
    name: str
    kernel: str
    type: str
    count: int
    took: float
    nbytes: int


def by_line(spans: Iterable[Span]) -> list[Row]:
    """A row a line, of which `name` names the operators that took most; the longest first."""
    lines: dict[str, list[Span]] = {}
    for span in spans:
        lines.setdefault(span.site, []).append(span)
    return sorted((_row(site, group) for site, group in lines.items()), key=lambda row: -row.took)


def _row(site: str, group: list[Span]) -> Row:
    by_name: dict[str, float] = {}
    for span in group:
        by_name[span.name] = by_name.get(span.name, 0) + span.took
    names = sorted(by_name, key=lambda name: -by_name[name])
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    took, nbytes = sum(by_name.values()), sum(span.nbytes for span in group)
    return Row(site, ", ".join(names[:3]) + more, "", "", len(group), took, nbytes)


def by_kernel(spans: Iterable[Span]) -> list[Row]:
    """A row for each operator, kernel, type and line; the longest first."""
    rows: dict[tuple, list] = {}
    for span in spans:
        key = (span.site, span.name, span.kernel, span.type)
        row = rows.setdefault(key, [0, 0.0, 0])
        row[0] += 1
        row[1] += span.took
        row[2] += span.nbytes
    return sorted((Row(*key, *row) for key, row in rows.items()), key=lambda row: -row.took)


def usual_step(steps: list[tuple[float, float]]) -> int:
    """The number of one that took about as long as most."""
    took = sorted((end - begin, at) for at, (begin, end) in enumerate(steps))
    return took[len(took) // 2][1]
