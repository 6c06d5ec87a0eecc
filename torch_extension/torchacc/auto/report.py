"""`Plan`: what a search found, why the others lost, as text and as JSON."""

import dataclasses
import json
from dataclasses import dataclass

from torchacc.auto.cluster import Cluster
from torchacc.auto.cost import Memory, Prediction
from torchacc.config import Config


@dataclass(frozen=True)
class Considered:
    """A strategy that lost, and why; seconds and bytes as far as they were predicted."""

    strategy: str
    why: str
    seconds: float | None = None
    memory: float | None = None
    mfu: float | None = None
    # Seconds of a step in a trial.
    measured: float | None = None


@dataclass
class Plan:
    """The fastest strategy, as a `Config`, and what it costs."""

    config: Config
    strategy: str
    prediction: Prediction
    # The request.
    model: str
    cluster: Cluster
    batch: int
    # Bytes available on a device.
    limit: float
    # The best and the nearest of the rejected strategies, and the number of strategies by outcome.
    considered: list[Considered]
    counts: dict[str, int]
    # Duration of the search, and whether it was complete.
    seconds: float
    is_complete: bool
    # Seconds of a step in a trial, and number of strategies with trials: the chosen one and the
    # first of the rejected ones.
    measured: float | None = None
    trials: int = 0

    def table(self) -> str:
        """A row of each strategy that is told of: predicted seconds and MFU of a step, GB of the
        device that needs most, seconds that were measured where there were trials, and why it
        lost."""
        best = self.prediction
        figures = best.seconds, best.peak_memory, best.mfu, self.measured
        chosen = Considered(self.strategy, "chosen", *figures)
        rows = [("strategy", "seconds", "MFU", "GB", "measured", "why")]
        for one in (chosen, *self.considered):
            seconds = "" if one.seconds is None else f"{one.seconds:.4g}"
            mfu = "" if one.mfu is None else f"{one.mfu:.1%}"
            memory = "" if one.memory is None else f"{one.memory / 1e9:.3g}"
            measured = "" if one.measured is None else f"{one.measured:.4g}"
            rows.append((one.strategy, seconds, mfu, memory, measured, one.why))
        if self.measured is None:
            rows = [(*row[:4], row[5]) for row in rows]
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
        lines = []
        for strategy, *figures, why in rows:
            texts = [text.rjust(width) for text, width in zip(figures, widths[1:], strict=True)]
            lines.append("  ".join([strategy.ljust(widths[0]), *texts, why]).rstrip())
        return "\n".join(lines)

    def explain(self) -> str:
        """Where the time and the memory go, and what the search saw."""
        best = self.prediction
        parts = {"computation": best.compute, "pipeline bubble": best.bubble}
        parts |= {f"exposed {kind}": seconds for kind, seconds in best.exposed.items()}
        parts["optimizer"] = best.optimizer
        times = [
            f"  {name}: {seconds:.4g} s, {seconds / best.seconds:.1%}"
            for name, seconds in parts.items()
            if seconds > 0
        ]
        worst = max(range(len(best.memory)), key=lambda rank: best.memory[rank].total)
        bytes_of = dataclasses.asdict(best.memory[worst])
        memory = [f"  {name}: {size / 1e9:.3g} GB" for name, size in bytes_of.items()]
        counts = ", ".join(f"{what}: {count}" for what, count in sorted(self.counts.items()))
        ended = "all that there are" if self.is_complete else "not all: the time was up"
        return "\n".join(
            [
                f"{self.model}, {self.batch} sequences a step, on {self.cluster.devices} devices "
                f"of {self.cluster.name}: {self.strategy}",
                f"A step takes {best.seconds:.4g} s (MFU {best.mfu:.1%}, HFU {best.hfu:.1%}):",
                *times,
                f"Stage {worst + 1} of {len(best.memory)} needs the most memory, "
                f"{best.peak_memory / 1e9:.3g} of {self.limit / 1e9:.3g} GB:",
                *memory,
                *self._trials(),
                f"Strategies, {ended}, in {self.seconds:.1f} s: {counts}",
            ]
        )

    def _trials(self) -> list[str]:
        if not self.trials:
            return []
        others = self.considered[: self.trials - 1]
        took = "was not over" if self.measured is None else f"took {self.measured:.4g} s"
        return [
            f"In its trial a step {took}; others that were predicted best:",
            *(f"  {one.strategy}: {one.why}" for one in others),
        ]

    def to_json(self) -> str:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        values |= {"config": self.config.to_dict(), "cluster": self.cluster.to_dict()}
        values["prediction"] = dataclasses.asdict(self.prediction)
        values["considered"] = [dataclasses.asdict(one) for one in self.considered]
        values["cluster"] |= {
            name: getattr(self.cluster, name).to_dict() for name in ("intra_node", "inter_node")
        }
        return json.dumps(values, indent=2)

    @classmethod
    def from_json(cls, text: str) -> "Plan":
        """What `to_json` wrote. Raises ValueError for what is no plan."""
        values = json.loads(text)
        wanted = {field.name for field in dataclasses.fields(cls)}
        if not isinstance(values, dict) or set(values) != wanted:
            raise ValueError(f"plan: the text must have {', '.join(sorted(wanted))}, and no more")
        values["config"] = Config.from_dict(values["config"])
        values["cluster"] = Cluster.from_dict(values["cluster"])
        prediction = values["prediction"]
        prediction["memory"] = [Memory(**one) for one in prediction["memory"]]
        values["prediction"] = Prediction(**prediction)
        values["considered"] = [Considered(**one) for one in values["considered"]]
        return cls(**values)
