"""Random programs whose windows, halves and remainders depend on a length, at random lengths.

A template is a plan made for some lengths that is used for others: in a release build few of its
uses are compared with a plan of their own, so what decides is whether the numbers are the CPU's.
TORCHACC_RANDOM_SEED and TORCHACC_RANDOM_SECONDS say which programs, and how long.
"""

import os
import random
import time

import pytest
import torch
import torch.nn.functional as F
import torchacc

SECONDS = 15
SIZES = 14
FIXED = 30
PARTS = 6


def ones(x, *sizes):
    return torch.ones(sizes, dtype=x.dtype, device=x.device) / sizes[-1]


def to_multiple(x, k):
    """Padded, and the mean of each k elements."""
    return F.pad(x, (0, -x.shape[-1] % k)).unflatten(-1, (-1, k)).mean(-1)


def attended(x):
    q = x.transpose(-1, -2) / x.shape[-1]
    return F.scaled_dot_product_attention(q, q, q).transpose(-1, -2)


def joined(x, k):
    """Of all elements and of each k-th."""
    return torch.cat([x, x[..., ::k]], -1)


# Of signals [1, 3, length], then of images [1, 3, height, width]; k is 2 or 3, and b a flag.
SIGNALS = {
    "max_pool": lambda x, k, b: F.max_pool1d(x, 3, k, 1, ceil_mode=b),
    "avg_pool": lambda x, k, b: F.avg_pool1d(x, k, 2, ceil_mode=b, count_include_pad=b),
    "convolution": lambda x, k, b: F.conv1d(x, ones(x, 3, 3, k), None, 2, int(b)),
    "dilated": lambda x, k, b: F.conv1d(x, ones(x, 3, 3, 2), None, 1 + b, 1, k),
    "transposed": lambda x, k, b: F.conv_transpose1d(x, ones(x, 3, 3, 3), None, k, int(b)),
    "first part": lambda x, k, b: x[..., : x.shape[-1] // k + b],
    "last part": lambda x, k, b: x[..., x.shape[-1] // k + b :],
    "every other": lambda x, k, b: x[..., int(b) :: k],
    "both": lambda x, k, b: joined(x, k),
    "resized": lambda x, k, b: F.interpolate(x, (x.shape[-1] + b) // k),
    "linear": lambda x, k, b: F.interpolate(x, scale_factor=0.5 * k, mode="linear"),
    "multiple": lambda x, k, b: to_multiple(x, k + b),
    "unfolded": lambda x, k, b: x.unfold(-1, k + 1, k).amax(-1),
    "adaptive": lambda x, k, b: F.adaptive_avg_pool1d(x, x.shape[-1] // k + b),
    "running sum": lambda x, k, b: x.cumsum(-1) / x.shape[-1],
    "rolled": lambda x, k, b: x.roll(x.shape[-1] // k, -1) + x,
    "chunk": lambda x, k, b: x.chunk(k, -1)[int(b)],
    "attention": lambda x, k, b: attended(x),
    "turned": lambda x, k, b: x.flip(-1).softmax(-1) + x,
}
IMAGES = {
    "max_pool": lambda x, k, b: F.max_pool2d(x, 3, 2, 1, ceil_mode=b),
    "avg_pool": lambda x, k, b: F.avg_pool2d(x, k, 2, ceil_mode=b),
    "convolution": lambda x, k, b: F.conv2d(x, ones(x, 3, 3, k, k), None, 2, int(b)),
    "transposed": lambda x, k, b: F.conv_transpose2d(x, ones(x, 3, 3, 2, 2), None, 2, int(b)),
    "resized": lambda x, k, b: F.interpolate(x, [(n + b) // 2 for n in x.shape[-2:]]),
    "bilinear": lambda x, k, b: F.interpolate(x, scale_factor=0.5 * k, mode="bilinear"),
    "skip": lambda x, k, b: x + F.interpolate(F.max_pool2d(x, 2, ceil_mode=b), x.shape[-2:]),
    "windows": lambda x, k, b: to_multiple(to_multiple(x, k).transpose(-1, -2), k),
    "shuffled": lambda x, k, b: F.pixel_unshuffle(x[..., : 2 * k, : 2 * k], 2).repeat(1, 1, k, 1),
    "cropped": lambda x, k, b: x[..., x.shape[-2] // k :, : x.shape[-1] - k],
    "adaptive": lambda x, k, b: F.adaptive_avg_pool2d(x, (x.shape[-2] // k, 4 + b)),
    "normed": lambda x, k, b: F.group_norm(x, 1) * 0.5,
    "patches": lambda x, k, b: F.unfold(x, k, stride=k)[None].mean(2, True).expand(-1, 3, 3, -1),
}
KINDS = ("signal", "gradient", "two signals", "image", "gradient of an image")


class Program:
    """What a seed says: the kind of input, the layers, and the sizes that they run at."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.kind = self.draw.choice(KINDS)
        layers = IMAGES if "image" in self.kind else SIGNALS
        self.layers = [
            (name, layers[name], self.draw.choice((2, 3)), self.draw.random() < 0.5)
            for name in self.draw.choices(list(layers), k=self.draw.choice((2, 2, 3)))
        ]
        self.factor = 1 + seed % 4096 / 8192

    def inputs(self):
        first, spread = self.draw.choice(((20, 60), (33, 8), (16, 200)))
        length = lambda: first + self.draw.randrange(spread)  # noqa: E731
        fixed = length() if self.draw.random() < 0.3 else None
        for _ in range(SIZES):
            last = fixed or length()
            if "image" in self.kind:
                yield [torch.rand(1, 3, 8 + length() // 2, 8 + last // 2)]
            else:
                counts = (length(), last) if self.kind == "two signals" else (length(),)
                yield [torch.rand(1, 3, n) for n in counts]

    def __call__(self, *inputs):
        x = torch.cat(inputs, -1)
        is_differentiated = "gradient" in self.kind
        x.requires_grad_(is_differentiated)
        y = x * self.factor
        for _, layer, k, flag in self.layers:
            y = layer(y, k, flag)
        if not is_differentiated:
            return y * 1.5
        weight = torch.arange(1.0, y.numel() + 1, device=y.device).view(y.shape) / y.numel()
        return torch.autograd.grad((y * weight).sum(), x)[0]

    def __repr__(self):
        layers = [f"{name}(k={k}, b={flag})" for name, _, k, flag in self.layers]
        return f"{self.kind}: {', '.join(layers)}"


def check(seed):
    """Runs the program of a seed; how many of its runs were by a template."""
    program = Program(seed)
    torch.manual_seed(seed)
    torchacc.sync()
    before = torchacc.metrics()["carried_over"]
    for inputs in program.inputs():
        try:
            expected = program(*(x.clone() for x in inputs))
            exact = program(*(x.double() for x in inputs)).float()
        except (RuntimeError, IndexError):  # Too small for these layers.
            continue
        actual = program(*(x.to("acc") for x in inputs)).cpu()
        torchacc.sync()
        sizes = [tuple(x.shape) for x in inputs]
        if actual.shape == expected.shape:
            # The CPU may be farther from f64 than we are; of equals f64 takes another one.
            is_nearer = (actual - exact).abs() < (actual - expected).abs()
            expected = torch.where(is_nearer, exact, expected)
        # What cancels is as exact as what it is made of.
        largest = expected.abs().max().item() if expected.numel() else 0
        torch.testing.assert_close(
            actual,
            expected,
            rtol=1e-4,
            atol=1e-4 * max(largest, 0.1),
            msg=lambda message: f"seed {seed}, {program}, of {sizes}: {message}",  # noqa: B023
        )
    return torchacc.metrics()["carried_over"] - before


@pytest.mark.parametrize("part", range(PARTS))
def test_the_same_programs_every_time(part):
    assert sum(check(seed) for seed in range(part, FIXED, PARTS)) > 0


def test_a_part_of_one_element_says_nothing_of_larger_ones():
    """Its strides are 0: a template took them for a difference of sizes that is 0 for even ones."""
    for seed in (8_000_069, 8_000_219):
        check(seed)


def test_a_plan_for_enormous_sizes_is_made_at_once():
    """Average pooling looked at each window of sizes that are only planned: for 50 s."""
    check(9_000_060)


def test_as_many_programs_as_there_is_time_for():
    first = int(os.environ.get("TORCHACC_RANDOM_SEED") or 1_000_000)
    seconds = float(os.environ.get("TORCHACC_RANDOM_SECONDS") or SECONDS)
    print(f"seed {first}")
    end, seed = time.monotonic() + seconds, first
    while time.monotonic() < end:
        check(seed)
        seed += 1
    assert seed > first
