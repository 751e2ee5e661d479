from __future__ import annotations

from tests.simulator.conftest import built, simulate

__all__ = ["built", "simulate"]
