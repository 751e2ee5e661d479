from tests.simulator.conftest import built, simulate

__all__ = ["built", "simulate"]
