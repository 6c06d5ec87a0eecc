"""Importing and installing change nothing until the device is used."""

import ast
import functools
import pkgutil
import sys
import textwrap
import types

import pytest
import support
import torch
import torchacc
from torchacc_autoload import LIBRARY

run_python = functools.partial(support.run_python, fresh=True)
output = functools.partial(support.output, fresh=True)
COUNT_THREADS = "import os; print(len(os.listdir('/proc/self/task')))"


def test_import_torch_alone_makes_the_device():
    code = "import torch; print(torch.ones(2, device='acc').sum().item(), torch.acc.__name__)"
    assert output(code).startswith("2.0")


def test_the_first_operations_import_no_compiler():
    """PyTorch's takes seconds; once somebody imports it, it is as it would have been."""
    code = """
        import sys, torch, torchacc
        from torchacc import _compiler

        x = torch.randn(4, 4, device="acc", requires_grad=True)
        y = torch.nn.functional.layer_norm((x * 2).exp() @ x, (4,)).softmax(-1)
        (y.std() + torch.nn.functional.huber_loss(y, x)).backward()
        torchacc.cut()
        assert x.grad.isfinite().all()
        print("torch._dynamo" in sys.modules, "torch._inductor" in sys.modules)
        double = torch.compile(lambda x: x.exp() * 2, fullgraph=True)
        print(double(torch.zeros(2, device="acc")).tolist())
        marked = [
            one
            for one in _compiler._functions_kept_from_tracing()
            if getattr(one, "__dynamo_disable", None) is one
        ]
        print("torch._dynamo" in sys.modules, marked)
    """
    assert output(textwrap.dedent(code)).split("\n") == [
        "False False",
        "[2.0, 2.0]",
        "True []",
    ]


def test_import_package_alone_makes_the_device():
    assert output("import torchacc, torch; print(torch.ones(2, device='acc').device)") == "acc:0"


def test_package_registers_where_autoload_is_off():
    off = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    assert output("import torch; print(hasattr(torch, 'acc'))", **off) == "False"
    assert output("import torchacc, torch; print(torch.zeros(1).acc().device)", **off) == "acc:0"


def test_no_submodule_takes_the_place_of_what_has_its_name():
    for module in pkgutil.walk_packages(torchacc.__path__, "torchacc."):
        package, _, name = module.name.rpartition(".")
        found = getattr(sys.modules[package], name, None)
        assert found is None or isinstance(found, types.ModuleType), module.name


def test_every_module_is_an_attribute():
    """Also where it is imported later than the package, as are functions of what trains."""
    code = """
import pkgutil, torchacc
modules = [one.name for one in pkgutil.iter_modules(torchacc.__path__) if one.name[0] != "_"]
names = {*modules, *torchacc.__all__}
print(sorted(names - {*dir(torchacc)}), len(modules) > 20)
for name in names:
    getattr(torchacc, name)
"""
    assert output(code) == "[] True"


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


@pytest.mark.parametrize("file", ["torch_version", "torch.__version__"])
def test_a_library_for_another_torch_is_named_before_it_is_loaded(file):
    code = f"""
import pathlib
read = pathlib.Path.read_text
def changed(self, **how):
    return "2.99.1+cpu" if self.name == "{file}" else read(self, **how)
pathlib.Path.read_text = changed
import torch
if "{file}" != "torch_version":
    torch.__version__ = "2.99.1+cpu"
print((torch.ones(2) + 1).tolist(), torch._C._get_privateuse1_backend_name())
try:
    import torchacc
except ImportError as error:
    print(error)
"""
    autoload = {} if file == "torch_version" else {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    result = run_python(code, **autoload)
    fine, error = result.stdout.splitlines()
    assert fine == "[2.0, 2.0] privateuseone"
    here = ".".join(torch.__version__.split(".")[:2])
    built, there = ("2.99", here) if file == "torch_version" else (here, "2.99")
    assert f"was built for PyTorch {built}, and this is PyTorch {there}." in error
    assert f"install torch=={built}.*, or a torchacc-runtime for PyTorch {there}" in error
    assert ("the device acc is not available" in result.stderr) == (file == "torch_version")


@pytest.mark.parametrize("backend, found", [("", False), ("cpu", True)])
def test_where_pytorch_has_a_gpu_a_program_asks_for_acc(backend, found):
    code = """
import torch
torch.cuda.device_count = lambda: 1
import torchacc_autoload
torchacc_autoload.autoload()
print(hasattr(torch, "acc"))
import torchacc
print(hasattr(torch, "acc"))
"""
    result = run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0", TORCHACC_BACKEND=backend)
    assert result.stdout.split() == [str(found), "True"], result.stderr


@pytest.mark.parametrize("warnings", ["default", "error"])
def test_a_device_of_another_package_leaves_torch_alone(warnings):
    # PyTorch loads the entry points of all packages in the order in which it finds them.
    code = """
import importlib.metadata
import sys
import types

other = types.ModuleType("other_device")
def autoload():
    import torch
    torch.utils.rename_privateuse1_backend("other")
other.autoload = autoload
sys.modules["other_device"] = other
entry_points = importlib.metadata.entry_points
first = importlib.metadata.EntryPoint("other", "other_device:autoload", "torch.backends")
def both(**named):
    found = entry_points(**named)
    return [first, *found] if named.get("group") == first.group else found
importlib.metadata.entry_points = both
import torch
print(torch._C._get_privateuse1_backend_name(), (torch.ones(2) + 1).tolist())
try:
    import torchacc
except ImportError as error:
    print("uninstall" in str(error))
"""
    result = run_python(code, PYTHONWARNINGS=warnings)
    assert result.stdout.splitlines() == ["other [2.0, 2.0]", "True"], result.stderr
    assert result.stderr.count("the device acc is not available") == 1
    assert "another package has registered its device" in result.stderr


def test_no_failure_of_the_package_breaks_torch():
    code = """
import sys
import torchacc_autoload
class Broken:
    def find_spec(self, name, path=None, target=None):
        if name == "torchacc":
            raise AttributeError("something of ours is broken")
sys.meta_path.insert(0, Broken())
import torch
print((torch.ones(2) + 1).tolist())
"""
    result = run_python(code)
    assert result.stdout.split() == ["[2.0,", "2.0]"], result.stderr
    assert "something of ours is broken" in result.stderr


@pytest.mark.parametrize("path", sorted(LIBRARY.parent.glob("*.so*")), ids=lambda p: p.name)
def test_libraries_are_small(path):
    assert path.stat().st_size <= 15 * 2**20
