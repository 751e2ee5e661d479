"""Streams that are packed: gzip, xz, bzip2 and zstd, known by their first bytes."""

import bz2
import gzip
import io
import lzma
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

BLOCK = 1 << 20
BROKEN = (
    *(OSError, EOFError, lzma.LZMAError, zlib.error, zstd.ZstdError),
    *(zipfile.BadZipFile, tarfile.TarError),
)
_UNPACK: dict[bytes, Callable[[IO[bytes]], Any]] = {
    b"\x1f\x8b": lambda raw: gzip.GzipFile(fileobj=raw),
    b"\xfd7zXZ\x00": lzma.LZMAFile,
    b"BZh": bz2.BZ2File,
    b"\x28\xb5\x2f\xfd": lambda raw: zstd.ZstdFile(
        raw, options={zstd.DecompressionParameter.window_log_max: 27}
    ),
}
# The longest mark has as many bytes.
_MAGIC = 6


def unpack(buffered: Any) -> Any:
    for magic, opener in _UNPACK.items():
        if buffered.peek(_MAGIC).startswith(magic):
            return io.BufferedReader(opener(buffered), BLOCK)
    return buffered


def stream_of(pieces: Iterator[bytes]) -> io.BufferedReader:
    return io.BufferedReader(_Pieces(pieces), BLOCK)


class _Pieces(io.RawIOBase):
    def __init__(self, pieces: Iterator[bytes]) -> None:
        super().__init__()
        self._pieces = pieces
        self._left = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = piece
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count
