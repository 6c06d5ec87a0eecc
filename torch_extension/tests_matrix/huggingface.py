"""Architectures of transformers: a table of classes and of what their configurations need."""

import torch
import transformers
from programs import Program, training

transformers.logging.set_verbosity_error()

BATCH, LENGTH, VOCABULARY = 4, 64, 256

# Every configuration gets these; what a model does not know it ignores.
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 128,
    "intermediate_size": 256,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "use_cache": False,
}
TABLE = {
    "text, decoder": {
        "LlamaForCausalLM": {},
        "GPT2LMHeadModel": {},
        "MistralForCausalLM": {},
        "BloomForCausalLM": {},
        "MptForCausalLM": {},
    },
    "text, encoder": {
        "BertForMaskedLM": {},
        "RobertaForMaskedLM": {},
        "AlbertForMaskedLM": {},
        "LongformerForMaskedLM": {},
        "DebertaV2ForMaskedLM": {},
    },
}


def program(name, family, overrides) -> Program:
    def make(place):
        kind = getattr(transformers, name)
        config = kind.config_class(**SIZES | overrides)
        _without_dropout(config)
        batch = place(_text())
        return training(place, kind(config), lambda model: model(**batch).loss)

    return Program(family, make)


def _text():
    tokens = torch.randint(3, VOCABULARY, (BATCH, LENGTH))
    return {"input_ids": tokens, "labels": tokens.clone()}


def _without_dropout(config):
    for name, value in vars(config).items():
        if isinstance(value, transformers.PreTrainedConfig):
            _without_dropout(value)
        elif isinstance(value, float) and ("drop" in name):
            setattr(config, name, 0.0)


PROGRAMS = {
    name: program(name, family, overrides)
    for family, models in TABLE.items()
    for name, overrides in models.items()
}
