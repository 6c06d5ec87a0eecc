"""`torch.compile` on acc: the same numbers, the same programs, nothing for Inductor to do."""

import functools

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from compiled import classifier, gradients, graphs, leaf, whole
from support import DEVICE, GPT, assert_same, to_device, token_batch, twins
from torch._dynamo.utils import counters
from torch._functorch.aot_autograd import make_boxed_func
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
from training import Training, counts, settle

BACKENDS = ["inductor", "torchacc"]


@pytest.fixture(autouse=True)
def _nothing_captured():
    torch._dynamo.reset()
    counters.clear()


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


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_attention_in_graphs_that_pytorch_differentiates(dropout):
    """What the kernels give has the layouts that the graph was made for, and is all there."""
    cpu, acc = twins(lambda: nn.MultiheadAttention(8, 2, dropout, batch_first=True))
    compiled = torch.compile(acc, backend="aot_eager", fullgraph=True)
    x = torch.randn(2, 3, 8)
    cpu(x, x, x, need_weights=False)[0].pow(2).sum().backward()
    compiled(*[x.to(DEVICE)] * 3, need_weights=False)[0].pow(2).sum().backward()
    found, expected = ([p.grad for p in model.parameters()] for model in (acc, cpu))
    if dropout:
        assert [g.shape for g in found] == [g.shape for g in expected]
    else:
        assert_same(found, expected, 1e-4, 1e-5)
