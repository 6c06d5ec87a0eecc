"""Hugging Face's Trainer, loading and pipelines, without a word about the device."""

import os
from unittest import mock

import pytest
import torch
import torchacc
import transformers
from safetensors.torch import load_file, save_file
from tiny import TOKENS, VOCABULARY, Compiles, gpt2, llama, losses, sequences, tokenizer
from transformers import (
    AutoModelForCausalLM,
    Trainer,
    TrainingArguments,
    pipeline,
    set_seed,
)

SMALL = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    **TOKENS,
}
NO_DROPOUT = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}


def model(name, config, **options):
    """A function that makes a model with random weights, the same ones each time."""

    def make():
        set_seed(0)
        kind = getattr(transformers, name)
        return kind._from_config(kind.config_class(**config), **options)

    return make


def classes():
    return [{**row, "labels": row["labels"][0] % 2} for row in sequences()]


def shorter():
    return [{**row, "labels": row["labels"][:7]} for row in sequences()]


def images():
    generator = torch.Generator().manual_seed(1)
    pixels = torch.randn(64, 3, 16, 16, generator=generator)
    return [{"pixel_values": image, "labels": i % 3} for i, image in enumerate(pixels)]


IMAGES = {"image_size": 16, "patch_size": 4, "num_labels": 3}
EXPERTS = {"num_key_value_heads": 2, "num_local_experts": 4, "output_router_logits": True}
T5 = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2}
T5 |= {"num_heads": 4, "dropout_rate": 0.0, "decoder_start_token_id": 0, "pad_token_id": 0}
RESNET = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 3}
MODELS = {
    "attention in parts": (
        model("LlamaForCausalLM", SMALL, attn_implementation="eager"),
        sequences,
    ),
    "encoder": (model("BertForSequenceClassification", SMALL | NO_DROPOUT), classes),
    "encoder and decoder": (model("T5ForConditionalGeneration", T5), shorter),
    "images": (model("ViTForImageClassification", SMALL | NO_DROPOUT | IMAGES), images),
    "convolutions": (model("ResNetForImageClassification", RESNET), images),
    "a window of attention": (
        model("MistralForCausalLM", SMALL | {"num_key_value_heads": 2, "sliding_window": 4}),
        sequences,
    ),
    "state space": (
        model("MambaForCausalLM", {k: v for k, v in SMALL.items() if k[0] != "m"}),
        sequences,
    ),
}
if int(transformers.__version__.split(".")[0]) >= 5:
    # Version 4 asks the host for the tokens of each expert, so that each step is another program.
    MODELS["experts"] = (model("MixtralForCausalLM", SMALL | EXPERTS), sequences)


def train(folder, model, resume=None, data=None, data_collator=None, **arguments):
    """The trainer after ten steps, and how much had been compiled after each."""
    defaults = {
        "max_steps": 10,
        "per_device_train_batch_size": 8,
        "learning_rate": 1e-2,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
    }
    args = TrainingArguments(output_dir=str(folder), **(defaults | arguments))
    compiles = Compiles()
    data = data or sequences()
    trainer = Trainer(model, args, data_collator, data, callbacks=[compiles])
    trainer.train(resume_from_checkpoint=resume)
    return trainer, compiles.counts


def test_trainer_takes_acc_and_agrees_with_the_cpu(tmp_path):
    trainer, compiles = train(tmp_path, llama())
    assert trainer.args.device == torch.device("acc", 0)
    assert trainer.accelerator.device.type == trainer.model.device.type == "acc"
    assert trainer.args.n_gpu == 1
    assert compiles[-1] == compiles[2]

    before = torchacc.metrics()["recorded_ops"]
    on_cpu, _ = train(tmp_path, llama(), use_cpu=True)
    assert on_cpu.model.device.type == on_cpu.accelerator.device.type == "cpu"
    assert torchacc.metrics()["recorded_ops"] == before
    assert losses(trainer) == pytest.approx(losses(on_cpu), abs=1e-4)
    assert losses(trainer)[-1] < losses(trainer)[0] - 0.5


