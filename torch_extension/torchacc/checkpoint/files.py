"""Checkpoints as folders on disk: written, committed, found, verified and pruned.

Standard library alone: the saver (`saver.py`) runs this without PyTorch.

A checkpoint is written to `.tmp-<order>-<token>`: each rank's part, then its size and checksum in
`<part>.json`. When all parts are there, `manifest.json` is renamed into place, which is the moment
from which the checkpoint is whole; the folder's name `step_<step>` is for people. Whoever looks for
checkpoints believes manifests only, whatever the folder's name is: so nothing that was whole is
lost, wherever a process is killed.
"""

import contextlib
import fcntl
import json
import mmap
import os
import secrets
import shutil
import tempfile
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

MANIFEST, METADATA, LATEST = "manifest.json", ".metadata", "latest"
TEMPORARY, REMOVED = ".tmp-", ".removed-"
CHUNK = 8 << 20  # bytes
Name = str | os.PathLike  # of a file or folder


@dataclass(frozen=True)
class Saved:
    """A whole checkpoint on disk. Of two the one with the larger `order` was saved later."""

    path: Path
    id: str
    order: int
    step: int
    world: int
    files: dict[str, dict[str, int]]  # by name: size in bytes, crc32


def part_name(part: int) -> str:
    """The file of a rank's part, as PyTorch's `FileSystemWriter` calls it."""
    return f"__{part}_0.distcp"


def whole(folder: Name) -> list[Saved]:
    """The whole checkpoints in `folder`, in the order in which they were saved."""
    found: dict[str, Saved] = {}
    # A checkpoint renamed meanwhile is found under its final name.
    for pattern in (f"{TEMPORARY}*", "step_*"):
        manifests = map(read_manifest, Path(folder).glob(pattern))
        found |= {saved.id: saved for saved in manifests if saved is not None}
    return sorted(found.values(), key=lambda saved: saved.order)


def read_manifest(path: Path) -> Saved | None:
    """None where there is none, or what is no manifest: that of a checkpoint being removed."""
    try:
        said = json.loads((path / MANIFEST).read_bytes())
        fields = (said[name] for name in ("id", "order", "step", "world", "files"))
        return Saved(path, *fields)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def problems(saved: Saved, names: Iterable[str] | None = None) -> list[str]:
    """What is wrong with these files of a checkpoint, all by default: in words, one a file."""
    wrong = []
    for name in saved.files if names is None else names:
        expected, path = saved.files[name], saved.path / name
        try:
            size = path.stat().st_size
            if size != expected["size"]:
                wrong.append(f"{path} has {size} bytes instead of {expected['size']}")
            elif checksum(path) != expected["crc32"]:
                wrong.append(f"{path} has another checksum than when it was saved")
        except OSError as error:
            wrong.append(f"{path}: {error.strerror}")
    return wrong


def checksum(path: Name) -> int:
    """crc32 of a file's bytes."""
    made = 0
    with open(path, "rb", buffering=0) as file:
        with contextlib.suppress(OSError):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_SEQUENTIAL)
        block = memoryview(bytearray(CHUNK))
        while count := file.readinto(block):
            made = zlib.crc32(block[:count], made)
    return made


def write_part(folder: Name, request: dict) -> None:
    """Copies a part to the temporary folder of its checkpoint, and says there that it is whole.

    Raises OSError for what the disk or the source refuses; nothing of the part is then left.
    """
    if is_whole(folder, request):  # written by the saver of a lost rank
        return
    temporary = temporary_folder(folder, request)
    temporary.mkdir(parents=True, exist_ok=True)
    try:
        _write_part(temporary, request)
    except FileNotFoundError:
        if not is_whole(folder, request):
            raise


def _write_part(temporary: Path, request: dict) -> None:
    part = request["part"]
    with _held(request) as (data, metadata):
        with ThreadPoolExecutor(1) as other:
            crc32 = other.submit(zlib.crc32, data)
            write(temporary / part_name(part), data)
            crc32 = crc32.result()
        if part == 0:
            write(temporary / METADATA, metadata)
        said = {"size": len(data), "crc32": crc32}
    write(temporary / f"{part}.json", json.dumps(said).encode())


