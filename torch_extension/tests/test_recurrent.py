"""Recurrent layers: one operation for each direction of a layer, forward and backward."""

import pytest
import torch
import torchacc
from support import DEVICE
from torch import nn

KINDS = {
    "tanh": (nn.RNN, {}),
    "relu": (nn.RNN, {"nonlinearity": "relu"}),
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
}
OPTIONS = {
    "plain": {},
    "two layers": {"num_layers": 2},
    "both directions": {"bidirectional": True},
    "two layers in both directions": {"num_layers": 2, "bidirectional": True},
    "batch first": {"batch_first": True},
    "no bias": {"bias": False},
}


def layer_of(kind, inputs=5, units=6, **options):
    torch.manual_seed(3)
    make, more = KINDS[kind]
    return make(inputs, units, **more, **options)


def states_of(layer, batch):
    """One, or two of an LSTM."""
    torch.manual_seed(4)
    rows = layer.num_layers * (1 + layer.bidirectional)
    count = 2 if isinstance(layer, nn.LSTM) else 1
    return [torch.randn(rows, *batch, layer.hidden_size) for _ in range(count)]


def train(layer, x, states, place):
    """Outputs, states and all gradients, of a loss of everything."""
    layer = place(layer)
    x, *states = (place(t.clone()).requires_grad_() for t in (x, *states))
    output, left = layer(x, tuple(states) if len(states) == 2 else states[0])
    left = left if isinstance(left, tuple) else (left,)
    loss = sum((n + 2) * (t**2).sum() for n, t in enumerate((output, *left)))
    found = torch.autograd.grad(loss, [x, *states, *layer.parameters()])
    return [t.detach().cpu() for t in (output, *left, *found)]


def against_f64(layer, x, states, tolerance, dtype=torch.float32):
    x, states = x.to(dtype), [s.to(dtype) for s in states]
    found = train(layer, x, states, lambda t: t.to(DEVICE, dtype))
    exact = train(layer, x, states, lambda t: t.to("cpu", torch.float64))
    for actual, expected in zip(found, exact, strict=True):
        torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [(1, 1), (7, 3), (4, 17)])
