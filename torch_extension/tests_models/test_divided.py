"""Models of transformers, unmodified, in two processes: losses of the whole model in one."""

import json
from pathlib import Path

import pytest
from processes import made_by

SCRIPT = Path(__file__).with_name("divided.py")
ROTARY = ("LlamaForCausalLM", "Qwen2ForCausalLM", "MixtralForCausalLM")
RUNS = [
    *(("1f1b", name) for name in (*ROTARY, "Gemma2ForCausalLM", "GPTNeoXForCausalLM")),
    *(("1f1b", name) for name in ("GPT2LMHeadModel", "ViTForImageClassification")),
    *(("1f1b", name) for name in ("BloomForCausalLM", "MambaForCausalLM")),
    *((kind, "DeepseekV3ForCausalLM") for kind in ("1f1b", "ulysses")),
    *(
        (kind, f"{name}ForConditionalGeneration")
        for kind in ("1f1b", "interleaved")
        for name in ("T5", "Bart", "Whisper")
    ),
    ("ulysses", "MistralForCausalLM"),
    *(("interleaved", name) for name in ("LlamaForCausalLM", "GPT2LMHeadModel")),
    ("zero-bubble", "LlamaForCausalLM"),
    *(("ulysses", name) for name in (*ROTARY, "GPT2LMHeadModel", "BertForMaskedLM")),
    ("ulysses", "ViTForImageClassification"),
    *(("ring", name) for name in ("LlamaForCausalLM", "GPT2LMHeadModel")),
    *((kind, "LlamaForCausalLM") for kind in ("tp", "fsdp")),
]


@pytest.mark.parametrize(("kind", "name"), RUNS)
def test_losses_are_those_of_the_whole_model(kind, name):
    for loss, expected in json.loads(made_by(SCRIPT, kind, name)):
        assert loss == pytest.approx(expected, rel=1e-5)
