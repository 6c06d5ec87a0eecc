"""`torch.compile` on acc: the same numbers, the same programs, nothing for Inductor to do."""

import functools
import math
import tomllib
from pathlib import Path

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from support import DEVICE, GPT, assert_same, run_python, to_device, token_batch, twins
from torch._dynamo.utils import counters
from torch._functorch.aot_autograd import make_boxed_func
from torch._higher_order_ops import associative_scan, map, scan, while_loop
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
from training import Training, counts, settle

BACKENDS = ["inductor", "torchacc"]
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
whole = functools.partial(torch.compile, fullgraph=True)


@pytest.fixture(autouse=True)
def _nothing_captured():
    torch._dynamo.reset()
    counters.clear()


def classifier():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 3))


def gradients(function, *arguments):
    """What `function` gives, and the gradients of its sum for the arguments that require some."""
    result = function(*arguments)
    wanted = [x for x in arguments if isinstance(x, torch.Tensor) and x.requires_grad]
    return result, *torch.autograd.grad(result.sum(), wanted)


def leaf(*sizes, dtype=torch.float64):
    return torch.randn(*sizes, dtype=dtype).requires_grad_()


def graphs():
    return counters["stats"]["unique_graphs"]


# ---- models


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", [None, "reduce-overhead", "max-autotune"])
def test_a_model_computes_what_it_does_on_the_cpu(backend, mode):
    cpu, acc = twins(classifier)
    compiled = torch.compile(acc, backend=backend, mode=mode, fullgraph=True)
    x = torch.randn(5, 6)
    for _ in range(2):
        cpu(x).pow(2).sum().backward()
        compiled(x.to(DEVICE)).pow(2).sum().backward()
    assert graphs() == 1
    assert_same(acc.state_dict(), cpu.state_dict())
    assert_same([p.grad for p in acc.parameters()], [p.grad for p in cpu.parameters()], 1e-4, 1e-5)
    cpu.eval(), acc.eval()
    assert_same(compiled(x.to(DEVICE)), cpu(x))


def test_the_backend_has_a_name_and_takes_options():
    assert "torchacc" in torch._dynamo.list_backends()
    x = torch.ones(3, device=DEVICE)
    for backend in BACKENDS:
        function = torch.compile(torch.sin, backend=backend, options={"trace.enabled": False})
        assert_same(function(x), x.cpu().sin())


def test_training_is_that_of_the_lazy_device_to_the_bit():
    def losses(compiled):
        torch.manual_seed(0)
        model = GPT(dropout=0.1).to(DEVICE)
        optimizer = torch.optim.AdamW(model.parameters())
        forward = torch.compile(model) if compiled else model
        found = []
        for step in range(5):
            loss = forward(*(t.to(DEVICE) for t in token_batch(step)))
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.detach())
        return torch.stack(found)

    assert torch.equal(losses(True).cpu(), losses(False).cpu())


class Broken(GPT):
    """Its forward is captured in parts, and one of them changes what another one has made."""

    def forward(self, tokens, targets):
        x = self.token(tokens)
        torch._dynamo.graph_break()
        for block in self.blocks:
            x = block(x).mul_(2)
            torch._dynamo.graph_break()
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


@pytest.mark.parametrize("build", [GPT, Broken])
def test_a_step_is_one_program_that_is_known(build):
    training = Training(build, torch.optim.AdamW)
    training.models[1].compile()
    settle(training.step)
    captured = graphs()
    assert (captured > 1) == (build is Broken)
    assert counts(lambda: settle(training.step)) == (0, 0)
    metrics = torchacc.metrics()
    # The comparison of losses reads one value a step, after the step.
    assert (metrics["cuts"], metrics["read_cuts"], metrics["host_calls"]) == (4, 0, 0)
    assert graphs() == captured


def test_another_length_captures_and_compiles_nothing():
    training = Training()
    training.models[1].compile()
    for batch in (8, 6, 5, 7):
        training.step(batch=batch)
    captured = graphs()
    assert captured == 2
    assert counts(lambda: [training.step(batch=batch) for batch in (3, 9, 4)])[1] == 0
    assert graphs() == captured


