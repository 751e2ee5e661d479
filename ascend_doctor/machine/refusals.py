"""A machine that remembers the paths that this user may not open."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ascend_doctor.machine.live import READ_LIMIT, Completed, FileStatus, Machine


class RefusingMachine:
    """Forwards questions. ``refused``: closed paths, of nested ones the outermost."""

    def __init__(self, inner: Machine) -> None:
        self.inner = inner
        self.env = inner.env
        self._paths: set[str] = set()

    @property
    def refused(self) -> tuple[str, ...]:
        return tuple(
            path
            for path in sorted(self._paths)
            if not any(path.startswith(f"{above}/") for above in self._paths)
        )

    def run(self, *words: Any, **options: Any) -> Completed:
        return self.inner.run(*words, **options)

    def read(self, path: str, *, limit: int = READ_LIMIT) -> str:
        with self._noting(path):
            return self.inner.read(path, limit=limit)

    def status(self, path: str) -> FileStatus:
        with self._noting(path):
            return self.inner.status(path)

    def names(self, path: str) -> tuple[str, ...]:
        with self._noting(path):
            return self.inner.names(path)

    def value(self, key: str, ask: Callable[[], Any]) -> Any:
        return self.inner.value(key, ask)

    @contextmanager
    def _noting(self, path: str) -> Iterator[None]:
        try:
            yield
        except PermissionError:
            self._paths.add(self._find_closed(path.rstrip("/")))
            raise

    def _find_closed(self, path: str) -> str:
        """The path, or the folder around it that may not be entered."""
        try:
            self.inner.status(path)
        except OSError:
            return self._find_closed(os.path.dirname(path)) if path.count("/") > 1 else path
        return path
