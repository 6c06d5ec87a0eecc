"""Small models as Hugging Face stores them, and their parts as Megatron's ranks have them, cut by
hand."""

import json
import pathlib

import safetensors.torch
import torch

HIDDEN, LAYERS, VOCABULARY, WIDE, EXPERTS, POSITIONS = 16, 4, 50, 24, 2, 12
HEADS = {"llama": (8, 4), "mixtral": (8, 4), "gpt2": (4, 4)}  # of queries, of keys
SIZE = 4  # of a head
PADDED = {1: 56, 2: 64, 4: 64}  # the vocabulary, by tp, where it is a multiple of 8 * tp
FAMILIES = sorted(HEADS)


def state(family, dtype=torch.float32, seed=0):
    """By name; what differs has other bits everywhere."""
    generator = torch.Generator().manual_seed(seed)

    def new(*sizes):
        return torch.randn(*sizes, generator=generator).to(dtype)

    queries, keys = (count * SIZE for count in HEADS[family])
    if family == "gpt2":
        made = {"transformer.wte.weight": new(VOCABULARY, HIDDEN)}
        made["transformer.wpe.weight"] = new(POSITIONS, HIDDEN)
        for layer in range(LAYERS):
            at = f"transformer.h.{layer}."
            for norm in ("ln_1", "ln_2"):
                made |= {f"{at}{norm}.{one}": new(HIDDEN) for one in ("weight", "bias")}
            sizes = {"attn.c_attn": (HIDDEN, 3 * HIDDEN), "attn.c_proj": (HIDDEN, HIDDEN)}
            sizes |= {"mlp.c_fc": (HIDDEN, WIDE), "mlp.c_proj": (WIDE, HIDDEN)}
            for name, (rows, columns) in sizes.items():
                made[f"{at}{name}.weight"] = new(rows, columns)
                made[f"{at}{name}.bias"] = new(columns)
        return made | {f"transformer.ln_f.{one}": new(HIDDEN) for one in ("weight", "bias")}
    made = {"model.embed_tokens.weight": new(VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        at = f"model.layers.{layer}."
        for norm in ("input_layernorm", "post_attention_layernorm"):
            made[f"{at}{norm}.weight"] = new(HIDDEN)
        for name, rows in (("q", queries), ("k", keys), ("v", keys)):
            made[f"{at}self_attn.{name}_proj.weight"] = new(rows, HIDDEN)
        made[f"{at}self_attn.o_proj.weight"] = new(HIDDEN, queries)
        if family == "llama":
            for name in ("gate", "up"):
                made[f"{at}mlp.{name}_proj.weight"] = new(WIDE, HIDDEN)
            made[f"{at}mlp.down_proj.weight"] = new(HIDDEN, WIDE)
            continue
        made[f"{at}block_sparse_moe.gate.weight"] = new(EXPERTS, HIDDEN)
        for expert in range(EXPERTS):
            one = f"{at}block_sparse_moe.experts.{expert}."
            made |= {f"{one}w{n}.weight": new(WIDE, HIDDEN) for n in (1, 3)}
            made[f"{one}w2.weight"] = new(HIDDEN, WIDE)
    return made | {"model.norm.weight": new(HIDDEN), "lm_head.weight": new(VOCABULARY, HIDDEN)}


def config(family):
    if family == "gpt2":
        return {"model_type": "gpt2", "n_head": HEADS[family][0], "vocab_size": VOCABULARY}
    queries, keys = HEADS[family]
    said = {"num_attention_heads": queries, "num_key_value_heads": keys}
    return said | {"model_type": family, "vocab_size": VOCABULARY, "tie_word_embeddings": False}


def save(folder: pathlib.Path, tensors, family, files=1):
    """As `save_pretrained` does."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config(family)))
    if files == 1:
        safetensors.torch.save_file(tensors, folder / "model.safetensors", {"format": "pt"})
        return folder
    listed = {name: f"model-{at % files}.safetensors" for at, name in enumerate(tensors)}
    for file in set(listed.values()):
        some = {name: one for name, one in tensors.items() if listed[name] == file}
        safetensors.torch.save_file(some, folder / file, {"format": "pt"})
    index = {"metadata": {}, "weight_map": listed}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder


def load(folder):
    made = {}
    for file in folder.glob("*.safetensors"):
        made |= safetensors.torch.load_file(file)
    return made


def rank(tensors, family, tp, pp, r, stage):
    """The tensors of rank `r` of `tp` in a stage of `pp`, row by row and head by head."""
    made, first = {}, LAYERS // pp * stage

    def share(tensor, dim):
        each = tensor.shape[dim] // tp
        return tensor.narrow(dim, r * each, each)

    def padded(tensor):
        rows = [*tensor] + [tensor[-1]] * (PADDED[tp] - VOCABULARY)
        return share(torch.stack(rows), 0)

    def fused(q, k, v):
        queries, keys = HEADS[family]
        rows = []
        for key in range(keys // tp * r, keys // tp * (r + 1)):
            for query in range(queries // keys * key, queries // keys * (key + 1)):
                rows += [*q[query * SIZE : (query + 1) * SIZE]]
            rows += [*k[key * SIZE : (key + 1) * SIZE]]
            rows += [*v[key * SIZE : (key + 1) * SIZE]]
        return torch.stack(rows)

    def gated(gate, up):
        return torch.cat([share(gate, 0), share(up, 0)])

    if stage == 0:
        name = "transformer.wte.weight" if family == "gpt2" else "model.embed_tokens.weight"
        made["embedding.word_embeddings.weight"] = padded(tensors[name])
        if family == "gpt2":
            made["embedding.position_embeddings.weight"] = tensors["transformer.wpe.weight"]
    for local in range(LAYERS // pp):
        at = f"decoder.layers.{local}."
        if family == "gpt2":
            _gpt2_layer(made, at, tensors, f"transformer.h.{first + local}.", share, fused)
            continue
        hf = f"model.layers.{first + local}."
        qkv = [tensors[f"{hf}self_attn.{one}_proj.weight"] for one in "qkv"]
        made |= {
            f"{at}self_attention.linear_qkv.layer_norm_weight": tensors[
                f"{hf}input_layernorm.weight"
            ],
            f"{at}self_attention.linear_qkv.weight": fused(*qkv),
            f"{at}self_attention.linear_proj.weight": share(
                tensors[f"{hf}self_attn.o_proj.weight"], 1
            ),
        }
        norm = tensors[f"{hf}post_attention_layernorm.weight"]
        if family == "llama":
            gate, up, down = (tensors[f"{hf}mlp.{n}_proj.weight"] for n in ("gate", "up", "down"))
            made[f"{at}mlp.linear_fc1.layer_norm_weight"] = norm
            made[f"{at}mlp.linear_fc1.weight"] = gated(gate, up)
            made[f"{at}mlp.linear_fc2.weight"] = share(down, 1)
            continue
        made[f"{at}pre_mlp_layernorm.weight"] = norm
        made[f"{at}mlp.router.weight"] = tensors[f"{hf}block_sparse_moe.gate.weight"]
        for expert in range(EXPERTS):
            w = {
                n: tensors[f"{hf}block_sparse_moe.experts.{expert}.w{n}.weight"] for n in (1, 2, 3)
            }
            made[f"{at}mlp.experts.local_experts.{expert}.linear_fc1.weight"] = gated(w[1], w[3])
            made[f"{at}mlp.experts.local_experts.{expert}.linear_fc2.weight"] = share(w[2], 1)
    if stage == pp - 1:
        if family == "gpt2":
            made |= {
                f"decoder.final_layernorm.{one}": tensors[f"transformer.ln_f.{one}"]
                for one in ("weight", "bias")
            }
            if pp > 1:  # its own copy of what the first stage embeds with
                made["output_layer.weight"] = padded(tensors["transformer.wte.weight"])
        else:
            made["decoder.final_layernorm.weight"] = tensors["model.norm.weight"]
            made["output_layer.weight"] = padded(tensors["lm_head.weight"])
    return made


def _gpt2_layer(made, at, tensors, hf, share, fused):
    """Its layers are [in, out] in transformers."""
    for one in ("weight", "bias"):
        turned = {n: tensors[f"{hf}{n}.{one}"].t() for n in ("attn.c_attn", "mlp.c_fc")}
        q, k, v = turned["attn.c_attn"].split(HIDDEN)
        made |= {
            f"{at}self_attention.linear_qkv.layer_norm_{one}": tensors[f"{hf}ln_1.{one}"],
            f"{at}self_attention.linear_qkv.{one}": fused(q, k, v),
            f"{at}mlp.linear_fc1.layer_norm_{one}": tensors[f"{hf}ln_2.{one}"],
            f"{at}mlp.linear_fc1.{one}": share(turned["mlp.c_fc"], 0),
        }
        for name, of in (("self_attention.linear_proj", "attn"), ("mlp.linear_fc2", "mlp")):
            tensor = tensors[f"{hf}{of}.c_proj.{one}"]
            made[f"{at}{name}.{one}"] = share(tensor.t(), 1) if one == "weight" else tensor


def module(tensors):
    """A module that has them as its parameters."""
    root = torch.nn.Module()
    for name, tensor in tensors.items():
        *path, last = name.split(".")
        one = root
        for part in path:
            if not hasattr(one, part):
                one.add_module(part, torch.nn.Module())
            one = getattr(one, part)
        one.register_parameter(last, torch.nn.Parameter(tensor.clone()))
    return root


def same(found, expected):
    """Bit for bit: NaN and -0.0 are what they are."""
    assert found.keys() == expected.keys()
    for name, one in expected.items():
        assert (found[name].dtype, found[name].shape) == (one.dtype, one.shape), name
        bits = [
            each.detach().reshape(-1).contiguous().view(torch.uint8) for each in (found[name], one)
        ]
        assert bits[0].equal(bits[1]), name
