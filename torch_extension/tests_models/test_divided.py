"""Models of transformers, unmodified, in two processes: losses of the whole model in one."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("divided.py")
ROTARY = ("LlamaForCausalLM", "Qwen2ForCausalLM", "MixtralForCausalLM")
RUNS = [
    *(("1f1b", name) for name in (*ROTARY, "Gemma2ForCausalLM", "GPTNeoXForCausalLM")),
    *(("1f1b", name) for name in ("GPT2LMHeadModel", "ViTForImageClassification")),
    *(("interleaved", name) for name in ("LlamaForCausalLM", "GPT2LMHeadModel")),
    ("zero-bubble", "LlamaForCausalLM"),
    *(("ulysses", name) for name in (*ROTARY, "GPT2LMHeadModel", "BertForMaskedLM")),
    ("ulysses", "ViTForImageClassification"),
    *(("ring", name) for name in ("LlamaForCausalLM", "GPT2LMHeadModel")),
    *((kind, "LlamaForCausalLM") for kind in ("tp", "fsdp")),
]


@pytest.mark.parametrize(("kind", "name"), RUNS)
def test_losses_are_those_of_the_whole_model(kind, name):
    code = [sys.executable, "-W", "ignore", "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*code, "--nproc-per-node", "2", str(SCRIPT), kind, name],
        env=os.environ | {"OMP_NUM_THREADS": "1", "TORCHACC_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    (line,) = re.findall(r"^made (.*)$", done.stdout, re.M)
    for loss, expected in json.loads(line):
        assert loss == pytest.approx(expected, rel=1e-5)
