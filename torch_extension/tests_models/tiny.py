"""Small models with random weights, a tokenizer, data: what the tests train."""

import torch
import torchacc
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    TrainerCallback,
    set_seed,
)

WORDS = "zero one two three four five six seven eight nine ten plus minus is more less".split()
SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
VOCABULARY = 64
TEMPLATE = (
    "{% for m in messages %}{{ '<s> ' + m['content'] + ' </s> ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<s> ' }}{% endif %}"
)


def tokenizer() -> PreTrainedTokenizerFast:
    """Words to numbers, as they stand in the list."""
    words = {word: number for number, word in enumerate(SPECIAL + WORDS)}
    words |= {f"word{i}": i for i in range(len(words), VOCABULARY)}
    fast = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    fast.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    result = PreTrainedTokenizerFast(
        tokenizer_object=fast,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )
    result.chat_template = TEMPLATE
    return result


def llama(seed=0) -> LlamaForCausalLM:
    """Without dropout."""
    set_seed(seed)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=128,
            **TOKENS,
        )
    )


def gpt2(seed=0) -> GPT2LMHeadModel:
    """With dropout, as it comes."""
    set_seed(seed)
    return GPT2LMHeadModel(
        GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=2, n_head=4, **TOKENS)
    )


def sequences(count=64, length=16) -> list[dict]:
    """Numbers of which every second one follows from the one before it."""
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(4, VOCABULARY, (count, length), generator=generator)
    tokens[:, 1::2] = (tokens[:, ::2] * 3 + 1) % VOCABULARY
    return [{"input_ids": row, "labels": row.clone()} for row in tokens]


def sentences(count=64) -> list[str]:
    """Of different lengths."""
    return [" ".join(WORDS[(i + j) % len(WORDS)] for j in range(4 + i % 5)) for i in range(count)]


class Compiles(TrainerCallback):
    """How many programs had been compiled at the end of each step."""

    def __init__(self):
        self.counts = []

    def on_step_end(self, args, state, control, **kwargs):
        torchacc.sync()
        self.counts.append(torchacc.metrics()["compiles"])


def losses(trainer) -> list[float]:
    """Of all steps that were logged."""
    return [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
