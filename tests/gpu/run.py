"""Checks of the CUDA backend on a machine with an NVIDIA GPU: one command, a line for each check.

    make gpu-kit             # anywhere: what is to be run, into target/gpu
    python3 tests/gpu/run.py # there: a checkout, target/gpu, and a Python with PyTorch and pytest

Neither a network nor a compiler is needed there. It looks whether the GPU is what computes where
no backend is named, runs every kernel against its row's meaning,
PyTorch's operators, views, optimizers and random numbers against PyTorch on the CPU, training with
and without CUDA graphs and streams (equal bits) and against eager PyTorch on the same GPU, and
compute-sanitizer, where there is one, on some kernels. It is over within `--limit` seconds and a
few more; a check that would take longer fails with what it said so far. If $OUT names a folder,
what each check printed is left there. Exit status 1 if anything failed. `--dry-run` does all that
it can without a GPU.
"""

import argparse
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from kit import KIT, PACKAGE, ROOT, environment, share, unpack

PYTHON_TESTS = """device parity works optim random opinfo views grouped experts convolution complex
    dynamic amp generation modules loader random_programs""".split()
# Registers are counted by the compiler, not the GPU.
SKIPPED = ["cuda::tests::usage"]
# Of the device that a C++ compiler makes of the host, whatever GPU there is.
EMULATED = [f"cuda::tests::{name}" for name in ("collectives", "failure", "graphs")]
# Kernels of each kind, few enough for a tool that is a hundred times slower.
SANITIZED = ["cuda::tests::reduce", "cuda::tests::index", "cuda::tests::attention::heads_that"]
# Largest relative difference of two losses in bf16, one in PyTorch's own arithmetic.
BF16_BOUND = 2e-2


class Failed(Exception):
    """What is to be said of a check that failed."""


class Checks:
    def __init__(self, dry_run):
        self.dry_run, self.backend = dry_run, "cpu" if dry_run else "cuda"
        self.environment = os.environ | environment(PACKAGE / "tests")
        # Of the check that runs: where its commands write, and when it must be over.
        self.log, self.end = Path(), 0.0

    def run(self, command, parsed=False, **variables):
        """What a command printed; if that is to be parsed, without its stderr. Its failure, and
        running out of time, fail the check."""
        seconds, late = max(self.end - time.monotonic(), 0), False
        with self.log.open("ab") as log:
            begun = log.tell()
            process = subprocess.Popen(
                list(map(str, command)),
                env=self.environment | variables,
                cwd=ROOT,
                stdout=subprocess.PIPE if parsed else log,
                stderr=log,
                start_new_session=True,
            )
            try:
                result = process.communicate(timeout=seconds)[0] or b""
                log.write(result)
            except subprocess.TimeoutExpired:
                late = True
                # pytest then says what it found so far.
                process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(10)
            finally:
                # What the command started, too.
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        said = self.log.read_bytes()[begun:].decode(errors="replace")
        if late or process.returncode != 0:
            why = f"not done in {seconds:.0f} s" if late else f"exit status {process.returncode}"
            raise Failed(f"{why}: {tail(said, 1)}\n{tail(said)}")
        return result.decode(errors="replace") if parsed else said

    def default(self):
        """Where no backend is named the GPU computes."""
        code = (
            "import torch, torchacc; x = torch.ones(2, device='acc') + 1; "
            "print(x.tolist(), torch.acc.memory.native_device())"
        )
        said = self.run([sys.executable, "-c", code], parsed=True, TORCHACC_BACKEND="").strip()
        if said != f"[2.0, 2.0] {None if self.dry_run else 'cuda:0'}":
            raise Failed(f"it prints {said}")
        return said

    def kernels(self):
        """Each kernel against its row's meaning; what cuDNN computes, too."""
        skipped = SKIPPED if self.dry_run else SKIPPED + EMULATED
        kernels = KIT / "kernels"
        command = [kernels, "cuda::tests", *(f"--skip={name}" for name in skipped)]
        names = re.findall(r"(\S+): test\n", self.run([*command, "--list"], parsed=True))
        if not names:
            raise Failed("it lists no tests")
        # Most of the time is the compiler's, one kernel after the other in a process.
        each = (
            f"printf '%s\\n' \"$@\" | xargs -P {min(os.cpu_count(), 16)} -n 1 '{kernels}' --exact"
        )
        test_gpu = {} if self.dry_run else {"TORCHACC_TEST_GPU": "1"}
        said = self.run(["sh", "-c", each, "sh", *names], **test_gpu)
        return f"{said.count('test result: ok. 1 passed')} of {len(names)} passed"

    def operators(self):
        """PyTorch's operators and what is built of them, against PyTorch on the CPU."""
        files = [PACKAGE / "tests" / f"test_{name}.py" for name in PYTHON_TESTS]
        # Most of the time is the compiler's, one kernel after the other in a process.
        several = min(os.cpu_count(), 16)
        options = ["-n", several] if importlib.util.find_spec("xdist") else []
        options += ["-p", "no:cacheprovider", "--continue-on-collection-errors"]
        options += ["--sample-operators"]
        command = [sys.executable, "-m", "pytest", *options, *files]
        return last(r"(\d+ passed.*) in ", self.run(command, TORCHACC_BACKEND=self.backend))

    def losses(self, device, **variables):
        command = [sys.executable, ROOT / "tests" / "gpu" / "losses.py", device]
        said = self.run(command, parsed=True, TORCHACC_BACKEND=self.backend, **variables)
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
        ours, eager = self.losses("acc"), self.losses("cpu" if self.dry_run else "cuda")
        largest = max(abs(a - b) / b for a, b in zip(ours, eager, strict=True))
        said = f"largest relative difference of {len(ours)} losses {largest:.1e}"
        if largest > BF16_BOUND or ours[-1] > ours[0] - 1:
            raise Failed(f"{said}; from {ours[0]:.3f} to {ours[-1]:.3f}")
        return said

    def sanitizer(self):
        """No kernel of these touches what is not its own, or races."""
        tool = shutil.which("compute-sanitizer")
        if tool is None or self.dry_run:
            return "not run: no compute-sanitizer"
        for kind in ("memcheck", "racecheck"):
            command = [tool, "--tool", kind, "--error-exitcode", "9", KIT / "kernels"]
            self.run([*command, *SANITIZED], TORCHACC_TEST_GPU="1")
        return "memcheck and racecheck clean"


