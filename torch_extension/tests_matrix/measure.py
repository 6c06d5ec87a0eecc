"""One model on acc and on the eager CPU: losses, compiles, fallbacks, cuts, time."""

import collections
import contextlib
import gc
import random
import statistics
import time

import numpy
import torch
import torchacc

STEPS = 5
# Between losses in f32, relatively.
TOLERANCE = 1e-4
# From step 4 on a model is expected to repeat known programs only.
WARM = 3
TIMED_STEPS = 8
TIMED_SECONDS = 6.0
# In turns of so many steps, after one that is not timed: for some milliseconds after an eager step
# PyTorch's other threads go on looking for work, and take a processor from what runs then.
TURN = 4


class Place:
    """Where a model is trained, and in which type: moves modules, tensors and containers there.

    With a `nudge`, a seed, every weight is off by one rounding in f32.
    """

    def __init__(self, device, dtype=torch.float32, nudge=None):
        self.device, self.dtype, self.nudge = device, dtype, nudge

    def __call__(self, value):
        if isinstance(value, torch.nn.Module):
            return self._nudged(value.to(self.device, self.dtype))
        if isinstance(value, torch.Tensor):
            dtype = self.dtype if value.is_floating_point() else value.dtype
            return value.to(self.device, dtype)
        if isinstance(value, dict):
            return {key: self(item) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self(item) for item in value)
        return value

    def _nudged(self, module):
        if self.nudge is not None:
            generator = torch.Generator().manual_seed(self.nudge)
            with torch.no_grad():
                for weight in module.parameters():
                    signs = torch.randint(2, weight.shape, generator=generator) * 2 - 1
                    weight.mul_(1 + signs * torch.finfo(torch.float32).eps)
        return module


def measure(program, progress) -> dict:
    """`program(place)` makes what does one step and returns its loss; `progress()` says "alive".

    Losses are compared over STEPS steps from the same start. Then both devices take turns, so that
    what else the machine does slows both.
    """
    result = {}
    try:
        cpu_step, cpu = _losses(program, Place("cpu"), progress)
        before = torch.get_rng_state()
        cpu_step()
        result["random"] = not torch.equal(before, torch.get_rng_state())
    except Exception as error:
        return {"error": f"on the CPU: {_line(error)}"}
    try:
        torchacc.sync()
        torchacc.reset_metrics()
        acc_step, acc = _losses(program, Place("acc"), progress)
        result["loss"] = _difference(acc, cpu)
        result |= _time(acc_step, cpu_step, progress)
        result |= _counts()
    except Exception as error:
        return {"error": _line(error)}
    # Two runs that draw different numbers say nothing about rounding.
    if not result["loss"] <= TOLERANCE and not result["random"]:
        with contextlib.suppress(RuntimeError):
            result |= _rounding(program, acc, cpu, progress)
    return result


def times(program, progress) -> dict:
    """Of steps alone, as `measure` has them."""
    try:
        steps = [_losses(program, Place(device), progress)[0] for device in ("acc", "cpu")]
        return _time(*steps, progress)
    except Exception as error:
        return {"error": _line(error)}


def faults(figures) -> dict[str, str]:
    """Kinds of faults, each with what was seen."""
    if "error" in figures:
        return {"error": figures["error"]}
    found = {}
    # What f32 does to eager it may do to acc.
    rounding = 4 * figures.get("cpu_f64", 0)
    if not (figures["loss"] <= TOLERANCE or figures.get("loss_f64", 1) <= rounding):
        found["loss"] = loss_text(figures)
    if figures["metrics"]["compiles"]:
        found["compiles"] = figures["explanation"]
    for operator, count in figures["fallbacks"].items():
        found[f"fallback {operator}"] = f"{count / figures['counted_steps']:.3g} per step"
    return found


def loss_text(figures) -> str:
    loss = f"{figures['loss']:.0e}"
    if "loss_f64" in figures:
        loss += f" (f64: {figures['loss_f64']:.0e}, eager {figures['cpu_f64']:.0e})"
    return loss


def _rounding(program, acc, cpu, progress) -> dict:
    """How far acc is from f64, and how far eager in f32, also with weights beside its own.

    A ReLU beside zero takes one side or the other by chance, so one run of eager is too few.
    """
    exact = _losses(program, Place("cpu", torch.float64), progress)[1]
    eager = [cpu] + [_losses(program, Place("cpu", nudge=seed), progress)[1] for seed in range(3)]
    return {
        "loss_f64": _difference(acc, exact),
        "cpu_f64": max(_difference(losses, exact) for losses in eager),
    }


def _losses(program, place, progress) -> tuple:
    """Of the first steps. The counters start after WARM of them."""
    gc.collect()
    random.seed(0)
    numpy.random.seed(0)
    torch.manual_seed(0)
    step = program(place)
    losses = []
    for number in range(STEPS):
        if number == WARM and place.device == "acc":
            torchacc.sync()
            torchacc.reset_metrics()
        losses.append(step().item())
        progress()
    return step, losses


def _difference(losses, others) -> float:
    return max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(losses, others, strict=True))


def _time(acc_step, cpu_step, progress) -> dict:
    """Each step ends with a read of the loss, as a program that logs it does."""
    acc, cpu = [], []
    start = time.perf_counter()
    while len(acc) < TIMED_STEPS and time.perf_counter() - start < TIMED_SECONDS:
        for step, times in ((acc_step, acc), (cpu_step, cpu)):
            for number in range(1 + TURN):
                before = time.perf_counter()
                step().item()
                if number > 0:
                    times.append(time.perf_counter() - before)
                progress()
    return {
        "acc_ms": statistics.median(acc) * 1e3,
        "cpu_ms": statistics.median(cpu) * 1e3,
        "best_ratio": min(acc) / min(cpu),
        "counted_steps": STEPS - WARM + len(acc) * (1 + TURN) // TURN,
    }


def _counts() -> dict:
    torchacc.sync()
    metrics = torchacc.metrics()
    fallbacks = collections.Counter()
    for row in torchacc.host_calls():
        fallbacks[row["name"]] += row["count"]
    names = "compiles cuts read_cuts immediate_runs recorded_ops kernels".split()
    names += [name for name in metrics if name.startswith("wall_")]
    return {
        "fallbacks": dict(fallbacks),
        "metrics": {name: metrics[name] for name in names},
        "explanation": torchacc.explain(),
    }


def _line(error) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]
