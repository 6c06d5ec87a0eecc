"""Programs under a limit of memory: the same bits in less of it, or an error that says why not."""

import gc

import pytest
import torch
import torchacc
from support import DEVICE, GPT, run_python, token_batch
from torch.utils.checkpoint import checkpoint
from training import counts, update

# Bytes that the operands of products are packed into, which is no part of a plan; and the batch.
PACKED = 600 << 10


@pytest.fixture(autouse=True)
def _no_limit_after():
    yield
    torchacc.set_memory_limit(None)


class Checkpointed(GPT):
    """Of which each block is computed again by the program itself."""

    def __init__(self, **options):
        super().__init__(**options)
        for block in self.blocks:
            forward = block.forward
            block.forward = lambda x, forward=forward: checkpoint(forward, x, use_reentrant=False)


class Steps:
    """A model in training; every step gives the bits of its loss and of a parameter."""

    def __init__(self, build=GPT, **options):
        torch.manual_seed(0)
        self.model = build(layers=4, **options).to(DEVICE)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=True)
        self.count = 0

    def step(self):
        self.count += 1
        # So many rows that few operands of products are packed.
        loss = self.model(*(t.to(DEVICE) for t in token_batch(self.count, batch=12)))
        update(loss, self.optimizer)
        return loss.detach()

    def losses(self, limit=None):
        """Of six steps within the limit, and a parameter. The first step of all makes the state of
        the optimizer, which is a result as large as it is."""
        torch.acc.manual_seed(1)
        self.step()
        torchacc.set_memory_limit(limit)
        losses = [self.step() for _ in range(6)]
        parameter = next(self.model.parameters())
        return [loss.item() for loss in losses], parameter.detach().cpu()


def peak_of(work):
    """Bytes that `work` takes at most beyond what there is before it."""
    gc.collect()  # what tests before this one left, which would go at any moment
    torch.acc.empty_cache()
    torchacc.sync()
    torch.acc.reset_peak_memory_stats()
    before = torch.acc.memory_allocated()
    work()
    torchacc.sync()
    return torch.acc.max_memory_allocated() - before


def settled(build=GPT, **options):
    """A model whose optimizer has its state, and what a step of it takes."""
    training = Steps(build, **options)
    for _ in range(3):
        training.step()
    return training, peak_of(training.step)


@pytest.mark.parametrize("build", [GPT, Checkpointed])
@pytest.mark.parametrize("dropout", [0.0, 0.2])
def test_half_the_memory_gives_the_same_bits(build, dropout):
    wanted, parameter = Steps(build, dropout=dropout).losses()
    _, peak = settled(build, dropout=dropout)
    limit = peak // 2 if build is GPT else peak * 3 // 4
    training = Steps(build, dropout=dropout)
    losses, ours = training.losses(limit)
    assert losses == wanted
    assert torch.equal(ours, parameter)
    assert counts(training.step)[1] == 0
    assert peak_of(training.step) <= limit + PACKED


def test_explain_says_what_it_cost():
    training, peak = settled()
    # Of no other test, which would have left its program.
    limit = peak * 4 // 7
    torchacc.set_memory_limit(limit)
    torchacc.reset_metrics()
    training.step()
    torchacc.sync()
    counted = torchacc.metrics()
    assert counted["limited_programs"] == 1
    found = [row["recomputed"] for row in torchacc.explanation()["compiles"] if "recomputed" in row]
    assert len(found) == 1
    assert found[0]["bytes"] <= found[0]["limit"] == limit < found[0]["bytes_without"]
    assert found[0]["steps"] == counted["recomputed_steps"] > 0
    assert 1 <= found[0]["time"] < 2
    assert all("support.py" in row["site"] for row in found[0]["largest"])
    assert "steps run again to take" in torchacc.explain()


def test_too_low_a_limit_is_an_error_that_names_what_there_is_and_loses_nothing():
    training, _ = settled()
    torchacc.set_memory_limit(20_000)
    before = [p.detach().cpu() for p in training.model.parameters()]
    training.step()
    with pytest.raises(torch.OutOfMemoryError) as refused:
        torchacc.sync()
    message = str(refused.value)
    for said in ("the memory limit is 19.53 KiB", "takes at least", "f32[", "support.py"):
        assert said in message, message
    assert "set_memory_limit" in message
    torchacc.set_memory_limit(None)
    for old, new in zip(before, training.model.parameters(), strict=True):
        assert torch.equal(old, new.detach().cpu())
    assert training.step().isfinite()


def test_a_lifted_limit_costs_nothing_any_more():
    training, peak = settled()
    torchacc.set_memory_limit(peak // 2)
    training.step()
    torchacc.set_memory_limit(None)
    # Those programs are still there.
    assert counts(training.step)[1] == 0
    assert peak_of(training.step) == peak


def test_lengths_that_vary_stay_within():
    _, peak = settled()
    limit = peak // 2
    training = Steps()
    training.step()
    torchacc.set_memory_limit(limit)
    for length in (20, 24, 28, 32, 22, 30, 26):
        tokens, targets = (t[:, :length].to(DEVICE) for t in token_batch(length, batch=12))
        update(training.model(tokens, targets), training.optimizer)
    torchacc.sync()
    assert peak_of(training.step) <= limit + PACKED


def test_what_is_no_limit():
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="positive"):
            torchacc.set_memory_limit(wrong)


def test_the_environment_sets_it():
    code = "import torch; torch.ones(1000, device='acc').exp().cpu()"
    variables = {"TORCHACC_MEMORY_LIMIT": "2K", "TORCHACC_BACKEND": "cpu"}

    def run(**changed):
        return run_python(code, **variables | changed)

    assert "the memory limit is 2.00 KiB" in run().stderr
    assert run(TORCHACC_MEMORY_LIMIT="4K").returncode == 0
    assert "no number of bytes" in run(TORCHACC_MEMORY_LIMIT="much").stderr
