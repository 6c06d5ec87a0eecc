"""Masks of every rank, alone and among other indices: reading, writing, adding, differentiating."""

import copy
import itertools

import pytest
import torch
import torch.nn.functional as F
import torchacc
from support import DEVICE, assert_same, check, to_device

SHAPE = (3, 4, 5)


def mask_of(shape, dtype, device, some=True):
    count = torch.Size(shape).numel()
    bits = torch.arange(count) % 3 == 0 if some else torch.zeros(count, dtype=torch.bool)
    return bits.view(shape).to(dtype).to(device)


def source(device, dtype=torch.float32):
    return torch.arange(60, dtype=dtype, device=device).view(SHAPE)


def whole(device, *numbers):
    return torch.tensor(numbers, device=device)


# Indices of a tensor of SHAPE, given the masks' type and the device.
INDICES = {
    "rank 0": lambda t, d: (mask_of((), t, d),),
    "rank 0 that is false": lambda t, d: (mask_of((), t, d, some=False),),
    "rank 1": lambda t, d: (mask_of((3,), t, d),),
    "rank 2": lambda t, d: (mask_of((3, 4), t, d),),
    "rank 3": lambda t, d: (mask_of((3, 4, 5), t, d),),
    "none true": lambda t, d: (mask_of((3, 4, 5), t, d, some=False),),
    "rank 1, behind": lambda t, d: (slice(None), mask_of((4,), t, d)),
    "rank 2, behind": lambda t, d: (slice(None), mask_of((4, 5), t, d)),
    "rank 1 in the last": lambda t, d: (..., mask_of((5,), t, d)),
    "rank 2 and a number": lambda t, d: (mask_of((3, 4), t, d), 2),
    "a number and rank 2": lambda t, d: (1, mask_of((4, 5), t, d)),
    "rank 2 and an index": lambda t, d: (mask_of((3, 4), t, d), whole(d, 4)),
    "rank 1 and indices": lambda t, d: (mask_of((4,), t, d).new_ones(3), whole(d, 0, 2, 3)),
    "an index and rank 2": lambda t, d: (whole(d, 1), mask_of((4, 5), t, d)),
    "two of rank 1": lambda t, d: (mask_of((3,), t, d), slice(None), mask_of((5,), t, d)),
}

CASES = [
    pytest.param(build, dtype, id=f"{name}, {dtype}")
    for (name, build), dtype in itertools.product(INDICES.items(), (torch.bool, torch.uint8))
]
pytestmark = [
    pytest.mark.filterwarnings("ignore:indexing with dtype torch.uint8"),
    pytest.mark.filterwarnings("ignore:.*nested"),
]


@pytest.mark.parametrize(("build", "dtype"), CASES)
def test_reading_and_its_gradient(build, dtype):
    def read(x):
        x = x.clone().requires_grad_()
        found = x[build(dtype, x.device)]
        (found * torch.arange(found.numel(), device=x.device).view(found.shape)).sum().backward()
        return found, x.grad

    check(read, source("cpu"))


@pytest.mark.parametrize(("build", "dtype"), CASES)
@pytest.mark.parametrize("accumulate", [False, True])
def test_writing_and_its_gradient(build, dtype, accumulate):
    def write(x):
        index = build(dtype, x.device)
        x = x.clone().requires_grad_()
        values = torch.arange(1.0, 1 + x[index].numel(), device=x.device).view(x[index].shape)
        values.requires_grad_()
        y = x * 2
        if accumulate:
            y[index] += values
        else:
            y[index] = values
        (y * y).sum().backward()
        return y, x.grad, values.grad

    check(write, source("cpu"))


# A number written where a byte says is what PyTorch refuses.
@pytest.mark.parametrize("build", INDICES.values(), ids=INDICES)
def test_writing_one_number(build):
    def write(x):
        x = x.clone()
        x[build(torch.bool, x.device)] = -1
        x[build(torch.bool, x.device)] += 5
        return x

    check(write, source("cpu"))
    check(write, source("cpu", torch.int64))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_index_put(rank):
    def put(x, accumulate, out_of_place):
        m = mask_of(SHAPE[:rank], torch.bool, x.device)
        v = x[m] * 10
        call = torch.index_put if out_of_place else torch.Tensor.index_put_
        return call(x.clone(), (m,), v, accumulate=accumulate)

    for accumulate, out_of_place in itertools.product((False, True), repeat=2):
        check(lambda x, a=accumulate, o=out_of_place: put(x, a, o), source("cpu"))


