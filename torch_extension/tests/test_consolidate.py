"""What ranks have saved, put together and taken apart: shards as PyTorch/XLA's FSDP makes them, and
those of FSDP2 in a `Checkpointer`'s folder."""

import json
from collections import OrderedDict

import converted
import pytest
import torch
import torch.distributed.checkpoint as dcp
import torch.nn as nn
import torchacc.__main__ as command
from converted import same
from torch.distributed.checkpoint.state_dict import (
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torchacc.checkpoint import Checkpointer
from torchacc.convert import ConversionError, consolidate

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
SIZES = {"0.weight": (7, 6), "0.bias": (7,), "2.weight": (3, 7), "2.bias": (3,)}
LAYERS = ("0", "2")


@pytest.fixture
def at(tmp_path):
    """A name in a folder of the test."""
    return lambda name: tmp_path / name


def new(seed=0):
    """A model, and an optimizer after a step."""
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(6, 7), nn.Tanh(), nn.Linear(7, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01 + seed, betas=(0.5, 0.75))
    model(torch.randn(4, 6)).square().sum().backward()
    optimizer.step()
    return model, optimizer


def named(model, optimizer):
    """The optimizer's tensors by name."""
    state = get_optimizer_state_dict(model, optimizer)["state"]
    return {f"{name}.{field}": one for name, of in state.items() for field, one in of.items()}


def shard(tensors, world):
    """A flat tensor in equal parts, padded."""
    flat = torch.cat([one.detach().reshape(-1) for one in tensors])
    flat = torch.cat([flat, flat.new_zeros(-len(flat) % world)])
    return [part.clone() for part in flat.chunk(world)]


def save_shards(folder, model, optimizer, world, is_flat, wrapper=""):
    """As `xm.save` has them of a model whose layers are wrapped."""
    folder.mkdir()
    state, adam = model.state_dict(), named(model, optimizer)
    info, flatten = {}, {}
    groups = [[f"{n}.weight", f"{n}.bias"] for n in LAYERS] if is_flat else [[n] for n in SIZES]
    shards, fields = OrderedDict(), []
    for group in groups:
        layer = group[0].split(".")[0]
        short = [name.split(".")[1] for name in group]
        module = f"_fpw_module.{layer}"
        if is_flat:
            original, key = "_fsdp_wrapped_module.flat_param_0", "_fsdp_shard.flat_param_0"
            sizes = [SIZES[name] for name in group]
            numels = [torch.Size(size).numel() for size in sizes]
            flatten[f"{module}.{original}"] = (short, [torch.Size(s) for s in sizes], numels)
            size = torch.Size([sum(numels)])
        else:
            original, key = f"_fpw_module.{short[0]}", f"_fsdp_shard.{short[0]}"
            size = torch.Size(SIZES[group[0]])
        info.setdefault(module, {})[key] = {"_orig_name": original, "_orig_size": size}
        shards[f"{wrapper}{module}.{key}"] = shard([state[name] for name in group], world)
        parts = {
            f: shard([adam[f"{n}.{f}"] for n in group], world) for f in ("exp_avg", "exp_avg_sq")
        }
        fields.append((parts, adam[f"{group[0]}.step"]))
    for rank in range(world):
        said = {"shard_info": info, "flatten_info": flatten, "rank": rank, "world_size": world}
        mine = OrderedDict((name, parts[rank]) for name, parts in shards.items())
        mine[f"{wrapper}_fpw_module.count"] = torch.tensor([4, 5])  # a buffer
        at = {
            index: {**{f: parts[f][rank] for f in parts}, "step": step}
            for index, (parts, step) in enumerate(fields)
        }
        group = {"lr": 0.01, "betas": (0.5, 0.75), "params": [*range(len(groups))]}
        file = folder / f"rank-{rank}-of-{world}-"
        torch.save({"model": mine, "shard_metadata": said}, f"{file}model.pth")
        state_of = {"state": at, "param_groups": [group]}
        torch.save({"optimizer": state_of, "shard_metadata": said}, f"{file}optimizer.pth")
    return folder


def tensors_of(model):
    return {**model.state_dict(), "count": torch.tensor([4, 5])}


@pytest.mark.parametrize("wrapper", ["", "model.", "model.model."])
@pytest.mark.parametrize("is_flat", [True, False])
@pytest.mark.parametrize("world", [1, 3, 4])
def test_torchaccs_shards_are_consolidated(world, is_flat, wrapper, at):
    model, optimizer = new()
    folder = save_shards(at("shards"), model, optimizer, world, is_flat, wrapper)
    command.main(["consolidate", "--ckpt_dir", str(folder)])
    same(torch.load(folder / "consolidated/model_consolidated.pth"), tensors_of(model))
    state = torch.load(folder / "consolidated/optimizer_consolidated.pth")
    assert [{**one, "params": [*SIZES]} for one in state["param_groups"]] == state["param_groups"]
    other, its = new(1)
    set_optimizer_state_dict(other, its, state)
    same(named(other, its), named(model, optimizer))
    assert (its.param_groups[0]["lr"], its.param_groups[0]["betas"]) == (0.01, (0.5, 0.75))


def test_torchaccs_shards_are_resharded(at):
    model, optimizer = new()
    folder = save_shards(at("shards"), model, optimizer, 4, True)
    arguments = ["--ckpt_dir", str(folder), "--save_dir", str(at("dcp"))]
    command.main(["reshard", *arguments, "--reshard_num", "3"])
    assert len([*at("dcp").glob("*.distcp")]) == 3
    other, its = new(1)
    flat = torch.distributed.checkpoint.state_dict.StateDictOptions(
        flatten_optimizer_state_dict=True
    )
    state = get_optimizer_state_dict(other, its, options=flat)
    state = {n: one for n, one in state.items() if n.rpartition(".")[2] not in ("amsgrad",)}
    known = {f"{n}.{f}" for n in SIZES for f in ("lr", "betas")}
    wanted = {
        n: one for n, one in state.items() if n.startswith("state.") or n.split(".", 1)[1] in known
    }
    into = {"model": tensors_of(other), "optimizer": wanted}
    dcp.load(into, checkpoint_id=at("dcp"), no_dist=True)
    same(into["model"], tensors_of(model))
    expected = {f"state.{name}": one for name, one in named(model, optimizer).items()}
    found = into["optimizer"]
    same({name: found[name] for name in expected}, expected)
    assert found["param_groups.0.weight.lr"] == 0.01
    assert found["param_groups.2.bias.betas"] == (0.5, 0.75)


@pytest.mark.parametrize("kind", ["model", "optimizer"])
def test_one_of_the_two(kind, at):
    model, optimizer = new()
    folder = save_shards(at("shards"), model, optimizer, 2, True)
    consolidate(folder, at("out"), kind=kind, model_name="m.pt", optimizer_name="o.pt")
    assert {path.name for path in at("out").glob("*.pt")} == {"m.pt" if kind == "model" else "o.pt"}
    consolidate(folder, at("parts"), kind=kind, parts=2)
    there = dcp.FileSystemReader(at("parts")).read_metadata().state_dict_metadata
    assert {name.split(".")[0] for name in there} == {kind}
    for path in folder.glob("*optimizer*"):
        path.unlink()
    if kind == "optimizer":
        with pytest.raises(ConversionError, match="nothing of that type"):
            consolidate(folder, at("none"), kind=kind)


def test_a_checkpointers_training_is_consolidated_and_resharded(at):
    model, optimizer = new()
    state = {"model": model, "optimizer": optimizer, "best": 7}
    with Checkpointer(at("runs")) as checkpointer:
        checkpointer.save(state, 5)
    consolidate(at("runs"), at("one"))
    same(torch.load(at("one") / "model_consolidated.pth"), model.state_dict())
    other, its = new(1)
    set_optimizer_state_dict(other, its, torch.load(at("one") / "optimizer_consolidated.pth"))
    same(named(other, its), named(model, optimizer))
    assert its.param_groups[0]["betas"] == (0.5, 0.75)
    command.main(["reshard", "--ckpt_dir", str(at("runs")), "--reshard_num", "4"])
    other, its = new(1)
    again = {"model": other, "optimizer": its, "best": 0}
    with Checkpointer(at("runs") / "resharded_4") as checkpointer:
        assert checkpointer.restore(again) == 5
    assert again["best"] == 7
    same(other.state_dict(), model.state_dict())
    same(named(other, its), named(model, optimizer))


def test_shards_that_are_wrong(at):
    model, optimizer = new()
    folder = save_shards(at("shards"), model, optimizer, 3, True)
    before = sorted(at(".").rglob("*"))

    def broken(said, **more):
        with pytest.raises(ConversionError, match=said):
            consolidate(folder, at("out"), **more)
        assert sorted(at(".").rglob("*")) == before

    file = folder / "rank-2-of-3-model.pth"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    broken("rank-2-of-3-model.pth is truncated")
    saved = torch.load(folder / "rank-1-of-3-model.pth", weights_only=False)
    saved["shard_metadata"]["shard_info"] = {}
    torch.save(saved, folder / "rank-0-of-3-model.pth")
    torch.save({"state": 1}, file)
    broken("has no model with shard_metadata")
    file.unlink()
    before.remove(file)
    broken("of 3 ranks' .* those of")
    broken("has no other-", model_pattern="other-*")
    broken("one of all, model", kind="both")
    with pytest.raises(SystemExit, match="torchacc consolidate: .*nowhere: there is none"):
        command.main(["consolidate", "--ckpt_dir", str(at("nowhere"))])


def test_manifests_say_what_was_left_out(at):
    model, optimizer = new()
    state = {"model": model.state_dict(), "loader": {"seen": torch.ones(2)}, "epoch": 3}
    dcp.save(state, checkpoint_id=at("dcp"), no_dist=True)
    consolidate(at("dcp"), at("out"))
    said = json.loads((at("out") / "manifest.json").read_text())
    assert sorted(said["left_out"]) == ["epoch", "loader.seen"]
    assert said["tensors"].keys() == {f"{name}" for name in SIZES}


def test_tied_weights_stay_one(at):
    tensors = converted.state("gpt2")
    tensors["lm_head.weight"] = tensors["transformer.wte.weight"].clone()
    dcp.save({"model": tensors}, checkpoint_id=at("dcp"), no_dist=True)
    consolidate(at("dcp"), at("out"))
    made = torch.load(at("out") / "model_consolidated.pth")
    same(made, tensors)
    assert made["lm_head.weight"].data_ptr() == made["transformer.wte.weight"].data_ptr()
