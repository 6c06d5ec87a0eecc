"""Megatron's checkpoints: a file for each rank of tensor and pipeline parallelism."""

import re
from argparse import Namespace
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from torchacc.checkpoint.files import write
from torchacc.convert import archive, names
from torchacc.convert.model import MANIFEST, Model, some
from torchacc.convert.model import Writer as Base
from torchacc.convert.names import Placed
from torchacc.convert.stored import ConversionError, Kind, Stored, check_ends
from torchacc.convert.stored import put as put_tensor

TRACKER = "latest_checkpointed_iteration.txt"
FILE = "model_optim_rng.pt"
_EXTRA = "_extra_state"  # Transformer Engine's, scales of 8-bit floats


def is_here(path: Path) -> bool:
    return (path / TRACKER).is_file() or any(path.glob("mp_rank_*"))


def _rank_folder(tensor: int, stage: int, stages: int) -> str:
    return f"mp_rank_{tensor:02d}" + (f"_{stage:03d}" if stages > 1 else "")


class Writer(Base):
    def __init__(self, model: Model, options: Any):
        self._tp, self._pp = options.tp, options.pp
        self._step = options.step
        self._heads = model.heads
        unknown = names.unknown(model.tensors)
        if unknown:
            raise ConversionError(
                f"there is no rule for {some(unknown)}: to Megatron go models with the names of "
                f"{', '.join(names.FAMILIES)} in transformers"
            )
        for name in [*model.tensors]:
            one = model.tensors.pop(name)
            if names.MADE.match(names.usual(name)):
                model.left_out.append(name)
            else:
                model.tensors[names.usual(name)] = one
        model.tied = {names.usual(one): names.usual(of) for one, of in model.tied.items()}
        model.leave_out_the_rest()
        family = names.family_of(model.tensors)
        layers, experts = names.counts(model.tensors)
        if layers % self._pp or not layers:
            raise ConversionError(f"{layers} layers are not divided by {self._pp} stages (pp)")
        self._layers = layers // self._pp
        embedding = next((name for name in names.EMBEDDINGS if name in model.tensors), None)
        if embedding is None:
            raise ConversionError(f"there is no {' or '.join(names.EMBEDDINGS[:2])}")
        self._multiple = options.vocab_multiple * self._tp
        self._placed = self._present(model, [*names.placed(family, layers, experts)])
        self.order = [one.parts for one in self._placed]
        self._by_parts = {tuple(one.parts): one for one in self._placed}
        self._is_copied = self._pp > 1 and names.HEAD in model.tied
        self._files: list[dict[str, list[Kind]]] = [{} for _ in range(self._pp)]
        kinds = {name: one.kind for name, one in model.tensors.items()}
        for one in self._placed:
            empty = [
                torch.empty(kinds[n].shape, dtype=kinds[n].dtype, device="meta") for n in one.parts
            ]
            shares = [Kind(share.dtype, tuple(share.shape)) for share in self._fuse(one, empty)]
            for stage, name in self._where(one):
                self._files[stage][name] = shares
        self._arguments = _arguments(model, options, family, (layers, experts), kinds)
        self.nbytes = sum(
            kind.nbytes for file in self._files for shares in file.values() for kind in shares
        )
        self._places: dict[tuple[int, int], tuple[Path, dict[str, int]]] = {}

    def _present(self, model: Model, rules: list[Placed]) -> list[Placed]:
        """Those whose tensors there are: all layers and experts have the same."""
        used = {one.rule for one in rules if any(part in model.tensors for part in one.parts)}
        wanted = [one for one in rules if one.rule in used]
        missing = [part for one in wanted for part in one.parts if part not in model.tensors]
        if missing:
            raise ConversionError(f"there is no {some(missing)}")
        return wanted

    def _fuse(self, one: Placed, parts: list[torch.Tensor]) -> list[torch.Tensor]:
        return names.fuse(one.rule, parts, self._heads, self._tp, self._multiple)

    def _where(self, one: Placed) -> list[tuple[int, str]]:
        """The stages that have it, and its name there."""
        if one.layer is not None:
            stage, layer = divmod(one.layer, self._layers)
            return [(stage, one.megatron(layer))]
        name, last = one.megatron(None), self._pp - 1
        if not name.startswith("embedding."):
            return [(last, name)]
        # The last stage also computes with the embedding if it has no weights of its own.
        is_copied = self._is_copied and name.endswith("word_embeddings.weight")
        return [(0, name), (last, "output_layer.weight")] if is_copied else [(0, name)]

    def begin(self, folder: Path) -> None:
        self.folder = folder
        called = "release" if self._step is None else f"iter_{self._step:07d}"
        for stage, tensors in enumerate(self._files):
            for rank in range(self._tp):
                path = folder / called / _rank_folder(rank, stage, self._pp) / FILE
                path.parent.mkdir(parents=True)
                kinds = {name: shares[rank] for name, shares in tensors.items()}
                places = archive.make(path, kinds, self._whole)
                self._places[rank, stage] = path, places
        text = called if self._step is None else str(self._step)
        write(folder / TRACKER, text.encode())

    def _whole(self, tensors: dict[str, torch.Tensor]) -> dict:
        step = self._step or 0
        return {
            "args": self._arguments,
            "checkpoint_version": 3.0,
            "iteration": step,
            "model": tensors,
        }

    def put(self, parts: list[str], tensors: list[torch.Tensor]) -> None:
        one = self._by_parts[tuple(parts)]
        for rank, share in enumerate(self._fuse(one, tensors)):
            share = share.contiguous()
            for stage, name in self._where(one):
                path, places = self._places[rank, stage]
                if share.nbytes:
                    put_tensor(path, places[name], share)


