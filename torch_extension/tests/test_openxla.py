"""The backend openxla: programs whose parts a plugin of OpenXLA computes, against PyTorch's CPU."""

import json
import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import ranks
import torch
from support import output, run_python

TESTS = Path(__file__).resolve().parent
UNPACKED = TESTS.parents[1] / "target/openxla/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"
PLUGIN = os.environ.get("TORCHACC_OPENXLA") or str(UNPACKED)
MISSING = f"no plugin of OpenXLA at {PLUGIN}: make openxla-plugin"
needs_plugin = pytest.mark.skipif(not Path(PLUGIN).exists(), reason=MISSING)
if not Path(PLUGIN).exists():
    # In the summary of the run, where reasons for skipping are not.
    warnings.warn(f"SKIPPED: {MISSING}", stacklevel=1)
ENGINE = {"TORCHACC_BACKEND": "openxla", "TORCHACC_OPENXLA": PLUGIN}

# A training on acc and on the CPU; prints the losses of both, and what was counted after each step.
TRAIN = f"""
import copy, json, sys
sys.path.insert(0, {str(TESTS)!r})
import torch, torchacc
from support import GPT, token_batch

NAMES = ("engine_runs", "engine_compiles", "engine_loads", "kernels", "compiles", "host_calls")

def mlp():
    return torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    )

def rows(step):
    generator = torch.Generator().manual_seed(step)
    x = torch.randn(8, 16, generator=generator)
    return x, torch.randint(4, (8,), generator=generator)

def loss_of(model, x, targets):
    if isinstance(model, GPT):
        return model(x, targets)
    return torch.nn.functional.cross_entropy(model(x), targets)

def train(model, batch, device, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses, counted = [], []
    for step in range(steps):
        loss = loss_of(model, *(part.to(device) for part in batch(step)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        torchacc.sync()
        counters = torchacc.metrics() if device == "acc" else {{}}
        counted.append([counters.get(name, 0) for name in NAMES])
    return losses, counted

def both(build, batch, steps=6):
    torch.manual_seed(0)
    cpu = build()
    acc = copy.deepcopy(cpu).to("acc")
    expected, _ = train(cpu, batch, "cpu", steps)
    losses, counted = train(acc, batch, "acc", steps)
    weights = [p.detach().cpu() for p in acc.parameters()]
    torch.testing.assert_close(weights, list(cpu.parameters()), rtol=1e-3, atol=2e-4)
    print(json.dumps([losses, expected, counted]))
"""


def train(code, folder="off", **environment):
    """Losses on acc, on the CPU, and by name what was counted after each step."""
    result = run_python(TRAIN + code, **ENGINE, TORCHACC_CACHE_DIR=str(folder), **environment)
    assert result.returncode == 0, result.stderr
    losses, expected, counted = json.loads(result.stdout.splitlines()[-1])
    names = ("runs", "compiles", "loads", "kernels", "programs", "host_calls")
    return losses, expected, dict(zip(names, zip(*counted, strict=True), strict=True))


def a_step(counts):
    """What the last steps took each."""
    last = [b - a for a, b in zip(counts[-3:], counts[-2:], strict=False)]
    assert len(set(last)) == 1, counts
    return last[0]


@needs_plugin
def test_an_mlp_trains():
    losses, expected, counted = train("both(mlp, rows)")
    assert losses == pytest.approx(expected, rel=1e-4)
    # The first step, and the others, whose optimizer has a state. The index of cross entropy is
    # checked in between.
    assert counted["compiles"][-1] == counted["compiles"][1]
    assert counted["programs"][-1] == counted["programs"][1] == 2
    assert a_step(counted["runs"]) == 2
    assert a_step(counted["kernels"]) <= 4
    assert counted["host_calls"][-1] == 0


GPT_STEPS = (
    "both(lambda: GPT(width=32, layers=1, context=16), lambda n: token_batch(n, context=16))"
)


@needs_plugin
def test_a_gpt_trains_and_a_second_process_compiles_nothing(tmp_path):
    losses, expected, counted = train(GPT_STEPS, tmp_path)
    assert losses == pytest.approx(expected, rel=1e-4)
    assert counted["compiles"][-1] == counted["compiles"][1] > 0
    assert counted["loads"][-1] == 0
    # All but embeddings, the loss's index and their gradients.
    assert a_step(counted["runs"]) == 2
    assert a_step(counted["kernels"]) <= 12
    again, _, others = train(GPT_STEPS, tmp_path)
    assert again == losses
    assert others["compiles"][-1] == others["programs"][-1] == 0
    assert others["loads"][-1] == counted["compiles"][-1]