def test_a_number_of_elements_that_differs_from_step_to_step():
    for step in range(4):

        def lost(x, step=step):
            x = x.clone().requires_grad_()
            loss = x[x % (step + 2) == 0].square().sum()
            loss.backward()
            return loss, x.grad

        check(lost, source("cpu"))


def test_a_loss_of_the_masked_places():
    def lost(logits, targets):
        logits = logits.clone().requires_grad_()
        mask = targets > 1
        loss = F.cross_entropy(logits[mask], targets[mask])
        loss.backward()
        return loss, logits.grad

    check(lost, torch.linspace(-1, 1, 60).view(SHAPE), torch.arange(12).view(3, 4) % 5)


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_masked_fill_select_and_scatter(rank):
    def all_of_them(x):
        m = mask_of(SHAPE[3 - rank :], torch.bool, x.device)
        x = x.clone().requires_grad_()
        y = x.masked_fill(m, 7.0) + x.masked_scatter(m, x.detach().flip(0))
        z = x.masked_select(m)
        (y.square().sum() + z.square().sum()).backward()
        return y, z, x.grad

    check(all_of_them, source("cpu"))


def test_a_value_of_the_wrong_shape_is_still_refused():
    def write(x):
        x[mask_of(SHAPE, torch.bool, x.device)] = torch.ones(3, device=x.device)
        return x.cpu()

    for device in ("cpu", DEVICE):
        with pytest.raises(RuntimeError, match="shape mismatch"):
            write(source(device))


PADDING = {
    "aligned": [[0, 0, 0, 0, 0], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1]],
    "aligned, one empty": [[0, 0, 0, 0, 1], [1, 1, 1, 1, 1], [0, 0, 1, 1, 1]],
    "not aligned": [[0, 0, 0, 0, 1], [0, 1, 0, 1, 1], [1, 0, 0, 0, 0]],
    "none": [[0, 0, 0, 0, 0]] * 3,
}
# Beyond its arguments by default: what the encoder has, and what is around it.
ENCODERS = {
    "plain": ({}, {}),
    "with a norm": ({}, {"norm": torch.nn.LayerNorm(16)}),
    "normed first": ({"norm_first": True}, {}),
    "gelu": ({"activation": "gelu"}, {}),
    "whose mask is not looked at": ({}, {"mask_check": False}),
    "without nested tensors": ({}, {"enable_nested_tensor": False}),
    "of odd heads": ({"nhead": 1}, {}),
    "batch second": ({"batch_first": False}, {}),
}


def encoder(of_layer, of_encoder):
    torch.manual_seed(0)
    arguments = {"d_model": 16, "nhead": 2, "dim_feedforward": 32, "batch_first": True, **of_layer}
    layer = torch.nn.TransformerEncoderLayer(**arguments)
    model = torch.nn.TransformerEncoder(layer, 2, **of_encoder).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return model, torch.randn((3, 5, 16) if layer.self_attn.batch_first else (5, 3, 16))


def same_in_program(model, x, **arguments):
    """As on the CPU, everywhere, and nothing of it by the host."""
    expected = model(x, **arguments)
    on_acc = copy.deepcopy(model).to(DEVICE)
    x, arguments = to_device((x, arguments))
    torchacc.sync()
    before = torchacc.metrics()
    actual = on_acc(x, **arguments)
    names = ("cuts", "immediate_runs", "immediate_copies")
    after = torchacc.metrics()
    assert {name: after[name] - before[name] for name in names} == dict.fromkeys(names, 0)
    assert_same(actual, expected, rtol=1e-4, atol=1e-5)
    assert torchacc.metrics()["host_calls"] == before["host_calls"]


@pytest.mark.parametrize("padding", PADDING)
@pytest.mark.parametrize("kind", ENCODERS)
def test_an_encoder_in_evaluation_with_padding(kind, padding):
    model, x = encoder(*ENCODERS[kind])
    padding = torch.tensor(PADDING[padding], dtype=torch.bool)
    for context in (torch.no_grad, torch.inference_mode):
        with context():
            same_in_program(model, x, src_key_padding_mask=padding)


