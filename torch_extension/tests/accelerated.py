"""Trainings that `torchacc.accelerate` makes, for tests: each as every rank sees it."""

import copy
import warnings

import torch
import torch.distributed as dist
import torch.nn as nn
import torchacc
from engines import MODELS, counts_of
from engines.models import CONTEXT, adamw, loss_of, model_of
from support import token_batch
from torchacc.config import (
    ComputeConfig,
    Config,
    DistConfig,
    DPConfig,
    FSDPConfig,
    MemoryConfig,
    TPConfig,
)

PLAN = {
    **dict.fromkeys([f"layers.*.{name}" for name in ("query", "key", "value", "up")], "colwise"),
    **dict.fromkeys(["layers.*.out", "layers.*.down"], "rowwise"),
    "head": "colwise_rep",
}


def config(dp=None, fsdp=1, tp=1, gate=False, **options):
    plan = PLAN | ({"layers.*.gate": "colwise"} if gate else {})
    sizes = {"dp": DPConfig(dp), "fsdp": FSDPConfig(fsdp), "tp": TPConfig(tp, plan)}
    return Config(dist=DistConfig(**sizes), **options)


# By the number of processes.
KINDS = {
    1: {"alone": {}, "again": {"memory": MemoryConfig(gc=True)}},
    2: {
        "dp": {},
        "fsdp": {"fsdp": 2},
        "tp": {"tp": 2},
        "fsdp_again": {"fsdp": 2, "memory": MemoryConfig(gc=True, gc_cnt=1)},
        "dp_bf16": {"compute": ComputeConfig(bf16=True)},
        "fsdp_bf16": {"fsdp": 2, "compute": ComputeConfig(bf16=True)},
    },
    4: {
        "fsdp": {"fsdp": 4},
        "hybrid": {"dp": 2, "fsdp": 2},
        "fsdp_tp": {"fsdp": 2, "tp": 2},
        "dp_tp": {"dp": 2, "tp": 2},
    },
}


def batches(count):
    """Of every part of the data, for each step."""
    step = 0
    while True:
        parts = [token_batch(count * step + part, 4, CONTEXT) for part in range(count)]
        yield [dict(zip(("tokens", "targets"), part, strict=True)) for part in parts]
        step += 1


def part_of(part, count, steps):
    for _, parts in zip(range(steps), batches(count), strict=False):
        yield parts[part]


def trained(model, data, optimizer):
    """Steps, each of which gives its loss."""
    data = iter(data)

    def step(_):
        batch = next(data)
        loss = loss_of(model(batch["tokens"]), batch["targets"])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def trainings(steps, *runs):
    """Each a kind and a model, of the same weights and batches."""
    return {run: train(*run.split(":"), int(steps)) for run in runs}


