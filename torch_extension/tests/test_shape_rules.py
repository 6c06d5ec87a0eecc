"""The library's own shape rules: a new size asks no shape function of PyTorch's in Python, which
takes milliseconds, and what PyTorch refuses is refused as ever."""

import pytest
import torch
import torch.nn.functional as F
import torchacc
from support import DEVICE


def image(n):
    return torch.ones(2, 4, n, n + 1)


def gradient(x, n):
    """Of a sum, whose own is one number that is repeated."""
    x = x.clone().requires_grad_()
    F.conv2d(x, torch.ones(3, 4, 3, 3, device=x.device), padding=1).softmax(1).sum().backward()
    return x.grad


# What is made for a size, and the call.
CALLS = {
    "one operand twice": (lambda n: torch.ones(n, 4), lambda x, n: F.smooth_l1_loss(x, x)),
    "parts of one tensor": (
        lambda n: torch.ones(2, n, 24),
        lambda x, n: torch.logaddexp(*x.chunk(2, -1)),
    ),
    "a slice": (
        lambda n: torch.ones(1, 4, 40, 40),
        lambda x, n: F.interpolate(x[:, :, :n, 1 : n + 1], size=(24, 20), mode="bilinear"),
    ),
    "size of the result": (
        lambda n: torch.ones(1, 4, 8, 8),
        lambda x, n: F.interpolate(x, size=(n, n + 3), mode="bicubic"),
    ),
    "scale": (image, lambda x, n: F.interpolate(x, scale_factor=2, mode="bilinear")),
    "channels last": (
        lambda n: image(n).to(memory_format=torch.channels_last),
        lambda x, n: F.interpolate(x, size=(24, 20), mode="bilinear"),
    ),
    "groups": (image, lambda x, n: F.group_norm(x, 2)),
    # Its statistics are halves, too, though they are computed in f32.
    "groups of halves": (lambda n: image(n).half(), lambda x, n: F.group_norm(x, 2)),
    "norm of an image": (image, lambda x, n: F.layer_norm(x, (n, n + 1))),
    "fold": (lambda n: torch.ones(1, 4, n * n), lambda x, n: F.fold(x, (n, n), (1, 1))),
    "in place": (image, lambda x, n: x.clone().addcmul_(x, x).clamp_(0, 1).triu_()),
    "repeated": (lambda n: torch.ones(n, 1), lambda x, n: x.expand(n, 6).softmax(-1)),
    "statistics": (
        image,
        lambda x, n: F.batch_norm(x, *(x.new_ones(4) for _ in range(2)), training=True),
    ),
    "gradient": (image, gradient),
}


@pytest.mark.parametrize("name", CALLS)
def test_new_sizes_ask_no_python(name):
    make, call = CALLS[name]
    inputs = {n: make(n) for n in range(7, 16)}
    on_device = {n: x.to(DEVICE) for n, x in inputs.items()}
    for n, x in inputs.items():
        if n == 10:
            torchacc.reset_metrics()
        ours, theirs = call(on_device[n], n), call(x, n)
        assert (ours.shape, ours.stride()) == (theirs.shape, theirs.stride())
        assert ours.dtype == theirs.dtype
    counters = torchacc.metrics()
    assert counters["shape_cache_misses"] == counters["shape_rule_uses"] >= 6
    assert "native_group_norm" not in torch.ops.acc.refuted_shape_rules()


# At 11 wrong, beside calls of the same pattern that are right.
REFUSED = {
    "no elements": (image, lambda x, n: F.interpolate(x, size=(n, n % 11), mode="bilinear")),
    "another place": (
        lambda n: torch.ones(n, 4),
        lambda x, n: x.clone().add_(torch.ones(n + n // 11, 4, device=x.device)),
    ),
    "fewer columns": (
        lambda n: torch.ones(n, 4),
        lambda x, n: x.index_copy(
            0, torch.arange(3, device=x.device), torch.ones(3, 4 - n // 11, device=x.device)
        ),
    ),
    "another shape": (image, lambda x, n: F.layer_norm(x, (n, n + 1 + n // 11))),
    "other blocks": (
        lambda n: torch.ones(1, 4, n * n),
        lambda x, n: F.fold(x, (n, n + n // 11), (1, 1)),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_names_sizes_is_checked(name):
    make, call = REFUSED[name]
    for n in (7, 8, 9, 10):
        call(make(n).to(DEVICE), n)
    with pytest.raises(RuntimeError) as theirs:
        call(make(11), 11)
    with pytest.raises(type(theirs.value)):
        call(make(11).to(DEVICE), 11)


def test_rules_hide_no_error():
    """What PyTorch refuses is refused after calls of the same pattern were accepted."""
    on = {"device": DEVICE}
    for n in (2, 3, 4):
        F.layer_norm(torch.ones(n, 4, 6, **on), (4, 6), torch.ones(4, 6, **on))
        torch.addmm(torch.ones(n, 5, **on), torch.ones(n, 3, **on), torch.ones(3, 5, **on), beta=0)
    with pytest.raises(RuntimeError, match="normalized_shape"):
        F.layer_norm(torch.ones(7, 4, 6, **on), (4, 6), torch.ones(6, 4, **on))
    # PyTorch's own shape function lets this one pass; the CPU does not.
    with pytest.raises(RuntimeError, match="expanded size"):
        torch.addmm(torch.ones(8, 5, **on), torch.ones(7, 3, **on), torch.ones(3, 5, **on), beta=0)


def test_rules_know_the_default_dtype():
    def root(size):
        return torch.arange(1, size, device=DEVICE).sqrt().dtype

    assert {root(size) for size in (4, 5, 6, 7)} == {torch.float32}
    torch.set_default_dtype(torch.float64)
    try:
        assert {root(size) for size in (6, 7, 8, 9)} == {torch.float64}
    finally:
        torch.set_default_dtype(torch.float32)
