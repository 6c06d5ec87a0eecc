"""Charts as SVG whose places are percentages, so that they fit any width without distorting.

Marks are reached by the arrow keys; what the one in focus is, is said below the chart. A table says
the same.
"""

from collections.abc import Iterable
from typing import NamedTuple

from torchacc._report.html import Html, join, tag

_NAME = 160  # characters of a mark's text


class Mark(NamedTuple):
    """A rectangle: `left` and `width` in percent, `top` and `height` in pixels."""

    left: float
    width: float
    top: float
    height: float
    kind: str  # the class that gives the colour
    text: str


def chart(title: str, marks: list[Mark], height: int, ends: tuple[str, ...], *more: Html) -> Html:
    """A figure; `ends` are the words below it, from left to right, `more` other elements in it."""
    shown = [
        tag(
            "rect",
            tag("title", mark.text[:_NAME]),
            x=f"{mark.left:.2f}%",
            width=f"{max(mark.width, 0.1):.2f}%",
            y=f"{mark.top:g}",
            height=f"{mark.height:g}",
            class_=mark.kind,
            role="img",
            tabindex=-1 if at else 0,
        )
        for at, mark in enumerate(marks)
    ]
    svg = tag(
        "svg",
        *more,
        *shown,
        role="group",
        aria_label=f"{title}; {len(marks)} marks, arrow keys go from one to the next",
        height=height,
    )
    return tag(
        "figure",
        tag("figcaption", title),
        tag("div", svg, class_="scroll"),
        tag("div", *(tag("span", end) for end in ends), class_="ends", aria_hidden="true"),
        tag("p", "\N{NO-BREAK SPACE}", class_="said", aria_hidden="true"),
    )


def legend(kinds: Iterable[tuple[str, str]]) -> Html:
    """Pairs of a class and what it stands for."""
    keys = (tag("li", tag("span", class_=f"swatch {kind}"), name) for kind, name in kinds)
    return tag("ul", *keys, class_="legend")


def stacked(title: str, parts: list[tuple[str, str, float, str]]) -> Html:
    """One bar of parts: (class, name, share from 0 to 1, what it is in words)."""
    marks, left = [], 0.0
    for kind, name, share, words in parts:
        marks.append(Mark(left, 100 * share, 0, 34, kind, f"{name}: {words}"))
        left += 100 * share
    return join(
        [chart(title, marks, 34, ("0 %", "50 %", "100 %")), legend((p[0], p[1]) for p in parts)]
    )


def bars(
    title: str, values: list[tuple[float, str, str]], most: str, ends: tuple[str, str]
) -> Html:
    """Columns: (height, class, text), of which the highest is as high as the chart; `most` says
    what that is."""
    height, top = 120, max((value for value, _, _ in values), default=0) or 1
    width = 100 / max(len(values), 1)
    marks = []
    for at, (value, kind, text) in enumerate(values):
        tall = max(height * value / top, 1)
        marks.append(Mark(at * width, width * 0.92, height - tall, tall, kind, text))
    return chart(f"{title} (the highest: {most})", marks, height, ends)