def train(kind, model, steps):
    size = dist.get_world_size() if dist.is_initialized() else 1
    rank = dist.get_rank() if size > 1 else 0
    options = KINDS[size][kind]
    wanted = config(gate=model == "llama", **options)
    unchanged = copy.deepcopy(wanted)
    whole = model_of(MODELS[model], "cpu")
    tp = options.get("tp", 1)
    count = size // tp
    reference = copy.deepcopy(whole)
    # One process has all parts, of which the loss is the mean.
    everything = (
        {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
        for parts in batches(count)
    )
    one = trained(reference, everything, adamw(reference.parameters()))
    expected = [one(number).item() for number in range(steps)]

    made, loader, optimizer = torchacc.accelerate(
        whole, part_of(rank // tp, count, steps), wanted, adamw(whole.parameters())
    )
    assert wanted == unchanged
    step = trained(made, loader, optimizer)
    ran = [counts_of(step, number) for number in range(steps)]
    losses = [loss.item() for loss, _ in ran]
    held = sum((p.to_local() if hasattr(p, "to_local") else p).numel() for p in made.parameters())
    return {
        "losses": losses,
        "expected": expected,
        "counts": [counts for _, counts in ran],
        "part": held / sum(p.numel() for p in reference.parameters()),
    }


def refused():
    """What does not fit the model is said, by the field that asks for it."""
    said = {}

    def ask(name, wanted, model=None, optimizer=None):
        try:
            torchacc.accelerate(model or MODELS["gpt2"](), None, wanted, optimizer)
        except (ValueError, NotImplementedError) as error:
            said[name] = f"{type(error).__name__}: {error}"

    ask("world", config(fsdp=3))
    ask("class", Config(dist=DistConfig(fsdp=FSDPConfig(2, wrap_layer_cls={"Block"}))))
    ask("no_plan", Config(dist=DistConfig(tp=TPConfig(2))))
    ask("pattern", Config(dist=DistConfig(tp=TPConfig(2, {"blocks.*.up": "colwise"}))))
    ask("style", Config(dist=DistConfig(tp=TPConfig(2, {"layers.*.up": "columns"}))))
    ask(
        "uneven",
        Config(dist=DistConfig(tp=TPConfig(2, {"0": "colwise"}))),
        nn.Sequential(nn.Linear(4, 3)),
    )
    tied = MODELS["gpt2"]()
    tied.head.weight = tied.token.weight
    ask("tied", config(tp=2), tied)
    ask("gc", Config(memory=MemoryConfig(gc=True)), nn.Linear(2, 2))
    ask("later", Config(memory=MemoryConfig(offload=True)))
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    ask("stepped", Config(), model, optimizer)
    ask("strange", Config(), nn.Linear(2, 2), torch.optim.SGD(nn.Linear(2, 2).parameters()))
    return said


MLP = {"layers.*.up": "colwise", "layers.*.down": "rowwise"}
EDGES = {"token": "embedding_rowwise", "head": "colwise_gather_output"}


def own_plan():
    """A model that has one, with a way of splitting that is not known."""
    model = model_of(MODELS["gpt2"], "cpu")
    model.head.weight = model.token.weight
    model.tp_plan = {**MLP, **EDGES, "others.*.gate": "packed_colwise", "missing.*": "colwise"}
    tokens = torch.arange(CONTEXT)[None]
    expected = model(tokens).square().mean().item()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made = torchacc.accelerate(model, config=Config(dist=DistConfig(tp=TPConfig(2))))
    split = [name for name, one in made.named_modules() if is_split(getattr(one, "weight", None))]
    loss = made(tokens.to("acc")).square().mean().item()
    text = " ".join(str(one.message) for one in said)
    return {"split": sorted(split), "said": text, "loss": loss, "expected": expected}


def unequal(*kinds):
    """What the weights are whose numbers each rank drew for itself, whole on every rank."""
    made = {}
    for kind in kinds:
        name, _, device = kind.partition(":")
        torch.manual_seed(dist.get_rank())
        with torch.device(device or "cpu"):
            model = MODELS["gpt2"]()
        wanted = config(**KINDS[dist.get_world_size()][name])
        # Of parts, those of the first ranks: what another rank has is a copy of theirs, or no part.
        wanted.dist.fsdp.sync_module_states = True
        model = torchacc.accelerate(model, config=wanted)
        whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
        made[kind] = [one.double().sum().item() for one in whole]
    return made


class Unwritten(nn.Module):
    def __init__(self):
        super().__init__()
        self.own = nn.Parameter(torch.zeros(2))
        self.register_buffer("count", torch.zeros(2, dtype=torch.int64))


def without_memory():
    """Models on the device meta."""
    with torch.device("meta"):
        model = MODELS["gpt2"]()
    model.head.weight = model.token.weight
    model.register_buffer("kept", torch.arange(3))
    whole = sum(parameter.numel() for parameter in model.parameters())
    torch.manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model, optimizer = torchacc.accelerate(
        model, config=Config(dist=DistConfig(fsdp=FSDPConfig(2))), optimizer=optimizer
    )
    layer = model.layers[0]
    weights = {"token": model.token, "up": layer.up, "norm": layer.norm1}
    made = {
        name: [f(one.weight.full_tensor()).item() for f in (torch.mean, torch.std)]
        for name, one in weights.items()
    }
    made |= {"tied": model.head.weight is model.token.weight, "kept": model.kept.tolist()}
    made["part"] = sum(p.to_local().numel() for p in model.parameters()) / whole
    # The same batch in every step and rank: it is learned.
    batch = next(part_of(0, 1, 1))
    step = trained(model, [{key: value.to("acc") for key, value in batch.items()}] * 5, optimizer)
    made["losses"] = [step(number).item() for number in range(5)]
    # What is not split is what the first rank has, whatever numbers the others draw.
    torch.manual_seed(dist.get_rank())
    with torch.device("meta"):
        split = MODELS["gpt2"]()
    split = torchacc.accelerate(split, config=Config(dist=DistConfig(tp=TPConfig(2, MLP))))
    made["whole"] = split.position.weight.sum().item()
    with torch.device("meta"):
        padded = nn.Sequential(nn.Embedding(6, 8, padding_idx=1))
    padded = torchacc.accelerate(padded, config=Config(dist=DistConfig(fsdp=FSDPConfig(2))))
    made["padding"] = padded[0].weight.full_tensor()[1].tolist()
    with torch.device("meta"):
        strange = Unwritten()
    try:
        torchacc.accelerate(strange)
    except ValueError as error:
        made["said"] = str(error)
    return made


def is_split(weight):
    return hasattr(weight, "placements") and weight.to_local().numel() < weight.numel()


def tied_weights():
    """They stay one parameter, whatever is done with the model."""
    ok = {}
    for name, wanted in {
        "fsdp": Config(dist=DistConfig(fsdp=FSDPConfig(2))),
        "dp": Config(),
        "tp": Config(dist=DistConfig(tp=TPConfig(2, MLP))),
        "tp_tied": Config(dist=DistConfig(tp=TPConfig(2, EDGES))),
    }.items():
        model = model_of(MODELS["gpt2"], "cpu")
        model.head.weight = model.token.weight
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        made, optimizer = torchacc.accelerate(model, config=wanted, optimizer=optimizer)
        inner = getattr(made, "module", made)
        made(torch.zeros(1, CONTEXT, dtype=torch.long, device="acc")).sum().backward()
        optimizer.step()
        ok[name] = inner.head.weight is inner.token.weight and inner.head.weight.grad is not None
    return ok
