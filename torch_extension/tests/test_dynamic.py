"""New lengths: one program serves them all, and computes what the CPU computes."""

import random

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from support import DEVICE, GPT, check, token_batch, twins


def made():
    """Programs compiled, and programs instantiated from templates, since the last reset."""
    torchacc.sync()
    counters = torchacc.metrics()
    torchacc.reset_metrics()
    return counters["compiles"], counters["carried_over"]


def training(model, device, autocast=False):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def step(*batch):
        tensors = [tensor.to(device) for tensor in batch]
        with torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
            loss = model(*tensors)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


def test_training_with_random_lengths():
    cpu, acc = twins(lambda: GPT(context=256))
    on_cpu, on_acc = training(cpu, "cpu"), training(acc, DEVICE)
    lengths = random.Random(0)
    losses = []
    for step in range(40):
        if step == 2:
            made()
        batch = token_batch(step, context=lengths.randint(16, 256))
        losses.append((on_cpu(*batch), on_acc(*batch)))
    compiled, carried_over = made()
    assert compiled <= 2
    assert carried_over >= 34
    for expected, actual in losses:
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)


def test_lengths_and_batch_sizes_at_once():
    cpu, acc = twins(lambda: GPT(context=64))
    on_cpu, on_acc = training(cpu, "cpu"), training(acc, DEVICE)
    sizes = random.Random(1)
    for step in range(20):
        if step == 8:
            made()
        batch = token_batch(step, batch=sizes.randint(2, 12), context=sizes.randint(8, 64))
        expected, actual = on_cpu(*batch), on_acc(*batch)
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)
    assert made() == (0, 12)


def test_the_last_short_batch():
    """Every epoch ends with one: it is compiled once, another length of it not at all."""
    cpu, acc = twins(lambda: nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))

    peers = [
        (model, torch.optim.SGD(model.parameters(), lr=0.1), device)
        for model, device in ((cpu, "cpu"), (acc, DEVICE))
    ]
    generator = torch.Generator().manual_seed(0)
    for epoch in range(4):
        if epoch == 2:
            made()
        for size in (32, 32, 32, 5 + epoch):
            x = torch.randn(size, 8, generator=generator)
            y = torch.randint(4, (size,), generator=generator)
            for model, optimizer, device in peers:
                loss = F.cross_entropy(model(x.to(device)), y.to(device))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                torchacc.cut()
    assert made()[0] == 0
    for expected, actual in zip(cpu.parameters(), acc.parameters(), strict=True):
        torch.testing.assert_close(actual.cpu(), expected)


