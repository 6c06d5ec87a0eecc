"""Adapters are loaded with their library, mend what they find, and leave the rest alone.

The libraries are stubs here; torch_extension/tests_models has tests of the real ones.
"""

import ast
import sys
import textwrap

import pytest
import torch
import torchacc
from support import DEVICE, run_python

# What accelerate has, as far as the adapter is concerned.
STUB = {
    "accelerate/__init__.py": """
        from accelerate.state import PartialState
        from accelerate.accelerator import Accelerator
        from accelerate.utils import get_grad_scaler
        import accelerate.checkpointing
        __version__ = "1.2.3"
    """,
    "accelerate/state.py": """
        import enum
        import torch
        DistributedType = enum.Enum("DistributedType", ["NO", "MULTI_CPU"])
        class PartialState:
            device = backend = None
            @property
            def default_device(self):
                return torch.device("cpu")
            def _prepare_backend(self, cpu=False, sagemaker_dp=False, backend=None):
                return ("gloo" if cpu else backend), DistributedType.NO
            def set_device(self):
                self.device = self.device or torch.device("cpu")
    """,
    "accelerate/accelerator.py": """
        from accelerate.utils import get_grad_scaler
        class Accelerator:
            def __init__(self, device):
                supported = ("xpu", "cuda", "npu")
                if device not in supported:
                    raise ValueError(device)
    """,
    "accelerate/checkpointing.py": """
        def save_accelerator_state(output_dir, model_states, process_index=0):
            return output_dir
        def load_accelerator_state(input_dir, models, process_index=0):
            return {}
    """,
    "accelerate/utils/__init__.py": "from .modeling import get_grad_scaler",
    "accelerate/utils/modeling.py": """
        def get_grad_scaler(distributed_type=None, **kwargs):
            return "another"
        def get_max_memory(max_memory=None):
            return dict(max_memory or {"cpu": 7})
    """,
    "accelerate/utils/memory.py": """
        def clear_device_cache(): pass
        def should_reduce_batch_size(exception): return False
    """,
}
LOADED = "print(sorted(m for m in sys.modules if m.startswith('torchacc.adapters.')))"


@pytest.fixture
def stub(tmp_path):
    """Writes a library of that name, with these files instead of the stub's; the path to it."""

    def write(**other):
        changed = {name.replace("__", "/") + ".py": text for name, text in other.items()}
        for name, text in (STUB | changed).items():
            file = tmp_path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(textwrap.dedent(text))
        return tmp_path

    return write


def output(code, path):
    result = run_python("import sys, warnings\n" + textwrap.dedent(code), PYTHONPATH=str(path))
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines(), result.stderr


USE = """
    import accelerate
    print(accelerate.PartialState().default_device)
    accelerate.Accelerator("acc")
    print(type(accelerate.get_grad_scaler()).__name__)
"""


@pytest.mark.parametrize(
    "first", ["import torch", "import torchacc", "", "import accelerate.utils.modeling"]
)
def test_a_library_is_mended_whatever_is_imported_first(stub, first):
    lines, errors = output(f"    {first}{USE}", stub())
    assert lines == ["acc", "GradScaler"]
    assert "UserWarning" not in errors


def test_a_library_that_is_there_already_is_mended(stub, monkeypatch):
    code = """
        import os
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        import accelerate
        print(accelerate.PartialState().default_device)
        import torchacc
    """
    lines, errors = output(textwrap.dedent(code) + textwrap.dedent(USE), stub())
    assert lines == ["cpu", "acc", "GradScaler"]
    assert "UserWarning" not in errors


def test_copies_under_other_names_are_replaced_too(stub):
    code = """
        import os
        os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
        import accelerate.copies as copies
        from accelerate.utils import modeling
        import torchacc
        print(copies.scaler is modeling.get_grad_scaler, copies.memory is modeling.get_max_memory)
        print(copies.memory.__module__, type(copies.scaler()).__name__)
    """
    lines, errors = output(
        code,
        stub(
            accelerate__copies="""
                from accelerate.utils.modeling import get_grad_scaler as scaler
                from accelerate.utils.modeling import get_max_memory as memory
            """
        ),
    )
    assert lines == ["True True", "accelerate.utils.modeling GradScaler"]
    assert "UserWarning" not in errors


