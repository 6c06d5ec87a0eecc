"""Greedy generation by small models of transformers with a cache of keys and values, against eager.

`python benches/trace/generate.py [TOKENS]` prints for each model whether the tokens are eager's,
what was compiled, and the milliseconds a token: the first time on acc, then of both by turns.
"""

import copy
import statistics
import sys
import time

import torch
import torchacc
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

PROMPT, ROUNDS, VOCABULARY = 16, 7, 4096
SPECIAL = {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0}


def llama(width=256, layers=4):
    sizes = {"hidden_size": width, "intermediate_size": width * 8 // 3, "num_hidden_layers": layers}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=VOCABULARY, **sizes, **heads, **SPECIAL))


def gpt2(width=256, layers=4):
    sizes = {"n_embd": width, "n_layer": layers, "n_head": 8, "vocab_size": VOCABULARY}
    return GPT2LMHeadModel(GPT2Config(**sizes, **SPECIAL))


def t5(width=256, layers=4):
    sizes = {"d_model": width, "d_kv": 32, "d_ff": 4 * width, "num_layers": layers, "num_heads": 8}
    special = SPECIAL | {"decoder_start_token_id": 0}
    return T5ForConditionalGeneration(T5Config(vocab_size=VOCABULARY, **sizes, **special))


MODELS = {"llama": llama, "llama-512x8": lambda: llama(512, 8), "gpt2": gpt2, "t5": t5}


def timed(model, tokens, count):
    """The tokens that the model makes, and the milliseconds that each took."""
    start = time.perf_counter()
    with torch.no_grad():
        made = model.generate(
            tokens,
            attention_mask=torch.ones_like(tokens),
            max_new_tokens=count,
            min_new_tokens=count,
            do_sample=False,
        ).cpu()
    return made, (time.perf_counter() - start) * 1e3 / count


def main(count):
    torchacc.set_backend("cpu")
    for name, build in MODELS.items():
        torch.manual_seed(0)
        eager = build().eval()
        acc = copy.deepcopy(eager).to("acc")
        tokens = torch.randint(3, VOCABULARY, (1, PROMPT))
        expected, _ = timed(eager, tokens, count)
        torchacc.reset_metrics()
        made, first = timed(acc, tokens.to("acc"), count)
        counters = torchacc.metrics()
        pairs = [
            (timed(eager, tokens, count)[1], timed(acc, tokens.to("acc"), count)[1])
            for _ in range(ROUNDS)
        ]
        eager_ms, acc_ms = (statistics.median(times) for times in zip(*pairs, strict=True))
        ratio = statistics.median(a / b for a, b in pairs)
        same = "equal" if torch.equal(made, expected) else "OTHER"
        print(
            f"{name}: {same} tokens, {counters['cuts']} cuts, {counters['compiles']} compiles; "
            f"ms a token: acc {acc_ms:.2f} (the first time {first:.2f}), eager {eager_ms:.2f}; "
            f"eager / acc {ratio:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
