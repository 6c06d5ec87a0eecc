"""What a program wants saved: tensors by name, the same for all ranks, and values of each rank."""

import random
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn as nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.stateful import Stateful

from torchacc.parallel.pipeline import Pipeline

# Parameters by name instead of number, so that ranks that have others find them.
_BY_NAME = StateDictOptions(flatten_optimizer_state_dict=True)
RANDOM = "torchacc.random"
# The only key of a dict that stands for a tensor in a rank's value; its value is the tensor's name.
# Not a class, so that a checkpoint can be read without this package.
_TENSOR = "torchacc.tensor"


@dataclass
class Collected:
    """`tensors` by name: those of one name on several ranks are one, or parts of one; `paths` are
    their names in pieces. `own` are this rank's values, by name; `fields` the names, after the key,
    of what a module or an optimizer has."""

    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    paths: dict[str, tuple] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)
    fields: dict[str, list[str]] = field(default_factory=dict)

    def add(self, path: tuple, tensor: torch.Tensor) -> str:
        name = ".".join(map(str, path))
        if name in self.tensors:
            raise ValueError(f"checkpoint: the state has two tensors called {name}")
        self.tensors[name], self.paths[name] = tensor, path
        return name


def collect(state: Mapping[str, Any]) -> Collected:
    """The state as it is. Tensors are not copied.

    Raises ValueError for an optimizer with parameters of no module in `state`, and for two tensors
    of one name.
    """
    collected = Collected()
    for key, value in state.items():
        if isinstance(value, nn.Module | torch.optim.Optimizer):
            flat = _state_dict(state, key, value)
            collected.fields[key] = [*flat]
            for name, one in flat.items():
                if isinstance(one, torch.Tensor):
                    collected.add((key, name), one)
                else:
                    collected.own[f"{key}.{name}"] = one
        elif isinstance(value, Stateful):
            made = value.state_dict()
            # An iterable is a position in the data, with its random numbers.
            is_own = hasattr(value, "__iter__")
            collected.own[key] = made if is_own else _without_tensors((key,), made, collected)
        else:
            collected.own[key] = _without_tensors((key,), value, collected)
    collected.own[RANDOM] = _random_states()
    return collected


def targets(
    state: Mapping[str, Any], own: Mapping[str, Any], there: Mapping[str, Any]
) -> Collected:
    """What a checkpoint is loaded into: tensors of the state, and new ones for what only the saved
    values `own` refer to. `there` has what is known of each saved tensor, by name.

    Raises ValueError, before anything is changed, for what the checkpoint has not.
    """
    collected = collect(state)
    for key in state:
        for name in _references(own.get(key)):
            if name not in collected.tensors and name in there:
                kind = there[name]
                made = torch.empty(kind.size, dtype=kind.properties.dtype)
                collected.add((name,), made)
    missing = [name for name in collected.tensors if name not in there]
    missing += [name for name in collected.own if name not in own and name != RANDOM]
    if missing:
        more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        raise ValueError(f"restore: the checkpoint has no {', '.join(missing[:8])}{more}")
    for name, tensor in collected.tensors.items():
        if tuple(there[name].size) != tuple(tensor.shape):
            raise ValueError(
                f"restore: {name} is {[*tensor.shape]}, in the checkpoint {[*there[name].size]}"
            )
    return collected


def put_back(state: dict[str, Any], own: Mapping[str, Any], collected: Collected) -> None:
    """Makes the state what `collected`'s tensors, which were loaded, and `own` values say."""
    for key, value in list(state.items()):
        if key in collected.fields:
            flat = {}
            for name in collected.fields[key]:
                whole = f"{key}.{name}"
                is_tensor = whole in collected.tensors
                flat[name] = collected.tensors[whole] if is_tensor else own[whole]
            _load_state_dict(state, key, value, flat)
        elif isinstance(value, Stateful):
            value.load_state_dict(_with_tensors(own[key], collected.tensors))
        else:
            state[key] = _with_tensors(own[key], collected.tensors)
    if RANDOM in own:
        _set_random_states(own[RANDOM])


