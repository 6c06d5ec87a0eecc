"""The health of a training: devices and links that are slow or wrong, ranks that hang or lag,
numbers that are none, what two runs do otherwise; and what happens when, as events."""

from torchacc.event_log import event, events, span
from torchacc.health.checking import check
from torchacc.health.comparing import Recorder, compare_runs
from torchacc.health.exits import exit_code
from torchacc.health.prometheus import serve_metrics
from torchacc.health.watching import Alarm, Watch

__all__ = [
    "Alarm",
    "Recorder",
    "Watch",
    "check",
    "compare_runs",
    "event",
    "events",
    "exit_code",
    "serve_metrics",
    "span",
]
