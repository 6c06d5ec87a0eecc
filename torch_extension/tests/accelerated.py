"""Trainings that `torchacc.accelerate` makes, for tests: each as every rank sees it."""

import copy
import functools
import os
import warnings

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from engines import counts_of, models
from engines.models import CONTEXT, adamw, loss_of, model_of
from support import token_batch
from torchacc.config import (
    ComputeConfig,
    Config,
    DistConfig,
    DPConfig,
    FSDPConfig,
    MemoryConfig,
    PPConfig,
    SPConfig,
    TPConfig,
)


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.up = (nn.Linear(width, 2 * width, bias=False) for _ in range(2))
        self.down = nn.Linear(2 * width, width, bias=False)

    def forward(self, x):
        return self.down(nn.functional.silu(self.gate(x)) * self.up(x))


class MixtralLayer(models.LlamaLayer):
    """Rows are computed by the two of four experts that a router gives the most weight."""

    def __init__(self, width, heads):
        super().__init__(width, heads)
        del self.up, self.gate, self.down
        self.router = nn.Linear(width, 4, bias=False)
        self.experts = nn.ModuleList(Expert(width) for _ in range(4))

    def mlp(self, x):
        logits = self.router(x)
        chosen = torch.zeros_like(logits).scatter(-1, logits.topk(2).indices, 1)
        weights = logits.masked_fill(chosen == 0, -torch.inf).softmax(-1)
        return sum(weights[..., at : at + 1] * expert(x) for at, expert in enumerate(self.experts))


class Mixtral(models.Llama):
    layer_class = MixtralLayer


MODELS = models.MODELS | {"mixtral": Mixtral}

PLAN = {
    **dict.fromkeys([f"layers.*.{name}" for name in ("query", "key", "value", "up")], "colwise"),
    **dict.fromkeys(["layers.*.out", "layers.*.down"], "rowwise"),
    "head": "colwise_rep",
}


def config(dp=None, fsdp=1, tp=1, sp=(), pp=(), gate=False, layers=2, model=None, **options):
    plan = PLAN | ({"layers.*.gate": "colwise"} if gate else {})
    sizes = {"dp": DPConfig(dp), "fsdp": FSDPConfig(fsdp), "tp": TPConfig(tp, plan)}
    sizes |= {"sp": SPConfig(*sp), "pp": PPConfig(*pp)}
    return Config(dist=DistConfig(**sizes), **options)


