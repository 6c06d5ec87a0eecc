"""The same training step on acc and on its peers, taking turns in one run.

    python benches/peers/compare.py gpt --peers eager,compile,xla,jax --json results.json

Each runtime is a worker process that keeps its model and waits. The driver asks them one by one for
one step, so that only one computes at a time and all meet the same noise of the machine. Reported
are the median step, its ratio to acc, the first step (tracing and compiling) and the growth of the
process's resident memory from before the model was made to its peak.

Peers that need other packages than ours get their own environment under .venv-peers/, made on
first use.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# peer: the worker's file, the packages of its own environment (none: ours).
PEERS = {
    "acc": ("worker_torch.py", ()),
    "eager": ("worker_torch.py", ()),
    "compile": ("worker_torch.py", ()),
    "xla": ("worker_torch.py", ("torch_xla", "numpy")),
    "jax": ("worker_jax.py", ("jax[cpu]",)),
}
WORKS = ("gpt",)


def interpreter(peer: str) -> str:
    """The Python that runs `peer`, with its packages installed."""
    packages = PEERS[peer][1]
    if not packages:
        return sys.executable
    folder = ROOT / ".venv-peers" / peer
    python, stamp = folder / "bin" / "python", folder / ".ready"
    if not stamp.exists():
        print(f"making {folder} for {', '.join(packages)}", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        if peer == "xla":
            packages = (*packages, *torch_for_xla(python))
        subprocess.run([python, "-m", "pip", "install", "--quiet", *packages], check=True)
        stamp.touch()
    return str(python)


def torch_for_xla(python: Path) -> tuple[str, ...]:
    """torch_xla does not say which PyTorch it was built for; its version does."""
    subprocess.run([python, "-m", "pip", "install", "--quiet", "torch_xla"], check=True)
    query = "import importlib.metadata as m; print(m.version('torch_xla'))"
    version = subprocess.check_output([python, "-c", query], text=True).strip()
    return (f"torch=={'.'.join(version.split('.')[:2])}.*",)


class Worker:
    """One peer's process. `step` runs one training step there and waits for its end."""

    def __init__(self, peer: str, work: str, dtype: str, threads: int):
        environment = os.environ | {
            "OMP_NUM_THREADS": str(threads),
            "MKL_NUM_THREADS": str(threads),
            "PJRT_DEVICE": "CPU",
            "JAX_PLATFORMS": "cpu",
        }
        self.peer, self.dtype = peer, dtype
        self.process = subprocess.Popen(
            [interpreter(peer), HERE / PEERS[peer][0], peer, work, dtype],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.versions = self.receive()["versions"]
        self.first = self.step()
        self.times = []

    def receive(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the worker of {self.peer} ended with {self.process.wait()}")
        return json.loads(line)

    def step(self) -> dict:
        """{"seconds", "loss"} of one step."""
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        return self.receive()

    def finish(self, work: str) -> dict:
        """Ends the process; the peer's row of the result."""
        self.process.stdin.write("end\n")
        self.process.stdin.flush()
        peak = self.receive()["peak_mb"]
        self.process.wait()
        return {
            "work": work,
            "dtype": self.dtype,
            "peer": self.peer,
            "median_ms": round(1000 * statistics.median(self.times), 2),
            "best_ms": round(1000 * min(self.times), 2),
            "first_step_s": round(self.first["seconds"], 3),
            "peak_mb": round(peak, 1),
            "first_loss": self.first["loss"],
            "last_loss": self.last["loss"],
            "versions": self.versions,
        }


def measure(work: str, dtype: str, peers: list[str], steps: int, warm_up: int, threads: int):
    """The rows of all peers that could run `work` in `dtype`."""
    workers = []
    for peer in peers:
        try:
            workers.append(Worker(peer, work, dtype, threads))
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            print(f"{peer} {dtype}: left out: {error}", file=sys.stderr)
    for turn in range(warm_up + steps):
        for worker in workers:
            worker.last = worker.step()
            if turn >= warm_up:
                worker.times.append(worker.last["seconds"])
    return [worker.finish(work) for worker in workers]


def table(rows: list[dict]):
    base = {row["dtype"]: row["median_ms"] for row in rows if row["peer"] == "acc"}
    head = (
        "dtype",
        "peer",
        "median ms",
        "best ms",
        "/ acc",
        "first step s",
        "peak MB",
        "last loss",
    )
    print("".join(f"{title:>13}" for title in head))
    for row in rows:
        ratio = row["median_ms"] / base[row["dtype"]] if row["dtype"] in base else float("nan")
        print(
            f"{row['dtype']:>13}{row['peer']:>13}{row['median_ms']:13.1f}{row['best_ms']:13.1f}"
            f"{ratio:13.2f}{row['first_step_s']:13.2f}{row['peak_mb']:13.0f}{row['last_loss']:13.4f}"
        )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("work", choices=WORKS)
    parser.add_argument("--peers", default="eager,compile", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--steps", type=int, default=15, help="measured steps of each peer")
    parser.add_argument("--warm-up", type=int, default=4, help="steps before, after the first")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--without-acc", action="store_true", help="the peers alone")
    parser.add_argument("--json", type=Path, help="write the rows here")
    args = parser.parse_args()
    peers = [peer for peer in args.peers.split(",") if peer != "acc"]
    unknown = set(peers) - PEERS.keys()
    if unknown:
        parser.error(f"no such peer: {', '.join(sorted(unknown))}")
    if not args.without_acc:
        peers.insert(0, "acc")
    rows = []
    for dtype in args.dtypes.split(","):
        rows += measure(args.work, dtype, peers, args.steps, args.warm_up, args.threads)
    table(rows)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
