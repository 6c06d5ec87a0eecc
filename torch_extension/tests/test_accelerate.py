"""torchacc.accelerate: losses of one process, whatever the processes share."""

import copy
import inspect
import os

import accelerated
import pytest
import ranks
import torch
import torch.nn as nn
import torchacc
from documented import scripts
from safetensors.torch import save_file
from support import DEVICE, assert_said
from torchacc.config import ComputeConfig, Config, MemoryConfig
from torchacc.parallel import recompute, rules

# `make test-parallel` runs all, `make test` those that each show something that no other does.
WHOLE = os.environ.get("TORCHACC_PARALLEL") == "whole"
STEPS = 20 if WHOLE else 6
RUNS = [
    (size, kind, model)
    for size, kinds in accelerated.KINDS.items()
    for kind, options in kinds.items()
    for model in accelerated.MODELS
    if WHOLE or kind in accelerated.SHORT[size] and model == options.get("model", "llama")
]


OPTIONS = {"backend": "acc", "timeout": 1800 if WHOLE else 150}


@pytest.fixture(scope="module")
def trained():
    """What every rank says of each training, by the number of processes."""
    made = {}

    def of(size):
        if size not in made:
            runs = [f"{kind}:{model}" for count, kind, model in RUNS if count == size]
            made[size] = AssertionError("an earlier test says what went wrong")
            made[size] = (
                [accelerated.trainings(STEPS, *runs)]
                if size == 1
                else ranks.run("accelerated.trainings", size, STEPS, *runs, **OPTIONS)
            )
        if isinstance(made[size], Exception):
            raise made[size]
        return made[size]

    return of


@pytest.mark.parametrize(("size", "kind", "model"), RUNS)
def test_losses_are_those_of_one_process(trained, size, kind, model):
    made = [of_rank[f"{kind}:{model}"] for of_rank in trained(size)]
    means = [sum(step) / size for step in zip(*(one["losses"] for one in made), strict=True)]
    bound = 1e-2 if "bf16" in kind else 1e-4 if WHOLE else 1e-5
    options = accelerated.KINDS[size][kind]
    assert means == pytest.approx(made[0]["expected"], rel=bound)
    for one in made:
        for number in range(3, STEPS):
            counts = one["counts"][number]
            assert (counts["compiles"], counts["host_calls"]) == (0, 0), (number, counts)
            assert counts["cuts"] <= accelerated.programs(options), (number, counts)
        assert one["part"] < 1.1 / options.get("fsdp", 1)


@pytest.mark.parametrize(
    ("size", "kinds"),
    [(2, ["tp", "fsdp", "1f1b", "interleaved", "zero_bubble"]), (4, ["fsdp_tp", "pp_tp"])],
)
def test_all_ranks_skip_a_step_that_overflows_on_one(size, kinds):
    of_ranks = ranks.run("scaled.scaled", size, *kinds, backend="acc")
    for kind in kinds:
        made = [of_rank[kind] for of_rank in of_ranks]
        means = [
            sum(step[0] for step in steps) / size
            for steps in zip(*(m["losses"] for m in made), strict=True)
        ]
        assert means == pytest.approx([expected for _, expected in made[0]["losses"]], rel=2e-3)
        finite = [all(step) for step in zip(*(one["finite"] for one in made), strict=True)]
        assert finite.count(True) > 3
        # Once at least others have nothing that overflows.
        assert any(
            len(set(step)) > 1 for step in zip(*(one["finite"] for one in made), strict=True)
        ), kind
        for one in made:
            assert one["stays"] == [[not step, not step] for step in finite], kind
            scale = 2.0**16
            for (found, expected), step in zip(one["scales"], finite, strict=True):
                scale /= 1 if step else 2
                assert found == expected == scale, kind
            for counts in one["counts"][3:]:
                assert (counts["compiles"], counts["host_calls"]) == (0, 0), (kind, counts)
                # The overflow is not read.
                assert counts["cuts"] <= accelerated.programs(accelerated.KINDS[size][kind])


