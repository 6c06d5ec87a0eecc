"""What is known of a run, as plain data."""

import dataclasses
import datetime
import json

import torch

from torchacc._advice import Advice
from torchacc._explain import explanation
from torchacc._metrics import metrics
from torchacc._report.timeline import Timeline, by_line
from torchacc.memory import _size_text as size_text

_FLOAT64, _SMALL = 0.05, 64  # parts of the kernels' time; kernels a step
_LARGE = 64 << 20  # bytes that are worth mentioning


@dataclasses.dataclass
class Run:
    """`timeline` is None where none was kept; `error` says how a program ended that failed."""

    title: str
    metrics: dict[str, int]
    explanation: dict
    memory: dict
    timeline: Timeline | None
    error: str
    when: str
    version: str
    torch: str
    device: str

    @property
    def steps(self) -> int:
        """Full cuts that the program asked for."""
        return sum(row["count"] for row in self.explanation["cuts"] if row["cause"] == "asked")

    def parts(self) -> dict[str, int]:
        """Nanoseconds by kind; their sum is the whole time, but for what was rounded."""
        wall = {
            kind: self.metrics[f"wall_{kind}_ns"]
            for kind in ("python", "record", "key", "compile", "launch")
        }
        device = self.metrics["wall_device_ns"]
        fallback = sum(row["time_ns"] for row in self.explanation["host_calls"])
        fallback = min(fallback, device)
        collective = min(self.metrics["collective_exposed_ns"], device - fallback)
        wall["kernel"] = device - fallback - collective
        rest = {"fallback": fallback, "collective": collective}
        return wall | rest | {"idle": self.metrics["wall_idle_ns"]}

    def more_advice(self) -> list[Advice]:
        """By the timeline and the memory."""
        return [*self._of_lines(), *self._of_memory()]

    def _of_lines(self):
        if self.timeline is None:
            return
        work = list(self.timeline.work())
        whole = sum(span.took for span in work)
        doubles = by_line(span for span in work if span.type.startswith("f64["))
        for row in doubles[:3]:
            if row.took > _FLOAT64 * whole:
                yield Advice(
                    f"computed in float64 ({row.name})",
                    "Make it float32 where it begins: NumPy's arrays and torch.float64 constants "
                    "are double.",
                    row.site,
                    int(row.took * 1000),
                )
        steps = max(len(self.timeline.steps()), 1)
        parts = self.parts()
        is_host_bound = parts["python"] + parts["record"] > self.metrics["wall_device_ns"]
        for row in sorted(by_line(work), key=lambda row: -row.count)[:1]:
            if is_host_bound and row.count > _SMALL * steps:
                yield Advice(
                    f"{row.count // steps} kernels a step are of one line ({row.name})",
                    "A loop in Python over small tensors: compute on all of them at once, stacked "
                    "(torch.stack, a batch dimension, foreach=True).",
                    row.site,
                    int(row.took * 1000),
                )

    def _of_memory(self):
        if not self.memory or not self.memory["between"]:
            return
        row = self.memory["between"][0]
        most = max(point["bytes"] for point in self.memory["live"])
        if row["bytes"] > _LARGE and row["bytes"] > most / 5:
            yield Advice(
                f"{row['type']} takes {size_text(row['bytes'])} of the "
                f"{size_text(most)} between inputs and results",
                "If memory is short: compute it in chunks, in bfloat16 (autocast), or set a limit, "
                "within which values are computed again (torchacc.set_memory_limit).",
                row["site"],
            )


def collect(title: str, timeline: Timeline | None, error: str) -> Run:
    """Of this process, since the counters were reset. Starts nothing, waits for nothing."""
    numbers = metrics()
    return Run(
        title=title,
        metrics=numbers,
        explanation=explanation(),
        memory=json.loads(torch.ops.acc.memory_report()),
        timeline=timeline,
        error=error,
        when=f"{datetime.datetime.now():%Y-%m-%d %H:%M}",
        version=torch.ops.acc.version(),
        torch=torch.__version__,
        device=torch.acc.get_device_name() if numbers["wall_ns"] else "nothing: it was not used",
    )
