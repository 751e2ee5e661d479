from tests.simulator.conftest import simulate

__all__ = ["simulate"]
