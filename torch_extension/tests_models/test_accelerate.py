"""accelerate's own loop."""

import pytest
import torch
import torchacc
from accelerate import Accelerator, dispatch_model, infer_auto_device_map, init_empty_weights
from accelerate.state import AcceleratorState
from accelerate.utils import (
    find_executable_batch_size,
    get_max_memory,
    release_memory,
    send_to_device,
    set_seed,
)
from torch import nn


@pytest.fixture(autouse=True)
def _reset():
    AcceleratorState._reset_state(reset_partial_state=True)


def start(**arguments):
    """An accelerator, and a classifier, optimizer, schedule and data that it prepared."""
    set_seed(0)
    accelerator = Accelerator(**arguments)
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.0), nn.Linear(32, 4))
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(64, 8, generator=generator)
    data = torch.utils.data.TensorDataset(x, x[:, :4].argmax(1))
    loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=8)
    return accelerator, *accelerator.prepare(model, optimizer, schedule, loader)


def train(accelerator, model, optimizer, schedule, loader, epochs=3):
    """The losses, and how many programs had been compiled after each step."""
    result, compiles = [], []
    for _ in range(epochs):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            result.append(accelerator.gather_for_metrics(loss.detach()).item())
            compiles.append(torchacc.metrics()["compiles"])
    return result, compiles


def test_the_device_is_acc_and_losses_are_the_cpus():
    accelerator, *prepared = start()
    assert accelerator.device.type == next(prepared[0].parameters()).device.type == "acc"
    actual, compiles = train(accelerator, *prepared)
    assert compiles[-1] == compiles[2]
    AcceleratorState._reset_state(reset_partial_state=True)
    accelerator, *prepared = start(cpu=True)
    assert accelerator.device.type == "cpu"
    assert actual == pytest.approx(train(accelerator, *prepared)[0], abs=1e-4)


@pytest.mark.parametrize("precision", ["bf16", "fp16"])
def test_mixed_precision(precision):
    accelerator, *prepared = start(mixed_precision=precision, gradient_accumulation_steps=2)
    with accelerator.autocast():
        dtype = nn.Linear(8, 2).to(accelerator.device)(torch.ones(1, 8, device="acc")).dtype
    assert dtype == {"bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    assert (accelerator.scaler is not None) == (precision == "fp16")
    losses, _ = train(accelerator, *prepared, epochs=6)
    assert losses[-1] < losses[0]


def test_states_have_the_generator(tmp_path):
    accelerator, *prepared = start()
    train(accelerator, *prepared, epochs=1)
    torch.rand(3, device="acc")
    accelerator.save_state(str(tmp_path))
    expected = torch.rand(3, device="acc").tolist(), train(accelerator, *prepared)[0]
    accelerator.load_state(str(tmp_path))
    assert (torch.rand(3, device="acc").tolist(), train(accelerator, *prepared)[0]) == expected


def test_memory_and_device_maps():
    assert list(get_max_memory()) == [0]
    assert get_max_memory({"cpu": "1KB", 0: "2KB"}) == {0: 2000, "cpu": 1000}
    with init_empty_weights():
        empty = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    device_map = infer_auto_device_map(empty)
    assert set(device_map.values()) == {0}
    model = dispatch_model(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), device_map)
    assert model(torch.ones(1, 4, device="acc")).device == torch.device("acc", 0)
    split = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    expected = split(torch.ones(1, 4))
    split = dispatch_model(split, {"0": 0, "1": "cpu"}, main_device=0)
    torch.testing.assert_close(split(torch.ones(1, 4)).cpu(), expected)
    assert send_to_device({"a": [torch.ones(1)]}, "acc")["a"][0].device.type == "acc"
    assert release_memory(model) == [None]


def test_batches_get_smaller_until_they_fit():
    sizes = []

    @find_executable_batch_size(starting_batch_size=8)
    def run(size):
        sizes.append(size)
        torch.empty(size << 47, dtype=torch.uint8, device="acc" if size > 1 else "meta")

    run()
    assert sizes[0] == 8
    assert len(sizes) > 1
