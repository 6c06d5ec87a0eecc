"""Losses and gradients of layers equal the CPU's."""

import copy

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from support import DEVICE, GPT, assert_same, check, run_python, to_device, token_batch, twins


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell = kind(4, 8, 2, batch_first=True)

    def forward(self, x):
        return self.cell(x)[0]


MODELS = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)),
        (5, 8),
    ),
    "activations": (
        lambda: nn.Sequential(
            nn.Linear(8, 8), nn.ReLU(), nn.SiLU(), nn.Tanh(), nn.Sigmoid(), nn.Softmax(-1)
        ),
        (5, 8),
    ),
    "convolutions": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.ConvTranspose2d(8, 4, 2, stride=2),
            nn.AvgPool2d(2),
            nn.GroupNorm(2, 4),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(4, 3),
        ),
        (2, 3, 8, 8),
    ),
    "encoder": (
        lambda: nn.TransformerEncoder(
            nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0), 2
        ),
        (2, 7, 32),
    ),
    "lstm": (lambda: Recurrent(nn.LSTM), (2, 5, 4)),
    "gru": (lambda: Recurrent(nn.GRU), (2, 5, 4)),
}


@pytest.mark.parametrize("name", MODELS)
def test_model(name):
    build, shape = MODELS[name]
    cpu, acc = twins(build)
    x = torch.randn(shape, requires_grad=True)
    x_acc = to_device(x)
    y, y_acc = cpu(x), acc(x_acc)
    y.square().sum().backward()
    y_acc.square().sum().backward()
    assert_same(y_acc, y, 1e-4, 1e-5)
    assert_same(x_acc.grad, x.grad, 1e-3, 1e-4)
    assert_same([p.grad for p in acc.parameters()], [p.grad for p in cpu.parameters()], 1e-3, 1e-4)
    assert_same(list(acc.buffers()), list(cpu.buffers()), 1e-4, 1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_model_in_evaluation(name):
    build, shape = MODELS[name]
    cpu, acc = twins(build)
    cpu.eval()
    acc.eval()
    x = torch.randn(shape)
    with torch.no_grad():
        assert_same(acc(x.to(DEVICE)), cpu(x), 1e-4, 1e-5)


def test_gpt_gradients():
    cpu, acc = twins(GPT)
    batch = token_batch(0)
    cpu(*batch).backward()
    acc(*to_device(batch)).backward()
    for (name, p), q in zip(cpu.named_parameters(), acc.parameters(), strict=True):
        torch.testing.assert_close(q.grad.cpu(), p.grad, rtol=1e-3, atol=1e-5, msg=name)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("shape", [(2, 4, 8, 16), (1, 2, 33, 8)])
def test_attention(shape, causal):
    inputs = [torch.randn(shape, requires_grad=True) for _ in range(3)]
    moved = to_device(inputs)
    for tensors in (inputs, moved):
        F.scaled_dot_product_attention(*tensors, is_causal=causal).square().sum().backward()
    assert_same([t.grad for t in moved], [t.grad for t in inputs], 1e-3, 1e-4)


def test_attention_in_double_precision():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 5, 4, dtype=torch.float64, requires_grad=True) for _ in range(3))

    def gradients(*tensors):
        loss = F.scaled_dot_product_attention(*tensors).square().sum()
        return torch.autograd.grad(loss, tensors)

    check(gradients, q, k, v, rtol=1e-12, atol=1e-12)


def test_attention_with_a_mask():
    q = torch.randn(2, 4, 8, 16)
    mask = torch.rand(8, 8) > 0.3
    mask.fill_diagonal_(True)
    expected = F.scaled_dot_product_attention(q, q, q, attn_mask=mask)
    q, mask = to_device((q, mask))
    assert_same(F.scaled_dot_product_attention(q, q, q, attn_mask=mask), expected, 1e-4, 1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"num_layers": 2, "bidirectional": True},
        {"batch_first": True, "bias": False},
        {"proj_size": 3, "num_layers": 2},
    ],
    ids=str,
)
def test_lstm(options):
    cpu, acc = twins(lambda: nn.LSTM(5, 6, **options))
    x = torch.randn(4, 7, 5, requires_grad=True)
    results = []
    for model, given in ((cpu, x), (acc, to_device(x))):
        y, states = model(given)
        sum(part.sin().sum() for part in (y, *states)).backward()
        results.append([y, *states, given.grad, *(p.grad for p in model.parameters())])
    assert_same(results[1], results[0], 1e-4, 1e-5)