def test_adapters_are_loaded_with_their_library_only(stub):
    code = f"""
        import torch
        {LOADED}
        import accelerate
        {LOADED}
    """
    lines, _ = output(code, stub())
    first, second = (set(ast.literal_eval(line)) for line in lines)
    # Those of what `import torch` imports itself.
    own = ("data_parallel", "encoder", "multiprocessing")
    assert first == {f"torchacc.adapters.{name}" for name in own}
    assert second - first == {"torchacc.adapters.accelerate"}


def test_looking_for_a_library_imports_nothing(stub):
    code = """
        import importlib.util, inspect, torch
        import accelerate
        print(importlib.util.find_spec("accelerate.utils.memory").name)
        print("accelerate.utils.memory" in sys.modules)
        print(type(accelerate.state.__spec__).__name__)
        print("PartialState" in inspect.getsource(accelerate.state))
    """
    lines, _ = output(code, stub())
    assert lines == ["accelerate.utils.memory", "False", "ModuleSpec", "True"]


@pytest.mark.parametrize("missing", ["function", "constant", "class"])
def test_a_place_that_is_missing_is_a_warning(stub, missing):
    files = {
        "function": {"accelerate__utils__modeling": "get_grad_scaler = print"},
        "constant": {"accelerate__accelerator": "class Accelerator:\n    def __init__(self): pass"},
        "class": {"accelerate__state": "PartialState = 7"},
    }
    names = {
        "function": "accelerate.utils.modeling.get_max_memory",
        "constant": "accelerate.accelerator.Accelerator.__init__",
        "class": "accelerate.state.PartialState.default_device",
    }
    _, errors = output("import torch, accelerate", stub(**files[missing]))
    # One for each place, which says what follows from that.
    assert errors.count("UserWarning") == (3 if missing == "class" else 1)
    assert "does not know this accelerate" in errors
    assert f"{names[missing]} is missing or different" in errors


def test_warnings_that_are_errors_stop_no_import(stub):
    code = """
        warnings.simplefilter("error")
        import torch, accelerate
        print(accelerate.PartialState)
    """
    lines, errors = output(code, stub(accelerate__state="PartialState = 7"))
    assert lines == ["7"]
    assert "is missing or different" in errors


def test_a_library_that_cannot_be_imported_fails_as_without_us(stub):
    code = """
        import torch
        try:
            import accelerate
        except ZeroDivisionError:
            print("failed", "accelerate.state" in sys.modules)
    """
    lines, errors = output(code, stub(accelerate__state="1 / 0"))
    assert lines == ["failed False"]
    assert "Warning" not in errors


def test_acc_goes_before_another_gpu(stub):
    code = """
        import torch
        torch.cuda.is_available = lambda: True
        import accelerate, torchacc
        from accelerate.utils import modeling
        print(accelerate.PartialState().default_device, list(modeling.get_max_memory()))
    """
    lines, errors = output(code, stub())
    assert lines == ["acc [0]"]
    assert "UserWarning" not in errors


def test_processes_train_together(stub):
    code = """
        import os, accelerate
        state = accelerate.PartialState()
        print(state._prepare_backend(), state._prepare_backend(True))
        os.environ["LOCAL_RANK"] = "1"
        for given in ((), (True,), (False, False, "nccl")):
            print(*state._prepare_backend(*given))
        state.set_device()
        print(state.device)
        state.device, state.backend = None, "acc"
        state.set_device()
        print(state.device)
    """
    lines, errors = output(code, stub())
    no, several = "DistributedType.NO", "DistributedType.MULTI_CPU"
    assert lines[0] == f"(None, <{no}: 1>) ('gloo', <{no}: 1>)"
    assert lines[1:] == [f"acc {several}", f"gloo {no}", f"nccl {no}", "cpu", "acc"]
    assert "UserWarning" not in errors


