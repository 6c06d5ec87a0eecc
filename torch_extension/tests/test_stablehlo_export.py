"""What a program records, as a module: it computes what PyTorch computes on the CPU."""

import copy
from pathlib import Path

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from support import DEVICE
from torch.utils.checkpoint import checkpoint
from torchacc.stablehlo import Module, export, load, tensors_of

PLUGIN = (
    Path(__file__).resolve().parents[2] / "target/openxla/xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so"
)


def the_same(found, expected, **tolerance):
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        torch.testing.assert_close(one.cpu(), other.cpu(), **tolerance)


def test_a_function():
    constant = torch.randn(4, 3)
    there = constant.to(DEVICE)

    def function(x, rows):
        y = F.gelu(x.transpose(0, 1)) @ (there * 0.5)
        return {"y": y[:, 1:], "rows": [x[rows].softmax(-1), None]}

    x, rows = torch.randn(4, 5), torch.tensor([3, 0, 3])
    module = export(function, x.to(DEVICE), rows.to(DEVICE))
    expected = [(F.gelu(x.T) @ (constant * 0.5))[:, 1:], x[rows].softmax(-1)]
    for each in (module, Module(module.text())):
        the_same(each(x.to(DEVICE), rows.to(DEVICE)), expected)
        more = torch.randn(4, 5)
        found = each(more.to(DEVICE), rows.to(DEVICE))
        the_same(found, [(F.gelu(more.T) @ (constant * 0.5))[:, 1:], more[rows].softmax(-1)])


