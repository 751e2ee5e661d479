"""Operators of the simulated NPU: what the device computes, computed on the host.

The stand-in CANN tree carries this package as `ascend_simulator`; `install()` runs once in each
process, when torch_npu has been imported. The interpreter is the one under examination.
"""

import sys
from typing import Any

_installed: list[Any] = []


def install() -> None:
    """Register a kernel for every operator that the simulated NPU can compute."""
    if not _installed:
        from . import acl, mindspeed
        from .calls import record_calls
        from .launcher import take_over
        from .registration import register

        _installed.extend(register())
        sys.modules.setdefault("acl", acl)
        mindspeed.watch_for_mindspeed()
        record_calls()
        take_over()
