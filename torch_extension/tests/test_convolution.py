"""Convolution, pooling and batch norm as on the CPU, without fallbacks; a small ResNet trains."""

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from support import DEVICE, assert_same, to_device, twins

LAYERS = {
    "conv1d": (lambda: nn.Conv1d(3, 6, 3, stride=2, padding=1), (2, 3, 11)),
    "conv2d": (lambda: nn.Conv2d(3, 5, (3, 2), stride=(2, 1), padding=(0, 1)), (2, 3, 9, 7)),
    "conv3d": (lambda: nn.Conv3d(2, 3, (2, 3, 3), stride=(1, 2, 1), padding=1), (2, 2, 4, 5, 6)),
    "no bias": (lambda: nn.Conv2d(3, 5, 3, bias=False), (1, 3, 6, 6)),
    "unbatched": (lambda: nn.Conv2d(3, 5, 3), (3, 6, 6)),
    "pointwise": (lambda: nn.Conv2d(8, 5, 1), (3, 8, 5, 4)),
    "pointwise strided": (lambda: nn.Conv2d(8, 5, 1, stride=2), (3, 8, 5, 4)),
    "same": (lambda: nn.Conv2d(3, 4, (2, 3), padding="same"), (2, 3, 5, 6)),
    "groups": (lambda: nn.Conv2d(6, 9, 3, padding=1, groups=3), (2, 6, 7, 5)),
    "depthwise": (lambda: nn.Conv2d(6, 12, 3, stride=2, padding=1, groups=6), (2, 6, 9, 8)),
    "dilation": (lambda: nn.Conv2d(3, 4, 3, padding=2, dilation=(2, 3)), (2, 3, 8, 9)),
    "transposed": (
        lambda: nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2),
        (2, 4, 5, 4),
    ),
    "transposed 1d": (lambda: nn.ConvTranspose1d(3, 4, 4, stride=3, dilation=2), (2, 3, 5)),
    "transposed 3d": (lambda: nn.ConvTranspose3d(2, 3, 2, stride=2), (1, 2, 3, 2, 4)),
    "transposed dilated": (
        lambda: nn.ConvTranspose2d(2, 3, 2, output_padding=1, dilation=2),
        (1, 2, 3, 3),
    ),
    "max pool 1d": (lambda: nn.MaxPool1d(3, 2, padding=1), (2, 3, 10)),
    "max pool": (lambda: nn.MaxPool2d(3, 2, padding=1), (2, 3, 9, 10)),
    "max pool ceil": (lambda: nn.MaxPool2d((3, 2), ceil_mode=True, dilation=(2, 1)), (2, 9, 9)),
    "max pool 3d": (lambda: nn.MaxPool3d(2), (1, 2, 4, 5, 6)),
    "avg pool 1d": (lambda: nn.AvgPool1d(3, 2, padding=1), (2, 3, 10)),
    "avg pool": (lambda: nn.AvgPool2d(3, 2, padding=1, count_include_pad=False), (2, 3, 9, 10)),
    "avg pool ceil": (lambda: nn.AvgPool2d((3, 2), 2, padding=1, ceil_mode=True), (2, 3, 8, 8)),
    "avg pool divided": (lambda: nn.AvgPool2d(2, divisor_override=3), (3, 8, 7)),
    "avg pool 3d": (lambda: nn.AvgPool3d(2, padding=1), (1, 2, 4, 5, 6)),
    "adaptive 1d": (lambda: nn.AdaptiveAvgPool1d(3), (2, 3, 10)),
    "adaptive to one": (lambda: nn.AdaptiveAvgPool2d(1), (2, 3, 5, 6)),
    "adaptive": (lambda: nn.AdaptiveAvgPool2d((3, 2)), (2, 3, 7, 6)),
    "adaptive tiles": (lambda: nn.AdaptiveAvgPool2d((3, 2)), (3, 6, 8)),
    "adaptive 3d": (lambda: nn.AdaptiveAvgPool3d((2, 3, 2)), (1, 2, 4, 5, 6)),
    "batch norm 1d": (lambda: nn.BatchNorm1d(6), (5, 6)),
    "batch norm": (lambda: nn.BatchNorm2d(6), (3, 6, 5, 4)),
    "batch norm 3d": (lambda: nn.BatchNorm3d(2, momentum=None), (3, 2, 5, 4, 2)),
    "batch norm plain": (lambda: nn.BatchNorm2d(6, affine=False), (3, 6, 5, 4)),
    "batch norm untracked": (lambda: nn.BatchNorm2d(6, track_running_stats=False), (3, 6, 5, 4)),
    "instance norm": (lambda: nn.InstanceNorm2d(6, affine=True), (3, 6, 5, 4)),
}