def _state_dict(state, key: str, value) -> dict[str, Any]:
    if isinstance(value, Pipeline):
        return value.state_dict()
    if isinstance(value, nn.Module):
        return get_model_state_dict(value)
    return get_optimizer_state_dict(_module_of(state, key, value), value, options=_BY_NAME)


def _load_state_dict(state, key: str, value, flat: dict[str, Any]) -> None:
    if isinstance(value, Pipeline):
        value.load_state_dict(flat)
    elif isinstance(value, nn.Module):
        set_model_state_dict(value, flat)
    else:
        set_optimizer_state_dict(_module_of(state, key, value), value, flat, options=_BY_NAME)


def _module_of(state, key: str, optimizer: torch.optim.Optimizer) -> nn.Module:
    """One that has all of the optimizer's parameters, by their names."""
    wanted = {id(one) for group in optimizer.param_groups for one in group["params"]}
    modules = {name: one for name, one in state.items() if isinstance(one, nn.Module)}
    for module in modules.values():
        if wanted <= {id(one) for one in module.parameters()}:
            return _tree(module.named_parameters()) if isinstance(module, Pipeline) else module
    named = [
        (f"{name}.{parameter}", one)
        for name, module in modules.items()
        for parameter, one in module.named_parameters()
    ]
    if not wanted <= {id(one) for _, one in named}:
        raise ValueError(
            f"checkpoint: {key} has parameters of no module in the state, by whose names they are "
            "saved: put the module into the state, too"
        )
    return _tree(named)


def _tree(named) -> nn.Module:
    """A module with these parameters, which PyTorch finds by their names."""
    root = nn.Module()
    for name, parameter in named:
        *path, last = name.split(".")
        module = root
        for part in path:
            if part not in module._modules:
                module.add_module(part, nn.Module())
            module = module._modules[part]
        module.register_parameter(last, parameter)
    return root


def _without_tensors(path: tuple, value: Any, collected: Collected) -> Any:
    """`value` with references to its tensors, which are collected."""
    if isinstance(value, torch.Tensor):
        return {_TENSOR: collected.add(path, value)}
    if isinstance(value, Mapping):
        items = value.items()
        made = {key: _without_tensors((*path, str(key)), one, collected) for key, one in items}
        return made
    if type(value) in (list, tuple):
        parts = (_without_tensors((*path, at), one, collected) for at, one in enumerate(value))
        return type(value)(parts)
    return value


def _with_tensors(value: Any, tensors: Mapping[str, torch.Tensor]) -> Any:
    if type(value) is dict:
        if value.keys() == {_TENSOR}:
            return tensors[value[_TENSOR]]
        return {key: _with_tensors(one, tensors) for key, one in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_with_tensors(one, tensors) for one in value)
    return value


def _references(value: Any) -> list[str]:
    if type(value) is dict:
        if value.keys() == {_TENSOR}:
            return [value[_TENSOR]]
        value = value.values()
    elif type(value) not in (list, tuple):
        return []
    return [name for one in value for name in _references(one)]


def _random_states() -> dict[str, Any]:
    states = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if "numpy.random" in sys.modules:
        states["numpy"] = sys.modules["numpy.random"].get_state()
    for name in ("acc", "cuda"):
        device = getattr(torch, name, None)
        if device is not None and device.is_initialized():
            states[name] = device.get_rng_state_all()
    return states


def _set_random_states(states: Mapping[str, Any]) -> None:
    random.setstate(states["python"])
    torch.set_rng_state(states["torch"])
    if "numpy" in states:
        import numpy.random

        numpy.random.set_state(states["numpy"])
    for name in ("acc", "cuda"):
        device = getattr(torch, name, None)
        if name in states and device is not None and device.is_available():
            # Another machine may have fewer devices.
            device.set_rng_state_all(states[name][: device.device_count()])