@pytest.mark.parametrize("name", MODELS)
def test_models_agree_with_the_cpu(tmp_path, name):
    make, data = MODELS[name]
    trainer, compiles = train(tmp_path, make(), data=data(), learning_rate=5e-3)
    assert trainer.model.device.type == "acc"
    assert compiles[-1] == compiles[2]
    on_cpu, _ = train(tmp_path, make(), data=data(), learning_rate=5e-3, use_cpu=True)
    assert losses(trainer) == pytest.approx(losses(on_cpu), abs=1e-4)


def test_sentences_of_all_lengths_compile_nothing_after_a_few_steps(tmp_path):
    lengths = torch.randint(5, 60, (200,), generator=torch.Generator().manual_seed(1)).tolist()
    data = [{"input_ids": list(range(4, 4 + length))} for length in lengths]
    collator = transformers.DataCollatorForLanguageModeling(tokenizer(), mlm=False)
    _, compiles = train(tmp_path, llama(), data=data, max_steps=25, data_collator=collator)
    assert compiles[-1] == compiles[3]


@pytest.mark.parametrize("optimizer", ["adamw_torch", "adamw_torch_fused", "adafactor", "sgd"])
def test_optimizers(tmp_path, optimizer):
    trainer, compiles = train(tmp_path, llama(), optim=optimizer)
    assert compiles[-1] == compiles[2]
    on_cpu, _ = train(tmp_path, llama(), optim=optimizer, use_cpu=True)
    assert losses(trainer) == pytest.approx(losses(on_cpu), abs=1e-4)


def test_workers_load_the_data(tmp_path):
    # Processes that are forked while the device is in use.
    trainer, _ = train(tmp_path, llama(), dataloader_num_workers=2)
    alone, _ = train(tmp_path, llama())
    assert losses(trainer) == losses(alone)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision(tmp_path, precision):
    seen = set()
    model = llama()
    model.lm_head.register_forward_hook(lambda module, x, y: seen.add(y.dtype))
    trainer, compiles = train(tmp_path, model, **{precision: True})
    assert seen == {{"bf16": torch.bfloat16, "fp16": torch.float16}[precision]}
    assert (trainer.accelerator.scaler is not None) == (precision == "fp16")
    if precision == "fp16":
        assert trainer.accelerator.scaler.is_enabled()
        assert 1 < trainer.accelerator.scaler.get_scale() < float("inf")
    assert model.model.norm.weight.dtype == torch.float32
    exact, _ = train(tmp_path, llama())
    assert losses(trainer) == pytest.approx(losses(exact), abs=0.1)


def test_accumulated_and_clipped_gradients_with_checkpointing(tmp_path):
    arguments = {
        "gradient_accumulation_steps": 2,
        "gradient_checkpointing": True,
        "max_grad_norm": 0.5,
        "lr_scheduler_type": "cosine",
        "warmup_steps": 3,
    }
    trainer, _ = train(tmp_path, llama(), **arguments)
    on_cpu, _ = train(tmp_path, llama(), use_cpu=True, **arguments)
    assert trainer.model.device.type == "acc"
    assert losses(trainer) == pytest.approx(losses(on_cpu), abs=1e-4)


@pytest.mark.parametrize("attention", ["sdpa", "flex_attention"])
@pytest.mark.parametrize("arguments", [{}, {"gradient_checkpointing": True}], ids=str)
def test_torch_compile(tmp_path, attention, arguments):
    torch._dynamo.reset()
    make = model("LlamaForCausalLM", SMALL, attn_implementation=attention)
    # It is asked for by environment variables, which stay.
    with mock.patch.dict(os.environ):
        trainer, compiles = train(tmp_path, make(), torch_compile=True, **arguments)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
    assert compiles[-1] == compiles[2]
    alone, _ = train(tmp_path, make(), **arguments)
    assert losses(trainer) == pytest.approx(losses(alone), abs=1e-5)


@pytest.mark.parametrize("arguments", [{}, {"fp16": True}], ids=["f32", "fp16"])
def test_resuming_gives_the_same_losses(tmp_path, arguments):
    arguments |= {"save_strategy": "steps", "save_steps": 4}
    whole, _ = train(tmp_path, gpt2(), **arguments)
    again, _ = train(tmp_path, gpt2(seed=7), resume=str(tmp_path / "checkpoint-4"), **arguments)
    assert (tmp_path / "checkpoint-4" / "rng_state_acc.pth").exists()
    assert losses(again) == losses(whole)
    for one, other in zip(again.model.parameters(), whole.model.parameters(), strict=True):
        assert torch.equal(one.cpu(), other.cpu())


