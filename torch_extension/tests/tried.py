"""Searches with trials, for tests: as every rank sees them."""

import functools
import importlib
import os
import tempfile
import time

import torch
import torch.distributed as dist
import torchacc
from accelerated import MODELS, PLAN, beside
from engines.models import CONTEXT, model_of
from support import token_batch
from torchacc import auto
from torchacc.config import Config, StrategyConfig


class Watched:
    """Keeps the configurations of trials, and says to hooks of the model which one runs."""

    def __init__(self):
        self.configs, self.running = [], None
        self.since = None
        module = importlib.import_module("torchacc._accelerate")
        self.original, module.accelerate = module.accelerate, self

    def __deepcopy__(self, memo):
        """Hooks of copies of a model have the same."""
        return self

    def __call__(self, model, *args, config=None, **kwargs):
        self.configs.append(config)
        self.running = config
        return self.original(model, *args, config=config, **kwargs)


def of_sizes(config):
    return {axis: getattr(config.dist, axis).size for axis in ("fsdp", "pp", "sp", "tp")}


def searched(hook=None, trials=3, time_limit=600.0, device="cpu"):
    """The plan, whether the model and the random numbers are as they were, and the weights'
    devices."""
    world = dist.get_world_size() if dist.is_initialized() else 1
    watched = Watched()
    model = model_of(functools.partial(MODELS["llama"], layers=2), device)
    if hook is not None:
        model.register_forward_pre_hook(functools.partial(hook, watched))
    # Of so many tokens that no pipeline is among the best: one fails on a rank alone.
    tokens, targets = token_batch(0, 8, 256)
    config = Config(strategy=StrategyConfig("auto", trials=trials, time_limit=time_limit))
    # By figures that are always the same.
    cluster = auto.Cluster.load("a100", devices_per_node=world)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", delete=False) as file:
        file.write(cluster.to_yaml())
    config.strategy.cluster = file.name
    config.compute.bf16 = True
    config.dist.tp.plan = PLAN | {"layers.*.gate": "colwise"}
    before = {name: one.clone() for name, one in model.state_dict().items()}
    torch.manual_seed(5)
    random = torch.get_rng_state(), torchacc.random.get_rng_state()
    batch = {"tokens": tokens, "targets": targets}
    made = {"said": None}
    try:
        plan = auto.choose(model, batch, config, torch.device("acc"), world)
    except RuntimeError as error:
        made["said"] = str(error)
    else:
        made["strategy"], made["measured"] = plan.strategy, plan.measured
        made["sizes"] = of_sizes(plan.config)
        made["others"] = [(one.strategy, one.why, one.measured) for one in plan.considered]
        made["others"] = made["others"][: plan.trials - 1]
        made["text"] = plan.table() + plan.explain()
        assert auto.Plan.from_json(plan.to_json()) == plan
    finally:
        os.unlink(file.name)
        importlib.import_module("torchacc._accelerate").accelerate = watched.original
    after = model.state_dict()
    is_there = device != "meta"
    made["same"] = [
        before.keys() == after.keys(),
        not is_there or all(torch.equal(one, after[name]) for name, one in before.items()),
        all(one.grad is None and one.device.type == device for one in model.parameters()),
        torch.equal(random[0], torch.get_rng_state()),
        torch.equal(random[1], torchacc.random.get_rng_state()),
    ]
    made["tried"] = [of_sizes(config) for config in watched.configs]
    return made


def first_is_slow(watched, module, args, kwargs=None):
    """Many times what a step takes, on this machine and by its load."""
    if watched.configs and watched.running is watched.configs[0]:
        took = 0 if watched.since is None else time.monotonic() - watched.since
        time.sleep(max(0.5, 3 * took))
        watched.since = time.monotonic()


def first_fails(watched, module, args, kwargs=None):
    if watched.configs and watched.running is watched.configs[0]:
        raise MemoryError("as if there were none left\nnor any more")


def all_fail(watched, module, args, kwargs=None):
    if watched.configs:
        raise MemoryError("as if there were none left")


def plain():
    return searched()


def slow():
    return searched(first_is_slow)


def failing():
    return searched(first_fails)


def hopeless():
    return searched(all_fail)


def hurried():
    return searched(time_limit=1e-3)


def on_meta():
    return searched(device="meta", trials=2)


def trained():
    """Losses of a training that trials came before, and of one process without any."""
    batches = [token_batch(step, 8, CONTEXT) for step in range(3)]
    batches = [dict(zip(("tokens", "targets"), one, strict=True)) for one in batches]
    made, model = beside(Config(strategy=StrategyConfig("auto", trials=2)), 2, batches)
    return {**made, "measured": model.plan.measured}


def trained_in_parts():
    """Likewise, by a strategy whose distributed tensors are those of its trial but for the
    numbers."""
    batches = [token_batch(step, 8, CONTEXT) for step in range(3)]
    batches = [dict(zip(("tokens", "targets"), one, strict=True)) for one in batches]
    config = Config(strategy=StrategyConfig("semi", trials=2))
    config.dist.tp.size, config.dist.tp.plan = 2, PLAN | {"layers.*.gate": "colwise"}
    made, model = beside(config, 2, batches)
    return {**made, "strategy": model.plan.strategy, "measured": model.plan.measured}


def measured():
    """What processes find of their machine together."""
    cluster = auto.Cluster.local_cpu(dist.get_world_size(), device="acc", together=True)
    link = cluster.intra_node
    return {**cluster.to_dict(), "intra_node": None, "inter_node": None, **link.to_dict()}
