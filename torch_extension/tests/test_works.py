"""The models of benches/peers, small: losses as eager PyTorch's, and a step that settles."""

import sys
from pathlib import Path
from random import Random

import pytest
import torch
import torchacc
from support import DEVICE, twins

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benches" / "peers"))
import works
from models import MODELS

TRANSFORMER = {"layers": 2, "width": 64, "heads": 4}
TEXT = {"kind": "text", "batch": 4, "time": 24, "vocabulary": 96}
IMAGES = {"kind": "images", "batch": 4, "sizes": (3, 32, 32), "classes": 10}
SMALL = {
    "gpt": (TRANSFORMER | {"context": 24, "vocabulary": 96}, TEXT),
    "llama": (TRANSFORMER | {"groups": 2, "context": 32, "vocabulary": 96}, TEXT),
    "bert": (TRANSFORMER | {"context": 24, "vocabulary": 96}, TEXT | {"kind": "masked text"}),
    "vit": (TRANSFORMER | {"image": 32, "patch": 8, "classes": 10}, IMAGES),
    "resnet18": ({"stages": (8, 16), "blocks": (1, 1), "classes": 10}, IMAGES),
    "mlp": ({"widths": (48, 64, 10)}, IMAGES | {"sizes": (48,)}),
    "lstm": ({"layers": 2, "width": 32, "vocabulary": 96}, TEXT),
}
STEPS, SETTLED = 8, 3


def batch(work, step):
    types = {"q": torch.int64, "f": torch.float32}
    drawn = works.draw(Random(step), **SMALL[work][1])
    return [torch.tensor(a, dtype=types[a.typecode]).view(sizes) for a, sizes in drawn]


def losses(work, model, device, autocast, settled=lambda: None):
    """The loss of every step; calls `settled` when SETTLED of them are done."""
    optimizer = torch.optim.AdamW(model.parameters(), fused=True, **works.TRAINING)
    history = []
    for step in range(STEPS):
        if step == SETTLED:
            settled()
        tensors = [tensor.to(device) for tensor in batch(work, step)]
        with torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
            loss = model(*tensors)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return torch.tensor(history, dtype=torch.float64)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("work", SMALL)
def test_work(work, dtype):
    cpu, acc = twins(lambda: MODELS[work](**SMALL[work][0]))
    # Where oneDNN has no bf16, PyTorch asks it for an LSTM of bf16 all the same.
    asks_onednn = dtype == "f32" or torch.ops.mkldnn._is_mkldnn_bf16_supported()
    with torch.backends.mkldnn.flags(enabled=asks_onednn):
        expected = losses(work, cpu, "cpu", dtype == "bf16")
    actual = losses(work, acc, DEVICE, dtype == "bf16", torchacc.reset_metrics)
    tolerance = 1e-4 if dtype == "f32" else 1e-2
    assert ((actual - expected).abs() / expected).max() < tolerance
    torchacc.sync()
    metrics = torchacc.metrics()
    assert (metrics["compiles"], metrics["host_calls"]) == (0, 0), torchacc.host_calls()
