"""Models whose sequences or layers `torchacc.accelerate` divides, for tests: as every rank sees
them."""

import copy
import functools

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from accelerated import beside
from engines import MODELS
from engines.models import CONTEXT, loss_of, model_of
from support import token_batch
from torchacc.config import (
    Config,
    DistConfig,
    FSDPConfig,
    PPConfig,
    SPConfig,
    StrategyConfig,
    TPConfig,
)


def sp(mode="ulysses", **options):
    return Config(dist=DistConfig(sp=SPConfig(dist.get_world_size(), mode), **options))


def pp(parts=2, *points, schedule="1f1b", **options):
    size = dist.get_world_size()
    return Config(dist=DistConfig(pp=PPConfig(size, parts, list(points), schedule), **options))


def said(model, config, *args, **options):
    """The error of the first step, with what it led to."""
    try:
        made = torchacc.accelerate(model, config=config)
        if hasattr(made, "forward_backward"):
            made.forward_backward(*args, **options)
        else:
            made(*args)
    except (ValueError, TypeError, NotImplementedError, RuntimeError) as error:
        errors = [error] if error.__cause__ is None else [error.__cause__, error]
        return " -> ".join(f"{type(one).__name__}: {one}" for one in errors)
    return "nothing"


def tokens_of(rows, number=0, batch=4):
    tokens, targets = token_batch(number, batch, CONTEXT)
    return [torch.cat([one, one], 1)[:, :rows].to("acc") for one in (tokens, targets)]


class Counting(nn.Module):
    """A layer that counts positions itself, from the first row that it sees."""

    def __init__(self):
        super().__init__()
        self.inner = MODELS["llama"]().layers[0]
        self.position = nn.Embedding(CONTEXT, 32)

    def forward(self, x):
        return self.inner(x + self.position(torch.arange(x.shape[1], device=x.device)))


class Multiplied(nn.Module):
    """Attention by products."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(32, 32)

    def forward(self, x):
        return torch.softmax(self.query(x) @ x.mT, -1) @ x


class Twice(nn.Module):
    """A layer that returns more than activations."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(32, 32)

    def forward(self, x):
        return self.up(x), x.square().mean()


class Paired(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Twice() for _ in range(2))

    def forward(self, x):
        total = 0
        for layer in self.layers:
            x, more = layer(x)
            total = total + more
        return x.mean() + total


class Reused(MODELS["llama"]):
    """Logits by the weight of the embedding, which no second name says."""

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.token.weight)


class Dropped(MODELS["llama"]):
    """While it is trained, some of the layers are not called. With an inner loss of all rows."""

    def __init__(self, *kept, inner=False):
        super().__init__(layers=3)
        self.kept, self.inner = kept, inner

    def forward(self, tokens):
        x = self.embedding(tokens)
        for at in self.kept if self.training else range(3):
            x = self.layers[at](x)
        logits = self.head(x)
        return F.cross_entropy(logits.mT, tokens) if self.inner else logits


def with_layers(layer):
    model = MODELS["llama"]()
    model.layers = nn.ModuleList(layer() for _ in range(2))
    for parameter in model.parameters():
        torch.manual_seed(parameter.numel())
        nn.init.normal_(parameter, std=0.5)
    return model


def refusals():
    """What a model does that cannot be divided is said, in its first step."""
    tokens, targets = tokens_of(CONTEXT)
    odd = MODELS["llama"](heads=1)
    x = torch.ones(4, 32, device="acc")
    step = {"output_fn": loss_of, "target": targets}
    return {
        "positions": said(with_layers(Counting), sp(), tokens),
        "products": said(with_layers(Multiplied), sp(), tokens),
        "heads": said(odd, sp(), tokens),
        "flat": said(Paired(), sp(), x),
        "no_layers": said(nn.Linear(2, 2), sp(), x),
        "first": said(Dropped(1, 2), sp(), tokens),
        "last": said(Dropped(0, 1), sp(), tokens),
        "inner": said(Dropped(0, 1, inner=True), sp(), tokens),
        "middle": said(Dropped(0, 2), sp(), tokens),
        "elsewhere": said(Reused(), pp(), tokens, **step),
        "point": said(MODELS["llama"](), pp(2, "layers.7"), tokens, **step),
        "points": said(MODELS["llama"](layers=4), pp(2, "layers.1", "layers.2"), tokens, **step),
        "few": said(MODELS["llama"](layers=1), pp(), tokens, **step),
        "parts": said(MODELS["llama"](), pp(3), tokens, **step),
        "target": said(MODELS["llama"](), pp(), tokens, target=targets),
    }


