"""Conversions that cannot be, are killed, or want memory; and the command."""

import contextlib
import json
import pickle
import shutil
import subprocess
import sys

import converted
import pytest
import torch
import torch.distributed.checkpoint as dcp
import torchacc
import torchacc.__main__ as command
from converted import same
from torchacc import _progress
from torchacc.checkpoint import Checkpointer
from torchacc.convert import ConversionError, conversion, convert, stored

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
FORMATS = ["safetensors", "dcp", "checkpoint", "megatron"]


@pytest.fixture
def at(tmp_path):
    """A name in a folder of the test."""
    return lambda name: tmp_path / name


# ---- what is wrong


def broken(text, source, target, *arguments, **named):
    before = sorted(target.parent.rglob("*"))
    with pytest.raises(ConversionError, match=text):
        convert(source, target, *arguments, **named)
    assert sorted(target.parent.rglob("*")) == before


@pytest.fixture
def llama(at):
    return converted.save(at("hf"), converted.state("llama"), "llama", files=2)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"tp": 3}, r"50|rows are|groups of heads are 4, which 3 ranks"),
        ({"tp": 8}, r"k_proj|groups of heads are 4, which 8 ranks"),
        ({"pp": 3}, "4 layers are not divided by 3 stages"),
        ({"pp": 0}, "pp is 0: at least 1"),
        ({"heads": 5}, "are not those of 5 heads"),
    ],
)
def test_what_ranks_cannot_share(named, said, llama, at):
    broken(said, llama, at("out"), "megatron", **named)


def test_names_without_a_rule_and_missing_ones(at):
    tensors = converted.state("llama")
    tensors["model.layers.0.self_attn.spin.weight"] = torch.ones(3)
    converted.save(at("odd"), tensors, "llama")
    broken(
        r"no rule for model\.layers\.0\.self_attn\.spin\.weight:", at("odd"), at("out"), "megatron"
    )
    del (
        tensors["model.layers.0.self_attn.spin.weight"],
        tensors["model.layers.2.mlp.up_proj.weight"],
    )
    converted.save(at("less"), tensors, "llama")
    broken(r"there is no model\.layers\.2\.mlp\.up_proj", at("less"), at("out"), "megatron")


def test_heads_are_asked_for(llama, at):
    (llama / "config.json").unlink()
    broken("Give heads", llama, at("out"), "megatron")
    convert(llama, at("out"), "megatron", heads=8, tp=2)
    file = at("out") / "release/mp_rank_01/model_optim_rng.pt"
    assert torch.load(file, weights_only=False)["args"].num_query_groups == 4
    convert(at("out"), at("again"), "safetensors")
    same(converted.load(at("again")), converted.state("llama"))


def made(to, at):
    converted.save(at("hf"), converted.state("llama"), "llama", files=2)
    if to == "checkpoint":
        with Checkpointer(at(to)) as checkpointer:
            checkpointer.save({"model": converted.module(converted.state("llama"))}, 1)
    elif to == "safetensors":
        return at("hf")
    else:
        convert(at("hf"), at(to), to, **({"tp": 2, "pp": 2} if to == "megatron" else {"files": 2}))
    return at(to)


SUFFIXES = {"safetensors": "*.safetensors", "megatron": "*.pt"}


@pytest.mark.parametrize("to", FORMATS)
def test_missing_and_truncated_files(to, at):
    source = made(to, at)
    files = sorted(source.rglob(SUFFIXES.get(to, "*.distcp")))
    for file in files[-1:]:
        whole = file.read_bytes()
        for size in (len(whole) - 100, 20, 0):
            file.write_bytes(whole[:size])
            broken(rf"{file.name}.*(truncated|bytes)", source, at("out"), "dcp")
        file.unlink()
        broken(rf"{file.name}.*(missing|No such)", source, at("out"), "dcp")


def test_missing_ranks(at):
    source = made("megatron", at)
    folders = sorted((source / "release").iterdir())
    folders[2].rename(at("away"))
    broken(f"has no {folders[2].name}", source, at("out"), "safetensors")
    folders[3].rename(at("away too"))
    broken(
        "has 1 tensor parallel ranks' files, and was saved by 2", source, at("out"), "safetensors"
    )