def test_what_does_not_fit_is_said():
    for said in ranks.run("accelerated.refused", 2, backend="acc"):
        expected = {
            "world": "ValueError: config: dist: dp 1 x fsdp 3 x pp 1 x sp 1 x tp 1 = 3 processes",
            "class": "wrap_layer_cls is ['Block']: the model has no Block, but Embedding, GPT2",
            "no_plan": "dist.tp.plan is None, the model has none, and no list of layers",
            "pattern": "dist.tp.plan: the model has no blocks.*.up",
            "style": "dist.tp.plan: layers.*.up is 'columns': there are colwise, rowwise",
            "uneven": "dist.tp.plan: 0 has 3 rows, which 2 ranks cannot share evenly",
            "tied": "dist.tp.plan: head is split, and its weight is that of token, too",
            "gc": "memory.gc: the model has no list of layers: name some in gc_cls",
            "stepped": "the optimizer has made a step",
            "strange": "the optimizer has a parameter that the model has not",
        }
        assert_said(said, expected)


def test_the_scripts_of_the_pages_run():
    stores = [ranks.hosted_store() for _ in scripts("parallel")]
    ports = [store.port for store in stores]
    made = ranks.run("documented.run", 2, "parallel", *ports, backend="none")
    assert made == [len(ports)] * 2


def test_a_models_own_plan_is_followed_as_far_as_it_is_known():
    for made in ranks.run("accelerated.own_plan", 2, backend="acc"):
        assert made["split"] == ["head", "layers.0.down", "layers.0.up", "layers.1.down"] + [
            "layers.1.up",
            "token",
        ]
        assert "layers.* stay whole" not in made["said"]
        assert "others.* stay whole on every rank" in made["said"]
        assert "packed_colwise" in made["said"]
        assert made["loss"] == pytest.approx(made["expected"], rel=1e-5)


def test_a_model_without_a_plan_is_split_by_rules():
    """Feed-forward networks in the middle, other layers by rows, none that cannot be shared."""
    names = ["heads", "out", "mlp.down", "mlp.gate", "mlp.up", "mixer.down", "mixer.up"]
    blocks = [f"1.{n}.{name}" for n in range(2) for name in names]
    for made in ranks.run("accelerated.by_rules", 2, backend="acc"):
        assert sorted(made["split"]) == sorted(blocks)
        assert made["losses"] == pytest.approx(made["expected"], rel=1e-5)


def test_weights_are_read_from_safetensors(tmp_path):
    torch.manual_seed(1)
    model = accelerated.MODELS["gpt2"]()
    model.head.weight = model.token.weight
    state = model.state_dict()
    del state["head.weight"]
    names = [*state]
    half = {name: state[name].bfloat16() for name in names[::2]}
    save_file(half, tmp_path / "model-00001-of-00002.safetensors")
    save_file({name: state[name] for name in names[1::2]}, tmp_path / "other.safetensors")
    for made in ranks.run("accelerated.loaded", 2, backend="acc", WEIGHTS_FOLDER=str(tmp_path)):
        for kind in ("dp", "fsdp", "tp", "pp"):
            before, after = made[kind]
            assert before > 1, kind
            assert after == 0, kind
        assert "there is no 0.bias, there is no 0.weight, the model has no" in made["missing"]
        assert "in the model [" in made["shape"]
        assert "has no *.safetensors" in made["empty"]
        assert "the model has no layers.1." in made["strange"]
        assert made["some"] == 0


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (accelerated.FeedForward, {"gate": "colwise", "up": "colwise", "down": "rowwise"}),
        (accelerated.Mixer, {"up": "colwise_gather_output", "down": "colwise_gather_output"}),
    ],
)
def test_what_is_elementwise_is_found_out(module, expected):
    model = nn.Sequential(module(), module())
    made = rules.styles(nn.ModuleList([model]), 2)
    names = [f"0.{n}.{name}" for n in range(2) for name in expected]
    assert made == dict(zip(names, [*expected.values()] * 2, strict=True))


