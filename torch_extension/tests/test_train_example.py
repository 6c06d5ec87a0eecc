"""examples/train_gpt.py on acc: a resumed run goes on with the same losses; COMPARE agrees."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parents[2] / "examples" / "train_gpt.py"
TINY = "--layers 2 --width 64 --heads 2 --context 32 --batch 4 --validate-every 10".split()


def train(folder, *flags):
    result = subprocess.run(
        [sys.executable, SCRIPT, *TINY, "--out", folder, *flags],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def losses(folder):
    return torch.load(folder / "acc" / "checkpoint.pt", map_location="cpu")["log"]["losses"]


def test_resumed_run_repeats_the_losses(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    text = train(whole, "--steps", "24", "--sample", "20")
    assert "the model writes" in text
    assert (whole / "acc" / "loss.png").stat().st_size > 0
    train(parts, "--steps", "24", "--stop-at", "14", "--sample", "0")
    train(parts, "--steps", "24", "--resume", "--sample", "0")
    assert losses(parts) == pytest.approx(losses(whole), rel=1e-6)
    assert len(losses(parts)) == 24


def test_compare_prints_both(tmp_path):
    text = train(tmp_path, "--steps", "20", "--compare")
    rows = [line.split() for line in text.splitlines() if line.strip()[:1].isdigit()]
    assert len(rows) == 20
    assert all(float(row[3]) < 1e-3 for row in rows)
    assert "times as fast as eager PyTorch" in text
    assert (tmp_path / "compare.png").exists()
