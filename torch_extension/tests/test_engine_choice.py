"""The backend auto: a program that runs often stays on the faster of two engines."""

import json

import pytest
from support import run_python
from test_openxla import PLUGIN, TRAIN, needs_plugin

AUTO = {"TORCHACC_BACKEND": "auto", "TORCHACC_OPENXLA": PLUGIN}

# Trains until an engine was chosen, and some steps more; prints losses on the CPU and here, what
# was counted, and the report.
CHOOSE = f"""{TRAIN}
def wide():
    norm = torch.nn.LayerNorm(1024)
    return torch.nn.Sequential(
        torch.nn.Linear(16, 1024), torch.nn.GELU(), norm, torch.nn.Linear(1024, 4)
    )

torch.manual_seed(0)
models = [wide()]
models.append(copy.deepcopy(models[0]).to("acc"))
optimizers = [torch.optim.SGD(model.parameters(), lr=1e-2) for model in models]
losses = ([], [])

def step(number):
    for model, optimizer, found in zip(models, optimizers, losses):
        device = next(model.parameters()).device
        optimizer.zero_grad()
        loss = loss_of(model, *(part.to(device) for part in rows(number)))
        loss.backward()
        optimizer.step()
        found.append(loss.item())

def is_chosen():
    metrics = torchacc.metrics()
    return metrics["engine_measured"] + metrics["engine_chosen"] > 0

steps = 0
while steps < LEAST or steps < MOST and not is_chosen():
    step(steps)
    steps += 1
for number in range(steps, steps + 5):
    step(number)
metrics = torchacc.metrics()
print(json.dumps([losses, metrics, torchacc.explain(), steps]))
"""


def choose(folder, least=0, most=3000, **environment):
    code = CHOOSE.replace("LEAST", str(least)).replace("MOST", str(most))
    result = run_python(code, **AUTO | environment, TORCHACC_CACHE_DIR=str(folder))
    assert result.returncode == 0, result.stderr
    (expected, losses), metrics, report, steps = json.loads(result.stdout.splitlines()[-1])
    assert losses == pytest.approx(expected, rel=1e-3, abs=1e-5)
    return metrics, report, steps


@needs_plugin
def test_what_runs_often_is_measured_once_for_all_processes(tmp_path):
    metrics, report, _ = choose(tmp_path)
    assert metrics["engine_measured"] == 1
    assert metrics["engine_compiles"] > 0
    assert metrics["engine_runs"] >= 11
    chosen = metrics["engine_chosen"]
    name = "openxla" if chosen else "cpu"
    assert f"operations run on {name}: a run took" in report
    assert "on the second engine" in report
    # What was chosen is known in the next process: nothing is measured, nothing compiled.
    metrics, report, _ = choose(tmp_path, least=300, most=300)
    assert metrics["engine_measured"] == metrics["engine_compiles"] == metrics["compiles"] == 0
    assert metrics["engine_chosen"] == chosen
    assert (metrics["engine_runs"] > 0) == (chosen == 1)
    assert ("as an earlier process had measured" in report) == (chosen == 1)


@needs_plugin
def test_what_has_to_be_deterministic_is_not_measured():
    metrics, _, _ = choose("off", least=300, most=300, TORCHACC_DETERMINISTIC="1")
    assert metrics["engine_measured"] == metrics["engine_runs"] == 0


def test_a_plugin_has_to_be_there():
    environment = AUTO | {"TORCHACC_OPENXLA": "/nowhere/plugin.so"}
    result = run_python("import torch, torchacc; torch.ones(2, device='acc')", **environment)
    assert result.returncode != 0
    assert "/nowhere/plugin.so: there is no such file" in result.stderr
