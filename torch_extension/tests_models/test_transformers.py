"""Hugging Face's Trainer, loading and pipelines, without a word about the device."""

import pytest
import torch
import torchacc
from safetensors.torch import load_file, save_file
from tiny import Compiles, gpt2, llama, losses, sequences, tokenizer
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments, pipeline


def train(folder, model, resume=None, data=None, **arguments):
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
    trainer = Trainer(model, args, train_dataset=data or sequences(), callbacks=[compiles])
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


@pytest.mark.parametrize("device", ["acc", "acc:0", torch.device("acc"), 0], ids=str)
def test_safetensors_loads_to_acc(tmp_path, device):
    save_file({"x": torch.arange(3.0)}, tmp_path / "file")
    x = load_file(tmp_path / "file", device=device)["x"]
    assert x.device == torch.device("acc", 0)
    assert x.tolist() == [0, 1, 2]
    assert load_file(tmp_path / "file")["x"].device.type == "cpu"


def test_generating_agrees_with_the_cpu():
    model, tokens = llama(), sequences(2)[0]["input_ids"][None, :5]
    options = {"max_new_tokens": 12, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(tokens, **options)
    assert torch.equal(model.to("acc").generate(tokens.to("acc"), **options).cpu(), expected)


def test_pipelines_take_acc():
    make = pipeline("text-generation", model=llama(), tokenizer=tokenizer())
    assert make.device == torch.device("acc", 0)
    text = make("one two three", max_new_tokens=4, do_sample=False)[0]["generated_text"]
    assert text.startswith("one two three")
    on_cpu = pipeline("text-generation", model=llama(), tokenizer=tokenizer(), device="cpu")
    assert on_cpu.device.type == "cpu"
    assert on_cpu("one two three", max_new_tokens=4, do_sample=False)[0]["generated_text"] == text


def test_accelerate_hf_trainer_says_what_it_does(capsys, monkeypatch):
    monkeypatch.setattr(torchacc.adapters, "_preferred", False)
    from accelerate.state import AcceleratorState

    AcceleratorState._reset_state(reset_partial_state=True)
    message = torchacc.accelerate_hf_trainer()
    assert "use acc" in message
    assert message in capsys.readouterr().err
    TrainingArguments("unused", use_cpu=True).device  # noqa: B018
    with pytest.raises(RuntimeError, match="has chosen cpu already"):
        torchacc.accelerate_hf_trainer()
