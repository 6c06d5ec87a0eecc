"""Models whose sequences or layers `torchacc.accelerate` divides, for tests: as every rank sees
them."""

import functools

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from engines import MODELS
from engines.models import CONTEXT, loss_of, model_of
from support import token_batch
from torchacc.config import Config, DistConfig, FSDPConfig, PPConfig, SPConfig, StrategyConfig


def sp(mode="ulysses", **options):
    return Config(dist=DistConfig(sp=SPConfig(dist.get_world_size(), mode), **options))


def pp(parts=2, *points, schedule="1f1b", **options):
    size = dist.get_world_size()
    return Config(dist=DistConfig(pp=PPConfig(size, parts, list(points), schedule), **options))


def said(model, config, *args, **options):
    """The error of the first step."""
    try:
        made = torchacc.accelerate(model, config=config)
        if hasattr(made, "forward_backward"):
            made.forward_backward(*args, **options)
        else:
            made(*args)
    except (ValueError, NotImplementedError, RuntimeError) as error:
        cause = error.__cause__ or error
        return f"{type(cause).__name__}: {cause}"
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
    reference = model_of(functools.partial(MODELS["llama"], layers=4), "cpu")
    batches = [
        dict(zip(("tokens", "targets"), tokens_of(CONTEXT, n, 8), strict=True)) for n in range(4)
    ]
    batches = [{name: one.cpu() for name, one in batch.items()} for batch in batches]
    config = Config(strategy=StrategyConfig("semi" if fixed else "auto"))
    for axis in fixed:
        getattr(config.dist, axis).size = size
    config.dist.pp.num_micro_batches = 2 if "pp" in fixed else 1
    model = model_of(functools.partial(MODELS["llama"], layers=4), "cpu")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, loader, optimizer = torchacc.accelerate(model, iter(batches), config, optimizer)
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
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        alone = loss_of(reference(whole["tokens"]), whole["targets"])
        alone.backward()
        other.step()
        other.zero_grad()
        expected.append(alone.item())
    return {"losses": losses, "expected": expected, "strategy": model.plan.strategy}
