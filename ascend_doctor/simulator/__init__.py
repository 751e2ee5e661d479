"""The simulated NPU: the real torch_npu runs unchanged on a stand-in CANN, on any Linux machine."""

from ascend_doctor.simulator.faults import FAULTS, Fault, Injection, parse
from ascend_doctor.simulator.machines import KINDS, SimulatedMachine, machine, machine_of
from ascend_doctor.simulator.tree import CANN, KERNELS, Tree, build

__all__ = ["CANN", "FAULTS", "KERNELS", "KINDS", "Fault", "Injection", "SimulatedMachine", "Tree"]
__all__ += ["build", "machine", "machine_of", "parse"]
