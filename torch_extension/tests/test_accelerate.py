"""torchacc.accelerate: losses of one process, whatever the processes share."""

import copy
import inspect
import os

import accelerated
import divided
import pytest
import ranks
import torch
import torch.nn as nn
import torchacc
from documented import scripts
from safetensors.torch import save_file
from support import DEVICE
from torchacc.config import ComputeConfig, Config, MemoryConfig, PPConfig
from torchacc.parallel import rules
from torchacc.parallel.division import division
from torchacc.parallel.stage import Stage

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
    of_ranks = ranks.run("accelerated.scaled", size, *kinds, backend="acc")
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


def assert_said(said, expected):
    for name, text in expected.items():
        assert text in said[name], (name, said[name])


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


def test_what_cannot_be_divided_is_said():
    for said in ranks.run("divided.refusals", 2, backend="acc"):
        expected = {
            "positions": "with sequences in parts the model's results (4, 16, ",
            "products": "Multiplied does not call F.scaled_dot_product_attention",
            "heads": "1 heads, which 2 ranks cannot share evenly: use another size, or mode='ring'",
            "flat": "layers get a tensor (4, 32): [batch, rows, width] is wanted",
            "no_layers": "sequences are divided in the layers of one list, and the model has none",
            "first": "ValueError: accelerate: dist.sp: the model skipped layers.0, and rows are",
            "last": "ValueError: accelerate: dist.sp: the model skipped layers.2, and rows are",
            "inner": "-> ValueError: accelerate: dist.sp: the model skipped layers.2, and rows",
            "middle": "nothing",
            "elsewhere": "the loss of the first step is NaN",
            "point": "dist.pp.split_points: layers.7 is no layer that a stage can begin with",
            "points": "they make 3 stages",
            "few": "the model has no list of layers: a pipeline is made of the layers",
            "parts": "num_micro_batches is 3: tokens (4, 16) cannot be cut into as many equal",
            "target": "a target wants an output_fn(result, target)",
        }
        assert_said(said, expected)


def test_any_length_is_divided():
    kinds = ("ulysses", "ring", "1f1b", "interleaved")
    for made in ranks.run("divided.lengths", 2, *kinds, backend="acc"):
        for kind in kinds:
            for found, expected in made["found"][kind]:
                assert found == pytest.approx(expected, rel=1e-5), (kind, made["found"][kind])
        assert made["compiles"]["ulysses"] == 0


def test_a_pipeline_is_a_model():
    first, last = ranks.run("divided.pipeline", 2, backend="acc")
    assert {*first["names"], *last["names"]} == {*first["all"]}
    for made in (first, last):
        assert made["own"]
        assert made["close"]
        assert made["again"]
        assert made["parameters"] == made["names"]
        for found, expected in (made["losses"], *zip(*made["norms"], strict=True)):
            assert found == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert (first["has_results"], last["has_results"]) == (False, True)
    assert "there is no token.weight" in first["error"]
    assert "layers.2.up.weight" in first["names"]
    assert "layers.3.up.weight" in last["names"]


def stage_of(model, number):
    stage = Stage(model, division(model, PPConfig(2)), number)
    stage.begin(torch.device("cpu"))
    return stage


def test_what_stages_cannot_send_or_differentiate_is_said():
    # What layers return besides is lost, and found out where the loss is made of it.
    stage = stage_of(divided.Paired(), 1)
    stage.output_fn = torch.mean
    assert stage(torch.ones(2, 32), x=torch.ones(2, 32)).isnan()
    stage = stage_of(divided.MODELS["llama"](), 1)
    tokens = torch.zeros(1, 4, dtype=torch.long)
    with pytest.raises(ValueError, match="which is no loss: say by output_fn how one is made"):
        stage(torch.ones(1, 4, 32), tokens=tokens)
    stage = stage_of(divided.Twofold(), 1)
    with pytest.raises(NotImplementedError, match="the model goes through its layers twice"):
        stage(torch.ones(2, 8), x=torch.ones(2, 8))
    stage = stage_of(divided.Reversed(), 0)
    with pytest.raises(NotImplementedError, match="calls decoders.0 before encoders.0, which is"):
        stage(tokens=torch.zeros(1, 4, dtype=torch.long))


def test_a_pipeline_without_memory_is_made_in_parts():
    of_ranks = ranks.run("divided.deferred", 4, backend="acc")
    for made in of_ranks:
        assert made["losses"] == of_ranks[0]["losses"]
        assert made["losses"][-1] < made["losses"][0]
        assert made["held"] == made["own"]
        assert "PyTorch does not reduce its gradients" in made["refused"]


@pytest.mark.parametrize("schedule", ["1f1b", "interleaved"])
def test_what_is_computed_between_layers_stays(schedule):
    of_ranks = ranks.run("divided.between_layers", 2, schedule, backend="acc")
    for made in of_ranks:
        assert made["differ"] == []
        for found, expected in made["losses"]:
            assert found == pytest.approx(expected, rel=1e-4)
    first, last = (set(made["names"]) for made in of_ranks)
    assert first | last == set(of_ranks[0]["all"])
    # Numbers of batches are those of the stage that has seen them.
    assert "norm.running_mean" in first - last


@pytest.mark.parametrize(("size", "schedule"), [(2, "1f1b"), (4, "zero-bubble")])
def test_what_no_stage_uses_has_no_gradient(size, schedule):
    for made in ranks.run("divided.unused", size, schedule, "frozen", backend="acc"):
        assert made["without"] == [["spare.weight", "spare.bias"]] * 2 + [[]] * 2
        assert all(made["same"])


