"""Loops that read a value at every step, and whose tensors grow: generation with a cache of keys
and values."""

import time

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
import torchacc
from support import DEVICE, twins

WIDTH, HEADS, LAYERS, VOCABULARY = 64, 4, 4, 97


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x, cache):
        qkv = self.qkv(self.norm1(x)).view(1, -1, 3, HEADS, WIDTH // HEADS)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        is_prompt = not cache
        if cache:
            k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
        cache[:] = k, v
        y = F.scaled_dot_product_attention(q, k, v, is_causal=is_prompt)
        x = x + self.project(y.transpose(1, 2).reshape(1, -1, WIDTH))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(256, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    @torch.no_grad()
    def generate(self, tokens, count, end=None):
        """After each token the host asks whether it is the last; `end` is called then."""
        caches = [[] for _ in self.layers]
        new = tokens
        for _ in range(count):
            start = tokens.shape[1] - new.shape[1]
            positions = torch.arange(start, tokens.shape[1], device=tokens.device)
            x = self.token(new) + self.position(positions)
            for layer, cache in zip(self.layers, caches, strict=True):
                x = layer(x, cache)
            new = self.head(x[:, -1]).argmax(-1, keepdim=True)
            tokens = torch.cat([tokens, new], 1)
            if (new < 0).all():
                break
            if end is not None:
                end()
        return tokens


@pytest.fixture(scope="module")
def decoders():
    return twins(Decoder)


def prompt(length, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(VOCABULARY, (1, length), generator=generator)


def generated(model, length, count):
    """The tokens on acc, and what was counted meanwhile. Each step waits for the background work of
    the one before it."""
    tokens = prompt(length).to(DEVICE)
    torchacc.sync()
    torchacc.reset_metrics()
    tokens = model.generate(tokens, count, torchacc.sync)
    return tokens.cpu(), torchacc.metrics()


def test_a_cache_that_grows_is_compared_and_compiles_nothing(decoders):
    cpu, acc = decoders
    steps = 60
    tokens, counters = generated(acc, 7, steps)
    assert torch.equal(tokens, cpu.generate(prompt(7), steps))
    # The prompt, the first token after it, and two lengths of which the others follow; three more
    # show how lengths go on.
    assert counters["compiles"] <= 4
    assert counters["cache_misses"] <= 8
    assert counters["read_cuts"] == steps
    assert counters["replayed_ops"] >= 0.8 * counters["recorded_ops"]
    # Another prompt: its length and the next are the second ones of their kind.
    tokens, counters = generated(acc, 12, steps)
    assert torch.equal(tokens, cpu.generate(prompt(12), steps))
    assert counters["compiles"] <= 2
    assert counters["replayed_ops"] >= 0.8 * counters["recorded_ops"]


def test_lengths_that_jump_are_computed_all_the_same(decoders):
    cpu, acc = decoders
    for length in (9, 10, 11, 12, 30, 31, 32, 33, 20, 21, 40, 39, 38, 37, 36):
        expected = cpu.generate(prompt(length, seed=length), 3)
        assert torch.equal(acc.generate(prompt(length, seed=length).to(DEVICE), 3).cpu(), expected)


def chain():
    layers = [module for _ in range(40) for module in (nn.Linear(32, 32), nn.LayerNorm(32))]
    return nn.Sequential(*layers)


def early_kernels(model, x, ends=torch.sum, patience=0.02):
    """Records most of the model, waits until some of it has run, records the rest and reads the
    result of `ends`; that, and how many kernels had run early."""
    torchacc.sync()
    before = torchacc.metrics()
    deadline = time.monotonic() + patience
    with torch.no_grad():
        x = model[:60](x)
        while torchacc.metrics()["execute_ns"] == before["execute_ns"]:
            if time.monotonic() > deadline:
                break
            time.sleep(0.001)
        value = ends(model[60:](x)).item()
    return value, torchacc.metrics()["early_kernels"] - before["early_kernels"]


def test_what_is_known_runs_while_the_rest_is_recorded():
    cpu, acc = twins(chain)
    for step in range(6):
        x = torch.randn(4, 32)
        is_known = step > 0
        value, kernels = early_kernels(acc, x.to(DEVICE), patience=30 if is_known else 0.02)
        torch.testing.assert_close(value, cpu(x).sum().item(), rtol=1e-4, atol=1e-4)
        assert (kernels > 0) == is_known


def test_another_end_of_what_began_early():
    cpu, acc = twins(chain)
    x = torch.randn(4, 32)
    ends = [torch.sum, torch.sum, torch.sum, torch.amax, torch.sum, torch.amin, torch.amax]
    for end in ends:
        value, _ = early_kernels(acc, x.to(DEVICE), end)
        torch.testing.assert_close(value, end(cpu(x)).item(), rtol=1e-4, atol=1e-4)


def test_inputs_that_change_after_they_were_read():
    """What began early has read the values of that moment, as the recorded operations do."""
    cpu, acc = twins(chain)
    for step in range(5):
        x = torch.full((4, 32), float(step))
        on_acc = x.to(DEVICE)
        with torch.no_grad():
            expected, y = cpu(x).sum() + 1, acc[:60](on_acc)
            time.sleep(0.02)
            on_acc.fill_(1)
            value = (acc[60:](y).sum() + on_acc.mean()).item()
        torch.testing.assert_close(value, expected.item(), rtol=1e-4, atol=1e-4)
        assert on_acc.tolist() == torch.ones(4, 32).tolist()


def test_what_is_refused_early_is_reported_once():
    table, layers = nn.Embedding(10, 32).to(DEVICE), chain().to(DEVICE)
    for step in range(6):
        index = torch.tensor([[10 if step == 4 else step]], device=DEVICE)
        with torch.no_grad():
            y = layers[:60](table(index))
            time.sleep(0.02)
            total = layers[60:](y).sum()
        if step == 4:
            with pytest.raises(IndexError, match="out of range"):
                total.item()
            torchacc.sync()
        else:
            assert total.isfinite().item()


def test_training_steps_that_read_the_loss():
    """The read comes before the update, which overwrites what the early kernels have read."""
    cpu, acc = twins(chain)
    peers = [(m, torch.optim.SGD(m.parameters(), lr=1e-2, momentum=0.9)) for m in (cpu, acc)]
    for _ in range(6):
        x = torch.randn(4, 32)
        losses = []
        for model, optimizer in peers:
            optimizer.zero_grad()
            y = model[:60](x.to(next(model.parameters()).device))
            time.sleep(0.01)
            loss = model[60:](y).square().mean()
            losses.append(loss.item())
            loss.backward()
            optimizer.step()
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
