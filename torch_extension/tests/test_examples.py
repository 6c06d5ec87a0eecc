"""The examples in other languages: each trains on real data, and its loss falls."""

import re
import shutil
import subprocess
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COUNTED = r"(\d+) programs compiled, (\d+) of (\d+) operations known"


def losses(example, steps):
    """What `make example-…` prints."""
    command = ["make", "--no-print-directory", f"example-{example}", f"STEPS={steps}"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stdout + result.stderr
    return [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", result.stdout)], result.stdout


def needs(target):
    """Skips, with what make says, where a package cannot be had."""
    command = ["make", "--no-print-directory", target]
    made = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert "sha256sum" not in made.stderr, made.stderr
    if made.returncode != 0:
        warnings.warn(f"SKIPPED: there is no {target}: {made.stderr}", stacklevel=2)
        pytest.skip(f"there is no {target} to be had here: {made.stderr}")


@pytest.mark.parametrize(
    ("example", "runtime"),
    [("ctypes", "python3"), ("node", "npm"), ("luajit", "luajit"), ("java", "javac")],
)
def test_a_language_model_learns(example, runtime):
    if example == "luajit" and shutil.which(runtime) is None:
        needs("target/examples/packages/luajit/unpacked")
    elif shutil.which(runtime) is None:
        pytest.skip(f"there is no {runtime} here")
    if example == "java":
        needs("target/examples/packages/java/unpacked")
    found, printed = losses(example, 200)
    assert len(found) == 4
    assert found == sorted(found, reverse=True)
    # Bytes by their frequency alone: about 3.2.
    assert found[-1] < 2.8
    (compiled, known, recorded) = map(int, re.search(COUNTED, printed).groups())
    assert compiled <= 3
    assert known > 0.95 * recorded


def test_a_transformer_learns_from_c():
    found, printed = losses("c", 60)
    assert len(found) > 2
    assert found[-1] < 0.75 * found[0], printed


@pytest.mark.parametrize("example", ["cpp", "libtorch"])
def test_a_classifier_learns(example):
    found, printed = losses(example, 8)
    assert len(found) == 8
    assert found[-1] < 0.5 * found[0]
    right = [float(share) for share in re.findall(r"([\d.]+) % of", printed)]
    assert right[-1] > 85
