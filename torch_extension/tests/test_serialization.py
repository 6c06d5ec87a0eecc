"""Tensors and modules keep values, device, aliasing and ties through copies and files."""

import copy
import io
import pickle

import pytest
import torch
import torch.nn as nn
from support import DEVICE, GPT, twins


def through_file(value, **keywords):
    file = io.BytesIO()
    torch.save(value, file)
    file.seek(0)
    return torch.load(file, **keywords)


@pytest.mark.parametrize(
    "duplicate",
    [
        copy.deepcopy,
        lambda m: pickle.loads(pickle.dumps(m)),
        lambda m: through_file(m, weights_only=False),
    ],
    ids=["deepcopy", "pickle", "save"],
)
def test_module_copies(duplicate):
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to(DEVICE)
    other = duplicate(model)
    for p, q in zip(model.state_dict().values(), other.state_dict().values(), strict=True):
        assert q.device == p.device
        assert torch.equal(p.cpu(), q.cpu())
    with torch.no_grad():
        other[0].weight.zero_()
    assert model[0].weight.abs().sum().item() > 0


def test_state_dict_moves_between_devices():
    cpu, acc = twins(lambda: nn.Linear(3, 2))
    state = through_file(acc.state_dict())
    assert state["weight"].device == torch.device("acc:0")
    on_cpu = through_file(acc.state_dict(), map_location="cpu")
    assert on_cpu["weight"].device.type == "cpu"
    assert through_file(cpu.state_dict(), map_location=DEVICE)["weight"].is_acc
    cpu.load_state_dict(state)
    acc.load_state_dict(on_cpu)
    assert torch.equal(cpu.weight, acc.weight.cpu())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_file_keeps_aliasing(dtype):
    x = torch.arange(6, device=DEVICE).to(dtype)
    a, b = through_file([x, x[2:]])
    assert a.dtype == dtype
    assert torch.equal(a.cpu(), x.cpu())
    a[2] = 0
    assert b[0].item() == 0


def test_legacy_file_format():
    file = io.BytesIO()
    torch.save(torch.arange(3.0, device=DEVICE), file, _use_new_zipfile_serialization=False)
    file.seek(0)
    assert torch.load(file).tolist() == [0, 1, 2]


def test_tied_weights_survive_the_move():
    model = GPT().to(DEVICE)
    assert model.head.weight is model.token.weight
    assert copy.deepcopy(model).head.weight.data_ptr() != model.head.weight.data_ptr()
    twin = copy.deepcopy(model)
    assert twin.head.weight is twin.token.weight
    model.cpu()
    assert model.head.weight is model.token.weight
    names = [name for name, _ in model.named_parameters()]
    assert "head.weight" not in names


def test_move_keeps_parameter_identity():
    model = nn.Linear(2, 2)
    weight = model.weight
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.to(DEVICE)
    assert model.weight is weight
    assert optimizer.param_groups[0]["params"][0].is_acc
    model.half()
    assert model.weight.dtype == torch.float16
    model.float().double().float()
    assert model.weight.is_acc