# By the number of processes.
KINDS = {
    1: {
        "alone": {},
        "again": {"memory": MemoryConfig(gc=True), "model": "gpt2"},
        "offload": {"memory": MemoryConfig(offload=True)},
    },
    2: {
        "dp": {},
        "fsdp": {"fsdp": 2},
        "tp": {"tp": 2},
        "fsdp_again": {"fsdp": 2, "memory": MemoryConfig(gc=True, gc_cnt=1)},
        "fsdp_offload": {"fsdp": 2, "memory": MemoryConfig(offload=True)},
        "tp_offload": {"tp": 2, "memory": MemoryConfig(offload=True)},
        "1f1b_offload": {"pp": (2, 2), "layers": 4, "memory": MemoryConfig(offload=True)},
        "dp_bf16": {"compute": ComputeConfig(bf16=True)},
        "fsdp_bf16": {"fsdp": 2, "compute": ComputeConfig(bf16=True)},
        "ulysses": {"sp": (2,)},
        "ring": {"sp": (2, "ring")},
        "ulysses_again": {"sp": (2,), "memory": MemoryConfig(gc=True)},
        "ring_again": {"sp": (2, "ring"), "memory": MemoryConfig(gc=True)},
        "gpipe": {"pp": (2, 2, [], "gpipe")},
        "1f1b": {"pp": (2, 2), "model": "mixtral"},
        "split": {"pp": (2, 4, ["layers.3"]), "layers": 4},
        "interleaved": {"pp": (2, 4, [], "interleaved"), "layers": 4},
        "zero_bubble": {"pp": (2, 4, [], "zero-bubble"), "model": "gpt2"},
        "1f1b_again": {"pp": (2, 2), "memory": MemoryConfig(gc=True)},
        "1f1b_bf16": {"pp": (2, 2), "compute": ComputeConfig(bf16=True)},
    },
    4: {
        "fsdp": {"fsdp": 4},
        "hybrid": {"dp": 2, "fsdp": 2, "model": "gpt2"},
        "fsdp_tp": {"fsdp": 2, "tp": 2, "model": "mixtral"},
        "dp_tp": {"dp": 2, "tp": 2, "model": "gpt2"},
        "ulysses": {"sp": (4,)},
        "ring": {"sp": (4, "ring")},
        "2d": {"sp": (4, "2d", 2), "model": "gpt2"},
        "dp_ulysses": {"dp": 2, "sp": (2,)},
        "fsdp_ulysses": {"fsdp": 2, "sp": (2,)},
        "fsdp_ring": {"fsdp": 2, "sp": (2, "ring")},
        "sp_tp": {"tp": 2, "sp": (2,)},
        "dp_pp": {"dp": 2, "pp": (2, 2)},
        "fsdp_pp": {"fsdp": 2, "pp": (2, 2)},
        "pp_tp": {"tp": 2, "pp": (2, 2), "model": "gpt2"},
        "pp_sp": {"sp": (2,), "pp": (2, 2)},
        "pp": {"pp": (4, 4), "layers": 4},
        "interleaved_sp": {"sp": (2,), "pp": (2, 2, [], "interleaved"), "layers": 4},
        "interleaved_fsdp": {"fsdp": 2, "pp": (2, 2, [], "interleaved"), "layers": 4},
        "sp_zero_bubble": {"sp": (2,), "pp": (2, 2, [], "zero-bubble")},
        "dp_zero_bubble": {"dp": 2, "pp": (2, 2, [], "zero-bubble")},
    },
    8: {
        "fsdp_pp_tp": {"fsdp": 2, "pp": (2, 2), "tp": 2},
        "dp_fsdp_tp": {"dp": 2, "fsdp": 2, "tp": 2},
        "dp_fsdp_ulysses": {"dp": 2, "fsdp": 2, "sp": (2,)},
        "fsdp_sp_tp": {"fsdp": 2, "sp": (2, "ring"), "tp": 2},
        "dp_pp_sp": {"dp": 2, "pp": (2, 2), "sp": (2,)},
    },
}
SHORT = {
    1: KINDS[1],
    2: {
        "dp",
        "fsdp",
        "tp",
        "fsdp_again",
        "tp_offload",
        "1f1b_offload",
        "dp_bf16",
        "fsdp_bf16",
        "ulysses",
        "ring_again",
    }
    | {"1f1b", "interleaved", "zero_bubble", "1f1b_bf16"},
    4: {
        "fsdp",
        "hybrid",
        "fsdp_tp",
        "dp_tp",
        "2d",
        "fsdp_ulysses",
        "dp_pp",
        "dp_zero_bubble",
        "fsdp_pp",
        "pp_tp",
        "pp_sp",
    },
    8: (),
}


