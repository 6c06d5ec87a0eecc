"""Modules of StableHLO as bytecode, which JAX's MLIR reads and writes: `make test-libraries`."""

import io

import pytest
import torch
import torchacc
from support import DEVICE
from test_stablehlo import GOLDENS, arrays

jax = pytest.importorskip("jax.interpreters.mlir", reason="there is no JAX: pip install jax")
from jaxlib import _jax  # noqa: E402
from jaxlib.mlir import ir  # noqa: E402
from jaxlib.mlir.dialects import stablehlo  # noqa: E402

NAMES = sorted(file.stem for file in GOLDENS.glob("*.mlir"))


def assert_computes(module, name):
    results = module(*(one.to(DEVICE) for one in arrays(name, "in")))
    for made, expected in zip(results, arrays(name, "out"), strict=True):
        near = 1e-2 if expected.dtype == torch.bfloat16 else 2e-5
        torch.testing.assert_close(made.cpu(), expected, rtol=near, atol=near, equal_nan=True)


@pytest.mark.parametrize("name", NAMES)
def test_portable_artifacts_are_read(name, tmp_path):
    text = (GOLDENS / f"{name}.mlir").read_text()
    artifact = _jax.mlir.serialize_portable_artifact(text, stablehlo.get_current_version())
    assert_computes(torchacc.stablehlo.Module(artifact), name)
    (tmp_path / "module.mlirbc").write_bytes(artifact)
    assert_computes(torchacc.stablehlo.load(tmp_path / "module.mlirbc"), name)


def test_bytecode_that_is_no_artifact_is_read():
    written = io.BytesIO()
    with jax.make_ir_context():
        module = ir.Module.parse((GOLDENS / "mlp.mlir").read_text())
        module.operation.write_bytecode(written)
    assert_computes(torchacc.stablehlo.Module(written.getvalue()), "mlp")


@pytest.mark.parametrize("name", NAMES)
def test_portable_artifacts_are_written(name, tmp_path):
    path = tmp_path / "module"
    torchacc.stablehlo.load(GOLDENS / f"{name}.mlir").save(path, version="1.9.0")
    assert path.read_bytes()[5:].startswith(b"StableHLO_v1.9.0")
    assert_computes(torchacc.stablehlo.load(path), name)


def test_what_is_wrong_is_said(tmp_path):
    whole, path = torchacc.stablehlo.load(GOLDENS / "mlp.mlir"), tmp_path / "module"
    for version in ("9.9", "none", "0.3.0"):
        with pytest.raises(ValueError, match=f"version '{version}'"):
            whole.save(path, version=version)
    assert not path.exists()
    whole.save(path, version="1.9.0")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match=r"module: StableHLO: bytecode that cannot be read"):
        torchacc.stablehlo.load(path)
