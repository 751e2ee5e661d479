"""Regular expressions that are compiled when first used: half of those of level 0 never are."""

import re
from typing import Any, cast


class _Deferred:
    def __init__(self, pattern: str, flags: int) -> None:
        self.pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self.pattern, self._flags), name)
        setattr(self, name, value)  # the next look-up ends there
        return value


def defer(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """``re.compile`` at the first use, which raises re.error for an invalid pattern."""
    return cast("re.Pattern[str]", _Deferred(pattern, flags))