def test_a_model_without_memory_is_made_in_parts():
    of_ranks = ranks.run("accelerated.without_memory", 2, backend="acc")
    for made in of_ranks:
        # As `nn.Embedding` and `nn.Linear` write their weights; norms begin with ones.
        assert made["token"] == pytest.approx([0, 1], abs=0.1)
        assert made["up"] == pytest.approx([0, 1 / (3 * 32) ** 0.5], abs=0.02)
        assert made["norm"] == [1, 0]
        assert made["tied"]
        assert made["kept"] == [0, 1, 2]
        assert made["padding"] == [0] * 8
        assert made["losses"][-1] < made["losses"][0]
        assert made["part"] < 0.55
        assert made["devices"] == ["cpu"]
        assert made["losses_on_host"] == pytest.approx(made["losses"], rel=1e-5)
        assert "nobody writes own, count, which the device meta" in made["said"]
    for name in ("losses", "whole"):
        assert of_ranks[0][name] == of_ranks[1][name]


def test_tied_weights_stay_tied():
    for made in ranks.run("accelerated.tied_weights", 2, backend="acc"):
        assert made == dict.fromkeys(["fsdp", "dp", "tp", "tp_tied"], True)


def test_a_model_that_is_refused_is_what_it_was():
    model = nn.Sequential(nn.Linear(2, 2))
    other = torch.optim.SGD(nn.Linear(2, 2).parameters())
    wanted = Config(memory=MemoryConfig(gc=True, gc_cls={"Linear"}))
    for config, optimizer in ((wanted, other), (Config(memory=MemoryConfig(gc=True)), None)):
        with pytest.raises(ValueError, match="has a parameter that|has no list of layers"):
            torchacc.accelerate(model, config=config, optimizer=optimizer)
    assert model[0].weight.device.type == "cpu"
    assert "forward" not in vars(model[0])


def test_a_model_alone_is_what_it_was():
    model = nn.Linear(4, 2)
    weight = model.weight.detach().clone()
    made = torchacc.accelerate(model)
    assert made is model
    assert made.weight.device.type == DEVICE
    torch.testing.assert_close(made.weight.cpu(), weight)
    with pytest.raises(ValueError, match="dist: dp 1 x fsdp 1 x pp 1 x sp 1 x tp 2 = 2 processes"):
        torchacc.accelerate(nn.Linear(2, 2), config=accelerated.config(tp=2))


def test_plain_pytorch_is_accelerated_too():
    model = torchacc.accelerate(nn.Linear(4, 2), config=Config(backend="eager"))
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert model.weight.device.type == expected


def test_halves_are_computed_and_f32_comes_out():
    seen = []
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2))
    model[1].register_forward_hook(lambda module, inputs, result: seen.append(result.dtype))
    made = torchacc.accelerate(model, config=Config(compute=ComputeConfig(bf16=True)))
    assert made(torch.ones(3, 4, device=DEVICE)).dtype == torch.float32
    assert seen == [torch.bfloat16]


def test_what_is_computed_again_draws_the_same_numbers():
    """Also of layers whose arguments have names."""

    class Drops(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(
                nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5), nn.Linear(16, 16))
                for _ in range(2)
            )

        def forward(self, x):
            for layer in self.layers:
                x = layer(input=x)
            return x

    torch.manual_seed(0)
    models = [Drops().to(DEVICE)]
    models.append(copy.deepcopy(models[0]))
    torchacc.accelerate(models[1], config=Config(memory=MemoryConfig(gc=True)))
    for model in models:
        torch.manual_seed(3)
        model(torch.ones(8, 16, device=DEVICE)).sum().backward()
    for one, other in zip(*(model.parameters() for model in models), strict=True):
        torch.testing.assert_close(one.grad.cpu(), other.grad.cpu())


def test_copies_are_copies():
    for size, kinds in ((2, ["dp", "tp"]), (4, ["hybrid", "dp_tp", "hybrid:meta", "dp_tp:meta"])):
        of_ranks = ranks.run("accelerated.unequal", size, *kinds, backend="acc")
        for kind in kinds:
            sums = [made[kind] for made in of_ranks]
            assert all(one == sums[0] for one in sums), (kind, sums)


