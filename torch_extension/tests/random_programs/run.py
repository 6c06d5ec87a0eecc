"""Runs programs: on the device, and on the CPU in several precisions at once."""

import functools
from dataclasses import dataclass, field

import torch

from .program import PRELUDE, VARIABLE

WIDE = {name: torch.float64 for name in ("f64", "f32", "f16", "bf16")}


def environment(device, wide=False):
    """The names that a program finds; with `wide`, every float is one of 64 bits."""
    names = {}
    exec(compiled(PRELUDE), names)
    names.update(WIDE if wide else {}, device=device)
    return names


@functools.lru_cache(4096)
def compiled(line):
    return compile(line, line if "\n" not in line else "prelude", "exec")


def perform(line, names, then=None):
    """Runs a line, and says which error it raised, if any."""
    try:
        exec(compiled(line), names)
        if then:
            then()
    except Exception as error:
        return error
    return None


def kind_of(error):
    return type(error).__name__ if error else None


def variables(names):
    return {name: value for name, value in names.items() if VARIABLE.fullmatch(name)}


def tensors(names):
    found = variables(names).items()
    return {name: value for name, value in found if isinstance(value, torch.Tensor)}


def gradient(tensor):
    """What has been collected, or None."""
    return tensor.grad if is_parameter(tensor) else None


def is_parameter(tensor):
    """Whether gradients are collected in it. Of an invalid view, asking is an error."""
    try:
        return tensor.requires_grad and tensor.is_leaf
    except RuntimeError:
        return False


def overlaps(tensor):
    """Whether it was expanded."""
    return any(
        n > 1 and stride == 0 for n, stride in zip(tensor.shape, tensor.stride(), strict=True)
    )


def results(names):
    """What a program leaves: tensors, and what was read."""
    found = variables(names).items()
    kept = (pair for pair in found if pair[0][0] == "r" or isinstance(pair[1], torch.Tensor))
    made = ((name, value.made() if hasattr(value, "made") else value) for name, value in kept)
    return {name: snapshot(value) for name, value in made}


@dataclass
class Outcome:
    values: dict
    # By the places of lines that raised.
    errors: dict = field(default_factory=dict)


def snapshot(value):
    """A value as it is now, on the host: a tensor with its gradient, or what was read."""
    if not isinstance(value, torch.Tensor):
        return value
    some = value.numel() > 0
    # Strides mean something where there is more than one element.
    strides = tuple(s for s, n in zip(value.stride(), value.shape, strict=True) if n > 1 and some)
    offset = value.storage_offset() if some else 0
    layout = (tuple(value.shape), value.dtype, strides, offset, value.requires_grad)
    grad = gradient(value)
    copy = value.detach().to("cpu", copy=True)
    return layout, copy, None if grad is None else snapshot(grad)


def on_device(program, device, errors):
    """The program on a device. Where the CPU raised, errors that come late are waited for."""
    names = environment(device)
    outcome = Outcome({})
    for place, line in program.steps():
        error = perform(line, names, names["sync"] if place in errors else None)
        if error:
            outcome.errors[place] = error
    outcome.values = results(names)
    return outcome
