"""The same training step, or the same kernel, on acc and on its peers, taking turns in one run.

    python benches/peers/compare.py gpt --peers eager,compile,xla,jax --json results.json
    python benches/peers/compare.py llama bert vit resnet18 mlp lstm
    python benches/peers/compare.py --kernels
    python benches/peers/compare.py --kernels softmax,adamw --dtypes f32
    python benches/peers/compare.py module --peers jax,openxla,jax-plugin --dtypes f32
    python benches/peers/compare.py gpt2 gpt2-xl llama-1b vit-l resnet50 --gpu --dtypes bf16 \
        --peers eager,compile,max-autotune

Each runtime is a worker process that keeps its model and waits. The driver asks them one by one for
one step, so that only one computes at a time and all meet the same noise of the machine. Reported,
and summed up in Markdown at the end, are the median step, its ratio to acc, the first step (tracing
and compiling), the growth of the process's resident memory from before the model was made to its
peak (on a GPU the most that tensors took there), the median time until the step's call returned
("host ms"), and at the median the tokens or the speed of a kernel, and what the model's products,
convolutions and attention compute. "of limit" is their share of what the processor's multipliers
can do in f32 (`fma_peak.c`, in the same run, on as many threads), also for bf16, of which a
processor that has it can do more; on a GPU the model FLOPs utilisation: the share of the tensor
cores' dense peak in bf16 (`PEAK`). All must have trained on the same data; where losses differ more
than rounding explains, a line says so.

The work `module` is the training step of JAX in examples/stablehlo/gpt.py: acc runs the module of
StableHLO that JAX makes of it, `openxla` does so with TORCHACC_BACKEND=openxla, and `jax-plugin` is
JAX on the same plugin (that of TORCHACC_OPENXLA, or of `make openxla-plugin`).

A peer that fails, or takes too long, is left out and the others go on. On a GPU all is over within
`--limit` seconds and a few more. There a work runs on one peer after the other if its memory is not
enough for all at once. Where nothing can be built, `make gpu-kit` elsewhere makes what acc needs.

Peers that need other packages than ours get their own environment under .venv-peers/, made on
first use.
"""

import argparse
import json
import math
import os
import select
import signal
import statistics
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "gpu"))
import kit
import module
from works import CEILINGS, KERNELS, WORKS

HERE = Path(__file__).resolve().parent