def lengths(*kinds):
    """Losses and norms of gradients of sequences of several lengths, with those of one process, and
    how many programs the last length compiled."""
    made, compiles = {}, {}
    torchacc.set_recompile_limit(100)  # of all kinds by the same lines
    for kind in kinds:
        torch.manual_seed(0)
        reference = model_of(functools.partial(MODELS["llama"], layers=4), "cpu")
        reference.head.weight = reference.token.weight
        config = sp(kind) if kind in ("ulysses", "ring") else pp(2, schedule=kind)
        model = model_of(functools.partial(MODELS["llama"], layers=4), "cpu")
        model.head.weight = model.token.weight
        model = torchacc.accelerate(model, config=config)
        made[kind] = []
        for number, rows in enumerate((CONTEXT, 13, 6, 11, 9)):
            tokens, targets = tokens_of(rows, number)
            before = torchacc.metrics()["compiles"]
            expected = loss_of(reference(tokens.cpu()), targets.cpu())
            expected.backward()
            if hasattr(model, "forward_backward"):
                loss = model.forward_backward(tokens, output_fn=loss_of, target=targets)
            else:
                loss = loss_of(model(tokens), targets)
                loss.backward()
            compiles[kind] = torchacc.metrics()["compiles"] - before
            # Gradients of all steps add up.
            norm = nn.utils.clip_grad_norm_(reference.parameters(), 0.5)
            made[kind] += [[loss.item(), expected.item()]]
            made[kind].append([model.clip_grad_norm_(0.5).item(), norm.item()])
    return {"found": made, "compiles": compiles}


def pipeline():
    """What a pipeline has besides steps: state, calls, names."""
    whole = model_of(functools.partial(MODELS["gpt2"], layers=4), "cpu")
    names = set(whole.state_dict())
    expected = {name: one.clone() for name, one in whole.state_dict().items()}
    tokens, targets = tokens_of(CONTEXT)
    logits = whole(tokens.cpu())
    # Made elsewhere, then written.
    torch.manual_seed(1)
    model = torchacc.accelerate(MODELS["gpt2"](layers=4), config=pp(2, schedule="interleaved"))
    model.load_state_dict(expected)
    state = model.state_dict()
    own = all(torch.equal(one.cpu(), expected[name]) for name, one in state.items())
    made = model(tokens)
    # Steps and calls of the same sizes, in any order.
    expected_loss = loss_of(logits, targets.cpu())
    expected_loss.backward()
    for _ in range(2):
        model.zero_grad()
        loss = model.forward_backward(tokens, output_fn=loss_of, target=targets)
        again = model(tokens)
    norms = [p.grad.norm().item() for p in model.parameters()]
    gradients = {name: p.grad.norm().item() for name, p in whole.named_parameters()}
    missing = dict(list(expected.items())[1:])
    try:
        model.load_state_dict(missing)
        error = ""
    except RuntimeError as failure:
        error = str(failure)
    return {
        "names": sorted(state),
        "all": sorted(names),
        "own": own,
        "parameters": sorted(name for name, _ in model.named_parameters()),
        "close": made is None or torch.allclose(made.cpu(), logits, rtol=1e-4, atol=1e-5),
        "has_results": made is not None,
        "error": error,
        "losses": [loss.item(), expected_loss.item()],
        "again": made is None or torch.equal(made.cpu(), again.cpu()),
        "norms": [norms, [gradients[name] for name, _ in model.named_parameters()]],
    }


