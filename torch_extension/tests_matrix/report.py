"""What is wrong with a model, and the page that has all of them."""

import statistics
from itertools import groupby
from pathlib import Path

from measure import STEPS, WARM
from models import PROGRAMS

TOLERANCE = 1e-4


def faults(figures) -> dict[str, str]:
    """Kinds of faults, each with what was seen."""
    if "error" in figures:
        return {"error": figures["error"]}
    found = {}
    if figures["loss"] > TOLERANCE and figures["loss_f64"] > max(TOLERANCE, 2 * figures["cpu_f64"]):
        found["loss"] = f"{figures['loss']:.1e}, {figures['loss_f64']:.1e} from f64"
    if figures["metrics"]["compiles"]:
        found["compiles"] = figures["explanation"]
    if figures["fallbacks"]:
        found["fallbacks"] = _fallbacks(figures)
    return found


def page(results) -> str:
    """docs/models.md"""
    lines = [HEAD.format(steps=STEPS, warm=WARM, processor=_processor())]
    lines += [f"* {line}" for line in _summary(results)]
    for family, names in groupby(results, lambda name: PROGRAMS[name].family):
        lines += ["", f"## {family[0].upper()}{family[1:]}", *COLUMNS]
        lines += [_row(name, results[name]) for name in names]
    return "\n".join(lines) + "\n"


HEAD = """\
# Models

`make test-models` trains each of these small models for {steps} steps of AdamW, on acc and on the eager CPU from the same start,
and writes this page. The loss column has the largest relative difference from the eager CPU's in f32; where that is more than
1e-4, also what acc's and eager's are from the CPU's in f64. Compiles are those after step {warm}. Time is that of a step whose loss
is read, acc's in parts of eager's, medians of steps in turns, each with one thread, on {processor}; two models are measured at a time.
Models are small, so that most of the time is what the host does for each operation.
"""
COLUMNS = [
    "| model | loss | compiles | CPU fallbacks per step | cuts per step | acc ms | eager ms | acc / eager |",
    "|---|---|---|---|---|---|---|---|",
]


def _summary(results) -> list[str]:
    ran = [figures for figures in results.values() if "error" not in figures]
    ratios = [figures["acc_ms"] / figures["cpu_ms"] for figures in ran]
    return [
        f"{len(ran)} of {len(results)} models run",
        f"losses within 1e-4 of eager's: {sum(f['loss'] <= TOLERANCE for f in ran)}",
        f"without CPU fallback: {sum(not f['fallbacks'] for f in ran) / len(ran):.0%}",
        f"0 compiles after step {WARM}: {sum(not f['metrics']['compiles'] for f in ran)}",
        f"acc's time in parts of eager's: median {statistics.median(ratios):.2f}",
        f"slower than eager: {sum(ratio > 1 for ratio in ratios)}",
    ]


def _row(name, figures) -> str:
    if "error" in figures:
        cells = [figures["error"].replace("|", "\\|")] + 6 * [""]
    else:
        loss = f"{figures['loss']:.0e}"
        if "loss_f64" in figures:
            loss += f" (f64: {figures['loss_f64']:.0e}, eager {figures['cpu_f64']:.0e})"
        metrics = figures["metrics"]
        cells = [
            loss,
            str(metrics["compiles"]),
            _fallbacks(figures),
            f"{metrics['cuts'] / figures['counted_steps']:.3g}",
            f"{figures['acc_ms']:.1f}",
            f"{figures['cpu_ms']:.1f}",
            f"{figures['acc_ms'] / figures['cpu_ms']:.2f}",
        ]
    return f"| {' | '.join([name, *cells])} |"


def _fallbacks(figures) -> str:
    return ", ".join(
        f"{count / figures['counted_steps']:.3g} {name.removeprefix('aten::')}"
        for name, count in figures["fallbacks"].items()
    )


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next(line.split(": ")[1] for line in lines if line.startswith("model name"))