def test_sizes_that_are_said_to_vary():
    model = nn.Linear(6, 3)
    on_device = to_device(list(model.parameters()))

    def run(x):
        return F.linear(x, *on_device)

    for_all = torch.compile(run, dynamic=True)
    for rows in (5, 4, 7):
        x = torch.randn(rows, 6)
        assert_same(for_all(x.to(DEVICE)), model(x))
    assert graphs() == 1
    marked = torch.randn(5, 6)
    on_acc = marked.to(DEVICE)
    torch._dynamo.mark_dynamic(on_acc, 0)
    torch._dynamo.reset()
    assert_same(whole(run)(on_acc), model(marked))
    assert_same(whole(run)(x.to(DEVICE)), model(x))
    assert graphs() == 2


def test_state_dicts_of_compiled_modules():
    cpu, acc = twins(classifier)
    compiled = torch.compile(acc)
    saved = compiled.state_dict()
    assert [name.removeprefix("_orig_mod.") for name in saved] == list(cpu.state_dict())
    nn.init.zeros_(acc[0].weight)
    compiled.load_state_dict(to_device({"_orig_mod." + k: v for k, v in cpu.state_dict().items()}))
    x = torch.randn(5, 6)
    assert_same(compiled(x.to(DEVICE)), cpu(x))


def test_the_same_model_on_another_device():
    cpu, _ = twins(classifier)
    x = torch.randn(5, 6)
    compiled = torch.compile(cpu, backend="torchacc")
    expected = compiled(x)
    cpu.to(DEVICE)
    assert_same(compiled(x.to(DEVICE)), expected)
    assert graphs() == 2


# ---- what is captured


def test_only_graphs_on_acc_are_kept_from_inductor():
    from torch._inductor.compile_fx import compile_fx

    graphs_of_inductor = []

    def inner(graph, inputs, **settings):
        graphs_of_inductor.append(graph)
        return make_boxed_func(graph.forward)

    def compiled(function, *inputs):
        graph = make_fx(function)(*inputs)
        return compile_fx(graph, list(inputs), inner_compile=inner)(*inputs)

    x = torch.ones(2)
    assert compiled(lambda a: (a + 1,), x)[0].tolist() == [2, 2]
    assert len(graphs_of_inductor) == 1
    assert compiled(lambda a: (a + 1,), x.to(DEVICE))[0].tolist() == [2, 2]
    assert compiled(lambda a: (a.to(DEVICE).cpu() + 1,), x)[0].tolist() == [2, 2]
    assert compiled(lambda: (torch.arange(2, device=DEVICE).tolist(),))
    assert len(graphs_of_inductor) == 1


def test_tensors_that_are_made_moved_and_left_alone():
    assert whole(lambda n: torch.arange(n, device=DEVICE) + 1)(3).tolist() == [1, 2, 3]
    assert whole(lambda x: x.to(DEVICE) * 2)(torch.ones(2)).is_acc
    assert whole(lambda x: x.cpu() * 2)(torch.ones(2, device=DEVICE)).is_cpu

    def aliases(x):
        flat = x.view(-1)
        flat.add_(1)
        return flat, x.t(), x

    x = torch.zeros(2, 3, device=DEVICE)
    flat, turned, same = whole(aliases)(x)
    assert same is x
    assert turned._base is x
    x.mul_(2)
    assert flat.tolist() == [2.0] * 6
    assert turned.tolist() == [[2.0, 2.0]] * 3


def test_branches_on_values():
    def positive(x):
        x = x + 1
        if x.sum() > 0:
            x = x * 2
        return x - 1

    compiled = torch.compile(positive)
    for value in (1.0, -3.0, 2.0):
        x = torch.full((3,), value)
        assert_same(compiled(x.to(DEVICE)), positive(x))
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        x = torch.tensor([1.0, -2.0, 3.0])
        assert_same(whole(lambda x: x * x.sum().item())(x.to(DEVICE)), x * 2)
    chosen = whole(lambda x: x[x > 0])(x.to(DEVICE))
    assert_same(chosen, x[x > 0])


def test_gradient_modes_and_autocast():
    model, x = nn.Linear(4, 2).to(DEVICE), torch.randn(3, 4, device=DEVICE)
    compiled = whole(model)
    with torch.no_grad():
        assert not compiled(x).requires_grad
    with torch.inference_mode():
        assert compiled(x).is_inference()
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert compiled(x).dtype == torch.bfloat16
    assert compiled(x).requires_grad
    for autocast in (functools.partial(torch.autocast, DEVICE), torch.acc.amp.autocast):

        def forward(x, autocast=autocast):
            with autocast(dtype=torch.bfloat16):
                return model(x)

        y = whole(forward)(x)
        assert y.dtype == torch.bfloat16
        assert torch.equal(y.cpu(), forward(x).cpu())
        y.float().sum().backward()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3 * ctx.saved_tensors[0] ** 2