MASKS = {
    "none": None,
    "bool, one row": torch.arange(24).view(2, 1, 1, 12) % 12
    < torch.tensor([12, 7])[:, None, None, None],
    "bool": torch.rand(9, 12) > 0.3,
    "float": torch.randn(2, 6, 9, 12),
    "float, one head": torch.randn(1, 9, 12),
}


@pytest.mark.parametrize("mask", MASKS)
def test_grouped_attention_is_one_operation(mask):
    shapes = (2, 6, 9, 8), (2, 2, 12, 8), (2, 2, 12, 5)
    inputs = [torch.randn(shape, requires_grad=True) for shape in shapes]
    moved = to_device(inputs)
    torchacc.sync()
    torchacc.reset_metrics()
    results = []
    for tensors, attn_mask in ((inputs, MASKS[mask]), (moved, to_device(MASKS[mask]))):
        y = F.scaled_dot_product_attention(*tensors, attn_mask=attn_mask, enable_gqa=True)
        y.square().sum().backward()
        results.append([y, *(t.grad for t in tensors)])
    assert "attention_grad" in program()
    assert_same(results[1], results[0], 1e-3, 1e-4)


def program():
    """The last program, compiled."""
    torchacc.sync()
    return torchacc.last_program()


def test_rms_norm_is_one_operation():
    tensors = [torch.randn(6, 16), torch.randn(16)]
    tensors = [t.requires_grad_() for t in tensors]
    moved = to_device(tensors)
    results = []
    for x, weight in (tensors, moved):
        y = F.rms_norm(x, (16,), weight, eps=1e-3)
        y.sin().sum().backward()
        results.append([y, x.grad, weight.grad])
    assert "rms_norm_grad" in program()
    assert_same(results[1], results[0], 1e-4, 1e-5)


def test_rms_norm_can_be_sent_to_the_host():
    done = run_python(
        "import torch; x = torch.ones(2, 4, device='acc', requires_grad=True);"
        "torch.nn.functional.rms_norm(x, (4,)).sum().backward(); print(x.grad.cpu().abs().max())",
        TORCHACC_FORCE_HOST="1",
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "keywords",
    [
        {},
        {"ignore_index": 2},
        {"label_smoothing": 0.1},
        {"reduction": "sum"},
        {"reduction": "none"},
    ],
    ids=str,
)
def test_cross_entropy(keywords):
    logits, target = torch.randn(6, 5, requires_grad=True), torch.tensor([0, 2, 4, 1, 2, 3])
    moved = to_device(logits)
    expected = F.cross_entropy(logits, target, **keywords)
    actual = F.cross_entropy(moved, target.to(DEVICE), **keywords)
    expected.sum().backward()
    actual.sum().backward()
    assert_same([actual, moved.grad], [expected, logits.grad], 1e-5, 1e-6)


def test_gradients_accumulate_and_hooks_run():
    weight = torch.ones(3, device=DEVICE, requires_grad=True)
    seen = []
    weight.register_hook(lambda gradient: seen.append(gradient) or gradient * 2)
    for _ in range(3):
        (weight * 2).sum().backward()
    assert weight.grad.tolist() == [12, 12, 12]
    assert len(seen) == 3


def test_double_backward():
    x = torch.tensor([2.0], device=DEVICE, requires_grad=True)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert (first.item(), second.item()) == (12, 12)