def test_layers_and_their_gradients(kind, options, size):
    layer = layer_of(kind, **OPTIONS[options])
    if layer.batch_first:
        size = size[::-1]
    batch = size[0] if layer.batch_first else size[1]
    against_f64(layer, torch.randn(*size, 5), states_of(layer, [batch]), 2e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_wide_layers_and_large_batches(kind):
    layer = layer_of(kind, 40, 70)
    against_f64(layer, torch.randn(3, 200, 40), states_of(layer, [200]), 2e-3)
    against_f64(layer, torch.randn(3, 40), states_of(layer, []), 1e-3)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_types(kind, dtype):
    layer = layer_of(kind).to(dtype)
    tolerance = {torch.float64: 1e-9, torch.bfloat16: 0.15, torch.float16: 2e-2}[dtype]
    against_f64(layer, torch.randn(4, 3, 5), states_of(layer, [3]), tolerance, dtype)


@pytest.mark.parametrize("kind", KINDS)
def test_the_length_changes_neither_what_is_recorded_nor_the_program(kind):
    layer = layer_of(kind).to(DEVICE)

    def step(length):
        x = torch.ones(length, 4, 5, device=DEVICE)
        layer.zero_grad()
        layer(x)[0].square().sum().backward()
        torchacc.sync()

    recorded = []
    for length in [9, 9, 12, 12, 20, 31]:
        torchacc.reset_metrics()
        step(length)
        recorded.append(torchacc.metrics()["recorded_ops"])
    assert len(set(recorded[1:])) == 1
    assert recorded[-1] < 80
    torchacc.reset_metrics()
    for length in (14, 23, 27):
        step(length)
    assert torchacc.metrics()["compiles"] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_of_gradients(kind):
    def penalty(place):
        layer = place(layer_of(kind).double())
        torch.manual_seed(5)
        x = place(torch.randn(4, 2, 5, dtype=torch.float64)).requires_grad_()
        output, _ = layer(x)
        (of_x,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
        found = torch.autograd.grad(of_x.square().sum() + output.sum(), [x, *layer.parameters()])
        return [t.cpu() for t in (of_x.detach(), *found)]

    for actual, expected in zip(penalty(lambda t: t.to(DEVICE)), penalty(lambda t: t), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_many_gradients_at_once(kind):
    def gradients(place):
        layer = place(layer_of(kind).double())
        torch.manual_seed(5)
        x = place(torch.randn(4, 2, 5, dtype=torch.float64)).requires_grad_()
        output, _ = layer(x)
        some = place(torch.eye(output.numel(), dtype=torch.float64)[:3].view(3, *output.shape))
        return torch.autograd.grad(output, x, some, is_grads_batched=True)[0].cpu()

    torch.testing.assert_close(gradients(lambda t: t.to(DEVICE)), gradients(lambda t: t))


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_last_state_is_used(kind):
    def last(place):
        layer = place(layer_of(kind, bidirectional=True).double())
        torch.manual_seed(5)
        left = layer(place(torch.randn(4, 2, 5, dtype=torch.float64)))[1]
        left = left[-1] if isinstance(left, tuple) else left
        return [t.cpu() for t in torch.autograd.grad(left.square().sum(), layer.weight_hh_l0)]

    for actual, expected in zip(last(lambda t: t.to(DEVICE)), last(lambda t: t), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_written_to_the_outputs_is_not_what_the_gradient_reads(kind, dtype):
    def step(in_place):
        layer = layer_of(kind).to(DEVICE, dtype)
        torch.manual_seed(5)
        output, left = layer(torch.randn(4, 2, 5, dtype=dtype).to(DEVICE))
        left = left[0] if isinstance(left, tuple) else left
        if in_place:
            loss = output.mul_(3).relu_().square().sum() + left.mul_(2).sum()
        else:
            loss = (output * 3).relu().square().sum() + (left * 2).sum()
        return [t.cpu() for t in torch.autograd.grad(loss, layer.parameters())]

    for actual, expected in zip(step(True), step(False), strict=True):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_asked_of_autograd(kind):
    layer, x = layer_of(kind), torch.randn(4, 2, 5)
    expected = layer(x)[0].detach()
    layer, x = layer.to(DEVICE), x.to(DEVICE)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            torch.testing.assert_close(layer(x)[0].cpu(), expected, rtol=1e-5, atol=1e-5)
    for p in layer.parameters():
        p.requires_grad_(False)
    layer.weight_hh_l0.requires_grad_()
    layer(x)[0].sum().backward()
    assert layer.weight_hh_l0.grad is not None
    assert layer.weight_ih_l0.grad is None


@pytest.mark.parametrize("kind", KINDS)
def test_transformations_see_the_steps(kind):
    layer, x = layer_of(kind), torch.randn(4, 2, 5)
    names = dict(layer.named_parameters())

    def loss(parameters, x):
        return torch.func.functional_call(layer, parameters, (x,))[0].square().sum()

    def results(place):
        parameters = {name: place(p.detach()) for name, p in names.items()}
        at = place(x)
        of_parameters = torch.func.grad(loss)(parameters, at)
        _, along = torch.func.jvp(lambda x: loss(parameters, x), (at,), (torch.ones_like(at),))
        return [t.cpu() for t in (*of_parameters.values(), along)]

    found = results(lambda t: t.to(DEVICE))
    with torch.backends.mkldnn.flags(enabled=False):
        exact = results(lambda t: t)
    for actual, expected in zip(found, exact, strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_autocast(kind):
    layer = layer_of(kind)
    x = torch.randn(4, 2, 5)
    exact = layer(x)[0].detach()
    layer = layer.to(DEVICE)
    with torch.autocast(DEVICE, torch.bfloat16):
        output = layer(x.to(DEVICE))[0]
    output.float().sum().backward()
    torch.testing.assert_close(output.detach().float().cpu(), exact, rtol=0.05, atol=0.05)


@pytest.mark.parametrize("kind", KINDS)
def test_what_pytorch_refuses_it_refuses_in_the_same_words(kind):
    for x in (torch.randn(4, 2, 7), torch.randn(4), torch.randn(4, 2, 5).double()):
        messages = []
        for device in ("cpu", DEVICE):
            with pytest.raises((RuntimeError, ValueError)) as error:
                layer_of(kind).to(device)(x.to(device))[0].cpu()
            messages.append(str(error.value).splitlines()[0])
        if x.dtype == torch.float32:
            assert messages[0] == messages[1]


def test_no_step_is_no_error_but_pytorchs():
    for device in ("cpu", DEVICE):
        with pytest.raises(RuntimeError, match="Expected sequence length to be larger than 0"):
            layer_of("gru").to(device)(torch.randn(0, 2, 5).to(device))
    output, state = layer_of("gru").to(DEVICE)(torch.randn(3, 0, 5).to(DEVICE))
    assert output.shape == (3, 0, 6)
    assert state.shape == (1, 0, 6)
