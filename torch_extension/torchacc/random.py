"""`torch.acc.random`: seeds and generator states.

A state is a uint8 CPU tensor of 16 bytes: the seed and the number of draws so far, each as a
little-endian 64-bit integer. Random operators take both as run-time inputs of the compiled program,
so a new seed never recompiles.
"""

import torch

from torchacc._index import Device, device_index

# PyTorch passes any Python int as a seed; the operator takes a signed 64-bit one.
_SEED_MASK = 0x7FFF_FFFF_FFFF_FFFF


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator."""
    torch.ops.acc.manual_seed(torch.ops.acc.get_device(), int(seed) & _SEED_MASK)


def manual_seed_all(seed: int) -> None:
    """Seeds every device's generator. `torch.manual_seed` calls it."""
    for index in range(torch.ops.acc.device_count()):
        torch.ops.acc.manual_seed(index, int(seed) & _SEED_MASK)


def seed() -> None:
    """Seeds the current device's generator with a number from the system."""
    manual_seed(torch.Generator().seed())


def seed_all() -> None:
    """Seeds every device's generator with one number from the system."""
    manual_seed_all(torch.Generator().seed())


def initial_seed() -> int:
    """The seed the current device's generator was last given."""
    return torch.ops.acc.initial_seed(torch.ops.acc.get_device())


def get_rng_state(device: Device = "acc") -> torch.Tensor:
    """The generator's state: uint8 [16] on the CPU."""
    return torch.ops.acc.get_rng_state(device_index(device))


def set_rng_state(new_state: torch.Tensor, device: Device = "acc") -> None:
    """Sets the generator's state to what `get_rng_state` returned."""
    torch.ops.acc.set_rng_state(device_index(device), new_state)


def get_rng_state_all() -> list[torch.Tensor]:
    """The states of all devices' generators."""
    return [get_rng_state(index) for index in range(torch.ops.acc.device_count())]


def set_rng_state_all(new_states: list[torch.Tensor]) -> None:
    """Sets the states of all devices' generators."""
    for index, state in enumerate(new_states):
        set_rng_state(state, index)


__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]
