"""PyTorch's program transformations see acc as an ordinary device."""

import pytest
import torch
import torch.nn as nn
from support import DEVICE
from torch.fx.experimental.proxy_tensor import make_fx


def test_functional_transforms():
    x = torch.randn(3, 4, device=DEVICE)

    def energy(a):
        return (a**3).sum()

    torch.testing.assert_close(torch.func.grad(energy)(x).cpu(), 3 * x.cpu() ** 2)
    torch.testing.assert_close(torch.func.vmap(energy)(x).cpu(), (x.cpu() ** 3).sum(1))
    _, tangent = torch.func.jvp(energy, (x,), (torch.ones_like(x),))
    torch.testing.assert_close(tangent.cpu(), (3 * x.cpu() ** 2).sum())
    hessian = torch.func.hessian(energy)(x[0])
    torch.testing.assert_close(hessian.cpu(), torch.diag(6 * x[0].cpu()))
    functional = torch.func.functionalize(lambda a: a.clone().add_(1))
    torch.testing.assert_close(functional(x).cpu(), x.cpu() + 1)


def test_fake_tensors_and_tracing():
    graph = make_fx(lambda a: a.sin() + 1, tracing_mode="fake")(torch.ones(3, device=DEVICE))
    assert "sin" in graph.code
    with torch._subclasses.FakeTensorMode() as mode:
        x = torch.empty(3, 4, device=DEVICE)
        assert (x @ x.t()).device.type == DEVICE
        assert mode.from_tensor(torch.ones(2, device=DEVICE)).device.type == DEVICE


def test_export():
    model, x = nn.Linear(4, 2).to(DEVICE), torch.randn(3, 4, device=DEVICE)
    exported = torch.export.export(model, (x,))
    torch.testing.assert_close(exported.module()(x).cpu(), model(x).cpu())


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compile_with_graph_backends(backend):
    model = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)).to(DEVICE)
    x = torch.randn(3, 4, device=DEVICE)
    torch._dynamo.reset()
    y = torch.compile(model, backend=backend)(x)
    y.sum().backward()
    torch.testing.assert_close(y.detach().cpu(), model(x).detach().cpu())
    assert model[0].weight.grad.is_acc


def test_inference_mode():
    with torch.inference_mode():
        y = nn.Linear(2, 2).to(DEVICE)(torch.ones(1, 2, device=DEVICE))
        y.add_(1)
        assert y.is_inference()


def test_dispatch_mode_sees_every_operation():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Names(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            self.seen.append(str(function))
            return function(*args, **(kwargs or {}))

    x = torch.ones(2, device=DEVICE)
    with Names() as names:
        value = (x + 1).sum().item()
    assert value == 4
    assert names.seen[:2] == ["aten.add.Tensor", "aten.sum.default"]


def test_script():
    model = nn.Linear(2, 2).to(DEVICE)
    x = torch.ones(1, 2, device=DEVICE)
    torch.testing.assert_close(torch.jit.script(model)(x).cpu(), model(x).cpu())
