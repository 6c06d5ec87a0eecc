"""What a process does, for Prometheus: off until a program or TORCHACC_METRICS asks for it."""

import collections
import functools
import http.server
import json
import os
import threading

import torch

from torchacc._metrics import metrics
from torchacc.event_log import EventStream

_CONTENT = "text/plain; version=0.0.4; charset=utf-8"


class MetricsServer:
    """Serves `/metrics` on `host` and `port` until `close` or the end of a `with`."""

    def __init__(self, port: int, host: str):
        self._lock = threading.Lock()
        self._events: collections.Counter = collections.Counter()
        self._seconds: collections.Counter = collections.Counter()
        self._last: dict[str, float] = {}
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            timeout = 10  # seconds that a connection may be silent

            def do_GET(self):
                if self.path.split("?")[0] != "/metrics":
                    self.send_error(404)
                    return
                text = server.text().encode()
                self.send_response(200)
                self.send_header("Content-Type", _CONTENT)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_):
                pass

        self._server = http.server.ThreadingHTTPServer((host, port), Handler)
        self.host, self.port = self._server.server_address[:2]
        self._stream = EventStream(self._take)
        name = "torchacc-metrics"
        threading.Thread(target=self._server.serve_forever, name=name, daemon=True).start()

    def close(self) -> None:
        self._stream.close()
        self._server.shutdown()
        self._server.server_close()

    def __enter__(self) -> "MetricsServer":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def text(self) -> str:
        """What Prometheus reads: the runtime's counters, and sums over the events since the start
        of the server."""
        lines = []
        docs = _docs()
        for name, value in metrics().items():
            lines += _family(f"torchacc_{name}", docs.get(name, ""), [({}, value)])
        with self._lock:
            events = [({"name": n, "kind": k}, one) for (n, k), one in self._events.items()]
            seconds = [({"name": n}, one) for n, one in self._seconds.items()]
            last = dict(self._last)
        lines += _family("torchacc_events_total", "Events.", events, "counter")
        text = "Seconds that these took."
        lines += _family("torchacc_event_seconds_total", text, seconds, "counter")
        for name, value in last.items():
            lines += _family(f"torchacc_last_{name}", "Of the last event.", [({}, value)], "gauge")
        return "\n".join(lines) + "\n"

    def _take(self, event: dict) -> None:
        with self._lock:
            self._events[event["name"], event["kind"]] += 1
            self._seconds[event["name"]] += event.get("seconds", 0)
            if event["name"] == "torchacc.step":
                self._last |= {"step": event["step"], "step_time": event["time"]}
            if event["name"] == "torchacc.loss":
                self._last["loss"] = event["loss"]


def serve_metrics(port: int, host: str = "127.0.0.1") -> MetricsServer:
    """Serves `torchacc.metrics()` and sums over the events at `http://HOST:PORT/metrics`, in
    Prometheus' text format, from a thread of its own.

    Only this machine reaches it unless `host` says otherwise ("0.0.0.0": everybody; there is no
    password). Port 0 is any that is free: the server's `port` says which.

    Raises OSError where the port is taken.
    """
    return MetricsServer(port, host)


def serve_as_asked() -> None:
    """TORCHACC_METRICS is a port, or HOST:PORT; each rank of a machine takes the next one."""
    host, _, port = os.environ["TORCHACC_METRICS"].rpartition(":")
    if not port.isdigit() or int(port) > 65535:
        raise ValueError(f"TORCHACC_METRICS={os.environ['TORCHACC_METRICS']} is no port")
    number = int(port) + int(os.environ.get("LOCAL_RANK", "0"))
    try:
        serve_metrics(number, host or "127.0.0.1")
    except OSError as error:
        text = f"TORCHACC_METRICS: port {number} cannot be listened at: {error.strerror}"
        raise OSError(error.errno, text) from error


@functools.cache
def _docs() -> dict[str, str]:
    return {about["name"]: about["doc"] for about in json.loads(torch.ops.acc.metric_docs())}


def _family(name: str, about: str, rows: list[tuple[dict, float]], kind: str = "untyped"):
    """Lines of one name: its help, its type, and its values by labels."""
    if not rows:
        return []
    lines = [f"# HELP {name} {about}", f"# TYPE {name} {kind}"]
    for labels, value in rows:
        inside = ",".join(f'{key}="{_escaped(one)}"' for key, one in labels.items())
        lines.append(f"{name}{{{inside}}} {value}" if inside else f"{name} {value}")
    return lines


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