def test_gradients_of_own_functions_and_of_gradients():
    x = leaf(4)
    on_acc = to_device(x)
    result = whole(lambda x: Cube.apply(x).sum())(on_acc)
    (first,) = torch.autograd.grad(result, on_acc)
    assert_same(first, 3 * x.detach() ** 2)
    result = whole(lambda x: (x**3).sum())(on_acc)
    (first,) = torch.autograd.grad(result, on_acc, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), on_acc)
    assert_same(second, 6 * x.detach())
    inner = whole(lambda x: torch.func.grad(lambda a: (a**3).sum())(x) + torch.vmap(torch.sin)(x))
    assert_same(inner(on_acc), 3 * x.detach() ** 2 + x.detach().sin())


def test_hooks_run():
    model, x = nn.Linear(4, 2).to(DEVICE), torch.randn(3, 4, device=DEVICE)
    seen = []
    model.register_forward_hook(lambda *_: seen.append("forward"))
    model.weight.register_hook(lambda gradient: gradient * 2)
    torch.compile(model)(x).sum().backward()
    assert seen == ["forward"]
    assert_same(model.weight.grad, 2 * x.cpu().sum(0).expand(2, 4))


@pytest.mark.parametrize("selective", [False, True])
def test_checkpointing_draws_the_same_numbers_again(selective):
    torch.manual_seed(0)
    layer = nn.Linear(4, 4).to(DEVICE)
    x = torch.randn(3, 4, device=DEVICE, requires_grad=True)
    settings = {}
    if selective:
        kept = [torch.ops.aten.addmm.default]
        settings["context_fn"] = functools.partial(create_selective_checkpoint_contexts, kept)

    def part(x):
        return F.dropout(torch.relu(layer(x)), 0.5)

    def run(x):
        return checkpoint(part, x, use_reentrant=False, **settings).pow(2)

    torch.manual_seed(1)
    expected = gradients(lambda x: part(x).pow(2), x)
    torch.manual_seed(1)
    found = gradients(whole(run), x)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one.cpu(), other.cpu())


# ---- higher-order operators


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


# ---- steps


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        (torch.optim.SGD, {"momentum": 0.9}),
        (torch.optim.AdamW, {}),
        (torch.optim.AdamW, {"fused": True}),
        (torch.optim.AdamW, {"foreach": False, "capturable": True}),
    ],
)
def test_a_compiled_optimizer_ends_the_step(optimizer, options):
    def prepare(device):
        weights = [torch.full((3,), 1.0, device=device), torch.full((2, 2), 2.0, device=device)]
        parameters = [nn.Parameter(w) for w in weights]
        # The others are about how it is computed.
        given = (
            options if device == DEVICE else {k: v for k, v in options.items() if k == "momentum"}
        )
        step = optimizer(parameters, lr=0.1, **given).step
        step = torch.compile(step) if device == DEVICE else step

        def run():
            for parameter in parameters:
                parameter.grad = parameter.detach() * 2
            step()

        return run, parameters

    (cpu, expected), (acc, found) = prepare("cpu"), prepare(DEVICE)
    settle(cpu, 8)
    settle(acc)
    assert counts(lambda: settle(acc))[1] == 0
    assert torchacc.metrics()["cuts"] == 4
    assert torchacc.metrics()["read_cuts"] == 0
    assert_same(found, expected, 1e-4, 1e-5)


def test_a_step_that_is_compiled_as_one_function():
    models = twins(classifier)
    x, y = torch.randn(5, 6), torch.randint(3, (5,))

    def prepare(model, device):
        optimizer = torch.optim.AdamW(model.parameters())
        data = x.to(device), y.to(device)

        def step():
            loss = F.cross_entropy(model(data[0]), data[1])
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss

        return step

    cpu, acc = prepare(models[0], "cpu"), torch.compile(prepare(models[1], DEVICE))
    for _ in range(4):
        assert_same(acc(), cpu(), 1e-4, 1e-5)
    assert counts(lambda: settle(acc))[1] == 0
    assert torchacc.metrics()["cuts"] == 4


