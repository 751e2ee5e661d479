"""The estimate of `plan` against peaks that others published, and peaks of simulated training."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ascend_doctor.matrix.models import Model
from ascend_doctor.planning.layout import Layout
from ascend_doctor.planning.memory import Memory, TrainingRun, stage_memory

MIB = 1 << 20
# docs/records/plan.md, by kind: estimate over measurement, less one.
ALLOCATED = (-0.05, 0.14)
CARDS = (-0.28, -0.10)
SIMULATED = (-0.09, 0.0)
# Not counted: context parallelism's buffers and the 64k mask: docs/records/plan.md.
FAR = {"chatglm3-6b-cp4-64k"}


class Peak(msgspec.Struct, frozen=True, kw_only=True):
    """Published peaks of a launch, MiB for each stage; see peaks.yaml."""

    id: str
    source: str
    hardware: str
    model: dict[str, Any]
    layout: Layout
    run: TrainingRun
    micro_batches: int
    peaks: tuple[float, ...]
    recompute: bool = False
    fp16: bool = False
    device: bool = False

    def estimate(self, stage: int) -> Memory:
        model = Model(schema=1, id=self.id, title=self.id, **self.model)
        return stage_memory(model, self.layout, self.run, stage, recompute=self.recompute)


class SimulatedPeak(msgspec.Struct, frozen=True, kw_only=True):
    """Simulated NPUs: bytes for each stage; see simulated_peaks.yaml."""

    id: str
    model: dict[str, Any]
    layout: Layout
    recompute: bool = False
    peaks: tuple[int, ...]
    reserved: tuple[int, ...]


class SimulatedPeaks(msgspec.Struct, frozen=True):
    simulated: tuple[SimulatedPeak, ...]


class Peaks(msgspec.Struct, frozen=True):
    peaks: tuple[Peak, ...]


PEAKS = msgspec.yaml.decode(Path(__file__).with_name("peaks.yaml").read_bytes(), type=Peaks).peaks


def in_the_first_iteration(peak: Peak, memory: Memory) -> float:
    """MiB. Its moments are made at its end; FP16 keeps 2 bytes a gradient, and FP32 of a part."""
    states, before = memory.states, memory.states - memory.optimizer * 2 / 3
    if peak.fp16:
        parameters = memory.gradients / 4
        states -= parameters * 2
        before -= parameters * 2
        states += parameters * 4 / (peak.layout.dp * peak.layout.cp)
    return max(states + memory.update, before + memory.activations) / MIB


def errors() -> dict[tuple[str, int], float]:
    errors = {}
    for peak in PEAKS:
        if peak.device:
            stages = range(peak.layout.pp)
            highest = max(each.total - each.communication for each in map(peak.estimate, stages))
            errors[peak.id, 0] = highest / MIB / peak.peaks[0] - 1
            continue
        for stage, measured in enumerate(peak.peaks):
            # No more micro-batches are in flight than a step has.
            if peak.layout.pp - stage <= peak.micro_batches:
                estimate = in_the_first_iteration(peak, peak.estimate(stage))
                errors[peak.id, stage] = estimate / measured - 1
    return errors


def test_peaks_are_of_launches_with_sources() -> None:
    assert len(PEAKS) >= 15
    assert all("@" in peak.source for peak in PEAKS)
    assert sum("Ascend" in peak.hardware for peak in PEAKS) >= 10


@pytest.mark.parametrize(("device", "bounds"), [(False, ALLOCATED), (True, CARDS)])
def test_published_peaks_are_as_near_as_documented(
    device: bool, bounds: tuple[float, float]
) -> None:
    kind = {peak.id for peak in PEAKS if peak.device is device} - FAR
    of_kind = {key: error for key, error in errors().items() if key[0] in kind}
    assert len(of_kind) >= 4
    outside = {key: f"{error:+.1%}" for key, error in of_kind.items() if not within(error, bounds)}
    assert outside == {}


def read_simulated() -> tuple[SimulatedPeak, ...]:
    content = Path(__file__).with_name("simulated_peaks.yaml").read_bytes()
    return msgspec.yaml.decode(content, type=SimulatedPeaks).simulated


@pytest.mark.parametrize("peak", read_simulated(), ids=lambda peak: peak.id)
def test_simulated_peaks_are_as_near_as_documented(peak: SimulatedPeak) -> None:
    model = Model(schema=1, id=peak.id, title=peak.id, **peak.model)
    run = TrainingRun(sequence=1024)
    for stage, measured in enumerate(peak.peaks):
        memory = stage_memory(model, peak.layout, run, stage, recompute=peak.recompute)
        assert within((memory.total - memory.communication) / measured - 1, SIMULATED)
    # torch's own reserve, on top.
    shares = [held / used for held, used in zip(peak.reserved, peak.peaks, strict=True)]
    assert all(1 < share < 1.18 for share in shares)


def within(error: float, bounds: tuple[float, float]) -> bool:
    return bounds[0] <= error <= bounds[1]
