"""Importing and installing change nothing until the device is used."""

import ast

import pytest
from support import run_python
from torchacc_autoload import LIBRARY

COUNT_THREADS = "import os; print(len(os.listdir('/proc/self/task')))"


def output(code, **environment):
    result = run_python(code, **environment)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_import_torch_alone_makes_the_device():
    code = "import torch; print(torch.ones(2, device='acc').sum().item(), torch.acc.__name__)"
    assert output(code).startswith("2.0")


def test_import_package_alone_makes_the_device():
    assert output("import torchacc, torch; print(torch.ones(2, device='acc').device)") == "acc:0"


def test_package_registers_where_autoload_is_off():
    off = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    assert output("import torch; print(hasattr(torch, 'acc'))", **off) == "False"
    assert output("import torchacc, torch; print(torch.zeros(1).acc().device)", **off) == "acc:0"


def test_import_starts_no_thread():
    alone = output(f"import torch; {COUNT_THREADS}", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert output(f"import torch, torchacc; {COUNT_THREADS}") == alone


def test_seeding_and_asking_start_no_thread():
    calls = "torch.manual_seed(1); torch.acc.is_available(); torchacc.metrics(); torch.ones(2) + 1"
    alone = output(
        f"import torch; torch.manual_seed(1); torch.ones(2) + 1; {COUNT_THREADS}",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert output(f"import torch, torchacc; {calls}; {COUNT_THREADS}") == alone


def test_import_changes_no_setting():
    code = """
import os
before = dict(os.environ)
import torch
import torchacc
from torch.optim.optimizer import _global_optimizer_post_hooks as hooks
print([before == dict(os.environ), len(hooks), str(torch.get_default_device())])
"""
    assert ast.literal_eval(output(code)) == [True, 0, "cpu"]


def test_optimizers_on_the_cpu_are_not_touched():
    code = """
import torch, torchacc
weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weight], lr=0.1)
torch.ones(1, device="acc").cpu()
torchacc.reset_metrics()
weight.sum().backward()
optimizer.step()
print(torchacc.metrics()["cuts"])
"""
    assert output(code) == "0"


def test_missing_library_leaves_torch_alone():
    code = """
import pathlib
exists = pathlib.Path.exists
pathlib.Path.exists = lambda self: self.name != "libtorchacc_torch.so" and exists(self)
import torch
print(hasattr(torch, "acc"))
try:
    import torchacc
except ImportError as error:
    print("make build" in str(error))
"""
    assert output(code).split() == ["False", "True"]


@pytest.mark.parametrize("path", sorted(LIBRARY.parent.glob("*.so*")), ids=lambda p: p.name)
def test_libraries_are_small(path):
    assert path.stat().st_size <= 15 * 2**20
