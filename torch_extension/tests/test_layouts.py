"""What is not dense is refused, with what to use instead; jagged tensors are there."""

import pytest
import torch
import torch.nn.functional as F
import torchacc
from support import DEVICE, forget_errors
from torch.nn.attention.varlen import AuxRequest, varlen_attn

INDICES = torch.tensor([[0, 1], [1, 0]])


def embedded():
    table = torch.nn.Embedding(10, 4, sparse=True).to(DEVICE)
    table(torch.tensor([1, 2], device=DEVICE)).sum().backward()


def gathered():
    x = torch.ones(5, 4, device=DEVICE, requires_grad=True)
    at = torch.zeros(2, 4, dtype=torch.long, device=DEVICE)
    torch.gather(x, 0, at, sparse_grad=True).sum().backward()


def summed_in_bags():
    table = torch.nn.EmbeddingBag(10, 4, mode="sum", sparse=True).to(DEVICE)
    table(torch.tensor([[1, 2]], device=DEVICE)).sum().backward()


def nested(device, **of):
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], device=device, **of)


def compressed(make, values):
    rows, columns = (torch.tensor(places, device=DEVICE) for places in ([0, 1, 2], [1, 0]))
    return make(rows, columns, values.to(DEVICE), (2, 2))


REFUSED = {
    "acc device has no sparse tensors. Use dense gradients (nn.Embedding and torch.gather": [
        embedded,
        gathered,
        summed_in_bags,
        lambda: torch.sparse_coo_tensor(INDICES, torch.ones(2), (2, 2), device=DEVICE),
        lambda: torch.sparse_coo_tensor(INDICES, torch.ones(2), (2, 2)).to(DEVICE),
        lambda: torch.eye(3, device=DEVICE).to_sparse(),
        lambda: torch.eye(3, device=DEVICE).to_sparse_csr(),
        lambda: torch.eye(3).to_sparse_csr().to(DEVICE),
        lambda: compressed(torch.sparse_csr_tensor, torch.ones(2)),
        lambda: compressed(torch.sparse_csc_tensor, torch.ones(2)),
        lambda: compressed(torch.sparse_bsr_tensor, torch.ones(2, 1, 1)),
    ],
    "acc device has no nested tensors of layout torch.strided. Use layout=torch.jagged": [
        lambda: nested(DEVICE).unbind(),
        lambda: torch.nested.as_nested_tensor([torch.ones(2, device=DEVICE, requires_grad=True)]),
        lambda: torch._nested_tensor_from_mask(
            torch.ones(1, 2, 3, device=DEVICE), torch.tensor([[True, False]], device=DEVICE)
        ),
        # Autograd asks for the sizes of what a copy makes.
        lambda: nested("cpu", requires_grad=True).to(DEVICE).unbind(),
    ],
    "acc device has no quantized tensors. Use torchacc.fp8": [
        lambda: torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.qint8).to(DEVICE),
        lambda: torch.quantize_per_tensor(torch.eye(3, device=DEVICE), 0.1, 0, torch.qint8),
    ],
}


@pytest.mark.parametrize(
    ("said", "call"), [(said, call) for said, calls in REFUSED.items() for call in calls]
)
def test_what_is_not_dense_is_refused_with_advice(said, call):
    with pytest.raises(NotImplementedError) as error:
        call()
    assert said in str(error.value)


def test_jagged_tensors_are_there():
    parts = [torch.ones(2), torch.ones(3)]
    made = torch.nested.nested_tensor(parts, device=DEVICE, layout=torch.jagged)
    assert torch.equal((made * 2).values().cpu(), torch.full((5,), 2.0))


def jagged(device, lengths, width=4):
    generator = torch.Generator().manual_seed(sum(lengths) + width)
    parts = [torch.randn(length, 2, width, generator=generator) for length in lengths]
    return torch.nested.nested_tensor(parts, layout=torch.jagged).to(device).requires_grad_()


def attended(device, queries, keys, width=4, **settings):
    """What attention gives, and the gradients."""
    inputs = jagged(device, queries), jagged(device, keys), jagged(device, keys, width)
    out = F.scaled_dot_product_attention(*(one.transpose(1, 2) for one in inputs), **settings)
    (out.values() * torch.arange(1.0, width + 1, device=device)).sum().backward()
    return [one.values().detach().cpu() for one in (out, *(one.grad for one in inputs))]


@pytest.mark.parametrize(
    ("queries", "keys", "settings"),
    [
        ([3, 5], [3, 5], {}),
        ([3, 5, 1], [2, 4, 7], {"width": 6}),
        ([3, 0, 1], [3, 0, 1], {"scale": 0.3}),
        ([3, 5], [0, 4], {}),
    ],
)
def test_attention_of_jagged_tensors(queries, keys, settings):
    before = torchacc.metrics()["host_calls"]
    actual = attended(DEVICE, queries, keys, **settings)
    assert torchacc.metrics()["host_calls"] == before
    torch.testing.assert_close(actual, attended("cpu", queries, keys, **settings))


def test_attention_of_nothing():
    # PyTorch's CPU refuses it.
    assert [one.numel() for one in attended(DEVICE, [0, 0], [0, 0])] == [0] * 4


def test_causal_attention_of_jagged_tensors():
    # PyTorch's CPU has it for dense tensors only.
    x = jagged(DEVICE, [3, 5]).detach().transpose(1, 2)
    out = F.scaled_dot_product_attention(x, x, x, is_causal=True)
    for actual, part in zip(out.unbind(), x.cpu().unbind(), strict=True):
        expected = F.scaled_dot_product_attention(part, part, part, is_causal=True)
        torch.testing.assert_close(actual.cpu(), expected)


def flat():
    return jagged(DEVICE, [3, 5]).detach().flatten(2)