@pytest.mark.parametrize("padding", ["aligned", "not aligned"])
def test_an_encoder_that_does_not_pack(padding):
    padding = torch.tensor(PADDING[padding], dtype=torch.bool)
    model, x = encoder({"dropout": 0.0}, {})
    # With gradients, in training, and with another mask.
    same_in_program(model, x, src_key_padding_mask=padding)
    with torch.no_grad():
        causal = torch.ones(5, 5, dtype=torch.bool).triu(1)
        same_in_program(model, x, mask=causal, is_causal=False)
        seen = torch.zeros(3, 5, dtype=torch.bool)
        seen[1, 3:] = True
        same_in_program(model, x, mask=causal, is_causal=False, src_key_padding_mask=seen)
        same_in_program(model.train(), x, src_key_padding_mask=padding)


def test_an_encoder_of_masks_that_are_numbers():
    padding = torch.tensor(PADDING["aligned"], dtype=torch.float32)
    model, x = encoder({}, {})
    with torch.no_grad():
        for numbers in (
            padding * float("-1e4"),
            padding,
            padding.masked_fill(padding > 0, -torch.inf),
        ):
            same_in_program(model, x, src_key_padding_mask=numbers)


def test_an_encoder_is_compiled_as_torch_script():
    model, x = encoder({}, {})
    with torch.no_grad():
        torch.testing.assert_close(torch.jit.script(model)(x), model(x))


class SelfAttention(torch.nn.Module):
    def __init__(self, attention):
        super().__init__()
        self.attention = attention

    def forward(self, x, **arguments):
        return self.attention(x, x, x, **arguments)


@pytest.mark.parametrize("mask", [None, "places", "padding", "both"])
@pytest.mark.parametrize("weights", [None, "each", "mean"])
def test_attention_in_evaluation(mask, weights):
    torch.manual_seed(0)
    model = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()
    keywords = {"need_weights": weights is not None, "average_attn_weights": weights == "mean"}
    if mask in ("places", "both"):
        keywords["attn_mask"] = torch.ones(5, 5, dtype=torch.bool).triu(1)
    if mask in ("padding", "both"):
        keywords["key_padding_mask"] = torch.tensor(PADDING["aligned"], dtype=torch.bool)
    x = torch.randn(3, 5, 16)
    with torch.no_grad():
        same_in_program(SelfAttention(model), x, **keywords)


@pytest.mark.parametrize("accumulate", [False, True])
def test_a_lone_mask_is_written_in_the_program(accumulate):
    def put(x, *index, values):
        return x.clone().index_put_(index, values, accumulate=accumulate)

    def put_last(x, mask, values):
        x = x.clone()
        x[..., mask] = values
        return x

    torchacc.sync()
    before = torchacc.metrics()["host_calls"]
    for dtype in (torch.float32, torch.int64, torch.bool, torch.bfloat16):
        x = source("cpu", torch.float32).remainder(7).to(dtype)
        rows, matrix, all_of = (mask_of(SHAPE[:n], torch.bool, "cpu") for n in (1, 2, 3))
        n_rows, n_matrix = int(rows.sum()), int(matrix.sum())
        check(lambda x, m, v: put(x, m, values=v), x, rows, x.flip(0)[:n_rows])
        check(lambda x, m, v: put(x, m, values=v), x, rows, x[0, :, :1])
        check(lambda x, m, v: put(x, m, values=v), x, matrix, x.view(-1, 5)[:n_matrix])
        check(lambda x, m, v: put(x, m, values=v), x, all_of, x.view(-1)[:20])
        check(lambda x, m, v: put(x, m, values=v), x, all_of, x[0, 0, 1])
        check(lambda x, m, v: put_last(x.mT, m, v), x, matrix[0], x[0, 0, :2])
    torchacc.sync()
    assert torchacc.metrics()["host_calls"] == before
    x = torch.ones(SHAPE, device=DEVICE)
    for n in (19, 21):
        with pytest.raises(RuntimeError, match="shape mismatch"):
            put(x, mask_of(SHAPE, torch.bool, DEVICE), values=torch.ones(n, device=DEVICE)).cpu()
    assert torch.equal(x.cpu(), torch.ones(SHAPE))


