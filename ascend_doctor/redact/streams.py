"""A log that is kept while it is printed, without secrets; names and addresses stay in it."""

import re
from collections.abc import Callable
from typing import IO

# A longer line or key is written as it is: memory must not grow with it.
_MOST = 1 << 16
# Progress bars end lines with only a carriage return.
_ENDS = re.compile(rb"[\r\n]")
_BEGUN = b"-----BEGIN "
_ENDED = b"-----END "


class KeptLog:
    """Writes whole lines of several streams to ``file``; ``clean`` redacts them.

    A key of several lines is completed first, to be hidden as one.
    """

    def __init__(self, file: IO[bytes], clean: Callable[[str], str]) -> None:
        self._file = file
        self._clean = clean
        self._waiting: dict[str, bytes] = {}

    def write(self, stream: str, data: bytes) -> None:
        """Data of a stream; its last line may be cut."""
        text = self._waiting.get(stream, b"") + data
        size = _whole(text) if len(text) < _MOST else len(text)
        self._waiting[stream] = text[size:]
        self._put(text[:size])

    def close(self) -> None:
        """Write unfinished lines."""
        for text in self._waiting.values():
            self._put(text)
        self._waiting.clear()

    def _put(self, data: bytes) -> None:
        if data:
            # Bytes that are not UTF-8 stay unchanged.
            text = data.decode("utf-8", "surrogateescape")
            self._file.write(self._clean(text).encode("utf-8", "surrogateescape"))
            self._file.flush()


def _whole(text: bytes) -> int:
    """The length that can be judged: complete lines, and no open key."""
    ends = [match.end() for match in _ENDS.finditer(text)]
    size = ends[-1] if ends else 0
    begun = text.rfind(_BEGUN)
    return min(size, begun) if begun >= 0 and _ENDED not in text[begun:] else size
