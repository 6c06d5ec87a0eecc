"""Modules of StableHLO give the numbers that JAX and TensorFlow computed, on the device."""

from pathlib import Path

import numpy as np
import pytest
import torch
import torchacc
from support import DEVICE

GOLDENS = Path(__file__).resolve().parents[2] / "tests/stablehlo/goldens"
DTYPES = {
    "i1": torch.bool,
    "ui8": torch.uint8,
    "i8": torch.int8,
    "i16": torch.int16,
    "i32": torch.int32,
    "i64": torch.int64,
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "c64": torch.complex64,
    "ui32": torch.uint32,
    "ui64": torch.uint64,
}


def arrays(name, kind):
    """`in f32 2x3 00000000…`, a line each."""
    found = []
    for line in (GOLDENS / f"{name}.txt").read_text().splitlines():
        begin, dtype, sizes, *data = line.split(" ")
        if begin == kind:
            shape = [] if sizes == "-" else [int(n) for n in sizes.split("x")]
            raw = torch.from_numpy(np.frombuffer(bytes.fromhex("".join(data)), np.uint8).copy())
            found.append(raw.view(DTYPES[dtype]).view(shape))
    return found


NAMES = [
    "mlp",
    "mlp_grad_generic",
    "gpt_step",
    "conv_net",
    "lstm_grad",
    "decode",
    "indexing",
    "sorting",
    "dropout",
    "loops",
    "long_scan",
    "tensorflow_mlp",
    "tensorflow_conv_net",
]


@pytest.mark.parametrize("name", NAMES)
def test_others_computed_the_same(name):
    module = torchacc.stablehlo.load(GOLDENS / f"{name}.mlir")
    inputs = [one.to(DEVICE) for one in arrays(name, "in")]
    expected = arrays(name, "out")
    for run in range(2):
        results = module(*inputs)
        assert len(results) == len(expected) > 0
        for actual, one in zip(results, expected, strict=True):
            assert actual.device.type == DEVICE
            torch.testing.assert_close(actual.cpu(), one, rtol=2e-5, atol=2e-5, equal_nan=True)
        if run == 0:
            torchacc.reset_metrics()
    assert torchacc.metrics()["compiles"] == 0


@pytest.mark.parametrize("name", ["gpt_step", "tensorflow_mlp", "tensorflow_conv_net"])
def test_ten_steps_have_the_losses_of_others(name):
    step = torchacc.stablehlo.load(GOLDENS / f"{name}.mlir")
    (expected,) = arrays(name, "losses")
    inputs = [one.to(DEVICE) for one in arrays(name, "in")]
    losses = []
    for _ in range(len(expected)):
        loss, *new = step(*inputs)
        losses.append(loss.cpu())
        inputs[: len(new)] = new
    torch.testing.assert_close(torch.stack(losses), expected, rtol=1e-5, atol=1e-6)
    assert len(losses) == 10
    assert losses[-1] < losses[0]


def test_it_is_a_part_of_the_program():
    """What is around it is one program with it, and its text is a module again."""
    module = torchacc.stablehlo.load(GOLDENS / "mlp.mlir")
    inputs = [one.to(DEVICE) for one in arrays("mlp", "in")]
    torchacc.sync()
    torchacc.reset_metrics()
    doubled = module(*(2 * one for one in inputs))[0].exp().sum(1)
    torch.testing.assert_close(doubled.cpu(), torch.ones(4), rtol=1e-5, atol=1e-5)
    assert torchacc.metrics()["compiles"] == 1
    again = torchacc.stablehlo.Module(module.text())
    torch.testing.assert_close(again(*inputs)[0].cpu(), arrays("mlp", "out")[0])