def with_holes():
    starts, lengths = torch.tensor([0, 1], device=DEVICE), torch.tensor([3, 4], device=DEVICE)
    dense = torch.ones(2, 6, 2, 4, device=DEVICE)
    narrowed = torch.nested.narrow(dense, 1, starts, lengths, layout=torch.jagged)
    return narrowed.transpose(1, 2)


def of_other_lengths():
    return [jagged(DEVICE, lengths).transpose(1, 2) for lengths in ([3, 5], [3, 5], [5, 3])]


@pytest.mark.parametrize(
    ("said", "make"),
    [
        ("query is of size", lambda: [flat()] * 3),
        ("query has some", lambda: [with_holes()] * 3),
        (r"these are \[3, 5\] and \[5, 3\]", of_other_lengths),
    ],
)
def test_jagged_tensors_that_cannot_attend(said, make):
    with pytest.raises(ValueError, match=said):
        F.scaled_dot_product_attention(*make())


def attention_by_sequence(query, key, value, ends, key_ends, window):
    """What `varlen_attn` means, a sequence at a time."""
    out, logarithms = [], []
    for index in range(len(ends) - 1):
        q = query[ends[index] : ends[index + 1]]
        k, v = (one[key_ends[index] : key_ends[index + 1]] for one in (key, value))
        distance = torch.arange(len(k)) - torch.arange(len(q))[:, None] - (len(k) - len(q))
        seen = torch.full_like(distance, True, dtype=torch.bool)
        if window[0] >= 0:
            seen &= distance >= -window[0]
        if window[1] >= 0:
            seen &= distance <= window[1]
        scores = torch.einsum("qhd,khd->hqk", q, k) / q.shape[-1] ** 0.5
        scores = scores.masked_fill(~seen, -torch.inf)
        out.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1).nan_to_num(0), v))
        logarithms.append(scores.logsumexp(-1))
    return torch.cat(out), torch.cat(logarithms, 1)


@pytest.mark.parametrize("window", [(-1, -1), (-1, 0), (2, 0), (1, 1)])
def test_attention_of_sequences_end_to_end(window):
    ends = torch.tensor([0, 3, 3, 10, 11], dtype=torch.int32)
    key_ends = torch.tensor([0, 3, 5, 10, 11], dtype=torch.int32)
    inputs = [torch.randn(11, 2, 8, requires_grad=True) for _ in range(3)]
    expected, logarithms = attention_by_sequence(*inputs, ends.tolist(), key_ends.tolist(), window)
    expected.pow(2).sum().backward()
    ours = [one.detach().to(DEVICE).requires_grad_() for one in inputs]
    out, lse = varlen_attn(
        *(*ours, ends.to(DEVICE), key_ends.to(DEVICE), 7, 5),
        window_size=window,
        return_aux=AuxRequest(lse=True),
    )
    out.pow(2).sum().backward()
    torch.testing.assert_close(out.cpu(), expected)
    torch.testing.assert_close(lse.cpu(), logarithms)
    for one, other in zip(ours, inputs, strict=True):
        torch.testing.assert_close(one.grad.cpu(), other.grad)


def test_a_sequence_longer_than_was_said():
    x, ends = torch.ones(5, 2, 8, device=DEVICE), torch.tensor([0, 4, 5], device=DEVICE)
    with pytest.raises(IndexError, match="out of range"):
        varlen_attn(x, x, x, ends, ends, 3, 3).cpu()
    forget_errors()


@pytest.mark.parametrize("steps", [0, 4])
def test_sequences_without_rows(steps):
    """No rows, or those of no sequence."""
    inputs = [torch.ones(n, 2, 8, device=DEVICE, requires_grad=True) for n in (steps, 3, 3)]
    ends, key_ends = (torch.tensor(at, device=DEVICE) for at in ([0, 0, 0], [0, 1, 3]))
    out = varlen_attn(*inputs, ends, key_ends, 4, 4)
    out.sum().backward()
    assert torch.equal(out.cpu(), torch.zeros(steps, 2, 8))
    for one in inputs:
        assert torch.equal(one.grad.cpu(), torch.zeros(one.shape))


def test_rows_around_all_sequences():
    """Those of buffers of one size: zeros, whatever is there."""
    inside, ends = slice(1, 6), torch.tensor([1, 4, 6], device=DEVICE)
    inputs = [torch.full((9, 2, 8), torch.nan) for _ in range(3)]
    for one in inputs:
        one[inside] = torch.randn(5, 2, 8)
    whole = [one.to(DEVICE).requires_grad_() for one in inputs]
    parts = [one[inside].to(DEVICE).requires_grad_() for one in inputs]
    out, lse = varlen_attn(*whole, ends, ends, 3, 3, return_aux=AuxRequest(lse=True))
    expected, logarithms = varlen_attn(
        *(*parts, ends - 1, ends - 1, 3, 3), return_aux=AuxRequest(lse=True)
    )
    for made in (out, expected):
        made.pow(2).sum().backward()
    around = [0, 6, 7, 8]
    for one, other in zip(
        (out, lse.t(), *(x.grad for x in whole)),
        (expected, logarithms.t(), *(x.grad for x in parts)),
        strict=True,
    ):
        torch.testing.assert_close(one[inside].cpu(), other.cpu())
        assert not one[around].cpu().any()


def test_slopes_of_attention_are_refused():
    x, slopes = torch.ones(1, 5, 2, 8, device=DEVICE), torch.ones(2, device=DEVICE)
    with pytest.raises(NotImplementedError, match="no alibi_slopes"):
        torch.ops.aten._flash_attention_forward(
            *(x, x, x, None, None, 5, 5, 0.0, False, False), alibi_slopes=slopes
        )
