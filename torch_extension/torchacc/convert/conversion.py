"""`convert`: a tensor at a time, whole or not at all, and read again in the end."""

import contextlib
import errno
import fcntl
import glob
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from torchacc._progress import Task, task
from torchacc.checkpoint.files import sync_folder, write
from torchacc.convert import dcp_files, megatron_files, safetensors_files, shards, torch_files
from torchacc.convert.model import MANIFEST, Model, Writer
from torchacc.convert.stored import Checked, ConversionError, checksum

UNFINISHED = ".converting-"
KINDS = ("all", "model", "optimizer")
FORMATS = ("safetensors", "dcp", "checkpoint", "megatron")


@dataclass(frozen=True)
class Options:
    """See `convert`."""

    key: str | None = None
    dtype: torch.dtype | None = None
    files: int = 1
    shard_size: int = 5 << 30
    tp: int = 1
    pp: int = 1
    heads: int | None = None
    vocab_size: int | None = None
    vocab_multiple: int = 128
    step: int | None = None

    def __post_init__(self) -> None:
        for name in ("files", "shard_size", "tp", "pp", "vocab_multiple"):
            if getattr(self, name) < 1:
                raise ConversionError(f"{name} is {getattr(self, name)}: at least 1")


def convert(
    source: str | os.PathLike,
    target: str | os.PathLike,
    to: str,
    *,
    key: str | None = None,
    dtype: torch.dtype | None = None,
    files: int = 1,
    shard_size: int = 5 << 30,
    tp: int = 1,
    pp: int = 1,
    heads: int | None = None,
    vocab_size: int | None = None,
    vocab_multiple: int = 128,
    step: int | None = None,
) -> None:
    """Makes of the checkpoint `source` (its format is seen) the folder `target`, which must not be
    there, in the format `to`: "safetensors", "dcp", "checkpoint" (what a `Checkpointer` restores)
    or "megatron".

    The model goes as `dtype` if it is given (its floats do); what DCP has beside it, as states of
    optimizers, stays as it is, and goes to other DCP alone. `key` is the part of a DCP's state that
    is the model, in the source, else in the target. Of the target: `files` of DCP, among which rows
    are shared out; `shard_size` of safetensors in bytes; `tp` and `pp` ranks of Megatron, and
    `vocab_multiple * tp`, of which its vocabulary is padded to a multiple; `step` of a training. Of
    the source: `heads` of attention, if no configuration says it, and the `vocab_size` without
    padding.

    Holds one tensor at a time, or those that Megatron has as one. `target` gets its name when all
    that was written has been read again, and its checksums compared; they are in its manifest.json.
    How far it is, `set_progress` tells.

    Raises FileExistsError for a `target` that is there; ConversionError, with nothing left, for
    what is wrong with the source, does not fit the target's format, or has no room on the disk.
    """
    options = Options(
        key, dtype, files, shard_size, tp, pp, heads, vocab_size, vocab_multiple, step
    )
    source, target = Path(source), Path(target)
    if to not in FORMATS:
        raise ConversionError(f"to {to!r}: one of {', '.join(FORMATS)}")
    model = open_model(source, options)
    model.cast(dtype)
    writer = _writer(to, model, options)
    again = replace(options, key=model.key, heads=model.heads)
    _make(model, target, writer, lambda folder: open_model(folder, again))


def consolidate(
    folder: str | os.PathLike,
    target: str | os.PathLike,
    *,
    parts: int = 1,
    kind: str = "all",
    model_pattern: str = shards.MODEL,
    optimizer_pattern: str = shards.OPTIMIZER,
    model_name: str = "model_consolidated.pth",
    optimizer_name: str = "optimizer_consolidated.pth",
) -> None:
    """Puts together what ranks have saved in `folder`: the shards of TorchAcc and PyTorch/XLA FSDP
    (files like `model_pattern` and `optimizer_pattern`), a DCP, or the latest checkpoint of a
    `Checkpointer`. The new folder `target` gets a state dict, in the file `model_name`, and the
    state of the optimizer by names, for `set_optimizer_state_dict`, in `optimizer_name`; or, where
    `parts` is more than one, that many parts: a DCP, of a `Checkpointer` if it was one.

    `kind` is "all", "model" or "optimizer". Otherwise, and in what it raises, as `convert`.
    """
    folder, options = Path(folder), Options(files=parts)
    if kind not in KINDS:
        raise ConversionError(f"kind {kind!r}: one of {', '.join(KINDS)}")
    if not folder.exists():
        raise FileNotFoundError(f"{folder}: there is none")
    if dcp_files.is_here(folder):
        model = dcp_files.open_model(folder, None)
        model.tie()
    else:
        model = shards.open_model(
            folder, model_pattern, None if kind == "model" else optimizer_pattern
        )
    if kind == "model":
        model.leave_out_the_rest()
    elif kind == "optimizer":
        model.left_out += [*model.tensors, *model.tied]
        model.tensors, model.tied = {}, {}
    if parts > 1:
        writer: Writer = dcp_files.Writer(model, options, model.is_training and kind == "all")
        key = "optimizer" if kind == "optimizer" else model.key
        _make(model, Path(target), writer, lambda one: dcp_files.open_model(one, key))
    else:
        writer = torch_files.Writer(model, model_name, optimizer_name)
        named = {"model": model_name, "optimizer": optimizer_name}
        _make(model, Path(target), writer, lambda one: torch_files.open_model(one, **named))


