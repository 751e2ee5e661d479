"""Records of the probes of process groups."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ascend_doctor.probe_records.common import ChildOutcome, ProbeRecord


class PeerOutcome(ChildOutcome, frozen=True, kw_only=True):
    """How far the child of a rank came, and its current device then."""

    step: str | None = None
    device: str | int | None = None


class ObjectsRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/object_collectives.py: ``peers`` by whether set_device was called, set or unset."""

    metrics_backend: str | None = None
    peers: dict[str, PeerOutcome] = {}


class BoundDeviceRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/bound_device_id.py: the error of a Gloo group in each state, "" for none."""

    bound_to: str | None = None
    unbound: str | None = None
    bound: str | None = None
    cleared: str | None = None


class LargeGroupsRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/large_groups.py: the layouts that were tried."""

    layouts: list[str] = []


class GroupCosts(msgspec.Struct, frozen=True, kw_only=True):
    """How many groups a layout has, and the device memory that they take in bytes."""

    groups: int = 0
    bytes: int = 0


class ParallelGroupsRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/parallel_groups.py: ``group_bytes`` of each further group of all ranks."""

    layouts: dict[str, GroupCosts] = {}
    group_bytes: list[int] | None = None
    float64_sum: float | None = None


class ExpertShapes(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes of expert tensor parallelism, shapes, and what a loader says by weight."""

    group: int | None = None
    configuration: int | None = None
    fc1: list[int] | None = None
    fc2: list[int] | None = None
    errors: dict[str, str] = {}

    def fields(self) -> dict[str, object]:
        """By name; ``fits`` where no loader refuses."""
        measured = {name: getattr(self, name) for name in ("group", "configuration", "fc1", "fc2")}
        return {**measured, "fits": not self.errors}


class ExpertShapesRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/expert_shapes.py: by who was given the size."""

    ways: dict[str, ExpertShapes] | None = None


class SampleCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Samples that the first ranks hold, that all ranks hold, and that there are."""

    samples: int
    first: int
    all: int


class PeftOutcome(msgspec.Struct, frozen=True, kw_only=True):
    """The first error of peft's own layers, and why it cannot be imported."""

    version: str = ""
    error: str = ""
    broken: str = ""


class MegatronCallsRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/megatron_calls.py: plans that Megatron took or refused, and samples by layout."""

    plans: dict[str, bool] = {}
    collections: dict[str, SampleCounts] = {}
    peft: PeftOutcome | None = None

    @classmethod
    def arrange(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        return {
            **values,
            "plans": {key: value for key, value in values.items() if key.startswith("decay")},
            "collections": {
                key: value
                for key, value in values.items()
                if isinstance(value, dict) and "samples" in value
            },
        }
