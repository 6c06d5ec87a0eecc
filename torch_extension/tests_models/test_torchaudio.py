"""torchaudio's filters on acc."""

import pytest
import torch
import torchacc

torchaudio = pytest.importorskip("torchaudio")
F = torchaudio.functional


def test_filters_are_one_step_and_have_gradients():
    torch.manual_seed(0)
    waves = torch.rand(2, 3000) - 0.5
    a, b = torch.tensor([1.0, -1.2, 0.5]), torch.tensor([0.1, 0.2, 0.1])

    def work(waves, a, b):
        waves, a = waves.clone().requires_grad_(), a.clone().requires_grad_()
        filtered = F.lfilter(waves * 0.5, a, b, clamp=False)
        filtered.square().mean().backward()
        return filtered, F.treble_biquad(waves.detach(), 16000, 3.0), waves.grad, a.grad

    expected = work(waves, a, b)
    torchacc.reset_metrics()
    for length in (3000, 2900, 2800):
        actual = work(*(one.to("acc") for one in (waves[:, :length], a, b)))
        torch.acc.synchronize()
        if length == 3000:
            for one, other in zip(actual, expected, strict=True):
                torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-5)
    metrics = torchacc.metrics()
    # Three of these loops in each call: two forwards, one backwards.
    assert metrics["host_calls"] == 9
    assert metrics["immediate_runs"] == 0
    assert metrics["recorded_ops"] < 500