def _make(
    model: Model,
    target: Path,
    writer: Writer,
    reopen: Callable[[Path], Model],
) -> None:
    with _new_folder(target) as folder:
        free = shutil.disk_usage(folder).free
        if free < writer.nbytes:
            raise ConversionError(
                f"{target.parent} has {free >> 20} MiB left, and {writer.nbytes >> 20} are needed"
            )
        # The conversion writes the bytes and reads them back.
        with task("convert", f"to {target}", 2 * writer.nbytes, "bytes") as conversion:
            checksums = _write(model, writer, folder, conversion)
            model.copy_files(writer.folder)
            manifest = {**writer.manifest(), "tensors": checksums, "left_out": model.left_out}
            write(writer.folder / MANIFEST, json.dumps(manifest, indent=1).encode())
            _sync(folder)
            _verify(folder, reopen, checksums, conversion)


def open_model(path: Path, options: Options) -> Model:
    """What is at `path`, whichever format it has.

    Raises FileNotFoundError, and ConversionError for what is no checkpoint or a damaged one.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is none")
    if dcp_files.is_here(path):
        made = dcp_files.open_model(path, options.key)
    elif megatron_files.is_here(path):
        made = megatron_files.open_model(path, options.heads, options.vocab_size)
    elif safetensors_files.is_here(path):
        made = safetensors_files.open_model(path)
        made.key = options.key
    else:
        raise ConversionError(
            f"{path} is no checkpoint: it has no *.safetensors, .metadata (DCP), step_* with a "
            "manifest.json (torchacc.checkpoint), or mp_rank_* (Megatron)"
        )
    if made.heads is None:
        config = made.config
        made.heads = options.heads or config.get("num_attention_heads", config.get("n_head"))
    made.tie()
    return made


def _writer(to: str, model: Model, options: Options) -> Writer:
    if to == "megatron":
        return megatron_files.Writer(model, options)
    if to == "safetensors":
        return safetensors_files.Writer(model, options)
    return dcp_files.Writer(model, options, is_whole_training=to == "checkpoint")


def _write(model: Model, writer: Writer, folder: Path, conversion: Task) -> dict[str, dict]:
    """Writes all tensors; returns what the manifest says of them."""
    checksums, everything = {}, model.everything()
    try:
        writer.begin(folder)
        for names in writer.order:
            read = [everything[name].read() for name in names]
            for name, tensor in zip(names, read, strict=True):
                made = {"kind": str(everything[name].kind), "crc32": checksum(tensor)}
                checksums[writer.stored_name(name)] = made
            writer.put(names, read)
            conversion.done += sum(tensor.nbytes for tensor in read)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise ConversionError(f"{folder.parent} has no room: {error.strerror}") from error
        raise
    return checksums


def _verify(
    folder: Path, reopen: Callable[[Path], Model], checksums: dict, conversion: Task
) -> None:
    """Reads what was written as a source, whose checksums are then those of what was read."""
    checked = [one for one in reopen(folder).everything().values() if type(one) is Checked]
    if len(checked) != len(checksums):
        raise ConversionError(f"{folder} has {len(checked)} tensors, not {len(checksums)}")
    for one in checked:
        conversion.done += one.read().nbytes


@contextlib.contextmanager
def _new_folder(target: Path) -> Iterator[Path]:
    """A folder that becomes `target` if no error leaves, and else is gone. So are those of
    processes that were killed."""
    if target.is_symlink() or target.exists():
        raise FileExistsError(f"{target} is there already, and is not overwritten")
    target = target.absolute()
    target.parent.mkdir(parents=True, exist_ok=True)
    start = f"{UNFINISHED}{target.name}-"
    for other in target.parent.glob(f"{glob.escape(start)}*"):
        with contextlib.suppress(OSError), _locked(other):
            shutil.rmtree(other)
    folder = target.parent / f"{start}{secrets.token_hex(4)}"
    folder.mkdir()
    try:
        with _locked(folder):
            yield folder
            os.rename(folder, target)
        sync_folder(target.parent)
    except BaseException as error:
        shutil.rmtree(folder, ignore_errors=True)
        if isinstance(error, OSError) and error.errno == errno.ENOTEMPTY:
            raise FileExistsError(f"{target} is there by now, and is not overwritten") from error
        raise


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Raises OSError if another process has it: the one that converts."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _sync(folder: Path) -> None:
    """Has all on the disk, and nothing of it in memory: what is read then, comes from there."""
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        sync_folder(place)
