"""What Megatron asks of FP8, of which the CPU has none."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any


class FP8GlobalStateManager:
    """It is never on."""

    @staticmethod
    def is_fp8_enabled() -> bool:
        return False


@contextlib.contextmanager
def fp8_autocast(enabled: bool = False, **_: Any) -> Iterator[None]:
    if enabled:
        raise ValueError("the CPU has no FP8")
    yield


fp8_model_init = fp8_autocast