def test_evaluation_and_prediction(tmp_path):
    results = []
    for use_cpu in (False, True):
        args = TrainingArguments(str(tmp_path), use_cpu=use_cpu, report_to=[], disable_tqdm=True)
        trainer = Trainer(llama(), args, eval_dataset=sequences(20))
        predicted = trainer.predict(sequences(20)).predictions
        results.append((trainer.evaluate()["eval_loss"], torch.from_numpy(predicted)))
    assert results[0][0] == pytest.approx(results[1][0], abs=1e-5)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("device_map", ["auto", "acc", "balanced", 0, {"": "acc:0"}], ids=str)
def test_device_maps(tmp_path, device_map):
    expected = llama()
    expected.save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, device_map=device_map)
    assert {p.device for p in model.parameters()} == {torch.device("acc", 0)}
    tokens = sequences(2)[0]["input_ids"][None]
    with torch.no_grad():
        torch.testing.assert_close(
            model(tokens.to("acc")).logits.cpu(), expected(tokens).logits, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("on_cpu", ["10GB", "20KB"], ids=["host", "disk"])
def test_device_maps_with_a_part_elsewhere(tmp_path, on_cpu):
    expected = llama()
    expected.save_pretrained(tmp_path, max_shard_size="40KB")
    model = AutoModelForCausalLM.from_pretrained(
        tmp_path,
        device_map="auto",
        max_memory={0: "60KB", "cpu": on_cpu},
        offload_folder=tmp_path / "offload",
    )
    assert len(set(model.hf_device_map.values())) == 2
    tokens = sequences(2)[0]["input_ids"][None]
    with torch.no_grad():
        torch.testing.assert_close(
            model(tokens.to("acc")).logits.cpu(), expected(tokens).logits, rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("device", ["acc", "acc:0", torch.device("acc"), 0], ids=str)
def test_safetensors_loads_to_acc(tmp_path, device):
    save_file({"x": torch.arange(3.0)}, tmp_path / "file")
    x = load_file(tmp_path / "file", device=device)["x"]
    assert x.device == torch.device("acc", 0)
    assert x.tolist() == [0, 1, 2]
    assert load_file(tmp_path / "file")["x"].device.type == "cpu"


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"use_cache": False}], ids=str)
def test_generating_agrees_with_the_cpu(options):
    model, tokens = llama(), sequences(2)[0]["input_ids"][None, :5]
    options |= {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(tokens, **options)
    assert torch.equal(model.to("acc").generate(tokens.to("acc"), **options).cpu(), expected)


def test_a_cache_that_grows_compiles_once_for_a_power_of_two():
    model, tokens = llama().to("acc"), sequences(2)[0]["input_ids"][None, :5].to("acc")
    count = 40
    torchacc.sync()
    torchacc.reset_metrics()
    model.generate(tokens, max_new_tokens=count, min_new_tokens=count, pad_token_id=0)
    counters = torchacc.metrics()
    # The prompt and the first token after it, and what is read once before, are programs of their
    # own; lengths go up to 45. Version 4 asks about the mask and the length, too, at each token.
    assert counters["compiles"] <= 4 + 6
    reads = 1 if int(transformers.__version__.split(".")[0]) >= 5 else 3
    assert counters["cuts"] <= reads * count + 5


def test_pipelines_take_acc():
    make = pipeline("text-generation", model=llama(), tokenizer=tokenizer())
    assert make.device == torch.device("acc", 0)
    text = make("one two three", max_new_tokens=4, do_sample=False)[0]["generated_text"]
    assert text.startswith("one two three")
    on_cpu = pipeline("text-generation", model=llama(), tokenizer=tokenizer(), device="cpu")
    assert on_cpu.device.type == "cpu"
    assert on_cpu("one two three", max_new_tokens=4, do_sample=False)[0]["generated_text"] == text


def test_accelerate_hf_trainer_says_what_it_does(capsys):
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    message = torchacc.accelerate_hf_trainer()
    assert "use acc" in message
    assert message in capsys.readouterr().err
    TrainingArguments("unused", use_cpu=True).device  # noqa: B018
    with pytest.raises(RuntimeError, match="has chosen cpu already"):
        torchacc.accelerate_hf_trainer()
