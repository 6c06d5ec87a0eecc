"""torchacc.accelerate: losses of one process, whatever the processes share."""

import copy
import inspect

import accelerated
import pytest
import ranks
import torch
import torch.nn as nn
import torchacc
from documented import scripts
from support import DEVICE
from torchacc.config import ComputeConfig, Config, MemoryConfig

STEPS = 6
RUNS = [
    (size, kind, "gpt2" if kind in ("hybrid", "dp_tp", "again") else "llama")
    for size, kinds in accelerated.KINDS.items()
    for kind in kinds
]


@pytest.fixture(scope="module")
def trained():
    """What every rank says of each training, by the number of processes."""
    made = {}

    def of(size):
        if size not in made:
            runs = [f"{kind}:{model}" for count, kind, model in RUNS if count == size]
            made[size] = (
                [accelerated.trainings(STEPS, *runs)]
                if size == 1
                else ranks.run("accelerated.trainings", size, STEPS, *runs, backend="acc")
            )
        return made[size]

    return of


@pytest.mark.parametrize(("size", "kind", "model"), RUNS)
def test_losses_are_those_of_one_process(trained, size, kind, model):
    made = [of_rank[f"{kind}:{model}"] for of_rank in trained(size)]
    means = [sum(step) / size for step in zip(*(one["losses"] for one in made), strict=True)]
    bound = 1e-2 if "bf16" in kind else 1e-5
    assert means == pytest.approx(made[0]["expected"], rel=bound)
    for one in made:
        for number in range(3, STEPS):
            counts = one["counts"][number]
            assert (counts["compiles"], counts["host_calls"]) == (0, 0), (number, counts)
            assert counts["cuts"] == 1, (number, counts)
        if "fsdp" in kind or kind == "hybrid":
            shards = accelerated.KINDS[size][kind]["fsdp"]
            assert one["part"] < 1.1 / shards


def test_what_does_not_fit_is_said():
    for said in ranks.run("accelerated.refused", 2, backend="acc"):
        for name, text in {
            "world": "ValueError: config: dist: dp 1 x fsdp 3 x pp 1 x sp 1 x tp 1 = 3 processes",
            "class": "wrap_layer_cls is ['Block']: the model has no Block, but Embedding, GPT2",
            "no_plan": "dist.tp.plan is None, and the model has none: say which layers are split",
            "pattern": "dist.tp.plan: the model has no blocks.*.up",
            "style": "dist.tp.plan: layers.*.up is 'columns': there are colwise, rowwise",
            "uneven": "dist.tp.plan: 0 has 3 rows, which 2 ranks cannot share evenly",
            "tied": "dist.tp.plan: head is split, and its weight is that of token, too",
            "gc": "memory.gc: the model has no list of layers: name some in gc_cls",
            "later": "NotImplementedError: accelerate: memory.offload is not there yet",
            "stepped": "the optimizer has made a step",
            "strange": "the optimizer has a parameter that the model has not",
        }.items():
            assert text in said.get(name, ""), (name, said.get(name))


def test_the_scripts_of_the_page_run():
    stores = [ranks.hosted_store() for _ in scripts("accelerate.md")]
    ports = [store.port for store in stores]
    made = ranks.run("documented.run", 2, "accelerate.md", *ports, backend="none")
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
