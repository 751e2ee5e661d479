"""Faults of the simulated NPU: what can be broken, where it bites, what it must be diagnosed as."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ascend_doctor.errors import DataError

PLACES = ("rank", "device", "step")


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """One declared fault.

    ``kind`` and ``options`` are for the runtime (runtime/*.c) or the operators (operators/).
    ``failure`` is the id in the failure catalogue; "" if values or times show it, not a
    message. ``builds`` are arguments of ``build``: such a fault is in the tree, not in a
    process. ``environment`` are variables that it needs to show.
    """

    id: str
    title: str
    failure: str = ""
    kind: str = ""
    options: Mapping[str, str] = {}
    builds: Mapping[str, str] = {}
    environment: Mapping[str, str] = {}


class Injection(msgspec.Struct, frozen=True, kw_only=True):
    """A fault at a place. ``where``: rank, device and step as the user gave them."""

    fault: Fault
    where: Mapping[str, str] = {}

    @property
    def line(self) -> str:
        """The text for ``Tree.environment``; "" for a built-in fault."""
        if not self.fault.kind:
            return ""
        options = {**self.fault.options, **self.where}
        return " ".join((self.fault.kind, *(f"{key}={value}" for key, value in options.items())))


FAULTS = (
    Fault(
        id="kernel-missing",
        title="the ops package has no binary of the matrix products",
        kind="kernel-missing",
        options={"op": "mm,addmm,bmm,matmul"},
        failure="cann-op-binary-missing",
    ),
    Fault(
        id="fused-softmax-missing",
        title="the fused masked softmax is not compiled",
        kind="fused-softmax-missing",
        failure="mindspeed-masked-softmax-fusion",
    ),
    Fault(
        id="nonzero-crash",
        title="indexing by a boolean mask ends with 507018 and breaks the device",
        kind="nonzero-crash",
        failure="aicpu-exception-507018",
    ),
    Fault(
        id="ops-other-soc",
        title="the ops package is for another SoC",
        kind="operators-fail",
        options={"code": "561103"},
        builds={"kernels": "ascend310p"},
        failure="aclnn-basic-op-561103",
    ),
    Fault(
        id="double-unsupported",
        title="operators refuse float64",
        kind="double-unsupported",
        failure="aclnn-param-invalid-161002",
    ),
    Fault(
        id="hbm-oom",
        title="another process holds nearly all of the device's memory",
        kind="hbm-oom",
        options={"free": str(16 << 20)},
        failure="npu-oom-torch",
    ),
    Fault(
        id="hbm-ecc",
        title="the device's memory has an uncorrectable error",
        kind="hbm-ecc",
        failure="hbm-ecc-error",
    ),
    Fault(
        id="device-busy",
        title="the device cannot be opened: somebody else has it",
        kind="device-busy",
        failure="device-start-failed-507033",
    ),
    Fault(
        id="device-lost",
        title="the device drops out while it works",
        kind="device-lost",
        failure="device-lost-heartbeat",
    ),
    Fault(
        id="acl-init",
        title="aclInit fails with 500001",
        kind="acl-init",
        failure="cann-inner-error-generic",
    ),
    Fault(
        id="compiler-init",
        title="the operator compiler of CANN cannot start (500001)",
        kind="compiler-init",
        # torch_npu else asks the compiler only when an operator needs it (OptionsManager.cpp,
        # GetAclOpInitMode).
        environment={"ACL_OP_INIT_MODE": "0"},
        failure="numpy2-acl-init-500001",
    ),
    Fault(
        id="rank-absent",
        title="a rank never joins the communicator",
        kind="hccl-absent",
        failure="hccl-topo-negotiation-timeout-ei0015",
    ),
    Fault(
        id="rank-hangs-first",
        title="a rank hangs in the first collective",
        kind="hccl-hangs",
        failure="hccl-connect-timeout-ei0006",
    ),
    Fault(
        id="rank-hangs",
        title="a rank hangs in a later collective",
        kind="hccl-hangs",
        options={"step": "1"},
        failure="hccl-notify-timeout-ei0002",
    ),
    Fault(
        id="rank-dies",
        title="a rank is killed in a collective",
        kind="hccl-dies",
        options={"step": "1"},
    ),
    Fault(
        id="rank-slow",
        title="a rank is late in its first sums",
        kind="hccl-slow",
        options={"seconds": "1.5", "on": "AllReduce:fp32", "times": "12"},
    ),
    Fault(
        id="rank-wrong",
        title="a rank receives wrong values",
        kind="hccl-wrong",
    ),
    Fault(
        id="int64-narrow",
        title="collectives cut int64 to 32 bits",
        kind="hccl-wrong",
        options={"as": "int32"},
    ),
    Fault(
        id="nan-lost",
        title="collectives turn a NaN into 0",
        kind="hccl-wrong",
        options={"as": "zero"},
    ),
    Fault(
        id="bf16-cut",
        title="sums of bfloat16 are cut off, not rounded",
        kind="hccl-cuts",
    ),
    Fault(
        id="gather-object-hangs",
        title="all_gather_object hangs on HCCL",
        kind="hccl-hangs",
        options={"on": "AllGather:uint8"},
        # The sizes were gathered before, so the link exists.
        failure="hccl-notify-timeout-ei0002",
    ),
    Fault(
        id="hccl-port",
        title="the port of HCCL is taken",
        kind="hccl-port",
        failure="hccl-port-bound-ej0003",
    ),
    Fault(
        id="nan",
        title="one device computes a NaN",
        kind="nan",
        failure="npu-loss-zero-gradnorm-nan",
    ),
    Fault(
        id="cann-old",
        title="CANN is older than torch_npu wants and lacks a function that it calls",
        builds={"cann": "8.0.0", "without": "aclrtCreateEventExWithFlag"},
        failure="torch-npu-undefined-symbol",
    ),
)


def parse(text: str) -> Injection:
    """``hbm-ecc`` or ``rank-hangs:rank=1,step=3``. Raises DataError with the valid names."""
    name, _, rest = text.partition(":")
    known = {fault.id: fault for fault in FAULTS}
    if name not in known:
        raise DataError(f"{name}: no such fault; there are {', '.join(sorted(known))}")
    where = {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        if key not in PLACES or not value.isdecimal():
            raise DataError(f"{text}: {pair!r} is not one of rank=N, device=N, step=N")
        where[key] = value
    return Injection(fault=known[name], where=where)
