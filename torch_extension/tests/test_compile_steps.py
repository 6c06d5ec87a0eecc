"""Whole steps under `torch.compile`, with the optimizer and the device's own functions; programs of
`torch.export`."""

import tomllib
from pathlib import Path

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from compiled import classifier, graphs, whole
from support import DEVICE, assert_same, run_python, to_device, twins
from torch._dynamo.utils import counters
from training import counts, settle

BACKENDS = ["inductor", "torchacc"]
PROJECT = Path(__file__).parents[2] / "pyproject.toml"


@pytest.fixture(autouse=True)
def _nothing_captured():
    torch._dynamo.reset()
    counters.clear()


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.AdamW, {}),
        (torch.optim.AdamW, {"fused": True}),
        (torch.optim.AdamW, {"foreach": False, "capturable": True}),
    ],
)
def test_a_compiled_optimizer_ends_the_step(optimizer, options):
    def prepare(device):
        weights = [torch.full((3,), 1.0, device=device), torch.full((2, 2), 2.0, device=device)]
        parameters = [nn.Parameter(w) for w in weights]
        # The others are about how it is computed.
        given = (
            options if device == DEVICE else {k: v for k, v in options.items() if k == "momentum"}
        )
        step = optimizer(parameters, lr=0.1, **given).step
        step = torch.compile(step) if device == DEVICE else step

        def run():
            for parameter in parameters:
                parameter.grad = parameter.detach() * 2
            step()

        return run, parameters

    (cpu, expected), (acc, found) = prepare("cpu"), prepare(DEVICE)
    settle(cpu, 8)
    settle(acc)
    assert counts(lambda: settle(acc))[1] == 0
    assert torchacc.metrics()["cuts"] == 4
    assert torchacc.metrics()["read_cuts"] == 0
    assert_same(found, expected, 1e-4, 1e-5)


def test_a_step_that_is_compiled_as_one_function():
    models = twins(classifier)
    x, y = torch.randn(5, 6), torch.randint(3, (5,))

    def prepare(model, device):
        optimizer = torch.optim.AdamW(model.parameters())
        data = x.to(device), y.to(device)

        def step():
            loss = F.cross_entropy(model(data[0]), data[1])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        return step

    cpu, acc = prepare(models[0], "cpu"), torch.compile(prepare(models[1], DEVICE))
    for _ in range(4):
        assert_same(acc(), cpu(), 1e-4, 1e-5)
    assert counts(lambda: settle(acc))[1] == 0
    assert torchacc.metrics()["cuts"] == 4


def test_compiled_autograd():
    cpu, acc = twins(classifier)
    x = torch.randn(5, 6)
    cpu(x).pow(2).sum().backward()
    with torch._dynamo.compiled_autograd._enable(whole):
        acc(x.to(DEVICE)).pow(2).sum().backward()
    assert graphs() == 1
    assert_same([p.grad for p in acc.parameters()], [p.grad for p in cpu.parameters()], 1e-4, 1e-5)


def test_cuts_and_waits_in_a_graph():
    for end in (torchacc.cut, torchacc.sync, torch.acc.synchronize, torch.accelerator.synchronize):

        def run(x, end=end):
            y = x + 1
            end()
            return y * 2

        compiled, alone = whole(run), whole(lambda end=end: end())
        x = torch.ones(2, device=DEVICE)
        compiled(x)
        alone()
        torchacc.sync()
        torchacc.reset_metrics()
        assert_same(compiled(x), torch.full((2,), 4.0))
        x + 1
        alone()
        assert torchacc.metrics()["cuts"] == 3