@pytest.mark.parametrize("to", FORMATS)
def test_a_flipped_bit_is_found(to, at):
    source = made(to, at)
    if to == "safetensors":
        convert(source, at("own"), to)
        source = at("own")
    file = max(source.rglob(SUFFIXES.get(to, "*.distcp")), key=lambda path: path.stat().st_size)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 4
    file.write_bytes(data)
    broken("another checksum|is damaged", source, at("out"), "safetensors")


def test_what_is_no_checkpoint(at):
    at("empty").mkdir()
    broken("is no checkpoint", at("empty"), at("out"), "dcp")
    with pytest.raises(FileNotFoundError, match="there"):
        convert(at("nowhere"), at("out"), "dcp")
    (at("empty") / ".metadata").write_bytes(b"nonsense")
    broken("is damaged", at("empty"), at("out"), "safetensors")
    dcp.save(
        {"a": {"x": torch.ones(2)}, "b": {"x": torch.ones(2)}},
        checkpoint_id=at("two"),
        no_dist=True,
    )
    broken("which part is the model.*a, b", at("two"), at("out"), "safetensors")
    broken("no tensors under the key 'c'", at("two"), at("out"), "safetensors", key="c")
    broken("one of safetensors", at("two"), at("out"), "onnx")


def test_parts_that_nobody_saved(at):
    dcp.save({"x": torch.ones(4, 2)}, checkpoint_id=at("dcp"), no_dist=True)
    file = at("dcp") / ".metadata"
    metadata = pickle.loads(file.read_bytes())
    (chunk,) = metadata.state_dict_metadata["x"].chunks
    chunk.sizes = torch.Size([3, 2])
    file.write_bytes(pickle.dumps(metadata))
    broken("of x there are 6 of 8 elements", at("dcp"), at("out"), "safetensors")


def test_models_without_an_embedding(at):
    tensors = converted.state("llama")
    del tensors["model.embed_tokens.weight"]
    converted.save(at("hf"), tensors, "llama")
    broken(r"there is no model\.embed_tokens", at("hf"), at("out"), "megatron")


def test_nothing_is_overwritten(llama, at):
    at("out").mkdir()
    for target in (at("out"), llama):
        before = {path: path.read_bytes() for path in target.rglob("*")}
        with pytest.raises(FileExistsError, match="not overwritten"):
            convert(llama, target, "dcp")
        assert {path: path.read_bytes() for path in target.rglob("*")} == before


def test_what_was_written_is_read_again(llama, at, monkeypatch):
    write = stored._put

    def wrong(file, at, memory):
        if len(memory) == 4 * converted.WIDE * converted.HIDDEN:  # a projection
            memory = memoryview(bytes([memory[0] ^ 1]) + bytes(memory[1:]))
        write(file, at, memory)

    monkeypatch.setattr(stored, "_put", wrong)
    for to in FORMATS:
        broken("another checksum", llama, at("out"), to)


# ---- limits


def script(code, *arguments, **more):
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)]
    return subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more
    )


FULL = """
import resource, signal, sys
from torchacc.convert import ConversionError, convert
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
try:
    convert(sys.argv[1], sys.argv[2], sys.argv[3])
except ConversionError as error:
    print(error)
"""


@pytest.mark.parametrize("to", ["safetensors", "megatron"])
def test_a_disk_that_fills_up_leaves_nothing(to, llama, at):
    before = sorted(llama.parent.rglob("*"))
    said, errors = script(FULL, llama, at("out"), to).communicate(timeout=300)
    assert "has no room" in said, errors
    assert sorted(llama.parent.rglob("*")) == before


def test_a_disk_without_room_is_seen_at_once(llama, at, monkeypatch):
    usage = shutil.disk_usage(at("."))._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    broken("MiB left", llama, at("out"), "dcp")


KILLED = """
import sys, time
from torchacc.convert import convert, conversion, stored
count, put = 0, stored._put
def slow(*arguments):
    global count
    count += 1
    if count == int(sys.argv[3]):
        print("now", flush=True)
        time.sleep(1000)
    put(*arguments)
stored._put = slow
convert(sys.argv[1], sys.argv[2], "dcp", files=2)
"""


