"""Two runs of a model, module by module: where their numbers part."""

import dataclasses
import itertools
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

from torchacc._future import Future, future
from torchacc.health.module_hooks import ModuleHooks

SAMPLES = 32  # elements of each tensor, evenly spaced
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclasses.dataclass(frozen=True)
class Difference:
    """Where two runs part first. `site` is the line that called the module, in the first run."""

    rank: int
    step: int
    tensor: str
    site: str
    text: str

    def __str__(self) -> str:
        return f"step {self.step}, rank {self.rank}, {self.tensor} ({self.site}): {self.text}"


class Recorder:
    """Writes to `folder` what the modules of `model` return, and the gradients of that, for
    `compare_runs`.

        with Recorder(model, "runs/a") as recorder:
            for batch in loader:
                ...
                optimizer.step()
                recorder.step()

    Of each tensor the sum of its bits, its largest magnitude, its norm and 32 of its elements are
    kept, by a file for each rank that is replaced: about a hundred bytes to a kilobyte a tensor.
    Nothing is read while a step is recorded. Meant for a few steps.
    """

    def __init__(self, model: nn.Module, folder: str | os.PathLike):
        rank = dist.get_rank() if dist.is_available() and dist.is_initialized() else 0
        Path(folder).mkdir(parents=True, exist_ok=True)
        self._file = Path(folder, f"rank_{rank}.jsonl")
        self._file.write_text("")
        self._step = 0
        self._abouts: list[dict] = []
        self._numbers: list[torch.Tensor] = []
        self._bits: list[torch.Tensor] = []
        self._pending: list[tuple[int, list[dict], Future, Future]] = []
        self._hooks = ModuleHooks(model, self._see)

    def step(self) -> None:
        """The step is over: what comes now belongs to the next one."""
        if self._abouts:
            numbers, bits = future(torch.stack(self._numbers)), future(torch.stack(self._bits))
            self._pending.append((self._step, self._abouts, numbers, bits))
        self._abouts, self._numbers, self._bits = [], [], []
        self._step += 1
        while self._pending and (self._pending[0][2].done() or len(self._pending) > 4):
            self._write()

    def close(self) -> None:
        """Writes the rest. Steps that did not end are left out."""
        self._hooks.remove()
        while self._pending:
            self._write()

    def __enter__(self) -> "Recorder":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _see(self, name: str, site: str, tensor: torch.Tensor) -> None:
        about = {"name": name, "site": site, "shape": [*tensor.shape], "dtype": str(tensor.dtype)}
        self._abouts.append(about)
        flat = tensor.flatten()
        wide = flat.double()
        sample = wide[:: _stride(flat.numel())]
        sample = F.pad(sample, (0, SAMPLES - sample.numel()))
        norm = wide.square().sum().sqrt()
        largest = wide.abs().amax() if flat.numel() else torch.zeros_like(norm)
        self._numbers.append(torch.cat([torch.stack([norm, largest]), sample]))
        self._bits.append(flat.view(_INTEGERS[flat.element_size()]).sum(dtype=torch.int64))

    def _write(self) -> None:
        step, abouts, numbers, bits = self._pending.pop(0)
        rows = zip(abouts, numbers.result().tolist(), bits.result().tolist(), strict=True)
        with self._file.open("a") as file:
            for about, (norm, largest, *sample), all_bits in rows:
                made = {"bits": all_bits, "norm": norm, "largest": largest}
                made["sample"] = sample[: min(math.prod(about["shape"]), SAMPLES)]
                file.write(json.dumps({"step": step, **about, **made}) + "\n")


def compare_runs(
    first: str | os.PathLike,
    second: str | os.PathLike,
    *,
    rtol: float = 1e-3,
    atol: float = 1e-6,
) -> Difference | None:
    """Where two runs that `Recorder` wrote part first: the step, the rank, the module and its line;
    None where they do not.

    Tensors differ where an element that was kept, or the norm, differs by more than `atol` and
    `rtol` of the largest magnitude of either. With both 0 they are to have the same bits.

    Raises FileNotFoundError where there is no run, ValueError where the two are of different
    numbers of ranks.
    """
    folders = [Path(first), Path(second)]
    files = [sorted(folder.glob("rank_*.jsonl")) for folder in folders]
    for folder, found in zip(folders, files, strict=True):
        if not found:
            raise FileNotFoundError(f"compare_runs: {folder} has no rank_*.jsonl")
    names = [{file.name for file in found} for found in files]
    if names[0] != names[1]:
        raise ValueError(
            f"compare_runs: {folders[0]} has {len(names[0])} ranks, {folders[1]} {len(names[1])}"
        )
    found = []
    for file in files[0]:
        rank = int(file.stem.removeprefix("rank_"))
        lines = _lines(file, folders[1] / file.name)
        for at, (one, other) in enumerate(lines):
            if difference := _difference(rank, one, other, rtol, atol):
                found.append((difference.step, at, difference))
                break
    return min(found, key=lambda one: one[:2])[2] if found else None


def _lines(*files: Path) -> Iterator[tuple[dict | None, ...]]:
    """Objects of the files side by side; None after the end of the shorter one."""
    with files[0].open() as first, files[1].open() as second:
        for lines in itertools.zip_longest(first, second):
            yield tuple(None if line is None else json.loads(line) for line in lines)


def _stride(count: int) -> int:
    return max(1, math.ceil(count / SAMPLES))


def _difference(rank, one, other, rtol, atol) -> Difference | None:
    either = one or other
    at = (rank, either["step"], either["name"], either["site"])
    if one is None or other is None:
        return Difference(*at, f"only the {'first' if other is None else 'second'} run has it")
    for key in ("step", "name", "shape", "dtype"):
        if one[key] != other[key] and (key != "dtype" or rtol == atol == 0):
            return Difference(*at, f"{key} is {one[key]}, in the second run {other[key]}")
    if one["bits"] == other["bits"] and one["dtype"] == other["dtype"]:
        return None
    if rtol == atol == 0:
        return Difference(*at, "other bits" + _furthest(one, other))
    allowed = atol + rtol * max(one["largest"], other["largest"])
    # If n elements are off by the same amount, the norm is off by sqrt(n) times that.
    root = math.sqrt(max(1, math.prod(one["shape"])))
    if _differ(one["norm"], other["norm"], allowed * root):
        return Difference(*at, _said("the norm", one["norm"], other["norm"]))
    if _differ(one["largest"], other["largest"], allowed):
        return Difference(*at, _said("the largest", one["largest"], other["largest"]))
    for place, (a, b) in enumerate(zip(one["sample"], other["sample"], strict=True)):
        if _differ(a, b, allowed):
            count = math.prod(one["shape"])
            return Difference(*at, _said(f"element {place * _stride(count)} of {count}", a, b))
    return None


def _differ(a: float, b: float, allowed: float) -> bool:
    """Equal infinities, and two NaNs, do not."""
    return not (a == b or abs(a - b) <= allowed or (math.isnan(a) and math.isnan(b)))


def _said(what: str, a: float, b: float) -> str:
    return f"{what} is {a:.9g}, in the second run {b:.9g}"


def _furthest(one: dict, other: dict) -> str:
    pairs = zip(one["sample"], other["sample"], strict=True)
    gaps = [(abs(a - b), a, b) for a, b in pairs if a != b]
    return ": {1!r} and {2!r}, {0:.3g} apart".format(*max(gaps)) if gaps else ""
