"""Tensors where they lie in files: read one at a time, written to where they will lie."""

import ctypes
import os
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Protocol

import torch

CHUNK = 64 << 20  # bytes handed to the system at once


class ConversionError(ValueError):
    """A checkpoint that cannot be converted, or is not what it was when it was written. Nothing is
    left of the conversion."""


@dataclass(frozen=True)
class Kind:
    """What is known of a tensor without its elements."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{str(self.dtype).removeprefix('torch.')} {[*self.shape]}"


class Readable(Protocol):
    @property
    def kind(self) -> Kind: ...

    def read(self) -> torch.Tensor: ...


@dataclass(frozen=True)
class Stored:
    """A tensor in a file, from the byte `begin` on; dense if it has no `stride`."""

    path: Path
    begin: int
    kind: Kind
    stride: tuple[int, ...] | None = None

    def read(self) -> torch.Tensor:
        """A copy, contiguous on the CPU. Raises ConversionError where the file ends before."""
        dtype, shape = self.kind.dtype, self.kind.shape
        count = self.count
        memory = bytearray(count * dtype.itemsize)
        if not memory:
            return torch.empty(shape, dtype=dtype)
        with open(self.path, "rb", buffering=0) as file:
            file.seek(self.begin)
            rest = memoryview(memory)
            while rest:
                got = file.readinto(rest[:CHUNK])
                if not got:
                    raise ConversionError(f"{self.path} is truncated")
                rest = rest[got:]
        flat = torch.frombuffer(memory, dtype=dtype)
        if self.stride is None:
            return flat.view(shape)
        return flat.as_strided(shape, self.stride).contiguous()

    @property
    def count(self) -> int:
        """Elements from the first to the last one."""
        shape = self.kind.shape
        if self.stride is None or 0 in shape:
            return prod(shape)
        return 1 + sum((n - 1) * s for n, s in zip(shape, self.stride, strict=True))

    @property
    def end(self) -> int:
        return self.begin + self.count * self.kind.dtype.itemsize


@dataclass(frozen=True)
class Made:
    """Bytes that lie in no file."""

    data: bytes

    @property
    def kind(self) -> Kind:
        return Kind(torch.uint8, (len(self.data),))

    def read(self) -> torch.Tensor:
        return torch.frombuffer(bytearray(self.data), dtype=torch.uint8)


@dataclass(frozen=True)
class Cast:
    """A tensor as another type."""

    source: Readable
    dtype: torch.dtype

    @property
    def kind(self) -> Kind:
        return Kind(self.dtype, self.source.kind.shape)

    def read(self) -> torch.Tensor:
        return self.source.read().to(self.dtype)


@dataclass(frozen=True)
class Checked:
    """A tensor whose checksum is known."""

    source: Readable
    name: str
    crc32: int

    @property
    def kind(self) -> Kind:
        return self.source.kind

    def read(self) -> torch.Tensor:
        tensor = self.source.read()
        if checksum(tensor) != self.crc32:
            raise ConversionError(
                f"{self.name} has another checksum than when it was written: its file is damaged"
            )
        return tensor


def check_ends(stored: Iterable[Stored]) -> None:
    """Raises ConversionError for files that are not there, or shorter than what lies in them."""
    ends: dict[Path, int] = {}
    for one in stored:
        ends[one.path] = max(one.end, ends.get(one.path, 0))
    for path, end in ends.items():
        if not path.is_file():
            raise ConversionError(f"{path} is missing")
        if (size := path.stat().st_size) < end:
            raise ConversionError(f"{path} is truncated: {size} bytes instead of {end}")


def memory_of(tensor: torch.Tensor) -> memoryview:
    """The bytes of a contiguous tensor on the CPU, as long as it lives."""
    if tensor.nbytes == 0:
        return memoryview(b"")
    return memoryview((ctypes.c_char * tensor.nbytes).from_address(tensor.data_ptr())).cast("B")


def checksum(tensor: torch.Tensor) -> int:
    """crc32 of a contiguous tensor's bytes."""
    return zlib.crc32(memory_of(tensor))


def make_file(path: Path, size: int, pieces: Iterable[tuple[int, bytes]]) -> None:
    """A file of `size` bytes, all of which have room on the disk, with `pieces` at their places."""
    with open(path, "xb", buffering=0) as file:
        if size:
            os.posix_fallocate(file.fileno(), 0, size)
        for at, piece in pieces:
            _put(file, at, memoryview(piece))


def put(path: Path, at: int, tensor: torch.Tensor) -> None:
    """Writes a tensor's elements into a file that is there."""
    with open(path, "r+b", buffering=0) as file:
        _put(file, at, memory_of(tensor))


def _put(file, at: int, rest: memoryview) -> None:
    while rest:
        count = os.pwrite(file.fileno(), rest[:CHUNK], at)
        rest, at = rest[count:], at + count
