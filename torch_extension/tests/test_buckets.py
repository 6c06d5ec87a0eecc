"""With buckets, sizes that vary are padded: a program a bucket, the results of the exact sizes."""

import json
import pathlib

import pytest
from support import run_python

# Runs in an interpreter of its own: the policy is read when the device starts.
SETUP = f"""
import json, random, sys
sys.path.insert(0, {str(pathlib.Path(__file__).parent)!r})
import torch, torchacc
from support import DEVICE, GPT, check, token_batch, twins
from test_dynamic import FUNCTIONS, training

NAMES = ("compiles", "recompiles", "padded_programs", "padded_runs", "padding_refused")

def report(*results):
    torchacc.sync()
    counters = torchacc.metrics()
    print(json.dumps([*results, {{name: counters[name] for name in NAMES}}]))
"""


def run(code, policy):
    result = run_python(SETUP + code, TORCHACC_BUCKETS=policy, TORCHACC_CACHE_DIR="off")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout.splitlines()[-1])


TRAINING = """
cpu, acc = twins(lambda: GPT(context=256))
on_cpu, on_acc = training(cpu, "cpu"), training(acc, DEVICE)
lengths = random.Random(0)
losses = []
for step in range(40):
    batch = token_batch(step, context=lengths.randint(16, 256))
    losses.append((on_cpu(*batch), on_acc(*batch)))
for expected, actual in losses:
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)
report()
"""


@pytest.mark.parametrize("policy, buckets", [("geometric:1.25:64", 4), ("list:100,256", 2)])
def test_training_with_random_lengths(policy, buckets):
    (counters,) = run(TRAINING, policy)
    assert counters["padding_refused"] == 0
    assert counters["padded_programs"] <= buckets
    # The first length of the step and of whatever surrounds it is compiled for itself.
    assert counters["compiles"] <= buckets + 2
    assert counters["padded_runs"] >= 38


DROPOUT = """
torch.manual_seed(0)
acc = GPT(context=64, dropout=0.2).to(DEVICE)
step = training(acc, DEVICE)
lengths = random.Random(1)
torch.manual_seed(1)
sizes = [(lengths.randint(2, 8), lengths.randint(8, 64)) for _ in range(12)]
losses = [step(*token_batch(i, batch, context)) for i, (batch, context) in enumerate(sizes)]
report([loss.item() for loss in losses])
"""


def test_dropout_does_not_depend_on_padding():
    exact, _ = run(DROPOUT, "exact")
    padded, counters = run(DROPOUT, "geometric:1.25:16")
    assert counters["padded_runs"] >= 6
    assert padded == pytest.approx(exact, rel=1e-4)


OF_ANY_LENGTH = """
refused = {}
for name, function in FUNCTIONS.items():
    torchacc.sync()
    torchacc.reset_metrics()
    generator = torch.Generator().manual_seed(0)
    for length in (20, 31, 40, 8, 9, 10, 11, 6, 64, 65, 3, 2, 1, 100, 33, 127, 128, 200, 12):
        check(function, torch.randn(length, 6, generator=generator), rtol=1e-4, atol=1e-5)
    torchacc.sync()
    counters = torchacc.metrics()
    refused[name] = [counters[name] for name in ("padded_runs", "padding_refused")]
report(refused)
"""


def test_functions_of_any_length():
    """Equal to the CPU's, padded or not; those with rules are padded at every length but 1."""
    counts, _ = run(OF_ANY_LENGTH, "geometric:1.25:16")
    padded = {name for name, (runs, _) in counts.items() if runs >= 15}
    exact = {name for name, (runs, _) in counts.items() if runs == 0}
    known = "mean variance softmax outer positions cumulative flattened"
    assert set(known.split()) | {"padded", "gathered", "scaled", "written"} <= padded
    assert {"convolved", "largest", "norm"} <= exact


MARKED = """
x = torch.randn(100, 4)
for length in (10, 70, 80):
    part = x[:length].to(DEVICE)
    torchacc.mark_dynamic(part, 0, min=2, max=100)
    torch.testing.assert_close(part.exp().sum(0).cpu(), x[:length].exp().sum(0))
report("f32[100,4]" in torchacc.last_program())
"""


def test_a_mark_bounds_its_bucket():
    within, counters = run(MARKED, "multiple:64")
    assert within
    assert (counters["padded_programs"], counters["padded_runs"]) == (1, 2)


def test_an_unknown_policy_is_an_error():
    code = "import torch, torchacc; torch.ones(2, device='acc').cpu()"
    result = run_python(code, TORCHACC_BUCKETS="sometimes")
    assert result.returncode != 0
    assert 'the bucket policy "sometimes" is none of' in result.stderr
