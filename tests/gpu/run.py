"""Checks of the CUDA backend on a machine with an NVIDIA GPU: one command, one summary.

    make gpu-kit             # anywhere: what is to be run, into target/gpu
    python3 tests/gpu/run.py # there: a checkout, target/gpu, and a Python with PyTorch and pytest

Neither a network nor a compiler is needed there. It runs every kernel against its row's meaning,
PyTorch's operators, views, optimizers and random numbers against PyTorch on the CPU, training with
and without CUDA graphs and streams (equal bits) and against eager PyTorch on the same GPU, and
compute-sanitizer, where there is one, on some kernels. Exit status 1 if anything failed.
`--rehearse` does all that it can without a GPU.
"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KIT = ROOT / "target" / "gpu"
PACKAGE = ROOT / "torch_extension"
PYTHON_TESTS = ["device", "parity", "works", "optim", "random", "opinfo", "views"]
# Kernels of each kind, few enough for a tool that is a hundred times slower.
SANITIZED = ["cuda::tests::reduce", "cuda::tests::index", "cuda::tests::attention::heads_that"]
# Largest relative difference of two losses in bf16, one in PyTorch's own arithmetic.
BF16_BOUND = 2e-2


class Failed(Exception):
    """What is to be said of a check that failed."""


class Checks:
    def __init__(self, options):
        self.rehearse, self.limit = options.rehearse, options.limit
        self.backend = "cpu" if options.rehearse else "cuda"
        self.environment = dict(
            os.environ,
            PYTHONPATH=os.pathsep.join([str(PACKAGE), str(PACKAGE / "tests")]),
            TORCHACC_CACHE_DIR="off",
            TORCHACC_CUDA=os.pathsep.join(map(str, cuda_folders())),
        )

    def run(self, command, **environment):
        """The output of a command. Its failure, and running out of time, fail the check."""
        environment = self.environment | environment
        try:
            done = subprocess.run(
                list(map(str, command)),
                env=environment,
                cwd=ROOT,
                text=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=self.limit,
            )
        except subprocess.TimeoutExpired as late:
            raise Failed(f"not done after {self.limit} s\n{tail(late.output)}") from None
        if done.returncode != 0:
            raise Failed(f"exit status {done.returncode}\n{tail(done.stdout)}")
        return done.stdout

    def kernels(self):
        """Each kernel against its row's meaning; what cuDNN computes, too."""
        # Registers are counted by the compiler, not the GPU.
        command = [KIT / "kernels", "cuda::tests", "--skip", "usage"]
        test_gpu = {} if self.rehearse else {"TORCHACC_TEST_GPU": "1"}
        return last(r"test result: ok\. (.*?);", self.run(command, **test_gpu))

    def operators(self):
        """PyTorch's operators and what is built of them, against PyTorch on the CPU."""
        files = [PACKAGE / "tests" / f"test_{name}.py" for name in PYTHON_TESTS]
        # Most of the time is the compiler's, one kernel after the other in a process.
        several = ["-n", "8"] if importlib.util.find_spec("xdist") else []
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *several, *files]
        return last(r"(\d+ passed.*) in ", self.run(command, TORCHACC_BACKEND=self.backend))

    def losses(self, device, **environment):
        command = [sys.executable, ROOT / "tests" / "gpu" / "losses.py", device]
        said = self.run(command, TORCHACC_BACKEND=self.backend, **environment)
        return [float.fromhex(loss) for loss in json.loads(said.splitlines()[-1])]

    def graphs(self):
        """Training has the same bits with and without CUDA graphs and streams, and twice."""
        exact = {"TORCHACC_DETERMINISTIC": "1"}
        with_graphs = self.losses("acc", **exact)
        if self.losses("acc", **exact) != with_graphs:
            raise Failed("two runs have other bits")
        for without in ("TORCHACC_CUDA_GRAPHS", "TORCHACC_CUDA_STREAMS"):
            if self.losses("acc", **exact, **{without: "0"}) != with_graphs:
                raise Failed(f"with {without}=0 the bits are others")
        return f"{len(with_graphs)} losses, the last {with_graphs[-1]:.4f}"

    def eager(self):
        """Losses are those of eager PyTorch on the same GPU."""
        ours, eager = self.losses("acc"), self.losses("cpu" if self.rehearse else "cuda")
        largest = max(abs(a - b) / b for a, b in zip(ours, eager, strict=True))
        said = f"largest relative difference of {len(ours)} losses {largest:.1e}"
        if largest > BF16_BOUND or ours[-1] > ours[0] - 1:
            raise Failed(f"{said}; from {ours[0]:.3f} to {ours[-1]:.3f}")
        return said

    def sanitizer(self):
        """No kernel of these touches what is not its own, or races."""
        tool = shutil.which("compute-sanitizer")
        if tool is None or self.rehearse:
            return "not run: no compute-sanitizer"
        for kind in ("memcheck", "racecheck"):
            command = [tool, "--tool", kind, "--error-exitcode", "9", KIT / "kernels"]
            self.run([*command, *SANITIZED], TORCHACC_TEST_GPU="1")
        return "memcheck and racecheck clean"


def cuda_folders():
    """Where the Python environment has NVIDIA's libraries."""
    folders = [Path(path) / "nvidia" for path in sys.path]
    return [library for folder in folders for library in sorted(folder.glob("*/lib"))]


def last(pattern, text):
    found = re.findall(pattern, text)
    if not found:
        raise Failed(f"says nothing of its result\n{tail(text)}")
    return found[-1]


def tail(text, lines=40):
    text = text.decode(errors="replace") if isinstance(text, bytes) else text or ""
    return "\n".join(text.splitlines()[-lines:])


def machine():
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        return subprocess.run(query, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no GPU: {error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ["kernels", "operators", "graphs", "eager", "sanitizer"]
    parser.add_argument("checks", nargs="*", default=names, help=f"some of {', '.join(names)}")
    parser.add_argument("--limit", type=int, default=240, help="seconds that a command may take")
    parser.add_argument("--rehearse", action="store_true", help="on a machine without a GPU")
    options = parser.parse_args()
    if unknown := set(options.checks) - set(names):
        parser.error(f"no check is called {', '.join(sorted(unknown))}")
    if not (KIT / "kernels").exists():
        parser.error(f"{KIT} is not there: make gpu-kit")
    library = PACKAGE / "torchacc" / "lib"
    library.mkdir(exist_ok=True)
    for file in KIT.glob("*.so*"):
        shutil.copy2(file, library)
    checks, results = Checks(options), []
    print(f"{machine()}; Python {sys.version.split()[0]}", flush=True)
    for name in options.checks:
        begun = time.monotonic()
        try:
            outcome, said = "ok", getattr(checks, name)()
        except Failed as failed:
            outcome, said = "FAILED", str(failed)
        seconds = time.monotonic() - begun
        results.append((name, outcome, seconds, said.splitlines()[0]))
        if outcome != "ok":
            print(f"---- {name}\n{said}\n", flush=True)
    for name, outcome, seconds, said in results:
        print(f"{name:10} {outcome:6} {seconds:6.0f} s  {said}")
    sys.exit(any(outcome != "ok" for _, outcome, *_ in results))


if __name__ == "__main__":
    main()
