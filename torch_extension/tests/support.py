"""What several test files share: the device's name, a small GPT, comparison with the CPU."""

import contextlib
import copy
import os
import re
import subprocess
import sys
from pathlib import Path

import forked
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.cpp_extension
import torchacc
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = "acc"
# Whether tensors are not in the host's memory, or are as if they were not.
ON_DEVICE = (os.environ.get("TORCHACC_BACKEND") or "cpu") not in ("cpu", "openxla")
VOCABULARY = 97
# Where predictions differ from the CPU: of matrices in rows, or without elements, PyTorch's Meta
# kernels say rows, the CPU's columns; statistics of normalised halves are f32 here, as on CUDA, and
# there are some in evaluation.
OWN_PREDICTIONS = re.compile(
    r"aten::(linalg_eig|_linalg_svd) |aten::\w*(layer|batch|group)_norm\w* result [12]:"
)


def emulated():
    """The environment of a process on the CUDA backend of debug builds, whose device is made of the
    host, with the library that `cargo test` made."""
    library = Path(__file__).resolve().parents[2] / "target" / "debug" / "deps" / "libtorchacc.so"
    return {"TORCHACC_BACKEND": "emulated", "LD_PRELOAD": str(library)}


def to_device(tree, device=DEVICE):
    """A copy of every tensor in `tree` on `device`, each a leaf that requires what it did."""

    def move(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return leaf.detach().to(device, copy=True).requires_grad_(leaf.requires_grad)

    return tree_map(move, tree)


def assert_said(said, expected):
    """Every text is in what was said, by name."""
    for name, text in expected.items():
        assert text in said[name], (name, said[name])


def assert_same(actual, expected, rtol=1e-5, atol=1e-6):
    """Every tensor of `actual` is on acc and equals its counterpart of `expected` on the CPU."""
    actual, expected = tree_leaves(actual), tree_leaves(expected)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        if isinstance(e, torch.Tensor):
            assert a.device.type == DEVICE
            torch.testing.assert_close(
                a.detach().cpu(), e.detach(), rtol=rtol, atol=atol, equal_nan=True
            )
        else:
            assert a == e


def check(function, *arguments, rtol=1e-5, atol=1e-6):
    """`function` returns the same, and leaves the same in its arguments, on acc as on the CPU."""
    on_device = to_device(arguments)
    expected, actual = function(*arguments), function(*on_device)
    assert_same(actual, expected, rtol, atol)
    assert_same(on_device, arguments, rtol, atol)


def host_calls():
    """How many operators have run on the CPU, or at once."""
    metrics = torchacc.metrics()
    return metrics["host_calls"] + metrics["immediate_runs"]


def forget_errors():
    """Those that a refused call left for the next synchronisation."""
    with contextlib.suppress(Exception):
        torch.acc.synchronize()


def twins(build):
    """The same model on the CPU and on acc."""
    torch.manual_seed(0)
    model = build()
    return model, copy.deepcopy(model).to(DEVICE)


def start_python(code: str, *, fresh=False, **environment: str):
    """A process of its own that runs `code`, with these variables added to the environment.

    `fresh`: by an interpreter that has imported nothing, not even `torch`.
    """
    all_variables = os.environ | environment
    made = None if fresh else forked.start("program", [code], all_variables, stderr=subprocess.PIPE)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    command = [sys.executable, "-c", code]
    return made or subprocess.Popen(command, env=all_variables, text=True, **pipes)


def run_python(code: str, **options) -> subprocess.CompletedProcess:
    """Such a process when it has ended."""
    process = start_python(code, **options)
    try:
        said = process.communicate(timeout=300)
    finally:
        process.kill()
    return subprocess.CompletedProcess(code, process.returncode, *said)


def output(code: str, **options) -> str:
    """What a program prints that ends well."""
    result = run_python(code, **options)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def _dialect() -> str:
    """That of C++ which PyTorch's headers ask for, as the extension is built."""
    asked = ["make", "--silent", "--no-print-directory", "--file=torch_extension/csrc/build.mk"]
    asked += [
        "dialect",
        "--eval=dialect:;@echo $(EXT_STD)",
        f"EXT_TORCH={Path(torch.__file__).parent}",
    ]
    root = Path(__file__).resolve().parents[2]
    return subprocess.check_output(asked, cwd=root, text=True).strip()


def build_operators(source, folder):
    """Compiles operators in C++ and loads them; the library."""
    library = folder / "operators.so"
    flags = [f"-std={_dialect()}", "-O0", "-fPIC", "-shared", str(source), "-o", str(library)]
    includes = [f"-I{folder}" for folder in torch.utils.cpp_extension.include_paths()]
    libraries = [f"-L{folder}" for folder in torch.utils.cpp_extension.library_paths()]
    subprocess.run(["c++", *flags, *includes, *libraries, "-ltorch_cpu", "-lc10"], check=True)
    torch.ops.load_library(str(library))
    return library


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (
            part.view(batch, time, self.heads, -1).transpose(1, 2)
            for part in self.qkv(x).split(width, 2)
        )
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=dropout)
        return self.project(y.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, dropout)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
            nn.Dropout(dropout),
        )

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Tokens and targets int64 [batch, time] to the loss; input and output weights tied."""

    def __init__(self, width=64, heads=4, layers=2, context=32, dropout=0.0):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads, dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCABULARY, bias=False)
        for parameter in self.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, std=0.05)
        self.head.weight = self.token.weight

    def forward(self, tokens, targets):
        x = self.token(tokens) + self.position(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), targets.flatten())


def token_batch(step, batch=8, context=32):
    """Inputs and targets on the CPU: a noisy linear sequence, whose loss cannot fall below ln 8."""
    generator = torch.Generator().manual_seed(step)
    rows = [torch.randint(VOCABULARY, (batch,), generator=generator)]
    for _ in range(context):
        rows.append((3 * rows[-1] + torch.randint(8, (batch,), generator=generator)) % VOCABULARY)
    tokens = torch.stack(rows, dim=1)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