def deferred():
    """A pipeline of a model on the device meta, with parts of its parameters in the second
    dimension, where there are four ranks."""
    size = dist.get_world_size()
    with torch.device("meta"):
        model = MODELS["gpt2"](layers=4)
    sizes = {"pp": PPConfig(2, 2), "fsdp": FSDPConfig(size // 2)}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    model, optimizer = torchacc.accelerate(
        model, config=Config(dist=DistConfig(**sizes)), optimizer=optimizer
    )
    tokens, targets = tokens_of(CONTEXT)
    losses = []
    for _ in range(5):
        losses.append(model.forward_backward(tokens, output_fn=loss_of, target=targets).item())
        optimizer.step()
        optimizer.zero_grad()
    held = sum(len(group["params"]) for group in optimizer.param_groups)
    sizes["pp"] = PPConfig(2, 2, schedule="zero-bubble")
    refused = said(MODELS["gpt2"](layers=4), Config(dist=DistConfig(**sizes)))
    return {
        "losses": losses,
        "held": held,
        "own": len(list(model.parameters())),
        "refused": refused,
    }


def found_strategy(*fixed):
    """Losses of what a search finds, of which `fixed` sizes are not free, with those of one
    process."""
    size = dist.get_world_size()
    batches = [
        dict(zip(("tokens", "targets"), tokens_of(CONTEXT, n, 8), strict=True)) for n in range(4)
    ]
    batches = [{name: one.cpu() for name, one in batch.items()} for batch in batches]
    config = Config(strategy=StrategyConfig("semi" if fixed else "auto"))
    for axis in fixed:
        getattr(config.dist, axis).size = size
    config.dist.pp.num_micro_batches = 2 if "pp" in fixed else 1
    made, model = beside(config, 4, batches)
    return {**made, "strategy": model.plan.strategy}


def last_batches(schedule, parts, *sizes):
    """Losses of a pipeline whose four micro-batches were found for the first of these sizes of
    batches, or are the program's, with those of one process; rows of results that are missing; the
    error."""
    torchacc.set_recompile_limit(100)
    choose = torchacc.auto.choose

    def four(*args):  # of so small a model a search finds fewer
        found = choose(*args)
        found.config.dist.pp.num_micro_batches = 4
        return found

    torchacc.auto.choose = four
    reference = model_of(functools.partial(MODELS["llama"], layers=4), "cpu")
    model = model_of(functools.partial(MODELS["llama"], layers=4), "cpu")
    batches = [tokens_of(CONTEXT, number, int(size)) for number, size in enumerate(sizes)]
    batches = [{"tokens": tokens.cpu(), "targets": targets.cpu()} for tokens, targets in batches]
    config = Config(strategy=StrategyConfig("semi"))
    config.dist.pp = PPConfig(2, int(parts), schedule=schedule)
    optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (reference, model)]
    model, loader, optimizers[1] = torchacc.accelerate(model, batches, config, optimizers[1])
    made = {"losses": [], "missing": [], "said": ""}
    try:
        for batch, whole in zip(loader, batches, strict=True):
            tokens, targets = batch["tokens"], batch["targets"]
            loss = model.forward_backward(tokens, output_fn=loss_of, target=targets)
            expected = loss_of(reference(whole["tokens"]), whole["targets"])
            expected.backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
            logits = model(tokens)
            made["losses"].append([loss.item(), expected.item()])
            made["missing"].append(len(tokens) - len(tokens if logits is None else logits))
    except ValueError as error:
        made["said"] = str(error)
    return made


