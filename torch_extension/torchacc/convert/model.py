"""What a checkpoint in any format holds: a model's tensors by the names that Hugging Face gives
them, and what else there is."""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from torchacc.convert import names
from torchacc.convert.stored import Cast, Checked, ConversionError, Readable, checksum

MANIFEST = "manifest.json"  # a `Checkpointer`'s, or one with only checksums of tensors
COPIED = {".json", ".jinja", ".model", ".txt", ".md"}  # configuration, tokenizer
NOT_COPIED = {MANIFEST, "latest_checkpointed_iteration.txt", "model.safetensors.index.json"}


@dataclass
class Model:
    """`tensors` by name; `tied` names are those of tensors that have another one, too. `others` are
    tensors that DCP has beside the model, by full name, and `values` the bytes of what is none;
    `paths` are the full names in pieces. `folder` has files that are no tensors."""

    tensors: dict[str, Readable]
    folder: Path
    tied: dict[str, str] = field(default_factory=dict)
    others: dict[str, Readable] = field(default_factory=dict)
    values: dict[str, Readable] = field(default_factory=dict)
    paths: dict[str, tuple] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)  # likewise, but read already
    key: str | None = None  # under which DCP stores the model
    heads: int | None = None
    dtype: torch.dtype | None = None  # the type to which it is converted
    step: int = 0
    is_training: bool = False  # saved by a `Checkpointer`
    world: int = 1  # ranks that have values of their own in a `Checkpointer`'s checkpoint
    left_out: list[str] = field(default_factory=list)

    def full_name(self, name: str) -> str:
        """As DCP calls a tensor of the model."""
        return f"{self.key}.{name}" if self.key else name

    def everything(self) -> dict[str, Readable]:
        return {**self.tensors, **self.others, **self.values}

    def leave_out_the_rest(self) -> None:
        """For formats that have models alone."""
        self.left_out += [*self.others, *self.values, *self.own]
        self.others, self.values, self.own = {}, {}, {}

    @property
    def config(self) -> dict[str, Any]:
        """Hugging Face's, empty if there is none."""
        try:
            return json.loads((self.folder / "config.json").read_bytes())
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise ConversionError(f"{self.folder / 'config.json'}: {error}") from error

    def copy_files(self, folder: Path) -> None:
        """What is beside the model, whose configuration names its type."""
        for path in sorted(self.folder.iterdir()):
            if path.suffix in COPIED and path.is_file() and path.name not in NOT_COPIED:
                shutil.copyfile(path, folder / path.name)
        said = self.config
        names = [name for name in ("dtype", "torch_dtype") if name in said]
        if self.dtype is not None and names:
            said |= dict.fromkeys(names, str(self.dtype).removeprefix("torch."))
            (folder / "config.json").write_text(json.dumps(said, indent=2))

    def cast(self, dtype: torch.dtype | None) -> None:
        """Makes the model's floats that type; neither integers nor what is beside the model."""
        self.dtype = dtype
        for name, one in self.tensors.items():
            if dtype is not None and one.kind.dtype.is_floating_point and one.kind.dtype != dtype:
                self.tensors[name] = Cast(one, dtype)

    def check(self, manifest: Path, by_full_name: bool = False) -> None:
        """Compares checksums when tensors are read, if there are some. Raises ConversionError for
        tensors that are not as they were."""
        try:
            said = json.loads(manifest.read_bytes()).get("tensors")
        except FileNotFoundError:
            return
        except (ValueError, AttributeError) as error:
            raise ConversionError(f"{manifest}: {error}") from error
        if said is None:
            return
        called = self.full_name if by_full_name else str
        found = {called(name): (self.tensors, name) for name in self.tensors}
        for owner in (self.others, self.values):
            found |= {name: (owner, name) for name in owner}
        if missing := sorted(said.keys() - found.keys()):
            raise ConversionError(f"{manifest.parent} has no longer {some(missing)}")
        for full, (owner, name) in found.items():
            one = owner[name]
            # Tensors without a checksum were written by another program.
            if full in said:
                if str(one.kind) != said[full]["kind"]:
                    raise ConversionError(
                        f"{manifest.parent}: {full} is {one.kind}, not {said[full]['kind']}"
                    )
                owner[name] = Checked(one, f"{manifest.parent}: {full}", said[full]["crc32"])

    def tie(self) -> None:
        """Finds out if the last layer has the weights of the embedding, which are then kept once:
        if they are the same, or are not there, and the configuration does not deny it."""
        head = names.HEAD
        embedding = next((name for name in names.EMBEDDINGS if name in self.tensors), None)
        if embedding is None or self.config.get("tie_word_embeddings") is False:
            return
        if head not in self.tensors:
            if names.family_of(self.tensors) is not None:
                self.tied.setdefault(head, embedding)
        elif _is_same(self.tensors[head], self.tensors[embedding]):
            del self.tensors[head]
            self.tied[head] = embedding


class Writer:
    """Writes a model in a format. `order` has the names of tensors that are put together; `nbytes`
    is about what the files take."""

    order: list[list[str]]
    nbytes: int
    folder: Path  # of the manifest and other files that are no tensors

    def begin(self, folder: Path) -> None:
        """Makes all files but their tensors, in a folder that is there."""
        raise NotImplementedError

    def put(self, names: list[str], tensors: list[torch.Tensor]) -> None:
        raise NotImplementedError

    def stored_name(self, name: str) -> str:
        """What the manifest calls it."""
        return name

    def manifest(self) -> dict[str, Any]:
        """What else the manifest says."""
        return {}


def _is_same(one: Readable, other: Readable) -> bool:
    return one.kind == other.kind and checksum(one.read()) == checksum(other.read())


def some(said: list[str]) -> str:
    """The first names of a list, and how many there are besides."""
    more = f" and {len(said) - 8} more" if len(said) > 8 else ""
    return ", ".join(said[:8]) + more