def test_a_copy_computes_with_its_own_weights():
    """Of one that computes in halves, and computes layers again."""
    config = Config(
        compute=ComputeConfig(bf16=True), memory=MemoryConfig(gc=True, gc_cls={"Linear"})
    )
    model = torchacc.accelerate(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), config=config)
    x = torch.ones(3, 4, device=DEVICE)
    before, copied = model(x).cpu(), copy.deepcopy(model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    assert (model(x) == 0).all()
    torch.testing.assert_close(copied(x).cpu(), before)
    assert [*inspect.signature(model.forward).parameters] == ["input"]


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.ModuleList([nn.Sequential(nn.Linear(4, 4)) for _ in range(2)])
        self.runs = 0

    def forward(self, x):
        self.runs += 1
        for layer in self.inner:
            x = layer(x).relu()
        return x


@pytest.mark.parametrize(
    ("wanted", "runs"),
    [({}, [2, 2, 2]), ({"gc_cnt": 2}, [2, 2, 1]), ({"gc_cls": {"Block"}}, [2, 2, 2]),
     ({"gc_cnt": 0}, [1, 1, 1])],
)  # fmt: skip
def test_layers_are_computed_again(wanted, runs):
    """Without names they are the outermost that the model repeats."""
    model = nn.Sequential(nn.Linear(4, 4), nn.ModuleList([Block() for _ in range(3)]))
    model.forward = lambda x: [x := layer(x) for layer in (model[0], *model[1])][-1]
    config = Config(memory=MemoryConfig(gc=True, **wanted))
    torchacc.accelerate(model, config=config)
    model(torch.ones(2, 4, device=DEVICE)).sum().backward()
    assert [block.runs for block in model[1]] == runs


class Tower(nn.Module):
    """Each of four layers keeps two results of 16 KiB for the way back, and says when it runs."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Sequential(nn.Tanh(), nn.Tanh()) for _ in range(4))
        self.runs = []
        for at, layer in enumerate(self.layers):
            layer[0].register_forward_hook(lambda *_, at=at: self.runs.append(at))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def again_within(budget, auto=False):
    """How many layers compute again."""
    model = Tower()
    config = Config(memory=MemoryConfig(auto=auto, budget=budget))
    made = torchacc.accelerate(model, config=config)
    x = torch.ones(64, 64, device=DEVICE, requires_grad=True)
    made(x).sum().backward()
    # Once to see what is kept, once forwards, and some once more.
    first = [model.runs.count(at) - 2 for at in range(4)]
    made(x).sum().backward()
    again = [model.runs.count(at) - 2 for at in range(4)]
    assert again == [1 + 2 * one for one in first]
    return sum(first)


def test_as_few_layers_compute_again_as_a_budget_allows():
    kib = 1024
    # While a layer computes again its two results are there: of one layer nothing is won.
    found = {size: again_within(size * kib) for size in (1000, 128, 127, 96, 95, 64, 63, 32)}
    assert found == {1000: 0, 128: 0, 127: 2, 96: 2, 95: 3, 64: 3, 63: 4, 32: 4}
    with pytest.raises(ValueError, match="budget is 31744: a step needs 32768 bytes if all of 4"):
        again_within(31 * kib)


def test_without_a_budget_a_step_makes_do_with_the_memory_that_there_is(monkeypatch):
    def found(free):
        monkeypatch.setattr(recompute, "host_memory", lambda: (free, free))
        return again_within(None, auto=True)

    monkeypatch.setattr(recompute, "native_device", lambda: None)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)

    assert found(1 << 30) == 0
    # A tenth is not the step's; several processes of a machine share what there is.
    assert found(106 << 10) == 3
    assert found(107 << 10) == 2
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert found(214 << 10) == 2
    with pytest.raises(ValueError, match="memory.auto: what a step may take of .* is 921"):
        found(2 << 10)
    # Parameters are there already.
    monkeypatch.setattr(recompute, "host_memory", lambda: (6000, 9000))
    parameters = [torch.ones(250, device=DEVICE)]
    assert recompute._memory_there_is(torch.device(DEVICE), parameters) == 3600