class Block(nn.Module):
    """Returns a tuple, counts its batches, and has what a model may ask it."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor
        self.up, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)

    def forward(self, x):
        return (self.norm(self.up(x)),)


class Shaped(nn.Module):
    """Computes between its layers, has a frozen layer before them that no embedding is, and returns
    its loss."""

    def __init__(self, adds=False):
        super().__init__()
        self.adds = adds
        self.stem = nn.Linear(8, 8).requires_grad_(False)
        self.norm = nn.BatchNorm1d(8)
        self.layers = nn.ModuleList(Block(1 + at) for at in range(4))
        self.head = nn.Linear(8, 1)

    def forward(self, x, scales=()):
        x = self.norm(self.stem(x))
        for layer in self.layers:
            y = torch.relu(layer(x)[0]) * layer.factor
            x = x + y if self.adds else y
        return self.head(x).square().mean()


class Twofold(Shaped):
    """Goes through its layers twice."""

    def forward(self, x):
        for layer in (*self.layers, *self.layers):
            x = layer(x)[0]
        return x.mean()


class Spare(nn.Module):
    """Two stages share what no step uses, or a later one."""

    def __init__(self):
        super().__init__()
        self.stem, self.spare = nn.Linear(8, 8), nn.Linear(8, 8)
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8)) for _ in range(4))
        self.head = nn.Linear(8, 1)

    def forward(self, x, is_late=False):
        x = self.stem(x)
        if is_late:
            x = self.spare(x)
        for layer in self.layers:
            x = layer(x).relu()
        return self.head(x).square().mean()


def unused(schedule, how):
    """Which parameters have no gradient after each step, and whether all are what they are in one
    process. The last steps use another one, which is `frozen` until then, or is not."""
    copies = dist.get_world_size() // 2
    torch.manual_seed(0)
    model = Spare()
    whole = copy.deepcopy(model)
    optimizers = [torch.optim.AdamW(one.parameters(), lr=1e-2) for one in (whole, model)]
    config = Config(dist=DistConfig(pp=PPConfig(2, 2, schedule=schedule)))
    model, optimizers[1] = torchacc.accelerate(model, config=config, optimizer=optimizers[1])
    made = {"without": [], "same": []}
    for number in range(4):
        is_late = number > 1
        for name, parameter in (*whole.named_parameters(), *model.named_parameters()):
            if "spare" in name:
                parameter.requires_grad_(is_late or how != "frozen")
        x = torch.randn(8, 8, generator=torch.Generator().manual_seed(number))
        whole(x, is_late).backward()
        try:
            model.forward_backward(x.chunk(copies)[dist.get_rank() // 2].to("acc"), is_late=is_late)
        except ValueError as error:
            return made | {"said": str(error)}
        made["without"].append([name for name, p in model.named_parameters() if p.grad is None])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        expected = whole.state_dict()
        made["same"] += [
            torch.allclose(one.cpu(), expected[name], 1e-4, 1e-6)
            for name, one in model.state_dict().items()
        ]
    return made


def between_layers(schedule):
    """Losses, and of what the state after steps of several sizes is not that of one process."""
    torch.manual_seed(0)
    model = Shaped()
    whole = copy.deepcopy(model)
    parts = 2
    # Norms make some gradients nothing but noise, which Adam would make steps of.
    options = {"lr": 0.01, "weight_decay": 0.1}
    optimizers = [torch.optim.SGD(one.parameters(), **options) for one in (whole, model)]
    model, optimizers[1] = torchacc.accelerate(
        model, config=pp(parts, schedule=schedule), optimizer=optimizers[1]
    )
    losses = []
    for size in (8, 12, 8, 12):
        x = torch.randn(size, 8)
        expected = sum(whole(part) for part in x.chunk(parts)) / parts
        expected.backward()
        loss = model.forward_backward(x.to("acc"))
        losses.append([loss.item(), expected.item()])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
    state, expected = model.state_dict(), whole.state_dict()
    differ = [
        name
        for name, one in state.items()
        if not torch.allclose(one.cpu(), expected[name], rtol=1e-4, atol=1e-5)
    ]
    return {"differ": differ, "names": sorted(state), "all": sorted(expected), "losses": losses}


def unequal_stages(device, layers):
    """What two stages have of the same parameters, which each rank drew for itself."""
    torch.manual_seed(dist.get_rank())
    with torch.device(device):
        model = MODELS["gpt2"](layers=int(layers))
    model.head.weight = model.token.weight
    model = torchacc.accelerate(model, config=pp(2))
    made = [p.detach().double().sum().item() for n, p in model.named_parameters() if "token" in n]
    return made


class Dropping(MODELS["llama"]):
    """Drops of what is whole on every rank, before its layers and after them."""

    def forward(self, tokens):
        x = F.dropout(self.embedding(tokens), 0.5)
        for layer in self.layers:
            x = layer(x)
        return self.head(F.dropout(self.norm(x), 0.5))


def dropped(kind):
    """Results and a gradient of ranks that share the work, each of which has another seed."""
    model = model_of(Dropping, "cpu")
    torch.manual_seed(dist.get_rank())
    plan = {"layers.*.up": "colwise", "layers.*.gate": "colwise", "layers.*.down": "rowwise"}
    config = sp() if kind == "sp" else Config(dist=DistConfig(tp=TPConfig(2, plan)))
    model = torchacc.accelerate(model, config=config)
    tokens, targets = tokens_of(CONTEXT)
    logits = model(tokens)
    loss_of(logits, targets).backward()
    weight = next(p for name, p in model.named_parameters() if name.endswith("head.weight"))
    return [logits.double().sum().item(), weight.grad.double().norm().item()]


def empty_handed():
    """What a search says on each rank that has no batch for the model, and of an empty loader."""
    config = Config(strategy=StrategyConfig("auto"))
    made = []
    for loader in ([{"other": torch.ones(2)}], []):
        try:
            torchacc.accelerate(MODELS["llama"](), loader, config)
        except ValueError as error:
            made.append(str(error))
    return made


def kept_gradients():
    """Gradients that there are when a step is refused."""
    model = model_of(MODELS["llama"], "cpu")
    model.head.weight = model.token.weight
    model = torchacc.accelerate(model, config=pp(2))
    tokens, targets = tokens_of(CONTEXT)
    model.forward_backward(tokens, output_fn=loss_of, target=targets)
    before = [p.grad.norm().item() for p in model.parameters()]
    try:
        model.forward_backward(tokens[:3], output_fn=loss_of, target=targets[:3])
    except ValueError as error:
        said = str(error)
    return {"said": said, "same": before == [p.grad.norm().item() for p in model.parameters()]}


def wrong_calls():
    """What calls of a pipeline cannot have is said on every rank."""
    tokens, targets = tokens_of(CONTEXT)
    made = {"adds": said(Shaped(adds=True), pp(2), torch.ones(4, 8, device="acc"))}
    x = torch.ones(4, 8, device="acc")
    made["nested"] = said(Shaped(), pp(2), x, (x,))
    step = {"output_fn": loss_of}
    made["dict"] = said(MODELS["llama"](), pp(2), tokens, target={"a": targets}, **step)
    made["flat"] = said(MODELS["llama"](), pp(2), tokens, target=targets.flatten(), **step)
    scaler = torch.amp.GradScaler("acc")
    made["scaler"] = said(MODELS["llama"](), pp(2), tokens, target=targets, scaler=scaler, **step)
    return made


class Asked(nn.Module):
    """Layers that are given what is like rows and is none."""

    def __init__(self, kind):
        super().__init__()
        self.kind = kind
        self.token = nn.Embedding(100, 32)
        if kind == "condition":
            self.condition = nn.Linear(4, CONTEXT)
        layer = nn.TransformerEncoderLayer(32, 2, 64, 0.0, batch_first=True)
        self.layers = (
            nn.TransformerEncoder(layer, 2).layers
            if kind == "transformer"
            else nn.ModuleList(AskedLayer(kind) for _ in range(2))
        )
        self.head = nn.Linear(32, 100)

    def forward(self, tokens):
        x, rows = self.token(tokens), tokens.shape[1]
        given = {}
        if self.kind == "keys":
            given = {"mask": (torch.arange(rows, device=x.device) < rows - 3)[None, None, None]}
        elif self.kind == "angles":  # as many rows as each head is deep
            angles = torch.arange(rows, device=x.device)[:, None] * torch.ones(
                rows, device=x.device
            )
            given = {"angles": angles.cos()[None]}
        elif self.kind == "condition":  # as wide as there are rows
            given = {"condition": self.condition(torch.ones(len(x), 4, device=x.device))}
        for layer in self.layers:
            x = layer(x, **given)
        logits = self.head(x)
        if self.kind == "infinite":
            logits = logits.masked_fill(torch.arange(100, device=x.device) > 98, -torch.inf)
        return logits


class AskedLayer(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
        if kind == "condition":
            self.scale = nn.Linear(CONTEXT, 32)

    def forward(self, x, mask=None, angles=None, condition=None):
        if condition is not None:
            x = x + self.scale(condition)[:, None]
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 16)).permute(2, 0, 3, 1, 4)
        if angles is not None:
            q, k = q * angles[:, None], k * angles[:, None]
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None)
        return x + self.out(y.transpose(1, 2).flatten(2))


def given_to_layers(*kinds):
    """The loss and the norm of the gradients, with those of one process."""
    made = {}
    for kind in kinds:
        torch.manual_seed(0)
        model = Asked(kind)
        whole = copy.deepcopy(model)
        tokens, targets = tokens_of(CONTEXT)
        losses, norms = [], []
        for one, device in (
            (whole, "cpu"),
            (torchacc.accelerate(model, config=sp()), "acc"),
        ):
            logits = one(tokens.to(device))
            loss = loss_of(logits[..., :99], targets.to(device).clamp(max=98))
            loss.backward()
            losses.append(loss.item())
            norms.append(
                nn.utils.get_total_norm(
                    [p.grad for p in one.parameters() if p.grad is not None]
                ).item()
            )
        made[kind] = [losses, norms]
    return made