@pytest.mark.parametrize("count", [1, 200])
def test_a_killed_conversion_is_none(count, llama, at):
    process = script(KILLED, llama, at("out"), count)
    assert process.stdout.readline() == "now\n", process.stderr.read()
    assert not at("out").exists()
    assert len([*at(".").glob(".converting-*")]) == 1
    convert(llama, at("other"), "dcp")  # leaves those of others
    process.kill()
    process.communicate()
    assert len([*at(".").glob(".converting-*")]) == 1
    convert(llama, at("out"), "dcp")
    assert [*at(".").glob(".converting-*")] == []
    convert(at("out"), at("again"), "safetensors")
    same(converted.load(at("again")), converted.state("llama"))


BOUND = """
import resource, sys
import torch
from pathlib import Path
from torchacc.convert import convert
source, folder = Path(sys.argv[1]), Path(sys.argv[2])
def most():
    return int(next(line for line in open("/proc/self/status") if "VmHWM" in line).split()[1]) << 10
def around(name):
    convert(source / name, folder / f"{name} m", "megatron", tp=2, pp=2)
    convert(folder / f"{name} m", folder / f"{name} c", "checkpoint", files=2)
    convert(folder / f"{name} c", folder / f"{name} s", "safetensors", shard_size=100 << 20)
around("small")
begin = most()
around("large")
print(most() - begin)
"""


def test_memory_is_that_of_one_tensor(at):
    """Of 300 MB it holds a tensor of 12 a few times: read, put together, and not given back yet."""
    one = {f"model.layers.{n}.mlp.down_proj.weight": torch.randn(1024, 3072) for n in range(24)}
    named = {"model.embed_tokens.weight": torch.randn(64, 1024), "model.norm.weight": torch.ones(8)}
    converted.save(at("large"), one | named, "llama", files=3)
    few = {name: tensor[:8, :8].contiguous() for name, tensor in one.items()}
    converted.save(at("small"), few | named, "llama")
    said, errors = script(BOUND, at("."), at(".")).communicate(timeout=300)
    assert said, errors
    assert int(said) < 130 << 20
    same(converted.load(at("large s")), one | named)


# ---- the command


def noting(tasks):
    @contextlib.contextmanager
    def task(*fields):
        with _progress.task(*fields) as one:
            tasks.append(one)
            yield one

    return task


def test_the_command_converts(llama, at, capsys, monkeypatch):
    said = {**converted.config("llama"), "torch_dtype": "float32"}
    (llama / "config.json").write_text(json.dumps(said))
    command.main(["convert", str(llama), str(at("m")), "--to", "megatron", "--tp", "2"])
    assert capsys.readouterr() == ("", "")
    asked, tasks = [], []
    monkeypatch.setattr(torchacc, "set_progress", asked.append)
    monkeypatch.setattr(conversion, "task", noting(tasks))
    arguments = ["--to", "safetensors", "--dtype", "bf16", "--shard-size", "1MB", "--progress"]
    command.main(["convert", str(at("m")), str(at("hf2")), *arguments])
    told = tasks[-1].progress()
    assert (asked, told.what, told.stage) == ([True], "convert", f"to {at('hf2')}")
    written = sum(one.nbytes for one in converted.load(at("hf2")).values())
    assert told.done == told.total == 2 * written
    expected = {name: one.bfloat16() for name, one in converted.state("llama").items()}
    same(converted.load(at("hf2")), expected)
    made = json.loads((at("hf2") / "config.json").read_text())
    assert made == {**said, "torch_dtype": "bfloat16"}
    with pytest.raises(SystemExit, match="torchacc convert: .*not overwritten"):
        command.main(["convert", str(llama), str(at("m")), "--to", "dcp"])
    with pytest.raises(SystemExit):
        command.main(["convert", str(llama), str(at("n")), "--to", "dcp", "--shard-size", "12"])
    assert "no size as 5GB" in capsys.readouterr().err
