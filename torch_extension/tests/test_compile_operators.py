"""Control flow and attention as operators of a graph of `torch.compile`."""

import functools
import math

import pytest
import torch
import torch.nn as nn
import torchacc
from compiled import gradients, leaf, whole
from support import DEVICE, assert_same, to_device
from torch._dynamo.utils import counters
from torch._higher_order_ops import associative_scan, map, scan, while_loop
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention
from training import counts, settle


@pytest.fixture(autouse=True)
def _nothing_captured():
    torch._dynamo.reset()
    counters.clear()


def by_steps(step, carry, xs):
    results = []
    for x in xs:
        carry, y = step(carry, x)
        results.append(y)
    return carry, torch.stack(results)


@torch.compiler.nested_compile_region
def region(x):
    return x.sin() * 2


def doubled(carry, x):
    carry = carry * 0.5 + x
    return carry, carry.sin()


# Each with what it means.
OPERATORS = {
    "cond": (
        lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)),
        lambda x: x.sin() if x.sum() > 0 else x.cos(),
    ),
    "while_loop": (
        lambda x: while_loop(
            lambda i, x: i < 5,
            lambda i, x: (i + 1, x * x.cos()),
            (torch.zeros((), dtype=torch.int64, device=x.device), x),
        )[1],
        lambda x: functools.reduce(lambda x, _: x * x.cos(), range(5), x),
    ),
    "scan": (
        lambda x: scan(doubled, torch.zeros_like(x[0]), x)[1],
        lambda x: by_steps(doubled, torch.zeros_like(x[0]), x)[1],
    ),
    "associative_scan": (
        lambda x: associative_scan(torch.mul, x, 0, combine_mode="generic"),
        lambda x: x.cumprod(0),
    ),
    "map": (lambda x: map(lambda row: row.exp() * 2, x), lambda x: x.exp() * 2),
    "invoke_subgraph": (lambda x: region(region(x)), lambda x: (x.sin() * 2).sin() * 2),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("compiled", [True, False])
def test_control_flow(name, compiled):
    function, meaning = OPERATORS[name]
    function = whole(function) if compiled else function
    for _ in range(2):
        x = leaf(5, 3)
        assert_same(gradients(function, to_device(x)), gradients(meaning, x))
        with torch.no_grad():
            assert_same(function(to_device(x)), meaning(x))


def test_control_flow_under_autocast_and_transforms():
    x = torch.randn(3, 4, device=DEVICE)
    layer = nn.Linear(4, 2).to(DEVICE)

    def choose(x):
        return torch.cond(x.sum() > 0, layer, lambda x: layer(x) * 2, (x,))

    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert whole(choose)(x).dtype == torch.bfloat16
    rows = torch.vmap(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)))
    expected = torch.where(x.sum(1, keepdim=True) > 0, x.sin(), x.cos())
    assert_same(whole(rows)(x), expected.cpu())


def attention(query, key, value, bias, causal=True):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1]) + bias[:, None, :]
    if causal:
        scores = scores.masked_fill(~torch.ones_like(scores[0, 0]).tril().bool(), -math.inf)
    return scores.softmax(-1) @ value


def causal(b, h, i, j):
    return i >= j


@pytest.mark.parametrize("compiled", [True, False])
def test_flex_attention(compiled):
    function = whole(flex_attention) if compiled else flex_attention
    query, key, value = (leaf(2, 2, 20, 8) for _ in range(3))
    inputs = query, key, value, leaf(2, 20)
    mask = create_block_mask(causal, None, None, 20, 20, device=DEVICE)

    def flex(query, key, value, bias):
        def score(score, b, h, i, j):
            return score + bias[h, j]

        return function(query, key, value, score_mod=score, block_mask=mask)

    expected = gradients(attention, *inputs)
    on_acc = to_device(inputs)
    assert_same(gradients(flex, *on_acc), expected)

    def step():
        gradients(flex, *on_acc)
        torchacc.cut()

    settle(step)
    # In the background there may still be a template to make of what was recorded before.
    assert (0, 0) in [counts(lambda: settle(step)) for _ in range(4)]
    with torch.no_grad():
        assert_same(flex(*on_acc), expected[0])


def test_flex_attention_of_groups_halves_and_masked_rows():
    query, key = torch.randn(1, 4, 16, 8), torch.randn(1, 2, 16, 8)
    on_acc = to_device((query, key))
    compiled = whole(flex_attention)
    # create_block_mask takes the current accelerator where it is told of no device.
    nothing = torch.compile(create_block_mask)(lambda b, h, i, j: i < 4, None, None, 16, 16)
    result, aux = compiled(
        *on_acc, on_acc[1], block_mask=nothing, enable_gqa=True, return_aux=AuxRequest(lse=True)
    )
    keys = key.repeat_interleave(2, 1)
    scores = query @ keys.transpose(-2, -1) / math.sqrt(8)
    expected = torch.cat([(scores.softmax(-1) @ keys)[:, :, :4], torch.zeros(1, 4, 12, 8)], 2)
    assert_same(result, expected, 1e-4, 1e-5)
    assert_same(aux.lse[:, :, :4], scores.logsumexp(-1)[:, :, :4], 1e-4, 1e-5)
    assert (aux.lse[:, :, 4:] == -math.inf).all()
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        for function in (compiled, flex_attention):
            inputs = [tensor.requires_grad_() for tensor in to_device((query, keys, keys))]
            found = gradients(function, *inputs)
            assert found[0].dtype == torch.bfloat16
            assert_same(found[0].float(), scores.softmax(-1) @ keys, 5e-2, 5e-2)
