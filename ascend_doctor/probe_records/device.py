"""Records of the probes of a device, of its ranks, and of how fast they are."""

import msgspec

from ascend_doctor.probe_records.common import Number, ProbeRecord


class MatrixProduct(msgspec.Struct, frozen=True, kw_only=True):
    """``error_relative``: largest difference, relative to the largest element of the result."""

    error: str = ""
    error_relative: Number | None = None
    finite: bool | None = None


class DeviceRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/device.py: products by dtype; what is left is not measured on the CPU."""

    matmul: dict[str, MatrixProduct] = {}
    leaked_bytes: int | None = None


class DevicePerRankRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/device_per_rank.py: ``variable`` is the list of visible devices now."""

    identity: str | None = None
    index: int | None = None
    variable: str | None = None
    started_with: str | None = None


class AllReduceRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/allreduce.py: seconds of the sum of one element."""

    first_call_s: float | None = None
    steady_s: float | None = None


class CollectivesRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/collectives.py: how sums of bfloat16 are rounded."""

    rounding: str | None = None


class CollectiveRate(msgspec.Struct, frozen=True, kw_only=True):
    """In 1e9 bytes/s, as nccl-tests counts."""

    busbw: Number | None = None


class BandwidthRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/bandwidth.py: rates by collective and bytes of the message."""

    rates: dict[str, dict[int, CollectiveRate]] = {}


class RatesRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/gemm.py, hbm.py and h2d.py: TFLOPS by dtype, or 1e9 bytes/s by direction."""

    rates: dict[str, Number] = {}


class SoakRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/soak.py: TFLOPS by tenth of the time."""

    rates: list[float] = []
    rounds: int = 0
