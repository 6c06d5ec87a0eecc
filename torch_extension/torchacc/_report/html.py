"""HTML in which nothing that a program is called can be markup."""

import html
from collections.abc import Iterable

_CONTROLS = {code: "\N{REPLACEMENT CHARACTER}" for code in range(32) if chr(code) not in "\t\n"}


class Html(str):
    """Text that is HTML already."""


def escaped(text: object) -> Html:
    """`text` as characters, wherever it stands in a page."""
    if isinstance(text, Html):
        return text
    # For file names that are not UTF-8.
    readable = str(text).encode("utf-8", "backslashreplace").decode()
    return Html(html.escape(readable.translate(_CONTROLS)))


def tag(name: str, *children: object, **attributes: object) -> Html:
    """An element; `class_` and `aria_label` are the attributes class and aria-label. Attributes
    that are None are left out."""
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inner = "".join(map(escaped, children))
    return Html(f"<{name}{given}>{inner}</{name}>")


def join(parts: Iterable[object]) -> Html:
    return Html("".join(map(escaped, parts)))
