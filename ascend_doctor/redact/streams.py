"""A log that is kept while it is printed, without secrets; names and addresses stay in it."""

import re
from collections.abc import Callable
from typing import IO

# A line or key that does not end by then is written as it is: memory is not to grow with it.
_MOST = 1 << 16
# Progress bars end their lines with a carriage return alone.
_ENDS = re.compile(rb"[\r\n]")
_BEGUN = b"-----BEGIN "
_ENDED = b"-----END "


class KeptLog:
    """Writes whole lines of several streams to ``file``; ``clean`` makes them harmless.

    A key of several lines is waited for, so that it is hidden as one.
    """

    def __init__(self, file: IO[bytes], clean: Callable[[str], str]) -> None:
        self._file = file
        self._clean = clean
        self._waiting: dict[str, bytes] = {}

    def write(self, stream: str, data: bytes) -> None:
        """What came from a stream; its last line may be cut."""
        text = self._waiting.get(stream, b"") + data
        size = _whole(text) if len(text) < _MOST else len(text)
        self._waiting[stream] = text[size:]
        self._put(text[:size])

    def close(self) -> None:
        """Write what no line end came for."""
        for text in self._waiting.values():
            self._put(text)
        self._waiting.clear()

    def _put(self, data: bytes) -> None:
        if data:
            # Bytes that are no UTF-8 come out as they went in.
            text = data.decode("utf-8", "surrogateescape")
            self._file.write(self._clean(text).encode("utf-8", "surrogateescape"))
            self._file.flush()


def _whole(text: bytes) -> int:
    """How much of a text can be judged: lines that ended, and no key that is still open."""
    ends = [match.end() for match in _ENDS.finditer(text)]
    size = ends[-1] if ends else 0
    begun = text.rfind(_BEGUN)
    return min(size, begun) if begun >= 0 and _ENDED not in text[begun:] else size
