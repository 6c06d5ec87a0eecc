"""Snapshots in memory that outlives the process: files in /dev/shm, two for each rank's part.

A slot is whole if it has a header, which goes before the first byte is overwritten and comes back,
by renaming, after the last one. The two take turns, so that one is whole wherever a process is
killed. Where /dev/shm has no room, or nobody wants snapshots, one slot without a name takes the
part to the disk, and goes with the process.
"""

import contextlib
import ctypes
import dataclasses
import fcntl
import json
import mmap
import os
import shutil
import tempfile
import weakref
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from torchacc.checkpoint.files import part_name

HEADER = "header.json"


@dataclass(frozen=True)
class Snapshot:
    """A rank's part, whole in memory. Fields as in `files.Saved`."""

    path: Path
    id: str
    order: int
    step: int
    world: int
    part: int
    size: int  # bytes, of the part
    metadata_size: int  # bytes of the metadata of all parts, which follows the part

    @property
    def source(self) -> Path:
        return self.path / part_name(self.part)

    def request(self) -> dict:
        """What a saver needs to write it."""
        place = {"source": str(self.source), "header": str(self.path / HEADER)}
        return {**dataclasses.asdict(self), **place, "path": None}

    def read(self) -> tuple[memoryview, bytes]:
        """The part, as it lies there, and the metadata of all parts."""
        with open(self.source, "rb") as file:
            data = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        return data[: self.size], bytes(data[self.size : self.size + self.metadata_size])


def folder_for(folder: Path, job: str) -> Path:
    """Where this machine keeps the snapshots of the job whose checkpoints are in `folder`. Those
    that another job had there, before `folder` was removed and made again, go. The first slot that
    is opened makes it, so that who saves nothing leaves nothing.

    Raises PermissionError if it is somebody else's, whose snapshots are not to be trusted.
    """
    root = Path(os.environ.get("TORCHACC_SNAPSHOTS") or "/dev/shm")
    place = f"torchacc-{os.getuid()}-{zlib.crc32(str(folder).encode()):08x}-"
    for other in root.glob(f"{place}*"):
        if other.name != place + job:
            shutil.rmtree(other, ignore_errors=True)
    made = root / (place + job)
    if made.exists():
        _check_owner(made)
    return made


def _check_owner(folder: Path) -> None:
    if folder.stat().st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user: remove it")


def snapshots(folder: Path) -> list[Snapshot]:
    """Whole ones, of all parts that are on this machine."""
    found = []
    for path in sorted(folder.glob("*.[01]")):
        try:
            said = json.loads((path / HEADER).read_bytes())
            snapshot = Snapshot(path, **said)
            if snapshot.source.stat().st_size >= snapshot.size + snapshot.metadata_size:
                found.append(snapshot)
        except (OSError, ValueError, TypeError):
            continue
    return found


class Slot:
    """Memory for one snapshot of a part. `path` is None for one without a name."""

    def __init__(self, path: Path | None, part: int):
        self.path, self.part = path, part
        self.layout = None  # the layout whose envelopes and metadata are in memory
        self.id: str | None = None
        self.bytes: torch.Tensor | None = None  # uint8
        self._file, self._view, self._unpin = None, None, None

    @property
    def place(self) -> dict[str, str]:
        """Where other processes find it."""
        if self.path is None:
            return {"source": f"/proc/{os.getpid()}/fd/{self._file.fileno()}", "header": ""}
        return {"source": str(self.path / part_name(self.part)), "header": str(self.path / HEADER)}

    def open(self, size: int) -> torch.Tensor:
        """Its memory, uint8 [size], which is no snapshot until `commit`. Waits until nobody reads
        what was there.

        Raises OSError where there is no room.
        """
        self.discard()
        if self._file is None:
            if self.path is None:
                handle = os.memfd_create("torchacc-checkpoint")
            else:
                self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                _check_owner(self.path.parent)
                self.path.mkdir(exist_ok=True)
                handle = os.open(self.place["source"], os.O_RDWR | os.O_CREAT, 0o600)
            self._file = os.fdopen(handle, "r+b", 0)
        # The saver of a lost rank may be reading it.
        fcntl.flock(self._file, fcntl.LOCK_EX)
        if self.bytes is None or len(self.bytes) != size:
            self._release()
            # Allocates all pages now: later, writing to a missing one would kill the process.
            os.ftruncate(self._file.fileno(), size)
            os.posix_fallocate(self._file.fileno(), 0, size)
            # All at once: page by page the first copy takes three times as long.
            flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
            self._view = memoryview(mmap.mmap(self._file.fileno(), size, flags=flags))
            self.bytes = torch.frombuffer(self._view, dtype=torch.uint8)
            if _pin(self.bytes):
                # Also if nothing closes it: later mappings at this address could not be pinned.
                self._unpin = weakref.finalize(self, _unpin, self.bytes.data_ptr())
                # At exit CUDA may be gone, and a forked process has none.
                self._unpin.atexit = False
        return self.bytes

    def put(self, at: int, data: bytes) -> None:
        self._view[at : at + len(data)] = data

    def commit(self, **fields: Any) -> None:
        """What was written is a snapshot: `fields` are those of `Snapshot` but the path."""
        self.id = fields["id"]
        if self.path is not None:
            handle, name = tempfile.mkstemp(dir=self.path)
            with open(handle, "w") as file:
                json.dump(fields, file)
            os.replace(name, self.path / HEADER)
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def discard(self) -> None:
        self.id = None
        if self.path is not None:
            with contextlib.suppress(FileNotFoundError):
                (self.path / HEADER).unlink()

    def close(self) -> None:
        self._release()
        if self._file is not None:
            self._file.close()
        if self.path is not None:
            shutil.rmtree(self.path, ignore_errors=True)

    def _release(self) -> None:
        if self._unpin is not None:
            self._unpin()
        self.bytes = self.layout = self._view = self._unpin = None


def _pin(memory: torch.Tensor) -> bool:
    """Whether it is pinned: a GPU then copies to it several times as fast."""
    if not (torch.cuda.is_available() and torch.cuda.is_initialized()):
        return False
    cudart = torch.cuda.cudart()
    pinned = cudart.cudaHostRegister(memory.data_ptr(), memory.nbytes, 0)
    if pinned == cudart.cudaError.success:
        return True
    # Clears the error, which the next check of a kernel launch would otherwise report.
    with contextlib.suppress(OSError, AttributeError):  # no CUDA, but ROCm
        ctypes.CDLL(f"libcudart.so.{torch.version.cuda.split('.')[0]}").cudaGetLastError()
    return False


def _unpin(pointer: int) -> None:
    torch.cuda.cudart().cudaHostUnregister(pointer)
