"""Models whose sequences or layers are divided: losses of one process, and what is refused."""

import divided
import pytest
import ranks
import torch
import translators
from support import assert_said
from torchacc.config import PPConfig
from torchacc.parallel.division import division
from torchacc.parallel.sequence import _uncut
from torchacc.parallel.stage import Stage


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


def test_masks_that_were_cut_to_some_rows_are_whole_again():
    """Version 4 of transformers cuts masks to as many columns as there are keys."""
    mask = torch.rand(4, 1, 18, 18)
    assert torch.equal(_uncut(mask[..., :9], 18, 9), mask)
    assert torch.equal(_uncut(mask[1:3, :, :, :9], 18, 9), mask[1:3])
    expanded = mask[:1].expand(4, 1, 18, 18)
    assert torch.equal(_uncut(expanded[..., :9], 18, 9), expanded)
    # Other columns than the first, memory of its own, another length.
    for other in (mask[..., 9:], mask[..., :9].clone(), mask[..., :8], mask[:, :, :9, :9]):
        assert _uncut(other, 18, 9) is other


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
    stage = stage_of(translators.Reversed(), 0)
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
    of_ranks = ranks.run("translators.translated", size, *kinds, backend="acc")
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