def test_a_training_whose_step_is_a_module():
    """Weights go in and come out, as of a step that JAX has differentiated."""
    module = torchacc.stablehlo.Module("""
        module @step {
          func.func public @main(%w: tensor<3xf32>, %x: tensor<4x3xf32>, %y: tensor<4xf32>)
              -> (tensor<3xf32>, tensor<f32>) {
            %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
                : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4xf32>
            %d = stablehlo.subtract %p, %y : tensor<4xf32>
            %g = stablehlo.dot_general %d, %x, contracting_dims = [0] x [0]
                : (tensor<4xf32>, tensor<4x3xf32>) -> tensor<3xf32>
            %c = stablehlo.constant dense<1.000000e-01> : tensor<3xf32>
            %s = stablehlo.multiply %g, %c : tensor<3xf32>
            %n = stablehlo.subtract %w, %s : tensor<3xf32>
            %q = stablehlo.multiply %d, %d : tensor<4xf32>
            %z = stablehlo.constant dense<0.000000e+00> : tensor<f32>
            %l = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = [0]
                : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
            return %n, %l : tensor<3xf32>, tensor<f32>
          }
        }""")
    torch.manual_seed(0)
    x, w = torch.randn(4, 3), torch.zeros(3)
    y = x @ torch.tensor([1.0, -2.0, 0.5])
    ours, losses = w.to(DEVICE), []
    on_acc = x.to(DEVICE), y.to(DEVICE)
    for _ in range(5):
        difference = x @ w - y
        losses.append(difference.square().sum())
        w = w - 0.1 * (difference @ x)
        ours, loss = module(ours, *on_acc)
        torch.testing.assert_close(loss.cpu(), losses[-1], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(ours.cpu(), w, rtol=1e-5, atol=1e-6)
    assert losses[-1] < losses[0]


def test_a_loop_of_as_many_rounds_as_a_tensor_says_compiles_once():
    """Its state is overwritten from round to round, and what it does not change is not copied."""
    module = torchacc.stablehlo.Module("""
        func.func @main(%n: tensor<i32>, %x: tensor<2x3xf32>, %w: tensor<3x3xf32>)
            -> (tensor<i32>, tensor<2x3xf32>) {
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %r:2 = stablehlo.while(%i = %zero, %y = %x) : tensor<i32>, tensor<2x3xf32>
          cond {
            %c = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %c : tensor<i1>
          } do {
            %one = stablehlo.constant dense<1> : tensor<i32>
            %j = stablehlo.add %i, %one : tensor<i32>
            %p = stablehlo.dot_general %y, %w, contracting_dims = [1] x [0]
                : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
            %t = stablehlo.tanh %p : tensor<2x3xf32>
            stablehlo.return %j, %t : tensor<i32>, tensor<2x3xf32>
          }
          return %r#0, %r#1 : tensor<i32>, tensor<2x3xf32>
        }""")
    torch.manual_seed(0)
    x, w = torch.randn(2, 3), torch.randn(3, 3)
    on_acc = x.to(DEVICE), w.to(DEVICE)
    torchacc.sync()
    torchacc.reset_metrics()
    for rounds in [0, 1, 7, 1000]:
        wanted = x
        for _ in range(rounds):
            wanted = (wanted @ w).tanh()
        count = torch.tensor(rounds, dtype=torch.int32, device=DEVICE)
        # What is around it is in the same program, and what goes in stays what it is.
        number, y = module(count, on_acc[0] * 1, on_acc[1])
        assert number.item() == rounds
        torch.testing.assert_close(y.cpu(), wanted, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(on_acc[0].cpu(), x)
    assert torchacc.metrics()["compiles"] == 1
    never = "tensor<f32> cond { stablehlo.return %t : tensor<i1> } do { stablehlo.return %a"
    with pytest.raises(ValueError, match="a loop that never ends"):
        torchacc.stablehlo.Module(
            "func.func @main(%x: tensor<f32>) -> tensor<f32> {\n"
            "  %t = stablehlo.constant dense<true> : tensor<i1>\n"
            f"  %r = stablehlo.while(%a = %x) : {never} : tensor<f32> }}\n"
            "  return %r : tensor<f32> }"
        )


def test_bad_modules_and_inputs_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"StableHLO: .*line 1"):
        torchacc.stablehlo.Module("module {")
    refused = "func.func @main() -> tensor<f32> { %0 = a.b : tensor<f32> return %0 : tensor<f32> }"
    with pytest.raises(ValueError, match=r"a\.b"):
        torchacc.stablehlo.Module(refused)
    (tmp_path / "bytes.mlirbc").write_bytes(b"ML\xefR\x0dStableHLO")
    with pytest.raises(ValueError, match=r"bytes\.mlirbc is MLIR bytecode"):
        torchacc.stablehlo.load(tmp_path / "bytes.mlirbc")
    with pytest.raises(FileNotFoundError):
        torchacc.stablehlo.load(tmp_path / "none.mlir")

    module = torchacc.stablehlo.load(GOLDENS / "mlp.mlir")
    inputs = [one.to(DEVICE) for one in arrays("mlp", "in")]
    with pytest.raises(RuntimeError, match="input 6 of the module is on cpu"):
        module(*inputs[:6], inputs[6].cpu())
    with pytest.raises(RuntimeError, match="7 inputs|input 6"):
        module(*inputs[:6])
    with pytest.raises(RuntimeError, match=r"f64|f32\[4,5\]"):
        module(*inputs[:6], inputs[6].double())
