"""LoRA by PEFT, trained by Hugging Face's Trainer."""

import peft
import pytest
import torch
from tiny import llama, losses, sequences
from transformers import Trainer, TrainingArguments


def adapted():
    config = peft.LoraConfig(
        r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"
    )
    return peft.get_peft_model(llama(), config)


def train(folder, **arguments):
    args = TrainingArguments(
        str(folder),
        max_steps=10,
        learning_rate=5e-2,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        **arguments,
    )
    trainer = Trainer(adapted(), args, train_dataset=sequences())
    trainer.train()
    return trainer


def test_lora_agrees_with_the_cpu(tmp_path):
    trainer, on_cpu = train(tmp_path), train(tmp_path, use_cpu=True)
    assert {p.device.type for p in trainer.model.parameters()} == {"acc"}
    assert losses(trainer) == pytest.approx(losses(on_cpu), abs=1e-4)
    assert losses(trainer)[-1] < losses(trainer)[0]


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_lora_in_mixed_precision(tmp_path, precision):
    assert losses(train(tmp_path, **{precision: True}))[-1] < 4.3


def test_adapters_are_saved_loaded_and_merged(tmp_path):
    trainer = train(tmp_path)
    trainer.model.save_pretrained(tmp_path / "adapter")
    tokens = sequences()[0]["input_ids"][None]
    with torch.no_grad():
        expected = trainer.model.eval()(tokens.to("acc")).logits.cpu()
        loaded = peft.PeftModel.from_pretrained(llama().to("acc"), tmp_path / "adapter")
        assert {p.device.type for p in loaded.parameters()} == {"acc"}
        torch.testing.assert_close(loaded(tokens.to("acc")).logits.cpu(), expected)
        merged = loaded.merge_and_unload()
        actual = merged(tokens.to("acc")).logits.cpu()
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