@contextlib.contextmanager
def _held(request: dict):
    """A snapshot's part and the metadata behind it. Who wants to overwrite them takes the lock."""
    source, header, size = Path(request["source"]), request["header"], request["size"]
    with open(source, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        if header and json.loads(Path(header).read_bytes())["id"] != request["id"]:
            raise FileNotFoundError(f"{source} holds another snapshot by now")
        memory = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        yield memory[:size], memory[size : size + request["metadata_size"]]


def write(path: Path, data: bytes | memoryview) -> None:
    """A whole file or none, on the disk when this returns."""
    name = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with open(name, "xb", buffering=0) as file:
            view = memoryview(data)
            for begin in range(0, len(view), CHUNK):
                block = view[begin : begin + CHUNK]
                while block:
                    block = block[file.write(block) :]
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            name.unlink()
        raise
    sync_folder(path.parent)


def written(folder: Name, request: dict) -> int:
    """Bytes of a part that are in its file so far."""
    temporary, name = temporary_folder(folder, request), part_name(request["part"])
    sizes = [0]
    for path in (temporary / name, *temporary.glob(f".{name}.*")):
        with contextlib.suppress(OSError):
            sizes.append(path.stat().st_size)
    return max(sizes)


def sync_folder(path: Name) -> None:
    """Makes the names in a folder last."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def temporary_folder(folder: Name, request: dict) -> Path:
    return Path(folder) / f"{TEMPORARY}{request['id']}"


def commit(folder: Name, request: dict) -> bool:
    """Makes a checkpoint of its parts if all are there; True when it is whole.

    Raises FileNotFoundError when its temporary folder is gone: a later one was committed first.
    """
    folder, temporary = Path(folder), temporary_folder(folder, request)
    if is_whole(folder, request):
        return True
    if not temporary.is_dir():
        raise FileNotFoundError(f"{temporary} is gone: a later checkpoint was committed")
    parts: dict[str, dict[str, int]] = {}
    for part in range(request["world"]):
        try:
            parts[part_name(part)] = json.loads((temporary / f"{part}.json").read_bytes())
        except FileNotFoundError:
            return False
    size = (temporary / METADATA).stat().st_size
    parts[METADATA] = {"size": size, "crc32": checksum(temporary / METADATA)}
    said = {name: request[name] for name in ("id", "order", "step", "world")}
    write(temporary / MANIFEST, json.dumps(said | {"files": parts}, indent=1).encode())
    settle(folder)
    return True


def is_whole(folder: Name, request: dict) -> bool:
    # In this order, since it may be renamed meanwhile.
    places = temporary_folder(folder, request), Path(folder) / f"step_{request['step']}"
    found = (read_manifest(place) for place in places)
    return any(saved is not None and saved.id == request["id"] for saved in found)


def settle(folder: Name) -> list[Saved]:
    """Gives every whole checkpoint its name, and the latest the link `latest`. What had that name
    goes: it was saved earlier. Returns them as `whole`."""
    folder = Path(folder)
    with _locked(folder):
        all_saved = whole(folder)
        newest = {saved.step: saved for saved in all_saved}
        for saved in all_saved:
            place = folder / f"step_{saved.step}"
            if newest[saved.step] is not saved:
                remove(saved.path)
            elif saved.path != place:
                if place.exists():
                    remove(place)
                os.rename(saved.path, place)
        if all_saved:
            link = folder / f".{LATEST}"
            link.unlink(missing_ok=True)
            os.symlink(f"step_{all_saved[-1].step}", link)
            os.replace(link, folder / LATEST)
        sync_folder(folder)
        # A checkpoint that became whole just now is renamed by its writer.
        return [saved for saved in whole(folder) if not saved.path.name.startswith(TEMPORARY)]


@contextlib.contextmanager
def _locked(folder: Path):
    """Of the savers on this machine one alone moves and removes checkpoints: a rank that was
    killed has left one, and the rank that took its place has another."""
    with open(folder / ".lock", "w") as file:
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def prune(folder: Name, keep_last: int | None, keep_every: int | None) -> None:
    """Removes checkpoints that are not kept, and what unfinished older saves left."""
    folder = Path(folder)
    with _locked(folder):
        all_saved = whole(folder)
        for at, saved in enumerate(reversed(all_saved)):
            is_late = keep_last is None or at < keep_last
            if not is_late and not (keep_every and saved.step % keep_every == 0):
                remove(saved.path)
        for path in folder.glob(f"{TEMPORARY}*"):
            # Identifiers begin with the order, in figures of equal length.
            if all_saved and path.name < f"{TEMPORARY}{all_saved[-1].id}":
                remove(path)
        for path in folder.glob(f"{REMOVED}*"):  # left by a killed process
            shutil.rmtree(path, ignore_errors=True)


def remove(path: Path) -> None:
    """At once no checkpoint any more, whenever its files are gone."""
    gone = Path(tempfile.mkdtemp(prefix=REMOVED, dir=path.parent))
    os.rename(path, gone)
    shutil.rmtree(gone, ignore_errors=True)
