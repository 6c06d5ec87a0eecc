"""The page that has all models."""

import statistics
from pathlib import Path

from measure import STEPS, TOLERANCE, WARM, loss_text
from models import PROGRAMS


def page(results) -> str:
    """docs/models.md"""
    lines = [HEAD.format(steps=STEPS, warm=WARM, processor=_processor())]
    lines += [f"* {line}" for line in _summary(results)]
    families = {}
    for name, figures in results.items():
        families.setdefault(PROGRAMS[name].family, []).append(_row(name, figures))
    for family, rows in families.items():
        lines += ["", f"## {family[0].upper()}{family[1:]}", *COLUMNS, *rows]
    return "\n".join(lines) + "\n"


HEAD = """\
# Models

`make test-models` trains each of these small models for {steps} steps of AdamW, on acc and on the
eager CPU from the same start, and writes this page. *loss*: the largest relative difference
between the losses of the two in f32; where it is more than 1e-4, in brackets how far acc's are from
those in f64 on the CPU, and how far eager's are at the most if every weight may be off by one
rounding. *compiles*: after step {warm}. *fallbacks*, *cuts*: per step, after it too. *acc ms*,
*eager ms*: of a step whose loss is read, medians of steps in turns of four, without the one after
the other device's (whose threads go on looking for work for a while); *ratio*: the first by the
second, on one thread of {processor} and, in the last column, on two; acc records on another one
meanwhile, and one model is measured at a time. They are small, so that much of a step is what the
host does for each operation. What stands out is explained in
`torch_extension/tests_matrix/test_matrix.py`.
"""
COLUMNS = [
    "| model | loss | compiles | fallbacks | cuts | acc ms | eager ms | ratio | two threads |",
    "|---|---|---|---|---|---|---|---|---|",
]


def _summary(results) -> list[str]:
    ran = [figures for figures in results.values() if "error" not in figures]
    ratios = [_ratio(figures) for figures in ran]
    best = [figures["best_ratio"] for figures in ran]
    two = [_ratio(figures["two_threads"]) for figures in ran if "acc_ms" in figures["two_threads"]]
    return [
        f"{len(ran)} of {len(results)} models run",
        f"losses within 1e-4 of eager's: {sum(f['loss'] <= TOLERANCE for f in ran)}",
        f"without CPU fallback: {sum(not f['fallbacks'] for f in ran) / len(ran):.0%}",
        f"0 compiles after step {WARM}: {sum(not f['metrics']['compiles'] for f in ran)}",
        f"ratio: median {statistics.median(ratios):.2f}; more than 1, slower than eager:"
        f" {sum(ratio > 1 for ratio in ratios)}",
        f"on two threads: median {statistics.median(two):.2f}, {sum(ratio > 1 for ratio in two)}",
        f"the same of the fastest steps, which others on the machine disturb least: median"
        f" {statistics.median(best):.2f}, {sum(ratio > 1 for ratio in best)}",
    ]


def _ratio(figures) -> float:
    return figures["acc_ms"] / figures["cpu_ms"]


def _row(name, figures) -> str:
    if "error" in figures:
        cells = [figures["error"].replace("|", "\\|")] + 7 * [""]
    else:
        metrics = figures["metrics"]
        cells = [
            loss_text(figures),
            str(metrics["compiles"]),
            _fallbacks(figures),
            f"{metrics['cuts'] / figures['counted_steps']:.3g}",
            f"{figures['acc_ms']:.1f}",
            f"{figures['cpu_ms']:.1f}",
            f"{_ratio(figures):.2f}",
            f"{_ratio(figures['two_threads']):.2f}" if "acc_ms" in figures["two_threads"] else "",
        ]
    return f"| {' | '.join([name, *cells])} |"


def _fallbacks(figures) -> str:
    return ", ".join(
        f"{count / figures['counted_steps']:.3g} {name.removeprefix('aten::')}"
        for name, count in figures["fallbacks"].items()
    )


def _processor() -> str:
    """Its name, which several kinds may have, and of which kind it is."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    fields = dict(line.partition("\t")[::2] for line in reversed(lines))
    name, family, model = (
        fields[field].strip(": \t") for field in ("model name", "cpu family", "model")
    )
    return f"{name} (family {family}, model {model})"