@pytest.mark.parametrize("of", [torch.linalg.det, lambda x: torch.linalg.slogdet(x)[1]])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x,
        lambda x: x.mT,
        lambda x: x.transpose(0, 2),
        lambda x: torch.cat([x, x], 2)[..., :3],
        lambda x: x[0, 1:2, 1:2].mT,
    ],
)
def test_determinants_of_any_layout(view, of):
    """Their gradients use factors that depend on how the matrix lies in memory."""
    torch.manual_seed(0)
    values = torch.randn(3, 3, 3)

    def gradients(device):
        x = values.clone().to(device).requires_grad_()
        (plain,) = torch.autograd.grad(of(view(x)).sum(), x)
        (first,) = torch.autograd.grad(of(view(x)).sum(), x, create_graph=True)
        # That of a single number is a constant, also for PyTorch 2.15.
        if not first.requires_grad:
            return plain, first
        (second,) = torch.autograd.grad((first * values.to(device)).sum(), x)
        return plain, first, second

    assert_same(gradients(DEVICE), gradients("cpu"), rtol=1e-4, atol=1e-4)


def test_in_place_write_after_save_is_refused():
    x = torch.ones(2, device=DEVICE, requires_grad=True)
    y = x.exp()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_custom_function():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            return x * 2

        @staticmethod
        def backward(context, gradient):
            return gradient * 2

    x = torch.ones(2, device=DEVICE, requires_grad=True)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


@pytest.mark.parametrize("targets", [[1, 0, 3], [1, -100, 3], [-100, -100, 2]])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_cross_entropy_without_a_table_of_probabilities(targets, smoothing, reduction):
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(1)) * 20

    def run(device):
        x = logits.to(device).requires_grad_()
        loss = F.cross_entropy(
            x * 1.5,
            torch.tensor(targets, device=device),
            label_smoothing=smoothing,
            reduction=reduction,
        )
        loss.sum().backward()
        return loss.detach().cpu(), x.grad.cpu()

    for got, want in zip(run("acc"), run("cpu"), strict=True):
        torch.testing.assert_close(got, want)


def test_a_row_that_picks_no_column_has_no_gradient():
    logits = torch.randn(3, 5, generator=torch.Generator().manual_seed(1))

    def run(device):
        x = logits.to(device).requires_grad_()
        targets = torch.tensor([2, -1, 7], device=device)
        hit = torch.arange(5, device=device) == targets[:, None]
        picked = torch.where(hit, F.log_softmax(x + 1, dim=-1), 0.0)
        picked.sum().backward()
        return picked.detach().cpu(), x.grad.cpu()

    for got, want in zip(run("acc"), run("cpu"), strict=True):
        torch.testing.assert_close(got, want)


FIRST_LAYERS = {
    "batch_norm": (lambda: nn.BatchNorm1d(4), (8, 4)),
    "batch_norm_2d": (lambda: nn.BatchNorm2d(4), (2, 4, 3, 3)),
    "instance_norm": (lambda: nn.InstanceNorm1d(4, affine=True), (8, 4, 5)),
    "layer_norm": (lambda: nn.LayerNorm(4), (8, 4)),
    "group_norm": (lambda: nn.GroupNorm(2, 4), (8, 4, 3)),
    "convolution": (lambda: nn.Conv1d(4, 4, 3), (2, 4, 8)),
    "transposed": (lambda: nn.ConvTranspose1d(4, 4, 3), (2, 4, 8)),
    "prelu": (nn.PReLU, (3, 4)),
    "lstm": (lambda: nn.LSTM(4, 4), (5, 2, 4)),
}


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize("name", FIRST_LAYERS)
def test_a_first_layer_has_the_gradients_of_its_parameters(name, trains):
    """Its input has none, which backward operators are told by a mask."""
    torch.manual_seed(0)
    build, sizes = FIRST_LAYERS[name]
    here, x = build(), torch.randn(sizes)
    there = copy.deepcopy(here).to(DEVICE)
    for layer, value in ((here, x), (there, x.to(DEVICE))):
        layer.train(trains or name == "lstm")
        made = layer(value)
        (made if isinstance(made, torch.Tensor) else made[0]).square().sum().backward()
    for expected, found in zip(here.parameters(), there.parameters(), strict=True):
        torch.testing.assert_close(found.grad.cpu(), expected.grad, rtol=1e-4, atol=1e-4)