FUNCTIONS = {
    "mean": lambda x: x.mean(),
    "variance": lambda x: x.var(dim=0, correction=0) + x.std(),
    "softmax": lambda x: torch.softmax(x, 0) @ x.t(),
    "norm": lambda x: F.layer_norm(x, x.shape),
    "every other": lambda x: x[::2] * 2 + x[: x.shape[0] // 2].sum(),
    "reversed halves": lambda x: torch.cat([x[x.shape[0] // 2 :], x[: x.shape[0] // 2]]).exp(),
    "first ten at most": lambda x: x[:10].sum(0) + x[-3:].mean(),
    "outer": lambda x: (x[:, :1] * x[:, 1:2].t()).tril().sum(1),
    "positions": lambda x: x + torch.arange(x.shape[0], device=x.device)[:, None] / x.shape[0],
    "cumulative": lambda x: x.cumsum(0),
    "largest": lambda x: x.topk(1, dim=0).values + x.sort(dim=0).values[:2],
    "pooled": lambda x: F.avg_pool1d(x.t()[None], 2, ceil_mode=True),
    "convolved": lambda x: F.conv1d(
        x.t()[None], torch.ones(3, 6, 2, device=x.device), stride=2, padding=1
    ),
    "adaptive": lambda x: F.adaptive_avg_pool1d(x.t()[None], 4),
    "flattened": lambda x: x.reshape(-1)[: x.shape[0] * 3].reshape(x.shape[0], 3).amax(1),
    "padded": lambda x: F.pad(x, (0, 0, 3, x.shape[0])).roll(1, 0).sin(),
    "gathered": lambda x: x[torch.arange(x.shape[0] - 1, -1, -1, device=x.device)],
    "scaled": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "written": lambda x: x.clone().mul_(2)[1:].fill_(1) if x.shape[0] > 1 else x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_any_length(name):
    """Lengths that show steps, limits and coincidences, in an order that first misleads."""
    generator = torch.Generator().manual_seed(0)
    for length in (20, 31, 40, 8, 9, 10, 11, 6, 64, 65, 3, 2, 1, 100, 33, 127, 128, 200, 12):
        check(FUNCTIONS[name], torch.randn(length, 6, generator=generator), rtol=1e-4, atol=1e-5)


def test_gradients_of_any_length():
    def step(x):
        x = x.detach().requires_grad_()
        (F.gelu(x @ x.t()).softmax(1).mean() + x.std()).backward()
        return x.grad

    generator = torch.Generator().manual_seed(0)
    for length in (20, 31, 40, 8, 9, 64, 65, 2, 100, 33):
        check(step, torch.randn(length, 6, generator=generator), rtol=1e-4, atol=1e-5)


def normed():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Flatten(2),
        nn.Unflatten(0, (1, -1)),
    )


def strided():
    """As a speech encoder begins: lengths divided by 5, then by 2 twice."""
    return nn.Sequential(
        nn.Conv1d(1, 6, 10, stride=5), nn.GELU(), nn.Conv1d(6, 6, 3, stride=2), nn.MaxPool1d(2)
    )


BATCHES = {
    "batches of images": (normed, lambda n: torch.randn(n, 3, 8, 8)),
    "sizes of images": (normed, lambda n: torch.randn(2, 3, n, n)),
    "lengths of sounds": (strided, lambda n: torch.randn(2, 1, 40 * n + n % 7)),
}


@pytest.mark.parametrize("name", BATCHES)
def test_what_follows_from_a_length_varies_with_it(name):
    """Sizes that a length is divided into, and what batch norm makes of their number."""
    build, batch = BATCHES[name]
    models = twins(build)
    lengths = random.Random(0)
    for number in range(40):
        if number == 24:
            made()
        x = batch(lengths.randint(16, 48))
        losses = [model(x.to(next(model.parameters()).device)).square().mean() for model in models]
        for loss in losses:
            loss.backward()
        torch.testing.assert_close(losses[1].cpu(), losses[0], rtol=1e-4, atol=1e-5)
        torchacc.cut()
    for expected, actual in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(actual.grad.cpu(), expected.grad, rtol=1e-3, atol=1e-4)
    compiled, carried_over = made()
    assert compiled <= 1
    assert carried_over >= 4


def test_a_mark_plans_for_its_range_at_once():
    """Far beyond what two lengths suggest; without the mark the last one would be compiled."""
    x = torch.randn(5000, 4)

    def step(length, mark):
        part = x[:length].to(DEVICE)
        if mark:
            torchacc.mark_dynamic(part, 0, min=2, max=5000)
        result = (part.softmax(0) * part).sum(1).tanh() if mark else part.softmax(0).sum(1).tanh()
        torchacc.cut()
        return result

    for mark in (False, True):
        step(10, mark)
        step(14, mark)
        made()
        torch.testing.assert_close(step(5000, mark).cpu().shape, torch.Size([5000]))
        assert made()[0] == (0 if mark else 1)


def test_marks_are_checked():
    x = torch.zeros(4, 6, device=DEVICE)
    torchacc.mark_dynamic(x, (0, -1), min=2, max=8)
    with pytest.raises(IndexError):
        torchacc.mark_dynamic(x, 2)
    with pytest.raises(RuntimeError, match="4 is not between 5 and 9"):
        torchacc.mark_dynamic(x, 0, min=5, max=9)
    with pytest.raises(RuntimeError, match="tensor on acc"):
        torchacc.mark_dynamic(torch.zeros(3), 0)


def test_shape_rules_agree_with_pytorch():
    """New lengths ask no Python shape function; no rule of the library is found wrong."""
    refuted = torch.ops.acc.refuted_shape_rules()
    acc = GPT(context=128).to(DEVICE)
    step = training(acc, DEVICE)
    for number, length in enumerate((20, 30, 40)):
        step(*token_batch(number, context=length))
    made()
    step(*token_batch(3, context=50))
    counters = torchacc.metrics()
    asked = counters["shape_cache_misses"] - counters["shape_rule_uses"]
    assert counters["shape_rule_uses"] > 20
    assert asked <= 3
    assert torch.ops.acc.refuted_shape_rules() == refuted


@pytest.mark.parametrize("first", [0, 1, 35])
def test_slices_of_a_tensor_on_the_device(first):
    """Offsets vary like sizes, wherever the first slice begins."""
    cpu, acc = twins(lambda: nn.Sequential(nn.Embedding(50, 16), nn.Linear(16, 50)))
    corpus = torch.randint(50, (4096,), generator=torch.Generator().manual_seed(0))
    places = random.Random(0)
    starts = [first] + [places.randint(2, 4000) for _ in range(39)]

    def losses(model, data):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step, start in enumerate(starts):
            if step == 6:
                made()
            window = data[start : start + 36]
            loss = F.cross_entropy(model(window[:-1]), window[1:])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            torchacc.mark_step()
            yield loss.detach()

    expected = list(losses(cpu, corpus))
    actual = list(losses(acc, corpus.to(DEVICE)))
    compiled, _ = made()
    assert compiled == 0
    for a, e in zip(actual, expected, strict=True):
        torch.testing.assert_close(a.cpu(), e, rtol=1e-4, atol=1e-4)


def overlapping_gradient(x, i, j):
    leaf = x.clone().requires_grad_()
    y = leaf * 1
    y[i : i + 8] *= 2
    (y[j : j + 8] ** 2).sum().backward()
    return leaf.grad


def written(x, *ranges):
    """In each of the ranges other numbers than before, and in the ranges before it."""
    for number, (start, stop) in enumerate(ranges):
        x[start:stop] *= -number
        x[start:stop] += 1
    return x


OVERLAPS = {
    "write, read": lambda x, i, j: written(x, (i, i + 8))[j : j + 8].clone(),
    "write here, read": lambda x, i, j: written(x, (20, 28))[j : j + 8].clone(),
    "write, write": lambda x, i, j: written(x, (i, i + 4), (j, j + 4)),
    "write, write, read": lambda x, i, j: written(x, (i, i + 9), (j, j + 4))[3:17].clone(),
    "rows": lambda x, i, j: written(x[:56].view(14, 4), (i // 4, i // 4 + 1), (j // 4, j // 4 + 1)),
    "boxes": lambda x, i, j: written(torch.zeros_like(x).view(8, 8), (i // 8, i // 8 + 2))[
        :, j // 8
    ],
    "both ends": lambda x, i, j: written(x, (i, 64), (0, j + 1)),
    "fresh": lambda x, i, j: written(torch.zeros_like(x), (i, i + 8))[j : j + 8].clone(),
    "joined": lambda x, i, j: torch.cat([x[:20], x[:8] * 0, x[28:]])[j : j + 6] * 2,
    "gradient": overlapping_gradient,
}


@pytest.mark.parametrize("name", OVERLAPS)
def test_views_that_come_to_overlap(name):
    """A program for views that lie apart is none for those that meet."""
    numbers, draw = torch.arange(64.0), random.Random(0)
    for step in range(80):
        i, j = draw.randrange(56), draw.randrange(56)
        found, expected = (OVERLAPS[name](numbers.to(place), i, j) for place in (DEVICE, "cpu"))
        torch.testing.assert_close(found.cpu(), expected, msg=f"step {step}: {i}, {j}")


def triangular(x):
    n = len(x)
    matrix = torch.eye(n, device=x.device) + torch.tril(x[:, None] * x / n, -1)
    return torch.linalg.solve_triangular(matrix, x[:, None], upper=False)


# What has another program from some size on: one round more, one block more.
STEPS = {
    "searched": lambda x: torch.searchsorted(x.cumsum(0), torch.full((3,), 1e9, device=x.device)),
    "found": lambda x: torch.isin(x.round(decimals=1), x[: len(x) // 2].round(decimals=1)),
    "triangular": triangular,
    "pooled": lambda x: F.adaptive_avg_pool1d(x[None], 35),
    "averaged": lambda x: F.avg_pool1d(x[None], 5, 4, 2, ceil_mode=True),
    "averaged, within": lambda x: F.avg_pool1d(x[None], 3, 2, 1, True, count_include_pad=False),
    "rolled": lambda x: x.roll(100),
    "spread": lambda x: torch.linspace(0, 1, len(x), device=x.device) * x,
    "from the middle": lambda x: x * (torch.full((), len(x), device=x.device) - 100).abs(),
}


@pytest.mark.parametrize("name", STEPS)
def test_what_goes_by_steps_of_a_sum_of_sizes(name):
    """Each of two lengths is one that was there before, but not what they are together."""
    numbers, draw = torch.rand(141, generator=torch.Generator().manual_seed(0)), random.Random(0)
    there = numbers.to(DEVICE)
    for step in range(150):
        a, b = draw.randint(30, 90), draw.randint(30, 90)
        if a + b <= 140:
            found, expected = (
                STEPS[name](torch.cat([x[1 : 1 + a] * 1, x[1 + a : 1 + a + b] * 1]))
                for x in (there, numbers)
            )
            torch.testing.assert_close(found.cpu(), expected, msg=f"step {step}: {a}, {b}")


def test_views_that_lie_apart_share_programs():
    """In each order, wherever they are."""
    draw, compiled = random.Random(0), 0
    numbers = torch.arange(64.0).to(DEVICE)
    for step in range(120):
        i, j = draw.sample(range(8), 2)
        made()
        at_i, at_j = 8 * i, 8 * j
        OVERLAPS["write, read"](numbers.clone(), at_i, at_j).cpu()
        compiled += made()[0] if step >= 20 else 0
    assert compiled <= 3


WINDOWS = {
    "product": lambda x: x * 2,
    "convolution": lambda x: F.conv2d(x, torch.ones(4, 3, 3, 3, device=x.device), padding=1),
    "flipped": lambda x: x.flip(-1),
    "pooled": lambda x: F.max_pool2d(x, 2),
    "sums": lambda x: x.sum((1, 2, 3)),
    "sorted": lambda x: x.sort(-1).values,
    "resized": lambda x: F.interpolate(x, size=(9, 9), mode="bilinear"),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_windows_of_images(name):
    """Random crops: a window of rows and columns is read from where it lies, wherever that is."""
    images, draw = torch.randn(4, 3, 20, 24), random.Random(0)
    there = images.to(DEVICE)
    compiled = 0
    for step in range(24):
        made()
        y, x = draw.randint(0, 4), draw.randint(0, 8)
        found, expected = (
            WINDOWS[name](one[:, :, y : y + 16, x : x + 16]) for one in (there, images)
        )
        torch.testing.assert_close(found.cpu(), expected, rtol=1e-4, atol=1e-5)
        torchacc.sync()
        compiled += made()[0] if step >= 8 else 0
    assert compiled <= 1


@pytest.mark.parametrize("sizes", [(), (3,), (2, 5)])
def test_random_numbers_of_any_count(sizes):
    """Of an odd one, too."""
    torch.manual_seed(0)
    compiled = 0
    for step, length in enumerate((20, 31, 40, 8, 9, 77, 11, 6, 64, 65, 103, 100, 33)):
        made()
        assert torch.randn(length, *sizes, device=DEVICE).cpu().isfinite().all()
        torchacc.sync()
        compiled += made()[0] if step >= 4 else 0
    assert compiled == 0


def lines(*lengths):
    return [torch.arange(1.0, n + 1).view(1, 1, n) for n in lengths]


def images(*sizes):
    return [torch.arange(1.0, 3 * h * w + 1).view(1, 3, h, w) / (3 * h * w) for h, w in sizes]


def ceiled(y):
    return F.avg_pool2d(y, 2, ceil_mode=True)


def pooled_gradient(x):
    y = F.avg_pool2d(x * 1.5, 3, 2, 1)
    weight = torch.arange(1.0, y.numel() + 1, device=x.device).view(y.shape) / y.numel()
    return torch.autograd.grad((y * weight).sum(), x)[0]


def skipping(x):
    y = F.max_pool2d(x, 2)
    d = F.max_pool2d(y, 3, 2, 1)
    up = F.interpolate(F.max_pool2d(d, 3, 2, 1), size=d.shape[-2:]) + d
    return F.interpolate(up, size=y.shape[-2:], mode="bilinear") + y


HALVED = [8, 12, 16, 10, 13, 11, 21, 5, 6, 33, 9, 7, 50, 17, 64, 37, 20, 70, 73]
TALL = [(h, 32) for h in (32, 21, 37, 15, 16, 46, 18, 19, 22, 25, 33, 34, 35, 39, 43)]
PAIRS = [(32, 32), (37, 32), (48, 32), (25, 32), (41, 32), (26, 35), (24, 14), (17, 20), (19, 21)]
PAIRS += [(23, 47), (30, 39), (43, 19), (60, 30), (56, 50), (51, 22), (38, 43), (44, 49)]
# A window, a tile or a division that comes out otherwise for odd sizes, or for one in a few.
UNEVEN = {
    "behind a stride": (
        lambda x: F.avg_pool1d(F.max_pool1d(x, 3, 2, 1), 2, ceil_mode=True),
        lines(8, 9, 10, 12, 7, 16, 13, 14, 17, 18, 21, 22, 25, 33, 41),
    ),
    "of a half": (
        lambda x: F.avg_pool1d(x[..., : x.shape[-1] // 2], 2, ceil_mode=True),
        lines(*HALVED),
    ),
    "by halves": (
        lambda x: F.adaptive_avg_pool1d(x[..., : x.shape[-1] // 2], x.shape[-1] // 2 // 2),
        lines(*HALVED),
    ),
    "behind a convolution": (
        lambda x: ceiled(F.conv2d(x, torch.ones(3, 3, 3, 3, device=x.device), None, 2, 1)),
        images(*TALL),
    ),
    "gradient": (lambda x: pooled_gradient(x.requires_grad_()), images(*TALL)),
    "two pools": (lambda x: ceiled(F.max_pool2d(x, 2)), images(*PAIRS)),
    "skips": (skipping, images(*PAIRS)),
}


@pytest.mark.parametrize("name", UNEVEN)
def test_sizes_that_do_not_come_out_even(name):
    function, inputs = UNEVEN[name]
    for x in inputs:
        expected = function(x.clone()).detach()
        # As no other test has it.
        actual = (function(x.to("acc")) * 1.0625).detach().cpu()
        torchacc.sync()
        torch.testing.assert_close(actual, expected * 1.0625, rtol=1e-4, atol=1e-5)


def table_of_distances(n, draw):
    positions = torch.arange(-n + 1, n, device=DEVICE)
    return positions.float()[torch.arange(n, device=DEVICE)].sum()


def rows_of_edges(n, draw):
    """A graph's edges are two rows: whence and whither."""
    edges = [torch.randint(n, (2, draw.randint(50, 99))).to(DEVICE) for _ in range(3)]
    x = torch.rand(n, 6).to(DEVICE)
    return sum(x[whither].sum() for _, whither in edges)


def text_and_image(n, draw):
    """Joined, then apart, each of any length, with gradients."""
    text, image = (torch.rand(2, length, 8, device=DEVICE) for length in (n, draw.randint(4, 60)))
    w = torch.rand(8, 8, device=DEVICE, requires_grad=True)
    h = torch.cat([text, image], 1)
    for _ in range(2):
        h = h + h @ w
        h = torch.cat([h[:, :n], h[:, n:]], 1)
    return torch.autograd.grad(h[:, n:].square().mean(), w)[0].sum()


def sampled_at_a_grid(n, draw):
    image, turn = torch.rand(1, 3, n, n + draw.randint(1, 9)), 0.7 * torch.eye(2, 3)[None]
    image, turn = image.to(DEVICE), turn.to(DEVICE)
    grid = F.affine_grid(turn, image.shape, align_corners=False)
    return F.grid_sample(image, grid, align_corners=False).sum()


FROM_LIBRARIES = [table_of_distances, rows_of_edges, text_and_image, sampled_at_a_grid]


@pytest.mark.parametrize("step", FROM_LIBRARIES, ids=lambda step: step.__name__)
def test_idioms_of_libraries_stop_compiling(step):
    draw = random.Random(0)
    for n in draw.sample(range(8, 70), 30):
        step(n, draw).item()
    made()
    for n in draw.sample(range(8, 70), 20):
        step(n, draw).item()
    compiled, instantiated = made()
    assert compiled <= 2 < instantiated