def test_what_is_used_late_is_said():
    first, _ = ranks.run("divided.unused", 2, "1f1b", "trained", backend="acc", fails=[1])
    assert first["without"] == [["spare.weight", "spare.bias"]] * 2
    assert all(first["same"])
    assert "spare.weight has a gradient, and had none on any rank" in first["said"]


@pytest.mark.parametrize(
    ("size", "kinds"),
    [
        # Stages begin in the encoder, between the two, and in the decoder.
        (2, ["Plain:1f1b:4:2", "Translator:1f1b:2:2", "Translator:1f1b:2:4:gc"]),
        (2, ["Translator:interleaved:2:2", "Plain:zero-bubble:2:2", "Plain:gpipe:2:4"]),
        (4, ["Plain:1f1b:2:2", "Translator:interleaved:4:4", "Translator:1f1b:2:4:fsdp"]),
    ],
)
def test_encoders_and_decoders_are_a_pipeline(size, kinds):
    of_ranks = ranks.run("divided.translated", size, *kinds, backend="acc")
    for kind in kinds:
        made = [of_rank[kind] for of_rank in of_ranks]
        means = [
            sum(loss for loss, _ in step) / size
            for step in zip(*(one["losses"] for one in made), strict=True)
        ]
        assert means == pytest.approx([loss for _, loss in made[0]["losses"]], rel=1e-5), kind
        assert {name for one in made for name in one["names"]} == {*made[0]["all"]}
        for one in made:
            assert one["differ"] == [], kind
            assert one["compiles"][3:] == [0, 0], kind


@pytest.mark.parametrize(("device", "layers"), [("cpu", 4), ("meta", 5)])
def test_stages_have_the_same_of_what_they_share(device, layers):
    first, last = ranks.run("divided.unequal_stages", 2, device, layers, backend="acc")
    assert first == last
    assert len(first) == 1


def test_what_a_pipeline_cannot_be_called_with_is_said():
    for said in ranks.run("divided.wrong_calls", 2, backend="acc"):
        expected = {
            "adds": "the loss of the first step is NaN",
            "nested": "scales is a tuple of tensors: pass tensors as arguments of their own",
            "dict": "target dict cannot be cut into as many equal parts",
            "flat": "nothing",
            "scaler": "overflows of other stages are seen by torchacc.amp.GradScaler",
        }
        assert_said(said, expected)


@pytest.mark.parametrize("kind", ["sp", "tp"])
def test_ranks_that_share_the_work_drop_the_same(kind):
    first, last = ranks.run("divided.dropped", 2, kind, backend="acc")
    assert first == pytest.approx(last, rel=1e-6)


def test_a_search_without_a_batch_says_so_on_every_rank():
    for empty, nothing in ranks.run("divided.empty_handed", 2, backend="acc"):
        assert "strategy.mode wants batches that are arguments of the model" in empty
        assert "strategy.mode wants a first batch, and the dataloader has none" in nothing


def test_a_step_that_is_refused_loses_nothing():
    for made in ranks.run("divided.kept_gradients", 2, backend="acc"):
        assert "tokens (3, 16) cannot be cut into as many equal parts" in made["said"]
        assert made["same"]


def test_layers_may_be_given_more_than_rows():
    kinds = ("transformer", "keys", "angles", "condition", "infinite")
    for made in ranks.run("divided.given_to_layers", 2, *kinds, backend="acc"):
        for kind in kinds:
            for expected, found in made[kind]:
                assert found == pytest.approx(expected, rel=1e-4), (kind, made[kind])


@pytest.mark.parametrize("fixed", [(), ("fsdp",), ("pp",)])
def test_a_strategy_is_found_and_used(fixed):
    of_ranks = ranks.run("divided.found_strategy", 2, *fixed, backend="acc")
    first = of_ranks[0]
    for axis in fixed:
        assert f"{axis} 2" in first["strategy"]
    assert [one["strategy"] for one in of_ranks] == [first["strategy"]] * 2
    means = [sum(step) / 2 for step in zip(*(one["losses"] for one in of_ranks), strict=True)]
    assert means == pytest.approx(first["expected"], rel=1e-5)


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zero-bubble"])
def test_a_pipeline_that_was_found_takes_a_smaller_last_batch(schedule):
    """Also of fewer rows than stages, and of as many as the schedule does not take as parts."""
    sizes = [8, 6, 7, 1]
    for made in ranks.run("divided.last_batches", 2, schedule, 1, *sizes, backend="acc"):
        assert not made["said"]
        assert made["missing"] == [0] * len(sizes)
        for loss, expected in made["losses"]:
            assert loss == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("size", "parts", "error"),
    [
        (2, 4, "num_micro_batches is 4: tokens (7, 16) cannot be cut into as many equal parts"),
        (4, 1, "a batch of 7 rows has no 2 equal parts, one for each process: if it is the last"),
    ],
)
def test_a_last_batch_that_does_not_fit_is_said(size, parts, error):
    """Of what the program asked for, and of copies of a pipeline."""
    for made in ranks.run("divided.last_batches", size, "1f1b", parts, 8, 7, backend="acc"):
        assert len(made["losses"]) == 1
        assert error in made["said"]


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


def again_within(budget):
    """How many layers compute again."""
    model = Tower()
    config = Config(memory=MemoryConfig(auto=True, budget=budget))
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
    with pytest.raises(ValueError, match="a step needs 32768 bytes if all of 4 layers"):
        again_within(31 * kib)
