"""What a run found: what was not expected, and the page of all of it."""

import re
from collections import Counter

from .exceptions import EXCEPTIONS


def reason_for(topic, name):
    full = f"{topic}: {name}"
    for reason, patterns in EXCEPTIONS.items():
        if any(re.fullmatch(pattern, full) for pattern in patterns):
            return reason
    return None


def unexpected(results, whole):
    """Tests that fail without a reason; of a whole run, also reasons without a test that fails."""
    lines, seen = [], set()
    for topic, tests in results.items():
        for name, (kind, what) in tests.items():
            reason = reason_for(topic, name)
            if kind == "failed" and reason:
                seen.add(reason)
            elif kind in ("failed", "error"):
                lines.append(f"{topic}: {name}: {what}")
    if whole:
        lines += [
            f"nothing fails any more: {reason}" for reason in EXCEPTIONS if reason not in seen
        ]
    return lines


def summary(topic, tests):
    """The tests that pass on the CPU, those of them that pass on acc, and their calls."""
    kinds = Counter(kind for kind, _ in tests.values())
    calls = sum(what for kind, what in tests.values() if kind == "passed")
    return kinds["passed"] + kinds["failed"], kinds["passed"], calls


HEAD = """\
# Operators tested

`make test-operators` runs PyTorch's own tables of operators (`op_db`, the lists of tensors of
`torch._foreach_*`, `torch._refs`), modules and optimizers on acc and on the CPU, and writes this
page. A *test* is a topic, a row of a table and a dtype, as in PyTorch's device tests; it calls the
row with all inputs that the table generates and holds where acc makes of each what the CPU makes
of it: values, sizes and types of results, derivatives, the kind of an error and its words. Counted
are tests of which the CPU takes at least one call. What f32 and narrower types round is compared
with f64. Each test has {patience} s; one that crashes or hangs counts as failed.

Left out are `torch.masked.*`, results that are drawn (only their sizes and types are compared), and
`out=` of {beyond}, whose CPU kernels write beyond a result that lies
otherwise, or to wrong places of it.

| topic | tests | of them right on acc | | calls compared |
|---|---|---|---|---|
"""


def page(results):
    from .pool import PATIENCE
    from .topics import BEYOND

    beyond = ", ".join(f"`{name}`" for name in sorted(BEYOND))
    text = HEAD.format(patience=PATIENCE, beyond=beyond)
    total = [0, 0, 0]
    for topic, tests in results.items():
        figures = summary(topic, tests)
        total = [sum(pair) for pair in zip(total, figures, strict=True)]
        text += row(topic, *figures)
    text += row("**all**", *total)
    text += "\n## Exceptions\n\n| what | why | tests |\n|---|---|---|\n"
    for reason, failed in failures(results).items():
        names = Counter(name.split(" ")[0] for name in failed)
        what = ", ".join(f"`{name}`" for name in sorted(names))
        text += f"| {what} | {reason} | {len(failed)} |\n"
    return text


def row(topic, tests, passed, calls):
    share = f"{100 * passed / tests:.2f} %" if tests else ""
    return f"| {topic} | {tests:,} | {passed:,} | {share} | {calls:,} |\n"


def failures(results):
    """The tests that fail, by reason."""
    found = {}
    for topic, tests in results.items():
        for name, (kind, _) in tests.items():
            if kind == "failed":
                reason = reason_for(topic, name) or "not known yet"
                found.setdefault(reason, []).append(name)
    return found
