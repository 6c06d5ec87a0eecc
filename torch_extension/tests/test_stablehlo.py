"""Modules of StableHLO give the numbers that JAX and TensorFlow computed, on the device."""

import functools
import sys
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
    "ui16": torch.uint16,
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
            raw = np.frombuffer(bytes.fromhex("".join(data)), np.uint8).copy()
            one = torch.from_numpy(raw).view(DTYPES[dtype]) if raw.size else torch.zeros(0)
            found.append(one.to(DTYPES[dtype]).view(shape))
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
    "random_bits",
    "loops",
    "long_scan",
    "loop_types",
    "calls",
    "matrices",
    "matrices_tpu",
    "singular_values_tpu",
    "llama_step",
    "resnet_step",
    "tensorflow_mlp",
    "tensorflow_conv_net",
    "torch_xla_several",
    "torch_xla_step",
    "torch_xla_words",
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
            near = 1e-2 if one.dtype == torch.bfloat16 else 2e-5
            torch.testing.assert_close(actual.cpu(), one, rtol=near, atol=near, equal_nan=True)
        if run == 0:
            torchacc.reset_metrics()
    assert torchacc.metrics()["compiles"] == 0


TRAININGS = ["gpt_step", "llama_step", "resnet_step", "tensorflow_mlp", "tensorflow_conv_net"]


@pytest.mark.parametrize("name", TRAININGS)
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


def test_rounds_that_swap_their_state_and_rounds_that_fail():
    """In the library's own text, whose primitives refuse what StableHLO's operations do not."""
    loop = torchacc.stablehlo.Module("""
        %0: i64[] = input() {index=0, type=(i64[])}
        %1: i64[] = input() {index=1, type=(i64[])}
        %2: f32[3] = input() {index=2, type=(f32[3])}
        %3: f32[3] = input() {index=3, type=(f32[3])}
        %4: i64[], %5: f32[3], %6: f32[3] = while(%0, %2, %3, %1) {
          condition=(i64[], f32[3], f32[3], i64[]) {
            %4: bool[] = lt(%0, %3)
            return %4},
          round=(i64[], f32[3], f32[3], i64[]) {
            %4: i64[] = const_int() {value=1, dtype=i64}
            %5: i64[] = add(%0, %4)
            %6: f32[] = take(%2, %0) {axis=0}
            %7: f32[3] = broadcast(%6) {sizes=[3]}
            %8: f32[3] = add(%1, %7)
            return %5, %2, %8}}
        return %4, %5, %6""")
    a, b = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([10.0, 20.0, 30.0])
    on_acc = a.to(DEVICE), b.to(DEVICE)

    def number(n):
        return torch.tensor(n, device=DEVICE)

    for last in range(4):
        left, right = a, b
        for i in range(last):
            left, right = right, left + right[i]
        found = [one.cpu() for one in loop(number(0), number(last), *on_acc)]
        assert found[0] == last
        torch.testing.assert_close(found[1:], [left, right])
    for first, last, wrong in [(0, 9, 3), (-2, 1, -2)]:
        _, left, _ = loop(number(first), number(last), *on_acc)
        with pytest.raises(IndexError, match=f"index {wrong} is out of bounds"):
            left.cpu()
    torch.testing.assert_close([one.cpu() for one in on_acc], [a, b])


@pytest.mark.parametrize(("kind", "dtype"), [("f32", torch.float32), ("f16", torch.float16)])
def test_batch_normalisation_is_that_of_pytorch(kind, dtype):
    x, f = f"tensor<4x3x5x{kind}>", f"tensor<3x{kind}>"
    said = "<{epsilon = 1.0e-03 : f32, feature_index = 1 : i64}>"
    module = torchacc.stablehlo.Module(f"""
        func.func @main(%x: {x}, %w: {f}, %b: {f}, %m: {f}, %v: {f}, %d: {x})
            -> ({x}, {f}, {f}, {x}, {x}, {f}, {f}) {{
          %t:3 = "stablehlo.batch_norm_training"(%x, %w, %b) {said} : ({x}, {f}, {f})
            -> ({x}, {f}, {f})
          %i = "stablehlo.batch_norm_inference"(%x, %w, %b, %m, %v) {said}
            : ({x}, {f}, {f}, {f}, {f}) -> {x}
          %g:3 = "stablehlo.batch_norm_grad"(%x, %w, %t#1, %t#2, %d) {said}
            : ({x}, {f}, {f}, {f}, {x}) -> ({x}, {f}, {f})
          return %t#0, %t#1, %t#2, %i, %g#0, %g#1, %g#2 : {x}, {f}, {f}, {x}, {x}, {f}, {f}
        }}""")
    torch.manual_seed(0)
    data, grad = torch.randn(4, 3, 5).to(dtype), torch.randn(4, 3, 5).to(dtype)
    weight, bias, mean, variance = (torch.rand(3).to(dtype) + 0.5 for _ in range(4))
    inputs = data, weight, bias, mean, variance, grad
    found = [one.cpu() for one in module(*(one.to(DEVICE) for one in inputs))]

    data, weight, bias = (one.double().requires_grad_() for one in (data, weight, bias))
    norm = functools.partial(torch.nn.functional.batch_norm, weight=weight, bias=bias, eps=1e-3)
    y = norm(data, None, None, training=True)
    y.backward(grad.double())
    kept = norm(data, mean.double(), variance.double())
    of_features = torch.var_mean(data, (0, 2), correction=0)[::-1]
    expected = [y, *of_features, kept, data.grad, weight.grad, bias.grad]
    tolerance = {torch.float32: 1e-5, torch.float16: 1e-2}[dtype]
    for one, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(one.double(), wanted.detach(), rtol=tolerance, atol=tolerance)


def test_bad_modules_and_inputs_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"StableHLO: .*line 1"):
        torchacc.stablehlo.Module("module {")
    refused = "func.func @main() -> tensor<f32> { %0 = a.b : tensor<f32> return %0 : tensor<f32> }"
    with pytest.raises(ValueError, match=r"a\.b"):
        torchacc.stablehlo.Module(refused)
    (tmp_path / "latin.mlir").write_bytes(b"module {} // caf\xe9")
    text = (GOLDENS / "mlp.mlir").read_text()
    assert torchacc.stablehlo.Module(text.encode()).text() == torchacc.stablehlo.Module(text).text()
    with pytest.raises(ValueError, match=r"latin\.mlir: .*utf-8"):
        torchacc.stablehlo.load(tmp_path / "latin.mlir")
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


def test_bytecode_without_who_reads_it(tmp_path, monkeypatch):
    for package in ("jax.interpreters.mlir", "mlir"):
        monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "bytes.mlirbc").write_bytes(b"ML\xefR\x0dStableHLO_v1.0.0\0")
    with pytest.raises(ImportError, match=r"bytes\.mlirbc: .* pip install jax"):
        torchacc.stablehlo.load(tmp_path / "bytes.mlirbc")
    module = torchacc.stablehlo.load(GOLDENS / "mlp.mlir")
    with pytest.raises(ImportError, match="pip install jax"):
        module.save(tmp_path / "written.mlirbc", version="1.0.0")
    assert not (tmp_path / "written.mlirbc").exists()
