"""TRL's trainers, with their own defaults (bf16 is one)."""

import pytest
import torch
from datasets import Dataset
from tiny import Compiles, llama, losses, sentences, tokenizer
from trl import DPOConfig, DPOTrainer, GRPOConfig, GRPOTrainer, SFTConfig, SFTTrainer

COMMON = {
    "max_steps": 6,
    "per_device_train_batch_size": 4,
    "learning_rate": 1e-2,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": [],
    "disable_tqdm": True,
    "seed": 0,
}


def saved_llama(folder):
    """With a name, by which TRL loads it a second time as the reference."""
    llama().save_pretrained(folder / "model")
    return str(folder / "model")


def sft(folder, **arguments):
    return SFTTrainer(
        llama(),
        SFTConfig(str(folder), max_length=32, **(COMMON | arguments)),
        train_dataset=Dataset.from_dict({"text": sentences()}),
        processing_class=tokenizer(),
    )


def dpo(folder, **arguments):
    texts = sentences(32)
    data = {
        "prompt": [text[:7] for text in texts],
        "chosen": [f" {text}" for text in texts],
        "rejected": [f" {text}" for text in reversed(texts)],
    }
    return DPOTrainer(
        saved_llama(folder),
        args=DPOConfig(str(folder), max_length=32, **(COMMON | arguments)),
        train_dataset=Dataset.from_dict(data),
        processing_class=tokenizer(),
    )


def grpo(folder, **arguments):
    def reward(completions, **kwargs):
        return [float(len(set(text.split()))) for text in completions]

    config = GRPOConfig(
        str(folder),
        num_generations=4,
        max_completion_length=8,
        beta=0.1,
        **(COMMON | {"max_steps": 3} | arguments),
    )
    return GRPOTrainer(
        saved_llama(folder),
        reward_funcs=reward,
        args=config,
        train_dataset=Dataset.from_dict({"prompt": sentences(16)}),
        processing_class=tokenizer(),
    )


TRAINERS = {"sft": sft, "dpo": dpo, "grpo": grpo}


def train(make, folder, **arguments):
    """The trainer when it is done, and how many programs had been compiled after each step."""
    trainer, compiles = make(folder, **arguments), Compiles()
    trainer.add_callback(compiles)
    trainer.train()
    return trainer, compiles.counts


@pytest.mark.parametrize("name", TRAINERS)
@pytest.mark.parametrize("precision", [{}, {"fp16": True}, {"bf16": False}], ids=str)
def test_training(tmp_path, name, precision):
    trainer, _ = train(TRAINERS[name], tmp_path, **precision)
    assert trainer.model.device.type == "acc"
    assert (trainer.accelerator.scaler is not None) == ("fp16" in precision)
    assert trainer.accelerator.mixed_precision == {"{}": "bf16", "{'fp16': True}": "fp16"}.get(
        str(precision), "no"
    )
    assert all(torch.isfinite(p).all() for p in trainer.model.parameters())


@pytest.mark.parametrize("name", ["sft", "dpo"])
def test_losses_are_the_cpus(tmp_path, name):
    trainer, _ = train(TRAINERS[name], tmp_path, bf16=False)
    on_cpu, _ = train(TRAINERS[name], tmp_path, bf16=False, use_cpu=True)
    assert on_cpu.model.device.type == "cpu"
    assert losses(trainer) == pytest.approx(losses(on_cpu), abs=1e-4)


def test_what_is_not_sampled_in_grpo_is_the_cpus(tmp_path):
    # Random numbers differ between devices, as they do between the CPU and CUDA; of one token that
    # can be drawn there is one choice.
    trainer, _ = train(grpo, tmp_path, bf16=False, top_k=1)
    on_cpu, _ = train(grpo, tmp_path, bf16=False, top_k=1, use_cpu=True)
    assert losses(trainer) == pytest.approx(losses(on_cpu), abs=1e-4)