# What `examples/stablehlo/gpt.py` needs, too.
JAX = ("jax[cpu]==0.10.2", "safetensors")
# peer: the worker's file, the packages of its own environment (none: ours).
PEERS = {
    "acc": ("worker_torch.py", ()),
    "eager": ("worker_torch.py", ()),
    "compile": ("worker_torch.py", ()),
    "max-autotune": ("worker_torch.py", ()),
    "xla": ("worker_torch.py", ("torch_xla", "numpy")),
    "openxla": ("worker_torch.py", ()),
    "jax": ("worker_jax.py", JAX),
    "jax-plugin": ("worker_jax.py", JAX),
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
# How much the last losses of peers may differ from acc's. JAX starts from other weights, except
# those of `module`.
TOLERANCE = {"f32": 1e-3, "bf16": 2e-2}
# Seconds that one answer of a worker may take; the first one's includes compiling.
PATIENCE = 900
# Seconds that an answer may take although time is up, and without which no work is begun.
LEAST = 10
# The part of a GPU's memory that workers may be thought to need.
USABLE = 0.85
# What may become of a worker.
FAILURES = (OSError, RuntimeError, ValueError, subprocess.SubprocessError)


def interpreter(peer: str) -> str:
    """The Python that runs `peer`, with its packages installed."""
    packages = PEERS[peer][1]
    if not packages:
        return sys.executable
    # Peers of one worker share it.
    folder = kit.ROOT / ".venv-peers" / peer.removesuffix("-plugin")
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


def environment(peer: str, args) -> dict[str, str]:
    """The variables that a worker runs with."""
    found = os.environ | {
        "OMP_NUM_THREADS": str(args.threads),
        "MKL_NUM_THREADS": str(args.threads),
        "TORCHACC_NUM_THREADS": str(args.threads),
        # The first step includes compiling.
        "TORCHACC_CACHE_DIR": "off",
        "TORCHACC_BACKEND": "cpu",
        "PJRT_DEVICE": "CPU",
        "JAX_PLATFORMS": "cpu",
        "TORCHACC_OPENXLA": module.plugin(),
    }
    if peer == "openxla":
        found["TORCHACC_BACKEND"] = "openxla"
    if args.gpu:
        found |= {"PEERS_ON_GPU": "1", "TORCHACC_BACKEND": "cuda"}
        found |= kit.environment() if peer == "acc" else {}
    return found


def gpu_bytes(args) -> int:
    """The GPU's memory. Ends the program if acc, which is what is measured, cannot use it."""
    code = "import torch; print(torch.cuda.get_device_properties(0).total_memory)"
    if not args.without_acc:
        kit.unpack()
        code += "; import torchacc; torch.ones(1, device='acc').item()"
    command, variables = [sys.executable, "-c", code], environment("acc", args)
    try:
        # PyTorch may take a minute to be read for the first time.
        return int(subprocess.check_output(command, env=variables, text=True, timeout=200))
    except FAILURES as error:
        sys.exit(f"nothing can be measured on this machine's GPU: {error}")


class Worker:
    """One peer's process. Methods raise one of FAILURES if it does not do what they say, or not
    until `by` (`time.monotonic`)."""

    def __init__(self, peer: str, work: str, dtype: str, data: dict[int, int]):
        """`data`: of all peers, the checksum of each step's data as soon as one has had it."""
        self.peer, self.work, self.dtype, self.data = peer, work, dtype, data
        self.process, self.done = None, 0
        self.times, self.host_times = [], []

    def start(self, args):
        self.process = subprocess.Popen(
            [interpreter(self.peer), HERE / PEERS[self.peer][0], self.peer, self.work, self.dtype],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment(self.peer, args),
            start_new_session=True,
        )

    def make(self, by: float):
        """Waits until it has built what is measured."""
        self.about = self.receive(by)

    def first_step(self, by: float):
        self.first = self.step(by)

    def measured_step(self, by: float):
        answer = self.step(by)
        self.times.append(answer["seconds"])
        self.host_times.append(answer["host"])

    def step(self, by: float) -> dict:
        """{"seconds", "host", "loss", "data"} of one step."""
        self.ask("step")
        self.last = self.receive(by)
        if self.data.setdefault(self.done, self.last["data"]) != self.last["data"]:
            raise RuntimeError(f"it did not get the others' data in step {self.done}")
        self.done += 1
        return self.last

    def ask(self, what: str):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()

    def receive(self, by: float) -> dict:
        seconds = min(max(by - time.monotonic(), 0), PATIENCE)
        # It has no more than this answer to give, so none is waiting in the pipe's buffer.
        if not select.select([self.process.stdout], [], [], seconds)[0]:
            raise RuntimeError(f"no answer in {seconds:.0f} s")
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"its worker ended with {self.process.wait(10)}")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def finish(self, by: float) -> dict:
        """Ends the process; the peer's row of the result."""
        self.ask("end")
        peak = self.receive(by)["peak_mb"]
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(20)
        median = statistics.median(self.times)
        return {
            "work": self.work,
            "dtype": self.dtype,
            "peer": self.peer,
            "steps": len(self.times),
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

    def end(self):
        """Ends the process, if it is still there, and what it started."""
        if self.process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        with suppress(OSError):
            self.process.stdin.close()
        self.process.wait()


def of_each(workers: list[Worker], act, end: float) -> list[Worker]:
    """Those of `workers` with which `act(worker, by)` went well; all of them have until `end`. The
    others are ended; it says why."""
    well = []
    for number, worker in enumerate(workers):
        by = max(kit.share(end, len(workers) - number), time.monotonic() + LEAST)
        try:
            act(worker, by)
            well.append(worker)
        except FAILURES as error:
            name = f"{worker.work} {worker.dtype} {worker.peer}"
            print(f"{name}: left out: {error}", file=sys.stderr, flush=True)
            worker.end()
    return well


def measure(work: str, dtype: str, args, end: float):
    """The rows of all peers that could run `work` in `dtype` until `end`."""
    if work == "module":
        module.write(interpreter("jax"))
    needed = WORKS.get(work, {}).get("gigabytes", 0) * 1e9 * len(args.peers)
    turns = [args.peers]
    if args.gpu and needed > USABLE * args.gpu_bytes:
        print(f"{work} {dtype}: the peers need too much memory to take turns", file=sys.stderr)
        turns = [[peer] for peer in args.peers]
    rows, data, peaks = [], {}, [multiplier_peak(args)]
    for number, peers in enumerate(turns):
        workers = [Worker(peer, work, dtype, data) for peer in peers]
        rows += together(workers, args, kit.share(end, len(turns) - number))
        peaks.append(multiplier_peak(args))
    compare_losses(rows)
    for row in rows:
        peak = peak_of_gpu(row) if args.gpu else max(peaks)
        computed = 1e12 * row.get("teraflops_per_s", 0) + 1e9 * row.get("gigaflops_per_s", 0)
        if peak and computed:
            row["of_limit"] = computed / peak
    return rows


def multiplier_peak(args) -> float:
    """Operations a second that the processor's multipliers can do in f32 now; 0 on a GPU."""
    return 0.0 if args.gpu else float(subprocess.check_output([args.fma_peak, str(args.threads)]))


def compiled(source: Path) -> Path:
    """The program that a source in C is, for this very processor."""
    program = kit.ROOT / "target" / "peers" / source.stem
    program.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-O2", "-march=native", "-pthread", "-o", program, source]
    subprocess.run(command, check=True)
    return program


def peak_of_gpu(row: dict) -> float | None:
    """Operations a second of its tensor cores, if it is in `PEAK`; of bf16 alone."""
    gpu = row["versions"].get("gpu", "")
    peak = next((peak for name, peak in PEAK.items() if name in gpu), None)
    return 1e12 * peak if peak and row["dtype"] == "bf16" else None


def together(workers: list[Worker], args, end: float):
    """The rows of workers that take turns, with fewer steps if `end` comes first."""
    rows, everyone = [], workers
    # The last quarter is for the steps that are measured.
    begun = time.monotonic() + 0.75 * (end - time.monotonic())
    try:
        # All build their models at once, then compile in turn.
        workers = of_each(workers, lambda worker, _: worker.start(args), begun)
        workers = of_each(workers, Worker.make, begun)
        workers = of_each(workers, Worker.first_step, begun)
        for turn in range(args.warm_up + args.steps):
            if turn > args.warm_up and time.monotonic() > end:
                break
            step = Worker.measured_step if turn >= args.warm_up else Worker.step
            workers = of_each(workers, step, end)
        of_each(workers, lambda worker, by: rows.append(worker.finish(by)), end)
    finally:
        for worker in everyone:
            worker.end()
    return rows


def compare_losses(rows: list[dict]):
    """Says which peers ended with another loss than the first, after as many steps."""
    for row in rows[1:]:
        expected, found = rows[0]["last_loss"], row["last_loss"]
        is_close = abs(found - expected) <= TOLERANCE[row["dtype"]] * expected
        is_other = row["peer"].startswith("jax") and row["work"] != "module"
        if not is_other and row["steps"] == rows[0]["steps"] and not is_close:
            print(
                f"{row['work']} {row['dtype']}: the losses of {rows[0]['peer']} and {row['peer']}"
                f" differ: {expected} and {found}",
                file=sys.stderr,
            )


def speed(row: dict) -> str:
    """What a kernel moves or computes each second; tokens or images of a training step, and what
    its model computes (`teraflops` in worker_torch.py)."""
    names = {
        "gigabytes": "GB/s",
        "gigaflops": "GFLOP/s",
        "tokens": "tok/s",
        "images": "images/s",
        "teraflops": "TFLOP/s",
    }
    found = [(unit, name) for unit, name in names.items() if f"{unit}_per_s" in row]
    return ", ".join(f"{row[f'{unit}_per_s']:.4g} {name}" for unit, name in found)


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
        "of limit": lambda row: f"{row['of_limit']:.1%}" if "of_limit" in row else "-",
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
    if any("of_limit" in row for row in rows):
        columns.append(("of_limit", "of limit", "{:.0%}"))
    titles = [f"{name}: {' / '.join(peers)}" for _, name, _ in columns]
    ratios = peers[0] == "acc" and len(peers) > 1
    if ratios:
        titles.append("best peer / acc")
    print(f"\n| | {' | '.join(titles)} |\n|---|{'---|' * len(titles)}")
    for work, dtype in dict.fromkeys((row["work"], row["dtype"]) for row in rows):

        def cell(field, form, work=work, dtype=dtype):
            of_peers = (found.get((work, dtype, peer)) for peer in peers)
            known = [row[field] if row and field in row else None for row in of_peers]
            return " / ".join("-" if value is None else form.format(value) for value in known)

        cells = [cell(f, form) for f, _, form in columns]
        ours, *others = (found.get((work, dtype, peer)) for peer in peers)
        if ratios:
            best = min((row["median_ms"] for row in others if row), default=math.nan)
            cells.append(f"{best / ours['median_ms']:.2f}" if ours else "-")
        print(f"| {work} {dtype} | {' | '.join(cells)} |")


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("works", nargs="*", metavar="WORK", help=f"of module, {', '.join(WORKS)}")
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
    parser.add_argument("--limit", type=float, help="seconds that all may take; on a GPU 510")
    parser.add_argument("--json", type=Path, help="write the rows here")
    args = parser.parse_args()
    args.limit = args.limit or (510 if args.gpu else math.inf)
    if args.kernels == "all":
        args.works += CEILINGS + KERNELS if args.gpu else KERNELS
    else:
        args.works += args.kernels.split(",") if args.kernels else []
    args.peers = [peer for peer in args.peers.split(",") if peer != "acc"]
    if not args.without_acc:
        args.peers.insert(0, "acc")
    unknown = (set(args.peers) - PEERS.keys()) | (
        set(args.works) - WORKS.keys() - {"module", *KERNELS, *CEILINGS}
    )
    if unknown or not args.works:
        parser.error(f"no such peer or work: {', '.join(sorted(unknown))}")
    return args


def main():
    args = arguments()
    end, rows = time.monotonic() + args.limit, []
    if args.gpu:
        args.gpu_bytes = gpu_bytes(args)
    else:
        args.fma_peak = compiled(HERE / "fma_peak.c")
    asked = [(work, dtype) for work in args.works for dtype in args.dtypes.split(",")]
    for number, (work, dtype) in enumerate(asked):
        if time.monotonic() > end - LEAST:
            print(f"{work} {dtype}: left out: no time is left", file=sys.stderr)
            continue
        found = measure(work, dtype, args, kit.share(end, len(asked) - number))
        if found:
            table(found, title=not rows)
        rows += found
        if args.json:
            args.json.write_text(json.dumps(rows, indent=1) + "\n")
    summary(rows)


if __name__ == "__main__":
    main()
