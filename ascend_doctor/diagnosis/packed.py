"""Streams that are packed: gzip, xz, bzip2 and zstd, known by their first bytes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from typing import IO, Any

import zstandard

BLOCK = 1 << 20
# What reading a damaged file raises.
BROKEN = (
    *(OSError, EOFError, lzma.LZMAError, zlib.error, zstandard.ZstdError),
    *(zipfile.BadZipFile, tarfile.TarError),
)
_UNPACK: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
    b"\x28\xb5\x2f\xfd": lambda raw: zstandard.ZstdDecompressor(
        max_window_size=1 << 27
    ).stream_reader(raw, read_across_frames=True),
}
_MAGIC = 6


def unpack(buffered: Any) -> Any:
    """A buffered stream of what is packed in this one, or this one."""
    for magic, opener in _UNPACK.items():
        if buffered.peek(_MAGIC).startswith(magic):
            return io.BufferedReader(opener(buffered), BLOCK)
    return buffered