# Dropout, and a limit of memory below what a step takes by itself.
DROPOUT = """
import json, torch, torchacc
torch.manual_seed(0)
layer = torch.nn.TransformerEncoderLayer(32, 4, 64, dropout=0.2, batch_first=True).to("acc")
x = torch.randn(8, 16, 32, device="acc")
optimizer = torch.optim.SGD(layer.parameters(), lr=1e-2, momentum=0.9)
losses = []
for _ in range(5):
    loss = layer(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print(json.dumps([losses, torchacc.metrics()["engine_runs"], torchacc.metrics()["peak_bytes"]]))
"""


@needs_plugin
def test_dropout_draws_what_the_cpu_draws_and_a_limit_holds():
    def trained(**environment):
        return json.loads(output(DROPOUT, TORCHACC_CACHE_DIR="off", **environment))

    expected, runs, _ = trained(TORCHACC_BACKEND="cpu")
    assert runs == 0
    assert len(set(expected)) == 5
    losses, runs, peak = trained(**ENGINE)
    assert losses == pytest.approx(expected, rel=1e-5)
    assert runs > 0
    refused = run_python(DROPOUT, TORCHACC_CACHE_DIR="off", TORCHACC_MEMORY_LIMIT="1K", **ENGINE)
    assert refused.returncode != 0
    assert "Nothing was run" in refused.stderr
    assert peak > 1000


LENGTHS = """
torch.manual_seed(0)
model = GPT(width=32, layers=1, context=64)
acc = copy.deepcopy(model).to("acc")
found, expected, counted = [], [], []
for length in (20, 33, 48, 21, 40, 64, 37, 55):
    batch = token_batch(length, context=length)
    found.append(acc(*(part.to("acc") for part in batch)).item())
    expected.append(model(*batch).item())
    counters = torchacc.metrics()
    counted.append([counters.get(name, 0) for name in NAMES])
print(json.dumps([found, expected, counted]))
"""


@needs_plugin
def test_lengths_share_the_modules_of_a_bucket():
    found, expected, counted = train(LENGTHS, TORCHACC_BUCKETS="list:64")
    assert found == pytest.approx(expected, rel=1e-4)
    # The first length of all is compiled for itself; all others are the bucket's.
    assert counted["compiles"][-1] == counted["compiles"][1]
    assert counted["programs"][-1] == 2


def run_tests(*arguments):
    """Other tests of this folder, as the engine runs them."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *arguments]
    environment = {**os.environ, **ENGINE, "TORCHACC_CACHE_DIR": "off"}
    return subprocess.run(
        command, cwd=TESTS, env=environment, capture_output=True, text=True, timeout=900
    )


@needs_plugin
def test_whole_trainings_have_the_losses_of_the_cpu():
    result = run_tests("test_parity.py")
    assert result.returncode == 0, result.stdout[-4000:]
    # Every one ran: a dot each, no "s" of a skipped one.
    assert set(result.stdout.split()[0]) == {"."}


@needs_plugin
def test_operators_are_those_of_the_cpu():
    """The sample of PyTorch's table that every run of the tests compares, gradients too; an
    operation is a program here."""
    result = run_tests("--sample-operators", "test_opinfo.py")
    assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-2000:]


@needs_plugin
def test_ranks_train_with_it():
    """Collectives are steps of their own between modules."""
    names = ("ddp", "fsdp2")
    for made in ranks.run("engines.train", 2, "llama", 5, *names, timeout=600, **ENGINE):
        for name in names:
            assert made[name]["acc"] == pytest.approx(made[name]["cpu"], rel=1e-5)
            before, last = made[name]["counts"][-2:]
            assert last["engine_runs"] > before["engine_runs"]
            assert last["engine_compiles"] == before["engine_compiles"]
            assert last["collectives"] > last["compiles"] == 0


@needs_plugin
def test_a_plugin_of_the_environment_is_found(tmp_path):
    """PyTorch in another environment, where a wheel has put the plugin, too."""
    packages = tmp_path / "lib" / "python3" / "site-packages"
    shutil.copytree(Path(torch.__file__).parent, packages / "torch", copy_function=os.symlink)
    (packages / "xla_plugins").mkdir()
    (packages / "xla_plugins" / Path(PLUGIN).stem).symlink_to(Path(PLUGIN).parent)
    code = """
import torch, torchacc
assert (torch.ones(3, device="acc") + 1).tolist() == [2, 2, 2]
print(torch.__file__, torchacc.metrics()["engine_runs"])
"""
    folders = os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])
    variables = ENGINE | {"TORCHACC_OPENXLA": "", "PYTHONPATH": folders}
    where, runs = output(code, fresh=True, **variables).split()
    assert where.startswith(str(tmp_path))
    assert int(runs) == 1


def test_a_plugin_has_to_be_there():
    code = "import torch, torchacc; torch.ones(2, device='acc')"
    result = run_python(code, **ENGINE | {"TORCHACC_OPENXLA": "/nowhere/plugin.so"})
    assert result.returncode != 0
    assert "/nowhere/plugin.so: there is no such file" in result.stderr
    assert "xla-cpu-pjrt" in result.stderr