def last(pattern, text):
    found = re.findall(pattern, text)
    if not found:
        raise Failed(f"says nothing of its result\n{tail(text)}")
    return found[-1]


def tail(text, lines=40):
    return "\n".join(text.strip().splitlines()[-lines:])


def machine():
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
    try:
        said = subprocess.run(query, capture_output=True, text=True, check=True, timeout=60)
        return said.stdout.strip()
    except (OSError, subprocess.SubprocessError) as error:
        return f"no GPU: {error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ["default", "kernels", "operators", "graphs", "eager", "sanitizer"]
    parser.add_argument("checks", nargs="*", default=names, help=f"some of {', '.join(names)}")
    parser.add_argument("--limit", type=float, default=450, help="seconds that all may take")
    parser.add_argument("--dry-run", action="store_true", help="on a machine without a GPU")
    options = parser.parse_args()
    if unknown := set(options.checks) - set(names):
        parser.error(f"no check is called {', '.join(sorted(unknown))}")
    if not (KIT / "kernels").exists():
        parser.error(f"{KIT} is not there: make gpu-kit")
    end, failed = time.monotonic() + options.limit, []
    unpack()
    checks = Checks(options.dry_run)
    print(f"{machine()}; Python {sys.version.split()[0]}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(options.checks):
            begun = time.monotonic()
            checks.end = share(end, len(options.checks) - number)
            checks.log = Path(os.environ.get("OUT") or folder) / f"{name}.log"
            checks.log.write_bytes(b"")
            try:
                outcome, said = "ok", getattr(checks, name)()
            # Whatever it is, the other checks go on.
            except Exception as error:
                kind = "" if isinstance(error, Failed) else f"{type(error).__name__}: "
                outcome, said = "FAILED", f"{kind}{error}"
                failed.append(name)
            first, *more = said.splitlines()
            print(f"{name:10} {outcome:6} {time.monotonic() - begun:6.0f} s  {first}", flush=True)
            if more:
                print("\n".join(["----", *more, "----"]), flush=True)
    print(f"failed: {', '.join(failed)}" if failed else "nothing failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
