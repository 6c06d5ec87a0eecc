"""The timeline of a step as lanes of marks, at most so many that a page stays small."""

from collections.abc import Iterator

from torchacc._report.charts import Mark, chart, legend
from torchacc._report.html import Html, escaped, join, tag
from torchacc._report.timeline import WORK, Span, Timeline
from torchacc._report.words import KINDS, milliseconds, place

SLOTS = 200  # of a lane; narrower spans share a mark with their neighbours
_HEIGHT, _GAP = 26, 18  # of a lane, and above it for its name
# The lane, and the class of colour, of each category of spans.
_LANES = {
    "trace": ("recording", "record"),
    "phase": ("launch thread", ""),
    "compile": ("compiling", "compile"),
    "kernel": ("kernels", "kernel"),
    "CPU fallback": ("kernels", "fallback"),
    "collective": ("kernels", "collective"),
}
_PHASES = {"device": "kernel", "key": "key", "compile": "compile", "launch": "launch"}


def timeline(title: str, run: Timeline, begin: float, end: float) -> Html:
    """A figure of what happened from `begin` to `end`, microseconds since the timeline began."""
    lanes: dict[str, list[tuple[Span, str]]] = {}
    for span in run.spans:
        if span.end > begin and span.begin < end and span.category in _LANES:
            lane, kind = _LANES[span.category]
            if span.thread.startswith("lane of "):
                lane = span.thread
            lanes.setdefault(lane, []).append((span, kind or _PHASES.get(span.name, "launch")))
    order = [lane for lane, _ in _LANES.values() if lane in lanes]
    order = [*dict.fromkeys(order), *sorted(lanes.keys() - set(order))]
    marks, names, kinds = [], [], set()
    for at, lane in enumerate(order):
        top = at * (_HEIGHT + _GAP)
        names.append(tag("text", escaped(lane), x="0", y=top + _GAP - 5, aria_hidden="true"))
        for mark in _marks(lanes[lane], begin, end):
            marks.append(mark._replace(top=top + _GAP, height=_HEIGHT))
            kinds.add(mark.kind)
    ends = ("0 ms", milliseconds((end - begin) * 500), milliseconds((end - begin) * 1000))
    height = len(order) * (_HEIGHT + _GAP)
    figure = chart(title, marks, height, ends, *names)
    return join([figure, legend((kind, name) for kind, name in KINDS.items() if kind in kinds)])


def _marks(spans: list[tuple[Span, str]], begin: float, end: float) -> Iterator[Mark]:
    scale = 100 / (end - begin)
    for group in _groups(spans, (end - begin) / SLOTS):
        longest, kind = max(group, key=lambda one: one[0].took)
        left = (max(group[0][0].begin, begin) - begin) * scale
        right = (min(max(span.end for span, _ in group), end) - begin) * scale
        yield Mark(left, right - left, 0, 0, kind, _text(longest, [span for span, _ in group]))


def _groups(spans: list[tuple[Span, str]], slot: float) -> Iterator[list[tuple[Span, str]]]:
    """Each long span alone, short ones with those that follow in the same slot of time."""
    group: list[tuple[Span, str]] = []
    for span, kind in spans:
        if group and (span.took >= slot or span.end - group[0][0].begin >= slot):
            yield group
            group = []
        group.append((span, kind))
        if span.took >= slot:
            yield group
            group = []
    if group:
        yield group


def _text(longest: Span, group: list[Span]) -> str:
    took = milliseconds(sum(span.took for span in group) * 1000)
    if len(group) > 1:
        what = "kernels" if longest.category in WORK else "spans"
        return f"{len(group)} {what}, {took}; the longest is {longest.name}{place(longest.site)}"
    made = f" {longest.type}" if longest.type else ""
    return f"{longest.name}{made}, {took}{place(longest.site)}"