def test_values_of_another_type_are_refused_at_the_call():
    x, mask = torch.zeros(3, dtype=torch.bool), torch.tensor([True, False, True])
    for count, accumulate in ((2, False), (2, True), (1, True)):
        errors = []
        for device in ("cpu", DEVICE):
            values = torch.ones(count, dtype=torch.int64, device=device)
            with pytest.raises(RuntimeError, match="source and destination dtypes match") as error:
                x.to(device).index_put_((mask.to(device),), values, accumulate=accumulate)
            errors.append(error.type)
        assert errors[0] is errors[1]
    # Though nothing is written.
    for device in ("cpu", DEVICE):
        rows, every = x.to(device).repeat(2, 1)[2:], torch.ones(3, dtype=torch.bool, device=device)
        values = torch.ones(3, dtype=torch.int64, device=device)
        with pytest.raises(RuntimeError, match="source and destination dtypes match"):
            rows[:, every] = values
    # One number fills.
    check(lambda x, m, v: x.clone().index_put_((m,), v), x, mask, torch.tensor([2]))


def nothing_but_the_mask_is_read(select):
    """Of what has been computed so far and of where a mask says."""
    x, mask = source(DEVICE), mask_of(SHAPE, torch.bool, DEVICE)
    torchacc.sync()
    before = torchacc.metrics()
    y = select(x * 2, mask)
    after = torchacc.metrics()
    assert [after[name] - before[name] for name in ("cuts", "immediate_copies")] == [0, 1]
    assert torch.equal(y.cpu(), select(x.cpu() * 2, mask.cpu()))


def test_what_a_mask_selects_from_is_not_read():
    nothing_but_the_mask_is_read(lambda x, m: x[m])
    nothing_but_the_mask_is_read(lambda x, m: x[m[:, 0, 0]])
    nothing_but_the_mask_is_read(lambda x, m: x[:, m[0]])
    nothing_but_the_mask_is_read(
        lambda x, m: x[m[:, 0, 0], torch.zeros(1, dtype=int, device=x.device)]
    )
    nothing_but_the_mask_is_read(torch.masked_select)
    nothing_but_the_mask_is_read(lambda x, m: x.masked_select(m[0]))


def test_a_mask_among_indices_says_where_to_write():
    def write(x):
        rows = mask_of(SHAPE[:1], torch.bool, x.device)
        x = x.clone()
        x[rows, 1] = 7.0
        x.index_put_((rows, torch.tensor([2], device=x.device)), x.new_tensor(1.5), accumulate=True)
        return x

    check(write, source("cpu"))
    nothing_but_the_mask_is_read(
        lambda x, m: x.index_put(
            (m[:, 0, 0], torch.tensor([2], device=x.device)), x.new_tensor(3.0)
        )
    )


def test_lists_of_masks_of_other_operators_are_their_own():
    types = []

    def sizes_of(x, masks, *_):
        types.extend(mask.dtype for mask in masks)
        return torch.empty_like(x)

    x, mask = torch.zeros(2, 3, device=DEVICE), torch.tensor([True, False, True], device=DEVICE)
    index = torch.zeros(1, dtype=torch.int64, device=DEVICE)
    with torch.library._scoped_library("torchacc_masks", "DEF") as library:
        library.define("count(Tensor x, Tensor?[] masks) -> Tensor")
        library.define("flags(Tensor x, Tensor[] flags, Tensor?[] indices) -> Tensor")
        library.impl("count", sizes_of, "Meta")
        library.impl("flags", sizes_of, "Meta")
        # Nothing computes them. (Operators with kernels in Python are never recorded.)
        with pytest.raises(NotImplementedError, match="count"):
            torch.ops.torchacc_masks.count(x, [mask[:2], mask])
        with pytest.raises(NotImplementedError, match="flags"):
            torch.ops.torchacc_masks.flags(x, [mask], [index, index])
    assert set(types) <= {torch.bool}