def programs(options):
    """How many a step may be: one, or of a pipeline one for each action, and what is between."""
    if "pp" not in options:
        return 1
    stages = 2 if "interleaved" in options["pp"] else 1
    return 2 * options["pp"][1] * stages + 3


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
    is_pipeline = hasattr(model, "forward_backward")
    clip = getattr(
        model,
        "clip_grad_norm_",
        lambda norm: nn.utils.clip_grad_norm_(model.parameters(), norm),
    )

    def step(_):
        batch = next(data)
        if is_pipeline:
            loss = model.forward_backward(
                batch["tokens"], output_fn=loss_of, target=batch["targets"]
            )
        else:
            loss = loss_of(model(batch["tokens"]), batch["targets"])
            loss.backward()
        clip(0.3)
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def beside(wanted, layers, batches):
    """Losses of a Llama that is accelerated and trained by a loader of these batches, with those of
    one process, and the model."""
    build = functools.partial(MODELS["llama"], layers=layers)
    reference, model = (model_of(build, "cpu") for _ in range(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, loader, optimizer = torchacc.accelerate(model, iter(batches), wanted, optimizer)
    other = torch.optim.SGD(reference.parameters(), lr=0.1)
    losses, expected = [], []
    for batch, whole in zip(loader, batches, strict=True):
        if hasattr(model, "forward_backward"):
            loss = model.forward_backward(
                batch["tokens"], output_fn=loss_of, target=batch["targets"]
            )
        else:
            loss = loss_of(model(batch["tokens"]), batch["targets"])
            loss.backward()
        alone = loss_of(reference(whole["tokens"]), whole["targets"])
        alone.backward()
        for one in (optimizer, other):
            one.step()
            one.zero_grad()
        losses.append(loss.item())
        expected.append(alone.item())
    return {"losses": losses, "expected": expected}, model


def trainings(steps, *runs):
    """Each a kind and a model, of the same weights and batches."""
    torchacc.set_recompile_limit(10_000)  # of all of them by the same lines
    return {run: train(*run.split(":"), int(steps)) for run in runs}


def train(kind, model, steps):
    size = dist.get_world_size() if dist.is_initialized() else 1
    rank = dist.get_rank() if size > 1 else 0
    options = KINDS[size][kind]
    wanted = config(gate=model != "gpt2", **options)
    unchanged = copy.deepcopy(wanted)
    build = functools.partial(MODELS[model], layers=options.get("layers", 2))
    whole = model_of(build, "cpu")
    # Neighbours have the same batch.
    same = options.get("tp", 1) * options.get("sp", (1,))[0] * options.get("pp", (1,))[0]
    count = size // same
    reference = copy.deepcopy(whole)
    # One process has all parts, of which the loss is the mean.
    everything = (
        {key: torch.cat([part[key] for part in parts]) for key in parts[0]}
        for parts in batches(count)
    )
    alone = adamw(reference.parameters())
    one = trained(reference, everything, alone)
    expected = [one(number).item() for number in range(steps)]

    made, loader, optimizer = torchacc.accelerate(
        whole, part_of(rank // same, count, steps), wanted, adamw(whole.parameters())
    )
    assert wanted == unchanged
    step = trained(made, loader, optimizer)
    ran = [counts_of(step, number) for number in range(steps)]
    losses = [loss.item() for loss, _ in ran]
    return {
        "losses": losses,
        "expected": expected,
        "counts": [counts for _, counts in ran],
        "part": held(made, optimizer) / held(reference, alone),
    }


def held(model, optimizer):
    """Numbers that are there for a model: parameters, as many gradients, the optimizer's state."""
    states = [one for state in optimizer.state.values() for one in state.values()]
    tensors = [*model.parameters(), *model.parameters(), *states]
    local = [one.to_local() if hasattr(one, "to_local") else one for one in tensors]
    return sum(one.numel() for one in local)


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
    ask("no_plan", Config(dist=DistConfig(tp=TPConfig(2))), nn.Linear(4, 4))
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
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    ask("stepped", Config(), model, optimizer)
    ask("strange", Config(), nn.Linear(2, 2), torch.optim.SGD(nn.Linear(2, 2).parameters()))
    return said


def loaded():
    """How far the weights of models in parts are from those in the files, and what is refused."""
    from safetensors import safe_open

    folder, made = os.environ["WEIGHTS_FOLDER"], {}

    def tied(**options):
        model = MODELS["gpt2"](**options)
        model.head.weight = model.token.weight
        return model

    def far(model):
        files = {}
        for name in os.listdir(folder):
            with safe_open(f"{folder}/{name}", "pt") as file:
                files |= {key: file.get_tensor(key) for key in [*file.keys()]}
        distance, files["head.weight"] = 0.0, files["token.weight"]
        for name, one in model.state_dict().items():
            whole = one.full_tensor() if hasattr(one, "full_tensor") else one
            distance += (whole.cpu() - files[name.removeprefix("module.")]).abs().sum().item()
        return distance

    for name, kind in {
        "dp": {},
        "fsdp": {"fsdp": 2},
        "tp": {"tp": 2},
        "pp": {"pp": (2, 2)},
    }.items():
        wanted = config(**kind)
        wanted.dist.tp.plan = MLP
        model = torchacc.accelerate(tied(), config=wanted)
        before = far(model)
        torchacc.load_safetensors(model, folder)
        made[name] = [before, far(model)]

    def ask(name, model, path=folder):
        before = [one.detach().clone() for one in model.parameters()]
        try:
            torchacc.load_safetensors(model, path)
        except (ValueError, FileNotFoundError) as error:
            same = zip(model.parameters(), before, strict=True)
            assert all(torch.equal(one, was) for one, was in same)
            made[name] = str(error)

    ask("missing", nn.Sequential(nn.Linear(2, 2)))
    ask("shape", tied(width=64))
    ask("empty", tied(), os.path.dirname(__file__))
    model = tied(layers=1)
    ask("strange", model)
    torchacc.load_safetensors(model, folder, strict=False)
    made["some"] = far(model)
    return made


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.up = nn.Linear(12, 20), nn.Linear(12, 20, bias=False)
        self.down = nn.Linear(20, 12)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Mixer(nn.Module):
    """Not element by element: each hidden element depends on all."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(12, 6), nn.Linear(6, 12)
        self.odd = nn.Linear(12, 5)

    def forward(self, x):
        return self.down(self.up(x).softmax(-1)) + self.odd(x).mean()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.heads = nn.LayerNorm(12), nn.Linear(12, 36)
        self.out, self.mlp, self.mixer = nn.Linear(12, 12), FeedForward(), Mixer()

    def forward(self, x):
        q, k, v = self.heads(self.norm(x)).unflatten(-1, (3, 3, 4)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.mlp(x) + self.mixer(x)


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


def by_rules():
    """A model without a plan: its losses, those of one that is whole, and what was split."""

    def losses_of(config):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 12), nn.Sequential(*(Block() for _ in range(2))))
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        if config is None:
            model.to("acc")
        else:
            model, optimizer = torchacc.accelerate(model, config=config, optimizer=optimizer)
        losses = []
        for number in range(6):
            x = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(number))
            loss = model(x.to("acc")).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.item())
        split = [n for n, one in model.named_modules() if is_split(getattr(one, "weight", None))]
        return losses, split

    losses, split = losses_of(Config(dist=DistConfig(tp=TPConfig(2))))
    return {"losses": losses, "split": split, "expected": losses_of(None)[0]}


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

    def made_by(fsdp):
        with torch.device("meta"):
            model = MODELS["gpt2"]()
        model.head.weight = model.token.weight
        model.register_buffer("kept", torch.arange(3))
        torch.manual_seed(0)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        config = Config(dist=DistConfig(fsdp=fsdp))
        return torchacc.accelerate(model, config=config, optimizer=optimizer)

    whole = sum(parameter.numel() for parameter in MODELS["gpt2"]().parameters())
    whole -= MODELS["gpt2"]().head.weight.numel()
    model, optimizer = made_by(FSDPConfig(2))
    layer = model.layers[0]
    weights = {"token": model.token, "up": layer.up, "norm": layer.norm1}
    made = {
        name: [f(one.weight.full_tensor()).item() for f in (torch.mean, torch.std)]
        for name, one in weights.items()
    }
    made |= {"tied": model.head.weight is model.token.weight, "kept": model.kept.tolist()}
    made["part"] = sum(p.to_local().numel() for p in model.parameters()) / whole
    on_host, slow = made_by(FSDPConfig(2, cpu_offload=True))
    with torch.no_grad():
        for one, other in zip(on_host.parameters(), model.parameters(), strict=True):
            one.to_local().copy_(other.to_local())
    # The same batch in every step and rank: it is learned.
    batch = next(part_of(0, 1, 1))
    step = trained(model, [{key: value.to("acc") for key, value in batch.items()}] * 5, optimizer)
    made["losses"] = [step(number).item() for number in range(5)]
    made["devices"] = sorted({one.device.type for one in on_host.parameters()})
    step = trained(on_host, [{key: value.to("acc") for key, value in batch.items()}] * 5, slow)
    made["losses_on_host"] = [step(number).item() for number in range(5)]
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