def run(model, x, autocast=False):
    """Output and gradient of the input; the parameters' gradients are left in the model."""
    x = x.requires_grad_()
    with torch.autocast(x.device.type, dtype=torch.bfloat16, enabled=autocast):
        y = model(x)
    y.float().square().sum().backward()
    return y, x.grad


def gradients(model):
    return [p.grad for p in model.parameters()]


@pytest.fixture(autouse=True)
def _counters():
    torchacc.sync()
    torchacc.reset_metrics()


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("training", [True, False])
def test_layer(name, training):
    build, shape = LAYERS[name]
    cpu, acc = (model.train(training) for model in twins(build))
    x = torch.randn(shape)
    expected, actual = run(cpu, x), run(acc, to_device(x))
    assert_same(actual, expected, 1e-4, 1e-5)
    assert_same(gradients(acc), gradients(cpu), 1e-4, 1e-4)
    assert_same(list(acc.buffers()), list(cpu.buffers()))
    torchacc.sync()
    assert torchacc.metrics()["host_calls"] == 0, torchacc.host_calls()


@pytest.mark.parametrize("name", ["conv2d", "depthwise", "transposed", "max pool", "batch norm"])
def test_channels_last(name):
    build, shape = LAYERS[name]
    cpu, acc = (model.to(memory_format=torch.channels_last) for model in twins(build))
    x = torch.randn(shape).to(memory_format=torch.channels_last)
    expected, actual = run(cpu, x), run(acc, to_device(x))
    assert_same(actual, expected, 1e-4, 1e-5)
    assert_same(gradients(acc), gradients(cpu), 1e-4, 1e-4)


@pytest.mark.parametrize("name", ["conv2d", "groups", "transposed", "avg pool", "batch norm"])
def test_bf16(name):
    build, shape = LAYERS[name]
    cpu, acc = twins(build)
    x = torch.randn(shape)
    with_cpu, with_acc = run(cpu, x, autocast=True), run(acc, to_device(x), autocast=True)
    assert with_acc[0].dtype == with_cpu[0].dtype
    assert_same(with_acc, with_cpu, 3e-2, 3e-2)
    assert_same(gradients(acc), gradients(cpu), 3e-2, 1e-1)


def test_a_view_and_an_expanded_gradient():
    weight = torch.randn(4, 3, 3, 3, requires_grad=True)
    x = torch.randn(2, 8, 8, 3, requires_grad=True)

    def loss(x, weight):
        return F.conv2d(x.permute(0, 3, 1, 2)[:, :, 1:, ::2], weight.flip(2), padding=1).sum()

    x_acc, weight_acc = to_device((x, weight))
    loss(x, weight).backward()
    loss(x_acc, weight_acc).backward()
    assert_same([x_acc.grad, weight_acc.grad], [x.grad, weight.grad], 1e-4, 1e-4)


def test_integers():
    x = torch.arange(60).reshape(1, 3, 4, 5)
    w = torch.arange(24).reshape(2, 3, 2, 2)
    assert_same(F.conv2d(x.to(DEVICE), w.to(DEVICE)), F.conv2d(x, w))


class Block(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(outputs), nn.BatchNorm2d(outputs)
        self.shortcut = nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
        )

    def forward(self, x):
        y = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def residual_network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, 2, padding=1),
        Block(8, 8, 1),
        Block(8, 16, 2),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    )


def losses(model, steps, settled=lambda: None):
    """A loss of every step; `settled` is called after the third."""
    device = next(model.parameters()).device
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(8, 3, 32, 32, generator=generator).to(device)
    labels = torch.randint(10, (8,), generator=generator).to(device)
    seen = []
    for step in range(steps):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seen.append(loss.item())
        if step == 2:
            settled()
    return seen


def test_a_residual_network_trains_as_on_the_cpu():
    cpu, acc = twins(residual_network)
    expected, actual = losses(cpu, 6), losses(acc, 6, torchacc.reset_metrics)
    torchacc.sync()
    metrics = torchacc.metrics()
    assert metrics["host_calls"] == 0, torchacc.host_calls()
    assert metrics["compiles"] == 0
    assert expected[-1] < expected[0]
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=0)
    cpu.eval()
    acc.eval()
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert_same(acc(x.to(DEVICE)), cpu(x), 1e-3, 1e-3)
    assert_same(list(acc.buffers()), list(cpu.buffers()), 1e-3, 1e-4)
