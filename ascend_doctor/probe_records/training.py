"""Records of the probes that train a tiny model. Errors are relative, by what they are of."""

from collections.abc import Mapping
from typing import Any

import msgspec

from ascend_doctor.probe_records.common import Number, ProbeRecord


class TrainingKind(msgspec.Struct, frozen=True, kw_only=True):
    """How a layout trains."""

    bf16: bool = False


class TrainingTrace(msgspec.Struct, frozen=True, kw_only=True):
    """What the same training gives in plain torch, by step."""

    losses: list[Number] = []
    grad_norms: list[Number] = []


class GradientPart(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank has of the gradient of a weight.

    ``size`` and ``off`` are norms; ``rest`` is the error that ``factor`` leaves. ``own``, ``last``
    and ``half`` are the errors against the gradient of the rank's own micro-batches, of the last
    one, and of one use of a tied weight.
    """

    size: float
    off: Number
    factor: Number = 0.0
    rest: Number = -1.0
    own: Number | None = None
    last: Number | None = None
    half: Number = -1.0
    sharded: bool = False


class NotFinite(msgspec.Struct, frozen=True, kw_only=True):
    """Where a step first met a number that is not finite; passes and events count from 1."""

    forward: int
    event: int
    module: str
    how: str


class SavedState(msgspec.Struct, frozen=True, kw_only=True):
    """What a checkpoint must give again; ``failed`` are ways to shard that were not saved."""

    digest: str | None = None
    evaluated: Number | None = None
    failed: dict[str, str] | None = None


class LayoutRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A training under one layout on a rank.

    A loss is None on ranks that are not of the last stage. ``modules``: turn and error of the
    first forward pass. ``alike`` and ``mistakes`` are errors and losses by mistake. ``differences``
    are those of weights, by group. ``stage`` is that of the pipeline.
    """

    kind: TrainingKind = TrainingKind()
    losses: list[Number | None] = []
    grad_norms: list[Number | None] = []
    seconds: list[Number | None] = []
    steps: int | None = None
    not_finite: list[NotFinite | None] = []
    stage: int = 0
    device: str = msgspec.field(name="place", default="cpu")
    tensor: int = 1
    data: int = 1
    micro_batches: int = 1
    reference: TrainingTrace = TrainingTrace()
    modules: dict[str, tuple[int, Number]] = {}
    alike: dict[str, Number] = {}
    mistakes: dict[str, list[Number]] = {}
    gradients: dict[str, GradientPart] = {}
    differences: dict[str, Number] = {}
    dtypes: dict[str, list[str]] = {}
    kernels: dict[str, str] = {}
    saved: SavedState | None = None


class StateErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Of the worst weight, and of Adam's first and second moments."""

    weights: Number
    first: Number
    second: Number


class LoadedState(msgspec.Struct, frozen=True, kw_only=True):
    """What a way to shard gave back."""

    error: str | None = None
    off: StateErrors | None = None


class ResumedLayout(msgspec.Struct, frozen=True, kw_only=True):
    """A layout that fresh processes loaded; without ``digest`` they could load nothing of it."""

    layout: str | None = None
    loaded: dict[str, LoadedState] = {}
    digest: str | None = None
    evaluated: Number | None = None
    losses: list[Number | None] = []
    grad_norms: list[Number | None] = []


class SmokeTrainRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/smoke_train.py: by layout; reasons by what was not run or left out."""

    layouts: dict[str, LayoutRecord] = {}
    resumed: dict[str, ResumedLayout] | None = None
    not_run: dict[str, str] = {}
    left_out: dict[str, str] = {}

    @classmethod
    def arrange(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        # The processes that resume write what any probe does beside their layouts.
        resumed = values.get("resumed")
        if not isinstance(resumed, dict):
            return values
        layouts = {name: layout for name, layout in resumed.items() if isinstance(layout, dict)}
        return {**values, "resumed": layouts}


class AdapterRun(msgspec.Struct, frozen=True, kw_only=True):
    """Steps with adapters; ``differences`` are between the ranks of a group."""

    losses: list[Number | None]
    differences: dict[str, Number] = {}


class LoraRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/lora_*.py: trainings by how they were run; the error of the first."""

    runs: dict[str, AdapterRun] = {}
    error: str = ""

    @classmethod
    def arrange(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        runs = {name: run for name, run in values.items() if isinstance(run, dict)}
        runs.pop("hosts", None)
        return {**values, "runs": runs}