def test_compiled_autograd():
    cpu, acc = twins(classifier)
    x = torch.randn(5, 6)
    cpu(x).pow(2).sum().backward()
    with torch._dynamo.compiled_autograd._enable(whole):
        acc(x.to(DEVICE)).pow(2).sum().backward()
    assert graphs() == 1
    assert_same([p.grad for p in acc.parameters()], [p.grad for p in cpu.parameters()], 1e-4, 1e-5)


# ---- the device's own functions


def test_cuts_and_waits_in_a_graph():
    for end in (torchacc.cut, torchacc.sync, torch.acc.synchronize, torch.accelerator.synchronize):

        def run(x, end=end):
            y = x + 1
            end()
            return y * 2

        compiled, alone = whole(run), whole(lambda end=end: end())
        x = torch.ones(2, device=DEVICE)
        compiled(x)
        alone()
        torchacc.sync()
        torchacc.reset_metrics()
        assert_same(compiled(x), torch.full((2,), 4.0))
        x + 1
        alone()
        assert torchacc.metrics()["cuts"] == 3


def test_state_of_the_device_is_asked_for_at_every_call():
    def run(x):
        if not torch.acc.is_available() or torch.acc.device_count() < 1:
            return None
        state = torch.acc.get_rng_state()
        first = torch.rand(3, device=DEVICE)
        torch.acc.set_rng_state(state)
        second = torch.rand(3, device=DEVICE)
        return first, second, x + torch.acc.current_device(), torch.acc.initial_seed()

    compiled = torch.compile(run)
    for seed in (1, 2, 3):
        torch.acc.manual_seed(seed)
        first, second, same, initial = compiled(torch.ones(2, device=DEVICE))
        assert torch.equal(first.cpu(), second.cpu())
        assert same.tolist() == [1, 1]
        assert initial == seed

    def seeded():
        first = torch.rand(2, device=DEVICE)
        torch.manual_seed(3)
        return first, torch.rand(2, device=DEVICE)

    torch.manual_seed(1)
    expected = seeded()
    torch.manual_seed(1)
    assert_same(torch.compile(seeded)(), to_device(expected, "cpu"))


def test_streams_and_events():
    def run(x):
        stream = torch.acc.Stream(DEVICE)
        with torch.acc.stream(stream):
            y = x + 1
        torch.acc.current_stream().wait_stream(stream)
        event = torch.acc.Event()
        event.record()
        event.synchronize()
        with torch.acc.device(0):
            return y * 2

    assert torch.compile(run)(torch.ones(2, device=DEVICE)).tolist() == [4, 4]


# ---- programs beside torch.compile's


def test_exported_programs():
    model, x = nn.Linear(4, 2).to(DEVICE), torch.randn(3, 4, device=DEVICE)
    exported = torch.export.export(model, (x,))
    assert_same(whole(exported.module())(x), model(x).detach().cpu())
    with pytest.raises(NotImplementedError, match=r"torch\.export\.save"):
        torch._inductor.aoti_compile_and_package(exported)


def test_importing_torch_does_not_import_dynamo():
    code = "import sys, torch, torchacc; print([m for m in sys.modules if m in {}])"
    modules = {"torch._dynamo", "torch._inductor", "torch.nn.attention.flex_attention"}
    assert run_python(code.format(modules)).stdout == "[]\n"


def test_dynamo_may_be_there_first():
    # PyTorch loads the backend, and that the device, as if the package were installed.
    project = tomllib.loads(PROJECT.read_text())["project"]
    entry = project["entry-points"]["torch_dynamo_backends"]["torchacc"]
    code = f"""
import importlib.metadata
import torch, torch._dynamo, torch._inductor.compile_fx
import torch.nn.attention.flex_attention
torch._dynamo.list_backends()
entry = importlib.metadata.EntryPoint("torchacc", "{entry}", "torch_dynamo_backends")
torch._dynamo.backends.registry._BACKENDS["torchacc"] = entry
assert not hasattr(torch, "acc")
compiled = torch.compile(torch.sin, backend="torchacc")
print(compiled(torch.zeros(2)).tolist(), compiled(torch.zeros(2, device="acc")).tolist())
print(torch.compile(torch.sin)(torch.zeros(2, device="acc")).tolist())
x = torch.ones(1, 1, 2, 2, device="acc")
print(torch.nn.attention.flex_attention.flex_attention(x, x, x).sum().item())
"""
    result = run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert result.stdout.splitlines() == ["[0.0, 0.0] [0.0, 0.0]", "[0.0, 0.0]", "4.0"]
    assert "could not adapt" not in result.stderr
