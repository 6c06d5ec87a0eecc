"""Trials: what a search finds best is run for a few steps on the devices that there are.

What is trained is a copy of the model, by its first batch. All ranks try the same at the same time,
and after each step tell one another whether it went well.
"""

import copy
import dataclasses
import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils._pytree import tree_leaves

import torchacc
from torchacc.auto.report import Considered, Plan
from torchacc.config import Config
from torchacc.loader import AsyncLoader

# Steps that do not count, steps that do, and most of both: a step that compiles does not count.
_WARM, _STEPS, _MOST = 2, 4, 16


@dataclasses.dataclass(frozen=True)
class _Trial:
    """Seconds of a step on the slowest rank, or why there are none; whether it failed."""

    seconds: float | None
    why: str = ""
    has_failed: bool = False


_LATE = "the time was up"


def fastest(
    plans: list[Plan],
    model: nn.Module,
    batch: Any,
    inputs: Callable,
    device: torch.device,
    until: float,
) -> Plan:
    """That of these plans whose steps take least on the slowest rank, with what became of the
    others. `batch` is one of all processes together, `inputs(model, batch)` the model's arguments.
    Those that have not begun at `until` (`time.monotonic`) are not tried, but for the first one;
    where no trial was over by then the first one that did not fail is taken.

    Raises RuntimeError where all fail, with each one's reason. A rank that fails alone leaves the
    others waiting for as long as their process group lets them.
    """
    tried: list[_Trial] = []
    for plan in plans:
        if tried and any(_of_all(time.monotonic() > until)):
            tried.append(_Trial(None, f"not tried: {_LATE}"))
            continue
        with _unchanged(device):
            tried.append(_try(plan.config, model, batch, inputs, device, until))
    left = [at for at, trial in enumerate(tried) if not trial.has_failed]
    if not left:
        whys = "; ".join(f"{p.strategy}: {one.why}" for p, one in zip(plans, tried, strict=True))
        raise RuntimeError(f"accelerate: all trials failed (strategy.trials): {whys}")
    best = min(left, key=lambda at: (tried[at].seconds is None, tried[at].seconds or 0.0, at))
    others = []
    for at, (plan, trial) in enumerate(zip(plans, tried, strict=True)):
        if at != best:
            why, cost = trial.why, plan.prediction
            if trial.seconds is not None:
                why = f"measured {trial.seconds / tried[best].seconds - 1:.1%} slower"
            figures = cost.seconds, cost.peak_memory, cost.mfu, trial.seconds
            others.append(Considered(plan.strategy, why, *figures))
    names = {plan.strategy for plan in plans}
    rest = [one for one in plans[0].considered if one.strategy not in names]
    made = {"considered": others + rest, "measured": tried[best].seconds, "trials": len(plans)}
    return dataclasses.replace(plans[best], **made)


def _try(config: Config, model, batch, inputs, device, until) -> _Trial:
    taken: list[float] = []
    step = None
    try:
        for number in range(_MOST):
            compiled, began, error = torchacc.metrics()["compiles"], time.perf_counter(), None
            try:
                if step is None:
                    step = _training(config, model, batch, inputs, device)
                else:
                    step()
                _finish(device)
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}".split("\n", 1)[0]
            seconds = time.perf_counter() - began
            has_compiled = torchacc.metrics()["compiles"] > compiled
            late = time.monotonic() > until
            errors, times, compiles, lates = zip(
                *_of_all((error, seconds, has_compiled, late)), strict=True
            )
            if any(errors):
                return _Trial(None, f"failed: {next(filter(None, errors))}", has_failed=True)
            if number > _WARM and not any(compiles):
                taken.append(max(times))
            if len(taken) == _STEPS or any(lates):
                break
    finally:
        step = None
        _release(device)
    # The shortest: other work of the machine only makes steps longer.
    return _Trial(min(taken)) if taken else _Trial(None, f"not measured: {_LATE}")


def _training(config: Config, model, batch, inputs, device) -> Callable[[], None]:
    """A step of a copy of the model."""
    from torchacc._accelerate import accelerate, part_of_data

    arguments = inputs(model, batch)
    copied = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(copied.parameters())
    made, optimizer = accelerate(copied, config=config, optimizer=optimizer)
    part = part_of_data(config) if dist.is_initialized() else None
    loader = AsyncLoader([arguments], device, **config.dataloader.to_dict(), part=part)
    (arguments,) = loader
    is_named = isinstance(arguments, Mapping)
    args, kwargs = ((), dict(arguments)) if is_named else (tuple(arguments), {})

    def step() -> None:
        if hasattr(made, "forward_backward"):
            made.forward_backward(*args, output_fn=_loss_of, **kwargs)
        else:
            _loss_of(made(*args, **kwargs)).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _loss_of(output: Any) -> torch.Tensor:
    """The model's own, or the mean of what it returns."""
    own = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if own is not None:
        return own
    results = [one for one in tree_leaves(output) if isinstance(one, torch.Tensor)]
    results = [one for one in results if one.is_floating_point()]
    if not results:
        raise ValueError("the model returns no floating point numbers: there is no loss to try it")
    return torch.stack([one.float().mean() for one in results]).mean()


@contextmanager
def _unchanged(device: torch.device) -> Iterator[None]:
    """The program's random numbers, afterwards."""
    module = torch if device.type == "cpu" else torch.get_device_module(device)
    before = random.getstate(), torch.get_rng_state(), module.get_rng_state()
    try:
        yield
    finally:
        random.setstate(before[0])
        torch.set_rng_state(before[1])
        module.set_rng_state(before[2])


def _release(device: torch.device) -> None:
    """The memory of a trial."""
    gc.collect()
    if device.type == "acc":
        torch.accelerator.empty_cache()
    elif device.type == "cuda":
        torch.cuda.empty_cache()


def _finish(device: torch.device) -> None:
    if device.type == "acc":
        torchacc.sync()
    elif device.type == "cuda":
        torch.cuda.synchronize(device)


def _of_all(value: Any) -> list[Any]:
    """What every rank says."""
    if not dist.is_initialized():
        return [value]
    values = [None] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values