def test_state_of_the_device_is_asked_for_at_every_call():
    def run(x):
        if not torch.acc.is_available() or torch.acc.device_count() < 1:
            return None
        state = torch.acc.get_rng_state()
        first = torch.rand(3, device=DEVICE)
        torch.acc.set_rng_state(state)
        second = torch.rand(3, device=DEVICE)
        return first, second, x + torch.acc.current_device(), torch.acc.initial_seed()

    compiled = torch.compile(run)
    for seed in (1, 2, 3):
        torch.acc.manual_seed(seed)
        first, second, same, initial = compiled(torch.ones(2, device=DEVICE))
        assert torch.equal(first.cpu(), second.cpu())
        assert same.tolist() == [1, 1]
        assert initial == seed

    def seeded():
        first = torch.rand(2, device=DEVICE)
        torch.manual_seed(3)
        return first, torch.rand(2, device=DEVICE)

    torch.manual_seed(1)
    expected = seeded()
    torch.manual_seed(1)
    assert_same(torch.compile(seeded)(), to_device(expected, "cpu"))


# In a process of its own: of two devices.
DEVICES = """
import torch

def current(x):
    return x + torch.acc.current_device()

def within(x):
    with torch.acc.device("acc:1"):
        there = torch.zeros(1, device="acc"), torch.acc.current_device()
    with torch.acc.device_of(there[0]):
        x = x + torch.acc.current_device()
    return there, torch.zeros(1, device="acc"), x

def moved(x):
    torch.acc.set_device(1)
    return torch.zeros(1, device="acc"), torch.acc.current_device()

x = torch.zeros(2)
for backend in ("inductor", "torchacc"):
    for run in (current, within, moved):
        compiled = torch.compile(run, fullgraph=True, backend=backend)
        for index in (0, 1, 0):
            torch.acc.set_device(index)
            expected = run(x), torch.acc.current_device()
            torch.acc.set_device(index)
            assert str((compiled(x), torch.acc.current_device())) == str(expected), run
    torch._dynamo.reset()
print("done")
"""


def test_the_current_device_is_part_of_a_graph():
    result = run_python(DEVICES, TORCHACC_DEVICES="2")
    assert result.stdout == "done\n", result.stderr


def test_streams_and_events():
    def run(x):
        stream = torch.acc.Stream(DEVICE)
        with torch.acc.stream(stream):
            y = x + 1
        torch.acc.current_stream().wait_stream(stream)
        event = torch.acc.Event()
        event.record()
        event.synchronize()
        with torch.acc.device(0):
            return y * 2

    assert torch.compile(run)(torch.ones(2, device=DEVICE)).tolist() == [4, 4]


def test_exported_programs():
    model, x = nn.Linear(4, 2).to(DEVICE), torch.randn(3, 4, device=DEVICE)
    exported = torch.export.export(model, (x,))
    assert_same(whole(exported.module())(x), model(x).detach().cpu())
    with pytest.raises(NotImplementedError, match=r"torch\.export\.save"):
        torch._inductor.aoti_compile_and_package(exported)


def test_importing_torch_does_not_import_dynamo():
    code = "import sys, torch, torchacc; print([m for m in sys.modules if m in {}])"
    modules = {"torch._dynamo", "torch._inductor", "torch.nn.attention.flex_attention"}
    assert run_python(code.format(modules)).stdout == "[]\n"


def test_dynamo_may_be_there_first():
    # PyTorch loads the backend, and that the device, as if the package were installed.
    project = tomllib.loads(PROJECT.read_text())["project"]
    entry = project["entry-points"]["torch_dynamo_backends"]["torchacc"]
    code = f"""
import importlib.metadata
import torch, torch._dynamo, torch._inductor.compile_fx
import torch.nn.attention.flex_attention
torch._dynamo.list_backends()
entry = importlib.metadata.EntryPoint("torchacc", "{entry}", "torch_dynamo_backends")
torch._dynamo.backends.registry._BACKENDS["torchacc"] = entry
assert not hasattr(torch, "acc")
compiled = torch.compile(torch.sin, backend="torchacc")
print(compiled(torch.zeros(2)).tolist(), compiled(torch.zeros(2, device="acc")).tolist())
print(torch.compile(torch.sin)(torch.zeros(2, device="acc")).tolist())
x = torch.ones(1, 1, 2, 2, device="acc")
print(torch.nn.attention.flex_attention.flex_attention(x, x, x).sum().item())
"""
    result = run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.stdout.splitlines() == ["[0.0, 0.0] [0.0, 0.0]", "[0.0, 0.0]", "4.0"]
    assert "could not adapt" not in result.stderr
