"""The training step that examples/stablehlo/gpt.py writes in JAX, for those that read its module
and for JAX itself; without PyTorch and without JAX, as `works`."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "stablehlo" / "gpt.py"
FOLDER = ROOT / "target" / "peers" / "module"
# Where `make openxla-plugin` puts it.
PLUGIN = ROOT / "target" / "openxla" / "xla_plugins" / "xla_cpu_pjrt" / "xla_cpu_pjrt.so"
# What it learns to write: a file that every Python has.
TEXT = Path(subprocess.__file__)


def plugin() -> str:
    """The file of the plugin of OpenXLA."""
    return os.environ.get("TORCHACC_OPENXLA") or str(PLUGIN)


def write(interpreter: str):
    """Has the Python `interpreter`, which has JAX, write the module and its inputs to `FOLDER`."""
    variables = os.environ | {"JAX_PLATFORMS": "cpu"}
    command = [interpreter, EXAMPLE, TEXT, FOLDER]
    subprocess.run(command, env=variables, stdout=sys.stderr, check=True)