@pytest.mark.parametrize("kind", ["selects", "is filled"])
def test_a_number_in_a_tensor_of_the_cpu_may_stand_with_a_mask(kind):
    def fill(x):
        mask = mask_of(SHAPE, torch.bool, x.device)
        if kind == "selects":
            return torch.where(mask, x, torch.tensor(-2.5))
        return (x * 2).masked_fill(mask, torch.tensor(torch.finfo(x.dtype).min))

    x = source(DEVICE)
    torchacc.sync()
    before = torchacc.metrics()
    fill(x)
    after = torchacc.metrics()
    assert all(before[name] == after[name] for name in ("cuts", "immediate_runs", "host_calls"))
    check(fill, source("cpu"))


def test_rows_of_bools_are_read_without_a_cut():
    bits = mask_of((8, 4), torch.bool, DEVICE)
    torchacc.sync()
    before = torchacc.metrics()
    rows = bits[torch.tensor([6, 1], device=DEVICE)]
    after = torchacc.metrics()
    assert all(before[name] == after[name] for name in ("cuts", "host_calls", "immediate_runs"))
    assert torch.equal(rows.cpu(), bits.cpu()[[6, 1]])


def of_bytes(device, *numbers):
    return torch.tensor(numbers, dtype=torch.uint8, device=device).view(torch.bool)


READERS = {
    "sum": lambda m: m.sum(),
    "integers": lambda m: (m.long(), m.int(), m.to(torch.uint8), m + 0),
    "floats": lambda m: (m.float(), m.double(), m.bfloat16(), m * 1.5),
    "compared": lambda m: (m == True, m.eq(m.logical_not()), m ^ True, m & m.clone()),  # noqa: E712
    "some": lambda m: (m.any(), m[:2].all(), m.cumsum(0)),
    "chosen": lambda m: (torch.arange(5, device=m.device)[m], m.nonzero()),
    "written": lambda m: torch.zeros(5, device=m.device).masked_fill_(m, 2),
    "scattered": lambda m: torch.zeros(5, device=m.device).masked_scatter(
        m, torch.arange(1.0, 6, device=m.device)
    ),
    "where": lambda m: torch.where(m, 1.0, torch.arange(5.0, device=m.device)),
    "copied": lambda m: (m.clone().sum(), m.contiguous().long(), torch.cat([m, m]).long()),
    "in place": lambda m: (m.logical_and_(m.new_ones(5)), m.sum()),
    "on the host": lambda m: m.new_tensor([m[n].item() for n in range(5)]),
    "sorted": lambda m: m.sort(stable=True)[1],
}


@pytest.mark.parametrize("name", READERS)
def test_bools_of_other_bytes_are_true(name):
    """As where PyTorch's kernels load them (`test_non_standard_bool_values` in its own tests)."""
    read = READERS[name]
    assert_same(read(of_bytes(DEVICE, 2, 3, 0, 255, 1)), read(of_bytes("cpu", 2, 3, 0, 255, 1)))


def test_bools_that_were_written_as_bytes_are_true():
    def run(device):
        m = torch.tensor([True, False, True, False], device=device)
        m.view(torch.uint8)[1:].fill_(255)
        before = m.sum()
        m[0] = False
        return before, m.sum(), m.long(), m.view(torch.uint8) * 2

    assert_same(run(DEVICE), run("cpu"))


PARTS = {
    "masked_fill_": lambda m: m.masked_fill_(torch.arange(5, device=m.device) == 0, False),
    "index_fill_": lambda m: m.index_fill_(0, torch.tensor([0], device=m.device), False),
    "index_put_": lambda m: m.index_put_(
        (torch.tensor([0], device=m.device),), torch.tensor(False, device=m.device)
    ),
    "expanded": lambda m: m[:1].expand(3).index_fill_(0, torch.tensor([0], device=m.device), False),
    "item": lambda m: m.__setitem__(0, False),
}


@pytest.mark.parametrize("name", PARTS)
def test_bytes_that_are_not_written_stay(name):
    def run(device):
        x = torch.tensor([2, 3, 0, 255, 1], dtype=torch.uint8, device=device)
        m = x.view(torch.bool)
        PARTS[name](m)
        return x, m.sum(), m.to("cpu").view(torch.uint8).to(device)

    assert_same(run(DEVICE), run("cpu"))
