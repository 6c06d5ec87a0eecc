"""Packed sequences of torch.nn.utils.rnn: packing, padding, and recurrent layers over them."""

import random

import pytest
import torch
import torchacc
from support import DEVICE
from torch import nn
from torch.nn.utils.rnn import (
    pack_padded_sequence,
    pack_sequence,
    pad_packed_sequence,
)

KINDS = {"rnn": nn.RNN, "lstm": nn.LSTM, "gru": nn.GRU}
OPTIONS = {
    "plain": {},
    "two layers in both directions": {"num_layers": 2, "bidirectional": True},
    "no bias": {"bias": False},
}
LENGTHS = [[3], [4, 4], [5, 3, 3, 1], [1, 7, 2]]


def layer_of(kind, **options):
    torch.manual_seed(3)
    return KINDS[kind](5, 6, **options)


def states_of(layer, batch):
    torch.manual_seed(4)
    rows = layer.num_layers * (1 + layer.bidirectional)
    count = 2 if isinstance(layer, nn.LSTM) else 1
    return [torch.randn(rows, batch, layer.hidden_size) for _ in range(count)]


def train(layer, lengths, place):
    """Outputs, states and all gradients, of a loss of everything."""
    layer = place(layer)
    torch.manual_seed(5)
    sequences = [torch.randn(n, 5) for n in lengths]
    tensors = [place(t).requires_grad_() for t in (*sequences, *states_of(layer, len(lengths)))]
    packed = pack_sequence(tensors[: len(lengths)], enforce_sorted=False)
    states = tensors[len(lengths) :]
    output, left = layer(packed, tuple(states) if len(states) == 2 else states[0])
    left = left if isinstance(left, tuple) else (left,)
    loss = sum((n + 2) * (t**2).sum() for n, t in enumerate((output.data, *left)))
    found = torch.autograd.grad(loss, [*tensors, *layer.parameters()])
    return [t.detach().cpu() for t in (output.data, *left, *found)]


@pytest.mark.parametrize("lengths", LENGTHS, ids=str)
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_layers_and_their_gradients(kind, options, lengths):
    exact = train(layer_of(kind, **OPTIONS[options]), lengths, lambda t: t.to("cpu", torch.float64))
    for dtype, tolerance in ((torch.float64, 1e-9), (torch.float32, 5e-4)):
        layer = layer_of(kind, **OPTIONS[options])
        found = train(layer, lengths, lambda t, dtype=dtype: t.to(DEVICE, dtype))
        for actual, expected in zip(found, exact, strict=True):
            torch.testing.assert_close(actual.double(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_leaks_behind_the_end(kind):
    """Infinities and NaN of one sequence are in no other's results."""

    def results(place):
        layer = place(layer_of(kind, bidirectional=True).double())
        torch.manual_seed(5)
        padded = torch.randn(6, 3, 5, dtype=torch.float64)
        padded[2:, 1], padded[1, 2], padded[0, 0] = float("nan"), float("inf"), float("nan")
        output, left = layer(pack_padded_sequence(place(padded), torch.tensor([6, 2, 2])))
        left = left if isinstance(left, tuple) else (left,)
        return [t.cpu() for t in (*pad_packed_sequence(output), *left)]

    with torch.no_grad():
        found, expected = results(lambda t: t.to(DEVICE)), results(lambda t: t)
    for actual, other in zip(found, expected, strict=True):
        torch.testing.assert_close(actual, other, rtol=1e-9, atol=1e-9, equal_nan=True)
    assert found[0][:2, 1].isfinite().all()


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("lengths", [[4, 4], [5, 3, 3, 1]], ids=str)
@pytest.mark.parametrize("tail", [(), (2,), (2, 3)], ids=str)
def test_packing_and_padding(batch_first, lengths, tail):
    def results(place):
        torch.manual_seed(6)
        # One step more than the longest has.
        padded = torch.randn(lengths[0] + 1, len(lengths), *tail, dtype=torch.float64)
        padded = padded.transpose(0, 1) if batch_first else padded
        padded = place(padded).requires_grad_()
        packed = pack_padded_sequence(padded, torch.tensor(lengths), batch_first=batch_first)
        longer, of_longer = pad_packed_sequence(
            packed, batch_first, padding_value=-2.0, total_length=lengths[0] + 2
        )
        again, of_again = pad_packed_sequence(packed, batch_first)
        loss = (longer**3).sum() + (again**2).sum() + packed.data.exp().sum()
        (grad,) = torch.autograd.grad(loss, padded, create_graph=True)
        (second,) = torch.autograd.grad(grad.square().sum(), padded)
        assert packed.batch_sizes.device.type == of_again.device.type == "cpu"
        values = (packed.data, packed.batch_sizes, longer, of_longer, again, of_again, grad, second)
        return [t.detach().cpu() for t in values]

    for actual, expected in zip(results(lambda t: t.to(DEVICE)), results(lambda t: t), strict=True):
        torch.testing.assert_close(actual, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_new_lengths_compile_nothing(kind):
    layer = layer_of(kind, bidirectional=True).to(DEVICE)
    lengths = random.Random(0)

    def step():
        some = sorted((lengths.randint(2, 20) for _ in range(4)), reverse=True)
        some[0] += 1  # not all of one length
        padded = torch.ones(some[0], 4, 5).to(DEVICE)
        layer.zero_grad()
        output, left = layer(pack_padded_sequence(padded, torch.tensor(some)))
        left = left[0] if isinstance(left, tuple) else left
        (pad_packed_sequence(output)[0].square().sum() + left.sum()).backward()
        torchacc.sync()

    for _ in range(6):
        step()
    torchacc.reset_metrics()
    for _ in range(8):
        step()
    counters = torchacc.metrics()
    assert (counters["compiles"], counters["host_calls"]) == (0, 0)
    assert counters["recorded_ops"] < 8 * 200


def test_what_pytorch_refuses_is_refused_in_the_same_words():
    def said(f):
        with pytest.raises(RuntimeError) as error:
            f()
        return str(error.value).splitlines()[0]

    x = torch.ones(4, 2, 5)
    for lengths in ([4, 0], [2, 4], [4, 4, 4]):
        given = torch.tensor(lengths)
        expected = said(lambda given=given: pack_padded_sequence(x, given))
        assert said(lambda given=given: pack_padded_sequence(x.to(DEVICE), given)) == expected
