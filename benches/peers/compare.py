"""The same training step, or the same kernel, on acc and on its peers, taking turns in one run.

    python benches/peers/compare.py gpt --peers eager,compile,xla,jax --json results.json
    python benches/peers/compare.py llama bert vit resnet18 mlp lstm
    python benches/peers/compare.py --kernels
    python benches/peers/compare.py --kernels softmax,adamw --dtypes f32
    python benches/peers/compare.py gpt2 gpt2-xl llama-1b vit-l resnet50 --gpu --dtypes bf16 \
        --peers eager,compile,max-autotune

Each runtime is a worker process that keeps its model and waits. The driver asks them one by one for
one step, so that only one computes at a time and all meet the same noise of the machine. Reported,
and summed up in Markdown at the end, are the median step, its ratio to acc, the first step (tracing
and compiling), the growth of the process's resident memory from before the model was made to its
peak (on a GPU the most that tensors took there), the median time until the step's call returned
("host ms"), and at the median the tokens or the speed of a kernel. On a GPU that is also what the
model's products, convolutions and attention compute, and the model FLOPs utilisation: its share of
the tensor cores' dense peak in bf16 (`PEAK`). All must have trained on the same data; where losses
differ more than rounding explains, a line says so.

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

from works import CEILINGS, KERNELS, WORKS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

# peer: the worker's file, the packages of its own environment (none: ours).
PEERS = {
    "acc": ("worker_torch.py", ()),
    "eager": ("worker_torch.py", ()),
    "compile": ("worker_torch.py", ()),
    "max-autotune": ("worker_torch.py", ()),
    "xla": ("worker_torch.py", ("torch_xla", "numpy")),
    "jax": ("worker_jax.py", ("jax[cpu]",)),
}
# Dense TFLOP/s of bf16 on tensor cores (f16 on a V100) by a part of the GPU's name, as in NVIDIA's
# data sheets.
PEAK = {
    "H200": 989,
    "H100 PCIe": 756,
    "H100": 989,
    "H800": 989,
    "A100": 312,
    "A800": 312,
    "V100": 125,
}
# How much the last losses of peers may differ from acc's. JAX starts from other weights.
TOLERANCE = {"f32": 1e-3, "bf16": 2e-2}


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
    """One peer's process. `step` runs one step there and waits for its end."""

    def __init__(self, peer: str, work: str, dtype: str, threads: int, gpu: bool):
        environment = os.environ | {
            "OMP_NUM_THREADS": str(threads),
            "MKL_NUM_THREADS": str(threads),
            "TORCHACC_NUM_THREADS": str(threads),
            # The first step includes compiling.
            "TORCHACC_CACHE_DIR": "off",
            "PJRT_DEVICE": "CPU",
            "JAX_PLATFORMS": "cpu",
        }
        if gpu:
            environment |= {"PEERS_ON_GPU": "1", "TORCHACC_BACKEND": "cuda"}
        self.peer, self.work, self.dtype = peer, work, dtype
        self.process = subprocess.Popen(
            [interpreter(peer), HERE / PEERS[peer][0], peer, work, dtype],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.about = self.receive()
        self.first = self.last = self.step()
        self.times, self.host_times = [], []

    def receive(self) -> dict:
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"its worker ended with {self.process.wait()}")
        return json.loads(line)

    def step(self) -> dict:
        """{"seconds", "host", "loss", "data"} of one step."""
        self.process.stdin.write("step\n")
        self.process.stdin.flush()
        return self.receive()

    def finish(self) -> dict:
        """Ends the process; the peer's row of the result."""
        self.process.stdin.write("end\n")
        self.process.stdin.flush()
        peak = self.receive()["peak_mb"]
        self.process.wait()
        median = statistics.median(self.times)
        return {
            "work": self.work,
            "dtype": self.dtype,
            "peer": self.peer,
            "median_ms": round(1000 * median, 2),
            "best_ms": round(1000 * min(self.times), 2),
            "host_ms": round(1000 * statistics.median(self.host_times), 2),
            "first_step_s": round(self.first["seconds"], 3),
            "peak_mb": round(peak, 1),
            "first_loss": self.first["loss"],
            "last_loss": self.last["loss"],
            **{f"{unit}_per_s": n / median for unit, n in self.about["amount"].items()},
            "versions": self.about["versions"],
        }


def measure(work: str, dtype: str, args):
    """The rows of all peers that could run `work` in `dtype`."""
    workers = []
    for peer in args.peers:
        try:
            workers.append(Worker(peer, work, dtype, args.threads, args.gpu))
        except (RuntimeError, OSError, subprocess.CalledProcessError) as error:
            print(f"{work} {dtype} {peer}: left out: {error}", file=sys.stderr)
    for turn in range(args.warm_up + args.steps):
        for worker in workers:
            worker.last = worker.step()
            if turn >= args.warm_up:
                worker.times.append(worker.last["seconds"])
                worker.host_times.append(worker.last["host"])
        if len({worker.last["data"] for worker in workers}) > 1:
            raise RuntimeError(f"{work}: the peers did not get the same data in turn {turn}")
    rows = [worker.finish() for worker in workers]
    compare_losses(rows)
    return rows


