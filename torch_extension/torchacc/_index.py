"""From what a user may call a device to its index."""

import torch

# The types by which programs name a device; None is the current one.
Device = int | str | torch.device | None


def device_index(device: Device = None) -> int:
    """The index that `device` (int, str, torch.device or None) means on this thread.

    Raises ValueError for a device of another type.
    """
    if isinstance(device, int):
        return device if device >= 0 else torch.ops.acc.get_device()
    if device is not None:
        device = torch.device(device)
        if device.type != "acc":
            raise ValueError(f"expected an acc device, got {device}")
        if device.index is not None:
            return device.index
    return torch.ops.acc.get_device()