def _arguments(model, options, family: str, counts: tuple[int, int], kinds) -> Namespace:
    """What Megatron knows of a model, by its names (`--use-checkpoint-args`)."""
    embedding = next(kinds[name] for name in names.EMBEDDINGS if name in kinds)
    said, (layers, experts) = model.config, counts
    multiple = options.vocab_multiple * options.tp
    keys = next((one for name, one in kinds.items() if name.endswith(".k_proj.weight")), None)
    queries = next((one for name, one in kinds.items() if name.endswith(".q_proj.weight")), keys)
    groups = model.heads * keys.shape[0] // queries.shape[0] if keys else model.heads
    positions = said.get("max_position_embeddings", said.get("n_positions"))
    return Namespace(
        tensor_model_parallel_size=options.tp,
        pipeline_model_parallel_size=options.pp,
        num_layers=layers,
        hidden_size=embedding.shape[1],
        num_attention_heads=model.heads,
        group_query_attention=groups != model.heads,
        num_query_groups=groups,
        vocab_size=embedding.shape[0],
        padded_vocab_size=-(-embedding.shape[0] // multiple) * multiple,
        make_vocab_size_divisible_by=options.vocab_multiple,
        max_position_embeddings=positions,
        num_experts=experts or None,
        swiglu=family != "gpt2",
        normalization="LayerNorm" if family == "gpt2" else "RMSNorm",
        add_bias_linear=family == "gpt2",
        position_embedding_type="learned_absolute" if family == "gpt2" else "rope",
        untie_embeddings_and_output_weights=names.HEAD not in model.tied,
        params_dtype=embedding.dtype,
    )


@dataclass
class _Tensor:
    """A tensor of Megatron's from the ranks' shares."""

    placed: Placed
    shares: list[Stored]
    heads: int | None
    width: int
    rows: int | None

    def parts(self, shares: list[torch.Tensor]) -> list[torch.Tensor]:
        made = names.part(self.placed.rule, shares, self.heads, self.width, self.rows)
        return [one.contiguous() for one in made]

    @cached_property
    def kinds(self) -> list[Kind]:
        empty = [
            torch.empty(one.kind.shape, dtype=one.kind.dtype, device="meta") for one in self.shares
        ]
        return [Kind(one.dtype, tuple(one.shape)) for one in self.parts(empty)]


class _Parts:
    """Reads all parts of one tensor at a time: they are asked for one after the other."""

    def __init__(self):
        self._last: _Tensor | None = None
        self._read: dict[int, torch.Tensor] = {}

    def read(self, tensor: _Tensor, at: int) -> torch.Tensor:
        if self._last is not tensor or at not in self._read:
            self._read = {}
            shares = [one.read() for one in tensor.shares]
            self._last, self._read = tensor, dict(enumerate(tensor.parts(shares)))
        return self._read.pop(at)


@dataclass(frozen=True)
class _Part:
    reader: _Parts
    tensor: _Tensor
    at: int

    @property
    def kind(self) -> Kind:
        return self.tensor.kinds[self.at]

    def read(self) -> torch.Tensor:
        return self.reader.read(self.tensor, self.at)


def open_model(path: Path, heads: int | None, rows: int | None) -> Model:
    """The checkpoint that Megatron would load from `path`, or one iteration's folder.

    Raises ConversionError for missing ranks, truncated files, and names that no rule has.
    """
    folder = path
    if (path / TRACKER).is_file():
        text = (path / TRACKER).read_text().strip()
        folder = path / (text if text == "release" else f"iter_{int(text):07d}")
    ranks = _ranks(folder)
    stages = [
        [ranks[rank, stage] for rank in range(max(r for r, _ in ranks) + 1)]
        for stage in range(max(s for _, s in ranks) + 1)
    ]
    said = stages[0][0].get("args")
    arguments = vars(said) if isinstance(said, Namespace) else {}
    _check_sizes(folder, arguments, len(stages[0]), len(stages))
    made = Model({}, path, step=int(stages[0][0].get("iteration") or 0))
    made.left_out += [name for name in ("optimizer",) if name in stages[0][0]]
    made.heads = (
        heads or made.config.get("num_attention_heads") or arguments.get("num_attention_heads")
    )
    rows = rows or arguments.get("vocab_size") or made.config.get("vocab_size")
    shares, layers = _by_name(stages)
    _add_tensors(made, shares, layers, rows)
    check_ends(one for each in shares.values() for one in each)
    made.check(path / MANIFEST)
    return made


def _ranks(folder: Path) -> dict[tuple[int, int], dict]:
    """What each rank has, by its numbers in a layer and in the pipeline."""
    found: dict[tuple[int, int], dict] = {}
    for path in sorted(folder.glob("mp_rank_*")):
        numbers = [int(one) for one in path.name.split("_")[2:]]
        if len(numbers) > 2:
            raise ConversionError(f"{path}: expert parallelism is not read: save it with 1")
        file = path / FILE if (path / FILE).is_file() else path / "model_rng.pt"
        if not file.is_file():
            raise ConversionError(f"{path / FILE} is missing")
        made = archive.read(file)
        if not isinstance(made, dict) or "model" not in made:
            more = ": virtual stages are not read" if "model0" in made else ""
            raise ConversionError(f"{file} has no model{more}")
        found[numbers[0], numbers[1] if len(numbers) == 2 else 0] = made
    if not found:
        raise ConversionError(f"{folder} has no mp_rank_ folders")
    tensor, stages = (max(numbers) + 1 for numbers in zip(*found, strict=True))
    missing = [
        _rank_folder(rank, stage, stages)
        for stage in range(stages)
        for rank in range(tensor)
        if (rank, stage) not in found
    ]
    if missing:
        raise ConversionError(f"{folder} has no {some(missing)}")
    return found


def _check_sizes(folder: Path, arguments: dict, tp: int, pp: int) -> None:
    for name, size in (("tensor", tp), ("pipeline", pp)):
        expected = arguments.get(f"{name}_model_parallel_size", size)
        if expected != size:
            raise ConversionError(
                f"{folder} has {size} {name} parallel ranks' files, and was saved by {expected}"
            )


def _by_name(stages: list[list[dict]]) -> tuple[dict[str, list[Stored]], int]:
    """Each tensor's shares, by the name that it has in a whole model, and the number of layers."""
    made: dict[str, list[Stored]] = {}
    first = 0
    has_experts = any("mlp.router." in name for name in stages[0][0]["model"])
    for ranks in stages:
        all_shares = [
            {
                names.megatron_usual(name, has_experts): one
                for name, one in rank["model"].items()
                if not name.endswith(_EXTRA)
            }
            for rank in ranks
        ]
        layers = 0
        for name in all_shares[0]:
            each = [shares.get(name) for shares in all_shares]
            if not all(isinstance(one, Stored) for one in each):
                raise ConversionError(f"not all ranks have a tensor {name}")
            if found := re.match(r"decoder\.layers\.(\d+)\.(.*)", name):
                layers = max(layers, int(found[1]) + 1)
                name = f"decoder.layers.{first + int(found[1])}.{found[2]}"
            made[name] = each
        first += layers
    return made, first


def _add_tensors(model: Model, shares: dict[str, list[Stored]], layers: int, rows) -> None:
    family = "llama"
    if any(".router." in name for name in shares):
        family = "mixtral"
    elif any("position_embeddings" in name for name in shares):
        family = "gpt2"
    _, experts = names.counts(shares)
    reader, known = _Parts(), set()
    for one in names.placed(family, layers, experts):
        name = one.megatron(one.layer)
        if name not in shares:
            continue
        known.add(name)
        proj = shares.get(f"decoder.layers.{one.layer}.self_attention.linear_proj.weight", [])
        width = sum(each.kind.shape[1] for each in proj)
        tensor = _Tensor(one, shares[name], model.heads, width, rows)
        for at, part in enumerate(one.parts):
            model.tensors[part] = _Part(reader, tensor, at)
    if unknown := sorted(shares.keys() - known):
        raise ConversionError(f"there is no rule for {some(unknown)}")