class Gpt(nn.Module):
    def __init__(self, vocabulary=32, width=24, heads=2, length=8):
        super().__init__()
        self.heads = heads
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        # Without the bias of the keys, whose gradient is rounding alone: Adam makes steps of it.
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        x = self.tokens(tokens) + self.places.weight
        q, k, v = (
            one.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for one in self.qkv(self.norms[0](x)).chunk(3, -1)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return self.head(x + self.mlp(self.norms[1](x)))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(3, 6, 3, padding=1, stride=2)
        self.norm, self.head = nn.BatchNorm2d(6), nn.Linear(6, 5)

    def forward(self, x):
        return self.head(F.relu(self.norm(self.convolution(x))).mean((2, 3)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.head = nn.LSTM(4, 8, num_layers=2, batch_first=True), nn.Linear(8, 3)

    def forward(self, x):
        return self.head(self.cells(x)[0][:, -1])


def tokens():
    data = torch.randint(0, 32, (4, 9))
    return data[:, :-1], data[:, 1:]


SETTINGS = {
    "gpt, adamw": (Gpt, tokens, lambda p: torch.optim.AdamW(p, 1e-2, capturable=True)),
    "net, momentum": (
        Net,
        lambda: (torch.randn(4, 3, 8, 8), torch.randint(0, 5, (4,))),
        lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=1e-3),
    ),
    "recurrent, rmsprop": (
        Recurrent,
        lambda: (torch.randn(4, 6, 4), torch.randint(0, 3, (4,))),
        lambda p: torch.optim.RMSprop(p, 1e-2, capturable=True),
    ),
}


def step_of(model, optimizer):
    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x).flatten(0, -2), y.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    return step


def a_training(setting):
    """The model on the device after its first step, its like on the CPU, both with optimizers."""
    make, batch, optimizer_of = setting
    torch.manual_seed(0)
    there = make()
    here = copy.deepcopy(there).to(DEVICE)
    both = [(model, optimizer_of(model.parameters())) for model in (here, there)]
    # Only on the device may the count be a tensor of it.
    for group in both[1][1].param_groups:
        group |= {"capturable": False} if "capturable" in group else {}
    x, y = batch()
    for (model, optimizer), device in zip(both, (DEVICE, "cpu"), strict=True):
        step_of(model, optimizer)(x.to(device), y.to(device))
    return both


@pytest.mark.parametrize("name", SETTINGS)
def test_a_training_step(name, tmp_path):
    _, batch, _ = SETTINGS[name]
    (model, optimizer), (there, its) = a_training(SETTINGS[name])
    state, step = [model, optimizer], step_of(model, optimizer)
    before = [one.detach().cpu() for one in tensors_of(state)]
    gradients = [one.grad for one in model.parameters()]
    random = torch.acc.get_rng_state()
    x, y = batch()
    module = export(step, x.to(DEVICE), y.to(DEVICE), state=state)
    the_same(tensors_of(state), before, rtol=0, atol=0)
    assert all(a is b.grad for a, b in zip(gradients, model.parameters(), strict=True))
    assert torch.equal(random, torch.acc.get_rng_state())
    module.save(tmp_path / "step.mlir")
    read = load(tmp_path / "step.mlir")
    values = [one.detach() for one in tensors_of(state)]
    for number in range(10):
        x, y = batch()
        loss, *values = read(x.to(DEVICE), y.to(DEVICE), *values)
        expected = step_of(there, its)(x, y)
        torch.testing.assert_close(loss.cpu(), expected.detach(), rtol=1e-5, atol=1e-5)
        if number == 4:
            # What is in the middle is a state like any other.
            with torch.no_grad():
                for one, value in zip(tensors_of(state), values, strict=True):
                    one.copy_(value)
            the_same(
                [step(x.to(DEVICE), y.to(DEVICE)).detach()],
                module(x.to(DEVICE), y.to(DEVICE), *values)[:1],
            )
    the_same(values[: len([*there.parameters()])], there.parameters(), rtol=1e-4, atol=1e-4)


def test_a_program_of_torch_export():
    model = Net().eval()
    x = torch.randn(2, 3, 8, 8)
    program = copy.deepcopy(torch.export.export(model, (x,)).module()).to(DEVICE)
    with torch.no_grad():
        module = export(program, x.to(DEVICE), state=program)
        values = tensors_of(program)
        found = module(x.to(DEVICE), *values)
        the_same(found[:1], [model(x)])
        the_same(found[1:], values)


def test_layouts():
    wide = torch.randn(2, 3, 4, 4, device=DEVICE).to(memory_format=torch.channels_last)
    unused, zeros = torch.ones(3, device=DEVICE), torch.zeros(2, device=DEVICE)

    def function(x):
        zeros.add_(x[0, 0, 0, :2])
        return x.permute(3, 2, 1, 0).contiguous(), wide.mul_(2).flatten(2)

    x = torch.randn(2, 3, 4, 4)
    module = export(
        function,
        x.to(DEVICE).transpose(1, 2).contiguous().transpose(1, 2),
        state=[wide, unused, zeros],
    )
    once = wide.cpu()
    expected = [
        x.permute(3, 2, 1, 0),
        (2 * once).flatten(2),
        2 * once,
        torch.ones(3),
        x[0, 0, 0, :2],
    ]
    for each in (module, Module(module.text())):
        found = each(x.to(DEVICE), wide.contiguous(), unused, zeros)
        the_same(found, expected)
    # Though it is not used.
    assert "%arg2: tensor<3xf32>" in module.text()


@pytest.mark.parametrize("dtype", [torch.bool, torch.int32, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("sizes", [(), (0,), (2, 0, 3), (5,), (3, 4)])
def test_types_and_sizes(dtype, sizes):
    x = torch.randint(0, 9, sizes).to(dtype)

    def function(x):
        y = x.flip(0) if x.dim() else x
        return x, y, torch.cat([x.flatten(), y.flatten()]), x == y

    module = export(function, x.to(DEVICE))
    for each in (module, Module(module.text())):
        the_same(each(x.to(DEVICE)), function(x), rtol=0, atol=0)


def test_an_optimizer_has_its_parameters():
    weight = torch.ones(3, device=DEVICE, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)

    def step(x):
        (weight * x).sum().backward()
        optimizer.step()

    x = torch.arange(3.0)
    module = export(step, x.to(DEVICE), state=optimizer)
    the_same(module(x.to(DEVICE), weight), [1 - x / 2])
    assert weight.tolist() == [1, 1, 1]


def test_lists_that_changed_before():
    """Elsewhere such lists are put together without being recorded."""
    for _ in range(2):
        for length in range(8, 13):
            parts = [torch.randn(1, 4) for _ in range(length)]
            there = [part.to(DEVICE) for part in parts]
            torchacc.sync()
            assert torch.cat(there).shape == (length, 4)
            module = export(lambda *parts: torch.cat(parts), *there)
            more = [torch.randn(1, 4) for _ in range(length)]
            the_same(module(*(part.to(DEVICE) for part in more)), [torch.cat(more)])


def test_a_state_that_is_overwritten():
    size = 4 * 2**20

    def step(x, weight, moment):
        moment = moment * 0.9 + x
        # What is an input, too, is read before it is overwritten.
        return (weight * x).sum(), weight - moment, moment, weight

    x, weight, moment, last = (torch.ones(size // 4, device=DEVICE) for _ in range(4))
    module, state = export(step, x, weight, moment), [weight, moment]
    values = [one.clone() for one in state]
    for _ in range(5):
        torchacc.sync()
        torch.acc.reset_peak_memory_stats()
        before, version = torch.acc.memory_allocated(), weight._version
        loss, *made = module(x, *state, out=[None, *state, last])
        assert all(one is other for one, other in zip(made, [*state, last], strict=True))
        assert weight._version == version + 1
        torchacc.sync()
        # `last` was not read, so that it is not overwritten but replaced.
        assert torch.acc.max_memory_allocated() - before < 2 * size
        expected, *values, was = module(x, *values)
        the_same([loss, *state, last], [expected, *values, was], rtol=0, atol=0)
    kept = [one.clone() for one in state]
    for text, out in (
        ("has 4 results, and `out` 1", [None]),
        ("`out` 0 of the module is on cpu", [None, None, None, torch.ones(size // 4)]),
        (r"result 1 of the graph is f32\[1048576\], not f64", [None, moment.double(), None, None]),
        (r"result 2 .*, not f32\[7\]", [None, None, moment[:7], None]),
        ("results 1 and 3 are to be in the same memory", [None, weight, None, weight]),
        ("elements that are one", [None, moment[:1].expand(size // 4), None, None]),
    ):
        with pytest.raises(RuntimeError, match=text):
            module(x, *state, out=out)
    the_same(state, kept, rtol=0, atol=0)


class Dropped(nn.Module):
    """Draws in every way: masks, attention, noise of each distribution."""

    def __init__(self):
        super().__init__()
        self.qkv, self.head = nn.Linear(8, 24, bias=False), nn.Linear(8, 5)

    def forward(self, x):
        q, k, v = (one.unflatten(-1, (2, 4)).transpose(1, 2) for one in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, is_causal=True)
        y = checkpoint(F.dropout, y.transpose(1, 2).flatten(2), 0.4, use_reentrant=False)
        y = y + 0.1 * torch.randn_like(y) + torch.rand_like(y)
        return self.head(y + torch.bernoulli(torch.full_like(y, 0.5)))


def test_random_numbers_are_a_state(tmp_path):
    torch.manual_seed(0)
    model = Dropped().to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, capturable=True)
    step, generator = step_of(model, optimizer), torch.acc.default_generators[0]
    x, y = torch.randn(3, 6, 8, device=DEVICE), torch.randint(0, 5, (3, 6)).to(DEVICE)
    step(x, y)
    generator.manual_seed(-(2**40) - 3)
    state = [model, generator, optimizer]
    first = [one.clone() for one in tensors_of(state)]
    module = export(step, x, y, state=state)
    assert first[-1].tolist() == tensors_of(state)[-1].tolist()
    module.save(tmp_path / "step.mlir")
    expected, after = [step(x, y).item() for _ in range(4)], tensors_of(state)
    assert len({round(loss, 4) for loss in expected}) == 4
    for each in (module, load(tmp_path / "step.mlir")):
        values, found = first, []
        for _ in range(4):
            loss, *values = each(x, y, *values)
            found.append(loss.item())
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=0)
        the_same(values[:-1], after[:-1], rtol=1e-3, atol=1e-5)
        assert values[-1].tolist() == after[-1].tolist()
    if PLUGIN.exists():
        loss, *values = module.on_openxla(x, y, *first, plugin=PLUGIN)
        torch.testing.assert_close(loss.item(), expected[0], rtol=1e-5, atol=0)


def test_generators():
    x = torch.zeros(1000, device=DEVICE)
    one, other = (torch.Generator(DEVICE).manual_seed(seed) for seed in (3, 3))
    draws = [one.get_state(), other.get_state()]

    def function(x):
        torch.rand(7, generator=one, device=DEVICE)
        fixed = torch.rand(1000, generator=torch.Generator(DEVICE).manual_seed(9), device=DEVICE)
        return x + torch.rand(1000, generator=other, device=DEVICE), fixed

    module = export(function, x, state=[one, other])
    assert all(map(torch.equal, draws, [one.get_state(), other.get_state()]))
    results = module(x, *tensors_of([one, other]))
    the_same(results, [*function(x), *tensors_of([one, other])], rtol=0, atol=0)
    assert not torch.equal(results[0], module(x, *results[2:])[0])
    # One that is not drawn from stays as it is.
    the_same(export(torch.neg, x, state=one)(x, *tensors_of(one)), [x, *tensors_of(one)])
    the_same(export(lambda: (), state=one)(*tensors_of(one)), tensors_of(one))
    broken("same each time", function, x, state=[one])
    broken("sets the seed", lambda: one.manual_seed(1) and (), state=one)
    broken("input 1 of .* is on cpu", torch.neg, x, state=torch.Generator())


def broken(text, function, *arguments, state=()):
    with pytest.raises(ValueError, match=text):
        export(function, *arguments, state=state)


def test_what_cut_is_said_with_its_line():
    def function(x):
        y = x * 2
        return y + 1 if y.sum() > 0 else y

    line = function.__code__.co_firstlineno + 2
    read = rf"the host read the result of aten::gt .*{Path(__file__).name}:{line}$"
    # Of a shape of its own: what was recorded long ago may have no line.
    broken(read, function, torch.ones(3, 1, 5, device=DEVICE))


def test_what_is_no_function():
    x = torch.ones(4, device=DEVICE)
    model = nn.Linear(4, 4).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), capturable=True)
    counted = [0]

    def counting(x):
        counted[0] += 1
        return x * counted[0]

    def step(x):
        model(x).sum().backward()
        optimizer.step()
        torchacc.mark_step()  # is nothing here

    broken("trace was cut", lambda x: x * x.sum().item(), x)
    broken("same each time", counting, x)
    broken("same each time.*\n.*\n.*\nRandom numbers", lambda x: F.dropout(x), x)
    broken("input 0 of .* is on cpu", torch.neg, torch.ones(3))
    broken("result 1 of the module is on cpu", lambda x: (x, torch.ones(2)), x)
    broken("returns int: no tensor", lambda x: (x, 3), x)
    broken("makes or replaces tensors", step, x, state=[model, optimizer])
    assert not optimizer.state
    # Of a shape of its own: the line of what a process recorded long ago may be forgotten.
    odd = torch.ones(3, 1, 7, 2, device=DEVICE)
    changed = odd.clone()
    line = "copy changes 168 bytes.*\n.*test_stablehlo_export.py"
    broken(line, lambda x: changed.copy_(x) + 1, odd)
    broken("shares its memory", torch.neg, x, state=x[:2])
    broken("inputs 1 and 2 are the same memory", torch.neg, x, state=[x, x.detach()])
    with pytest.raises(TypeError, match="str has no tensors"):
        export(torch.neg, x, state="x")
    assert x.tolist() == [1] * 4


def test_openxla_has_to_be_there(tmp_path, monkeypatch):
    x = torch.ones(4, device=DEVICE)
    module = export(torch.neg, x)
    with pytest.raises(RuntimeError, match="TORCHACC_OPENXLA"):
        module.on_openxla(x)
    (tmp_path / "no_plugin.so").write_text("x")
    with pytest.raises(RuntimeError, match="no_plugin.so"):
        module.on_openxla(x, plugin=tmp_path / "no_plugin.so")


@pytest.mark.skipif(not PLUGIN.exists(), reason="make openxla-plugin was not run")
@pytest.mark.parametrize("name", SETTINGS)
def test_a_training_step_on_openxla(name):
    _, batch, _ = SETTINGS[name]
    (model, optimizer), _ = a_training(SETTINGS[name])
    inputs = [one.to(DEVICE) for one in batch()]
    module = export(step_of(model, optimizer), *inputs, state=[model, optimizer])
    values = tensors_of([model, optimizer])
    for _ in range(3):
        expected = module(*inputs, *values)
        loss, *values = module.on_openxla(*inputs, *values, plugin=PLUGIN)
        the_same([loss, *values], expected, rtol=1e-4, atol=1e-4)
