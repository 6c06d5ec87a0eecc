"""The command `torchacc`, as from a shell."""

import subprocess
import sys

import pytest
import torchacc.__main__ as command
from torchacc.config import Config

MODEL = """
from torchacc.auto import transformer

def model():
    return transformer(8, 512, 8, 1000, 256)
"""
MODULE = """
import torch, torch.nn as nn

def model():
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
    return nn.Sequential(nn.Embedding(100, 64), nn.TransformerEncoder(layer, 4), nn.Linear(64, 100))

def inputs():
    return [torch.zeros(2, 16, dtype=torch.long)]
"""
SCRIPT = """
import os, sys, torch
said = f"rank {os.environ.get('RANK')} {sys.argv[1:]} {torch.ones(2, device='acc').sum().item()}"
sys.stdout.write(said + chr(10))  # at once: processes write beside each other
"""


@pytest.fixture
def file(tmp_path):
    def write(text, name="script.py"):
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def shell(*arguments):
    code = [sys.executable, "-W", "ignore", "-m", "torchacc", *arguments]
    return subprocess.run(code, capture_output=True, text=True, timeout=120)


def test_run_starts_processes(file):
    made = shell("run", "-n", "2", "--max-restarts", "0", file(SCRIPT), "--name", "x")
    assert made.returncode == 0, made.stderr
    assert sorted(made.stdout.split("\n")) == [
        "",
        "rank 0 ['--name', 'x'] 2.0",
        "rank 1 ['--name', 'x'] 2.0",
    ]


def test_run_ends_as_its_script():
    made = shell("run", "-n", "1", "there/is/none.py")
    assert made.returncode != 0
    assert "none.py" in made.stderr


def test_explain_runs_a_script_and_says_what_it_compiled(file):
    made = shell("explain", file(SCRIPT), "x")
    assert made.returncode == 0, made.stderr
    assert "rank None ['x'] 2.0" in made.stdout
    assert "1 compiles" in made.stdout


@pytest.mark.parametrize("schedule", ["gpipe", "1f1b", "interleaved", "zero-bubble"])
def test_plan_says_saves_and_draws(file, tmp_path, capsys, schedule):
    config = Config()
    config.strategy.mode = "semi"
    config.compute.bf16 = True
    config.dist.pp.size, config.dist.pp.schedule = 2, schedule
    if schedule == "interleaved":
        config.dist.pp.split_points = ["layers.2", "layers.4", "layers.6"]
    wanted = file(config.to_yaml(), "wanted.yaml")
    saved = tmp_path / "found.json"
    arguments = ["plan", file(MODEL), "--cluster", "a100", "--batch", "64", "--config", wanted]
    command.main([*arguments, "--save", str(saved), "--pictures", str(tmp_path)])
    said = capsys.readouterr().out
    assert "chosen" in said
    assert "A step takes" in said
    found = Config.from_file(saved)
    assert found.strategy.mode == "manual"
    assert found.dist.pp.size == 2
    for name in ("memory.png", "pipeline.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_plan_takes_a_module(file, capsys):
    command.main(["plan", file(MODULE), "--cluster", "h100", "--batch", "64", "--bf16"])
    assert "Sequential, 64 sequences a step, on 8 devices of h100" in capsys.readouterr().out


def test_check_says_what_is_right(file, capsys):
    config = Config()
    config.dist.fsdp.size = 4
    path = file(config.to_yaml(), "config.yaml")
    command.main(["check", path, "-n", "8"])
    said = capsys.readouterr().out
    assert "dp 2 x fsdp 4 x pp 1 x sp 1 x tp 1 is right" in said
    assert "acc computes on" in said
    with pytest.raises(SystemExit, match="= 4 processes, and there are 6"):
        command.main(["check", path, "-n", "6"])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [([], "required: command"), (["plans"], "invalid choice: 'plans'"), (["check", "-x"], "-x")],
)
def test_what_is_no_command_is_said(capsys, arguments, said):
    with pytest.raises(SystemExit):
        command.main(arguments)
    assert said in capsys.readouterr().err
