"""A model of transformers that `torchacc.accelerate` divides between two processes of torchrun,
against the whole one: `divided.py KIND MODEL`."""

import copy
import json
import os
import sys

import torch
import torch.distributed as dist
import torchacc
import transformers
from torchacc.config import Config, FSDPConfig, PPConfig, SPConfig, TPConfig

SIZES = {
    "vocab_size": 120,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "max_position_embeddings": 64,
    "attn_implementation": "sdpa",
}
GROUPED = SIZES | {"num_key_value_heads": 2}
DROPOUT = {"hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
DEEPSEEK = SIZES | {
    "num_key_value_heads": 4,
    "moe_intermediate_size": 16,
    "n_routed_experts": 4,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 8,
}
GPT2 = {"vocab_size": 120, "n_embd": 32, "n_layer": 4, "n_head": 4, "n_positions": 64}
ENCODER_DECODER = {
    "d_model": 32,
    **dict.fromkeys(["encoder_layers", "decoder_layers"], 2),
    **dict.fromkeys(["encoder_attention_heads", "decoder_attention_heads"], 4),
    **dict.fromkeys(["encoder_ffn_dim", "decoder_ffn_dim"], 64),
    "dropout": 0,
}
MODELS = {
    "LlamaForCausalLM": ("LlamaConfig", GROUPED),
    "Qwen2ForCausalLM": ("Qwen2Config", GROUPED | {"tie_word_embeddings": True}),
    "MixtralForCausalLM": ("MixtralConfig", GROUPED | {"num_local_experts": 4}),
    "Gemma2ForCausalLM": (
        "Gemma2Config",
        GROUPED | {"head_dim": 8, "attn_implementation": "eager"},
    ),
    "GPTNeoXForCausalLM": ("GPTNeoXConfig", SIZES),
    "MistralForCausalLM": ("MistralConfig", GROUPED | {"sliding_window": 6}),
    "BloomForCausalLM": (
        "BloomConfig",
        {"vocab_size": 120, "hidden_size": 32, "n_layer": 4, "n_head": 4},
    ),
    "DeepseekV3ForCausalLM": ("DeepseekV3Config", DEEPSEEK),
    "MambaForCausalLM": (
        "MambaConfig",
        {"vocab_size": 120, "hidden_size": 32, "num_hidden_layers": 4, "state_size": 4},
    ),
    "T5ForConditionalGeneration": (
        "T5Config",
        {"vocab_size": 120, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4}
        | {"dropout_rate": 0, "decoder_start_token_id": 0},
    ),
    "BartForConditionalGeneration": ("BartConfig", ENCODER_DECODER | {"vocab_size": 120}),
    "WhisperForConditionalGeneration": (
        "WhisperConfig",
        ENCODER_DECODER
        | {"vocab_size": 120, "num_mel_bins": 8, "max_source_positions": 16}
        | {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 3},
    ),
    "BertForMaskedLM": ("BertConfig", SIZES | DROPOUT),
    "GPT2LMHeadModel": (
        "GPT2Config",
        GPT2 | dict.fromkeys(["resid_pdrop", "embd_pdrop", "attn_pdrop"], 0),
    ),
    "ViTForImageClassification": (
        "ViTConfig",
        SIZES | DROPOUT | {"image_size": 32, "patch_size": 8, "num_labels": 5},
    ),
}


def batch_of(step, name):
    torch.manual_seed(step)
    if name.startswith("ViT"):
        return {"pixel_values": torch.randn(4, 3, 32, 32), "labels": torch.randint(5, (4,))}
    if name.startswith("Whisper"):
        return {"input_features": torch.randn(4, 8, 32), "labels": torch.randint(120, (4, 9))}
    tokens = torch.randint(120, (4, 18 - step))
    return {"input_ids": tokens, "labels": tokens}


def main(kind, name):
    torch.manual_seed(0)
    config, sizes = MODELS[name]
    model = getattr(transformers, name)(getattr(transformers, config)(**sizes))
    whole = copy.deepcopy(model)
    wanted = Config()
    if kind in ("ulysses", "ring"):
        wanted.dist.sp = SPConfig(2, kind)
    elif kind in ("tp", "fsdp"):
        section = TPConfig(2) if kind == "tp" else FSDPConfig(2)
        setattr(wanted.dist, kind, section)
    else:
        wanted.dist.pp = PPConfig(2, 2, schedule=kind)
    optimizers = [torch.optim.AdamW(one.parameters(), lr=1e-3) for one in (whole, model)]
    model, optimizers[1] = torchacc.accelerate(model, config=wanted, optimizer=optimizers[1])
    losses = []
    for step in range(4):
        batch = batch_of(step, name)
        there = {key: value.to("acc") for key, value in batch.items()}
        expected = whole(**batch).loss
        expected.backward()
        if hasattr(model, "forward_backward"):
            loss = model.forward_backward(**there)
        else:
            loss = model(**there).loss
            loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        losses.append([loss.item(), expected.item()])
    if dist.get_rank() == 0:
        print("made", json.dumps(losses), flush=True)
    dist.barrier()
    os._exit(0)  # gloo sometimes aborts a process that ends by itself


main(*sys.argv[1:])
