"""Memory in numbers, and giving it back: as of `torch.cuda`, by the runtime's own count."""

import gc

import pytest
import torch
import torchacc
from support import DEVICE

SIDE = 512
BYTES = 4 * SIDE * SIDE


@pytest.fixture
def before():
    """Bytes that tests before this one keep."""
    gc.collect()
    torchacc.sync()
    torch.acc.empty_cache()
    torch.acc.reset_peak_memory_stats()
    return torch.acc.memory_allocated()


def test_what_is_computed_counts_with_what_programs_need_for_it(before):
    x = torch.ones(SIDE, SIDE, device=DEVICE)
    # Recorded, not computed.
    assert torch.acc.memory_allocated() == before
    assert torch.acc.memory_stats()["requested_bytes.all.current"] >= BYTES
    y = x @ x
    z = (y @ y) @ y
    del y
    torchacc.sync()
    # x and z, and between them two products.
    assert torch.acc.memory_allocated() - before >= 3 * BYTES
    assert torch.acc.max_memory_allocated() >= torch.acc.memory_allocated()
    assert torch.acc.memory_reserved() >= torch.acc.memory_allocated()
    assert torch.acc.max_memory_reserved() >= torch.acc.memory_reserved()
    assert z[0, 0].item() == float(SIDE) ** 5
    del x, z


def test_the_cache_is_emptied_and_the_next_step_computes_the_same(before):
    x = torch.ones(SIDE, SIDE, device=DEVICE)

    def step(x):
        return ((x @ x) @ x).sum().item()

    wanted = step(x)
    torchacc.sync()
    assert torch.acc.memory_reserved() - before > BYTES
    torch.acc.empty_cache()
    assert torch.acc.memory_allocated() - before == BYTES
    assert torch.acc.memory_reserved() == torch.acc.memory_allocated()
    assert step(x) == wanted
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_allocated() - before == BYTES
    del x
    torchacc.sync()
    torch.acc.empty_cache()
    assert torch.acc.memory_reserved() == before


def test_the_peak_begins_anew(before):
    x = torch.ones(SIDE, SIDE, device=DEVICE)
    torchacc.sync()
    assert torch.acc.max_memory_allocated() - before >= BYTES
    del x
    torchacc.sync()
    torch.acc.empty_cache()
    torch.acc.reset_peak_memory_stats()
    assert torch.acc.max_memory_allocated() == before
    assert torch.acc.max_memory_reserved() == before
