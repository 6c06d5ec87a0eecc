"""Every model trains on acc as on the CPU, compiles nothing after its third step, stays on acc."""

import pytest
from models import PROGRAMS
from report import faults

TIED = "all experts of a router of zeros are equal; topk takes others of equal ones than the CPU"
RANDOM = "draws random numbers, of which the devices have different ones"
ASKS = "asks the host which tokens go where, an expert at a time: sizes vary from step to step"
# What is known not to work: a kind of fault, why, and the models that have it.
EXPECTED = [
    ("loss", TIED, "AfmoeForCausalLM"),
    (
        "loss",
        RANDOM,
        "GroupViTModel Mask2FormerForUniversalSegmentation ReformerForMaskedLM",
    ),
    (
        "compiles",
        ASKS,
        """DbrxForCausalLM JetMoeForCausalLM LongcatFlashForCausalLM NllbMoeForConditionalGeneration
        SwitchTransformersForConditionalGeneration""",
    ),
    (
        "compiles",
        "shifts its keys by lags that it reads: other slices at every step",
        "AutoformerForPrediction",
    ),
    (
        "fallback aten::_grouped_mm",
        "no row",
        """AfmoeForCausalLM Cohere2MoeForCausalLM DeepseekV2ForCausalLM DeepseekV3ForCausalLM
        Dots1ForCausalLM Ernie4_5_MoeForCausalLM FlexOlmoForCausalLM Glm4MoeForCausalLM
        GptOssForCausalLM GraniteMoeForCausalLM GraniteMoeHybridForCausalLM
        GraniteMoeSharedForCausalLM HunYuanMoEV1ForCausalLM JambaForCausalLM KimiLinearForCausalLM
        Lfm2MoeForCausalLM MiniMaxForCausalLM MiniMaxM2ForCausalLM MixtralForCausalLM
        NemotronHForCausalLM OlmoeForCausalLM PhimoeForCausalLM Qwen2MoeForCausalLM
        Qwen3MoeForCausalLM Qwen3NextForCausalLM""",
    ),
    (
        "fallback aten::linalg_solve_triangular",
        "no row",
        "OlmoHybridForCausalLM Qwen3NextForCausalLM",
    ),
    ("fallback aten::scatter_reduce.two", "no row for means", "TapasForMaskedLM"),
    *(
        (f"fallback aten::{name}", "no rows for complex numbers", models)
        for name, models in {
            "_fft_c2c": "FNetForMaskedLM AutoformerForPrediction",
            "_fft_c2r": "AutoformerForPrediction",
            "_fft_r2c": "AutoformerForPrediction",
            "conj_physical.out": "DeepseekV2ForCausalLM AutoformerForPrediction",
            "copy_": "FNetForMaskedLM",
            "mul.Tensor": "DeepseekV2ForCausalLM AutoformerForPrediction",
            "mul.out": "AutoformerForPrediction",
            "polar": "DeepseekV2ForCausalLM",
            "zero_": "AutoformerForPrediction",
        }.items()
    ),
]


@pytest.mark.parametrize("name", PROGRAMS)
def test_model(figures, name):
    found = faults(figures(name))
    expected = {kind: why for kind, why, names in EXPECTED if name in names.split()}
    assert found.keys() == expected.keys(), f"{found}, but expected is {expected}"
