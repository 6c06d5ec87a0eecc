"""Which backend acc computes on: what is asked for, else the CPU."""

import os
import subprocess
from pathlib import Path

import pytest
import torch
import torchacc
from support import run_python

ROOT = Path(__file__).resolve().parents[2]
SHOW = """
import warnings
import torch, torchacc
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    x = torch.ones(2, device="acc")
    kind = int(torch.ops.acc.dlpack_device()[0])
    if kind == 1:
        print((x + 1).tolist())
        torchacc.sync()
print(kind, *(str(one.message) for one in said))
"""


@pytest.fixture
def with_driver(tmp_path):
    """Runs code where NVIDIA's driver is one made of the host's memory, as its defines say."""
    # A GPU that there is would be PyTorch's, too.
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    headers = (Path(torch.__file__).parents[1] / "nvidia").glob("*/include/cuda.h")
    header = next(headers, None)
    if header is None:
        pytest.skip("there is no cuda.h in NVIDIA's wheels")
    source = ROOT / "src" / "backend" / "cuda" / "driver" / "tests" / "fake.c"

    def run(code, *defines, backend=""):
        library = tmp_path / "libcuda.so.1"
        compiler = os.environ.get("CC", "cc")
        command = [
            compiler,
            "-shared",
            "-fPIC",
            *defines,
            "-I",
            header.parent,
            source,
            "-o",
            library,
        ]
        subprocess.run(command, check=True)
        return run_python(code, TORCHACC_BACKEND=backend, TORCHACC_CUDA=str(tmp_path))

    return run


def lines(result):
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def test_where_pytorch_has_no_gpu_acc_has_none_unless_it_is_named(with_driver):
    assert lines(with_driver(SHOW)) == ["[2.0, 2.0]", "1"]
    kind, _, said = lines(with_driver(SHOW, backend="cuda"))[0].partition(" ")
    assert kind == "2"
    assert "a GPU that PyTorch cannot use" in said


@pytest.mark.parametrize(
    "backend, defines",
    [("", ["-DINIT=CUDA_ERROR_NO_DEVICE"]), ("", ["-DCAPABILITY=61"]), ("cpu", [])],
)
def test_nothing_is_said_where_there_is_no_gpu_or_the_cpu_is_named(with_driver, backend, defines):
    assert lines(with_driver(SHOW, *defines, backend=backend)) == ["[2.0, 2.0]", "1"]


def test_what_pytorch_cannot_say_of_a_gpu(with_driver):
    code = """
import warnings
import torch, torchacc
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    torchacc.set_backend("cuda")
print(len(said), torch.acc.get_device_name(), torch.acc.get_device_capability())
"""
    assert lines(with_driver(code)) == ["1 torchacc cuda:0 (0, 0)"]


def test_a_fork_of_a_process_that_has_started_cuda_is_told_so(with_driver):
    result = with_driver(SHOW, "-DINIT=CUDA_ERROR_NOT_INITIALIZED", backend="cuda")
    assert result.returncode != 0
    assert "the fork of one that had started CUDA" in result.stderr


def test_a_child_forked_while_the_device_starts_does_not_wait_for_it(with_driver):
    code = """
import os, signal, threading
import torch, torchacc

def start():
    try:
        torchacc.set_backend("cuda")
    except RuntimeError as error:
        print("parent:", error, flush=True)

# The driver says by one that it is being started, and goes on when the other says so.
begins, goes_on = os.pipe(), os.pipe()
os.dup2(begins[1], 100)
os.dup2(goes_on[0], 101)
starting = threading.Thread(target=start)
starting.start()
os.read(begins[0], 1)
child = os.fork()
if child == 0:
    signal.alarm(60)
    try:
        torch.ones(1, device="acc")
    except RuntimeError as error:
        print("child:", error, flush=True)
    os._exit(0)
print("child's status:", os.waitpid(child, 0)[1], flush=True)
os.write(goes_on[1], b"x")
starting.join()
"""
    # A driver that takes its time, and finds nothing in the end.
    init = '(write(100, "x", 1), read(101, (char[1]){0}, 1), CUDA_ERROR_NO_DEVICE)'
    child, status, parent = lines(with_driver(code, "-include", "unistd.h", f"-DINIT={init}"))
    assert child.startswith("child: ")
    assert "fork" in child
    assert status == "child's status: 0"
    assert "the driver finds no GPU" in parent


def test_a_gpu_that_is_named_is_never_another_backend(with_driver):
    result = with_driver(SHOW, "-DCAPABILITY=61", backend="cuda")
    assert result.returncode != 0
    assert "CUDA cannot be used: Fake GPU has compute capability 6.1" in result.stderr


def test_a_program_may_choose():
    code = """
import torch, torchacc
for name in ["", "gpu", "cuda:4096"]:
    try:
        torchacc.set_backend(name)
    except (RuntimeError, ValueError) as error:
        print(error)
torchacc.set_backend("reference")
torchacc.set_backend("reference")
print(torch.ones(2, device="acc").sum().item())
try:
    torchacc.set_backend("cpu")
except RuntimeError as error:
    print(error)
"""
    empty, unknown, absent, value, late = lines(run_python(code, TORCHACC_BACKEND="null"))
    assert "wants the name" in empty
    assert 'no backend "gpu"' in unknown
    assert absent.startswith("CUDA cannot be used: ")
    assert value == "2.0"
    assert 'the backend cannot become "cpu"' in late


def test_it_is_too_late_after_the_first_tensor():
    torch.ones(1, device="acc")
    with pytest.raises(RuntimeError, match="before anything else of acc"):
        torchacc.set_backend("reference")


def test_the_default_may_be_chosen_by_its_name():
    code = """
import torch, torchacc
torch.ones(1, device="acc")
torchacc.set_backend("cpu" if torch.ops.acc.dlpack_device()[0] == 1 else "cuda")
print(torch.ones(2, device="acc").sum().item())
"""
    assert lines(run_python(code, TORCHACC_BACKEND=""))[-1] == "2.0"