def compare_losses(rows: list[dict]):
    """Says which peers ended with another loss than the first."""
    for row in rows[1:]:
        expected, found = rows[0]["last_loss"], row["last_loss"]
        if row["peer"] != "jax" and abs(found - expected) > TOLERANCE[row["dtype"]] * expected:
            print(
                f"{row['work']} {row['dtype']}: the losses of {rows[0]['peer']} and {row['peer']}"
                f" differ: {expected} and {found}",
                file=sys.stderr,
            )


def speed(row: dict) -> str:
    """What a kernel moves or computes each second; tokens or images of a training step and, on a
    GPU, what its model computes (`teraflops` in worker_torch.py)."""
    names = {
        "gigabytes": "GB/s",
        "gigaflops": "GFLOP/s",
        "tokens": "tok/s",
        "images": "images/s",
        "teraflops": "TFLOP/s",
    }
    found = [(unit, name) for unit, name in names.items() if f"{unit}_per_s" in row]
    said = [f"{row[f'{unit}_per_s']:.1f} {name}" for unit, name in found]
    gpu = row["versions"].get("gpu", "")
    peak = next((peak for name, peak in PEAK.items() if name in gpu), None)
    if peak and row["dtype"] == "bf16" and "teraflops_per_s" in row:
        said.append(f"MFU {row['teraflops_per_s'] / peak:.1%}")
    return ", ".join(said)


def table(rows: list[dict], title: bool):
    """Prints the rows of one work in one dtype, as soon as they are known."""
    base = next((row["median_ms"] for row in rows if row["peer"] == "acc"), float("nan"))
    columns = {
        "work": lambda row: row["work"],
        "dtype": lambda row: row["dtype"],
        "peer": lambda row: row["peer"],
        "median ms": lambda row: f"{row['median_ms']:.1f}",
        "best ms": lambda row: f"{row['best_ms']:.1f}",
        "host ms": lambda row: f"{row['host_ms']:.1f}",
        "/ acc": lambda row: f"{row['median_ms'] / base:.2f}",
        "first step s": lambda row: f"{row['first_step_s']:.2f}",
        "peak MB": lambda row: f"{row['peak_mb']:.0f}",
        "last loss": lambda row: f"{row['last_loss']:.4f}",
        "speed": speed,
    }
    if title:
        print("".join(f" {name:>13}" for name in columns))
    for row in rows:
        print("".join(f" {text(row):>13}" for text in columns.values()), flush=True)


def summary(rows: list[dict]):
    """Prints one table in Markdown, a line for each work and dtype; of kernels medians only."""
    peers = list(dict.fromkeys(row["peer"] for row in rows))
    found = {(row["work"], row["dtype"], row["peer"]): row for row in rows}
    columns = [("median_ms", "ms", "{:.0f}"), ("first_step_s", "first step, s", "{:.1f}")]
    columns.append(("peak_mb", "peak, MB", "{:.0f}"))
    if all(row["work"] in KERNELS + CEILINGS for row in rows):
        columns = [("median_ms", "ms", "{:.1f}")]
    titles = [f"{name}: {' / '.join(peers)}" for _, name, _ in columns]
    print(f"\n| | {' | '.join(titles)} |\n|---|{'---|' * len(columns)}")
    for work, dtype in dict.fromkeys((row["work"], row["dtype"]) for row in rows):

        def cell(field, form, work=work, dtype=dtype):
            of_peers = (found.get((work, dtype, peer)) for peer in peers)
            return " / ".join(form.format(row[field]) if row else "-" for row in of_peers)

        print(f"| {work} {dtype} | {' | '.join(cell(f, form) for f, _, form in columns)} |")


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"of {', '.join(WORKS)}")
    parser.add_argument(
        "--kernels",
        nargs="?",
        const="all",
        help=f"all, or of {', '.join(KERNELS + CEILINGS)}; the last two are what bounds the others",
    )
    parser.add_argument("--peers", default="eager,compile", help=f"of {', '.join(PEERS)}")
    parser.add_argument("--dtypes", default="f32,bf16")
    parser.add_argument("--steps", type=int, default=15, help="measured steps of each peer")
    parser.add_argument("--warm-up", type=int, default=4, help="steps before, after the first")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument(
        "--gpu", action="store_true", help="on an NVIDIA GPU; eager and compile only"
    )
    parser.add_argument("--without-acc", action="store_true", help="the peers alone")
    parser.add_argument("--json", type=Path, help="write the rows here")
    args = parser.parse_args()
    if args.kernels == "all":
        args.works += CEILINGS + KERNELS if args.gpu else KERNELS
    else:
        args.works += args.kernels.split(",") if args.kernels else []
    args.peers = [peer for peer in args.peers.split(",") if peer != "acc"]
    if not args.without_acc:
        args.peers.insert(0, "acc")
    unknown = (set(args.peers) - PEERS.keys()) | (
        set(args.works) - WORKS.keys() - {*KERNELS, *CEILINGS}
    )
    if unknown or not args.works:
        parser.error(f"no such peer or work: {', '.join(sorted(unknown))}")
    return args


def main():
    args = arguments()
    rows = []
    for work in args.works:
        for dtype in args.dtypes.split(","):
            found = measure(work, dtype, args)
            table(found, title=not rows)
            rows += found
    summary(rows)
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