def test_accelerate_keeps_the_generator_and_tells_memory(stub):
    code = """
        import torch, accelerate, tempfile
        from accelerate import checkpointing
        from accelerate.utils import modeling
        folder = tempfile.mkdtemp()
        torch.manual_seed(3)
        checkpointing.save_accelerator_state(folder, [], process_index=1)
        first = torch.rand(2, device="acc").tolist()
        checkpointing.load_accelerator_state(folder, [], process_index=1)
        print(first == torch.rand(2, device="acc").tolist())
        memory = modeling.get_max_memory()
        print(list(memory), memory[0] > 7, modeling.get_max_memory({"cpu": 5, 0: 3}))
    """
    lines, _ = output(code, stub())
    assert lines == ["True", "[0] True {0: 3, 'cpu': 5}"]


def test_accelerate_hf_trainer_needs_transformers(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ImportError, match="needs transformers"):
        torchacc.accelerate_hf_trainer()


def test_what_libraries_ask_of_the_device():
    module = torch.get_device_module(DEVICE)
    assert module is torch.acc
    assert torch.accelerator.current_accelerator().type == DEVICE
    assert module.is_bf16_supported()
    assert torch.device(0) == torch.device(DEVICE, 0)
    assert {torch.bfloat16, torch.float16} <= {*module.get_amp_supported_dtype()}
    with module.amp.autocast(dtype=torch.bfloat16):
        assert torch.nn.Linear(2, 2, device=DEVICE)(torch.ones(1, 2, device=DEVICE)).dtype == (
            torch.bfloat16
        )
    scaler = module.amp.GradScaler(init_scale=4.0)
    assert scaler.is_enabled()
    assert scaler.scale(torch.ones(1, device=DEVICE)).item() == 4


class Shifted(torch.nn.Linear):
    def forward(self, x, *, shift):
        return super().forward(x) + shift["by"]


@pytest.mark.parametrize("module, inputs", [("cpu", "cpu"), (DEVICE, DEVICE), (DEVICE, "cpu")])
@pytest.mark.parametrize("devices", [None, [0]])
def test_data_parallel_runs_the_module_where_it_is(module, inputs, devices):
    linear = Shifted(4, 2).to(module)
    x, shift = torch.ones(3, 4, device=inputs), {"by": torch.ones(2, device=inputs)}
    parallel = torch.nn.DataParallel(linear, devices)
    assert list(parallel.state_dict()) == ["module.weight", "module.bias"]
    made = [
        parallel(x, shift=shift),
        torch.nn.parallel.data_parallel(linear, x, devices, module_kwargs={"shift": shift}),
    ]
    expected = linear(x.to(module), shift={"by": torch.ones(2, device=module)})
    for one in made:
        assert one.device == expected.device
        assert torch.equal(one.cpu(), expected.cpu())
    made[0].sum().backward()
    assert linear.weight.grad.tolist() == [[3.0] * 4] * 2


def test_data_parallel_has_pytorchs_names_and_devices():
    linear = torch.nn.Linear(4, 2).to(DEVICE)
    parallel = torch.nn.DataParallel(module=linear, device_ids=[0, 1], dim=1)
    assert (parallel.module, parallel.dim) == (linear, 1)
    assert parallel.device_ids == [parallel.output_device] == [linear.weight.device.index]
    on_cpu = torch.nn.DataParallel(module=torch.nn.Linear(4, 2))
    assert on_cpu.device_ids == []
    assert on_cpu.to(DEVICE)(torch.ones(3, 4)).device.type == DEVICE


def test_data_parallel_gives_results_to_the_cpu():
    linear = torch.nn.Linear(4, 2).to(DEVICE)
    x = torch.ones(3, 4)
    for made in (
        torch.nn.DataParallel(linear, output_device=-1)(x),
        torch.nn.parallel.data_parallel(linear, x, output_device=-1),
    ):
        assert made.device.type == "cpu"
        made.sum().backward()
    assert linear.bias.grad.tolist() == [6.0] * 2
