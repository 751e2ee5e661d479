"""How fast devices are: against each other as a verdict, against their family as a hint."""

import statistics
from collections import defaultdict
from collections.abc import Mapping

from ascend_doctor.checks.probes.run_failures import failures, ran, ran_well
from ascend_doctor.judging import Case, Findings, Remedy, Texts, Unknown, error, note, warning
from ascend_doctor.judging.judge import ConcludedError
from ascend_doctor.matrix.schema import Family
from ascend_doctor.probe_records.common import ProbeRecord
from ascend_doctor.probe_records.device import (
    BandwidthRecord,
    CollectiveRate,
    RatesRecord,
    SoakRecord,
)
from ascend_doctor.probe_results import ProbeRun

TEXTS = Texts("speed")

# Devices of one host run the same work; more than a tenth below their median is not noise.
_SLOW = 0.9
_BROKEN = 0.5
# The last tenth of a soak against its best; a throttled device slows down.
_THROTTLED = 0.9
# A hot device is slow by then; single tenths vary.
_TENTHS = 3
# Far below a healthy card, and only a hint: public baselines do not exist.
_PEAK_SHARE = 0.5
# From 256 MiB on the cost per call is negligible beside the bytes.
_LARGE = 1 << 28
# By collective and message bytes.
_Rates = Mapping[str, Mapping[int, CollectiveRate]]

_BUSY = Remedy(
    summary="See who else uses the slow device, its temperature and clock, and its links",
    commands=("npu-smi info", "npu-smi info -t common -i 0"),
)


@TEXTS.check("bandwidth", level=4, probe="bandwidth")
def _bandwidth(case: Case) -> Findings:
    run = ran_well(case, "bandwidth")
    rates = run.first_record(BandwidthRecord).rates
    if not all(map(_buses, rates.values())) or not rates:
        raise Unknown("the probe bandwidth recorded no rates")
    best = {name: max(_buses(sizes).values(), default=0.0) for name, sizes in rates.items()}
    shown = ", ".join(f"{name} {rate:.3g}" for name, rate in best.items())
    yield note(
        "Collectives were measured",
        observed=f"bus bandwidth in GB/s at best, {run.world_size} ranks on {_where(run)}: {shown}",
        because=_hint_bus(case, run, rates),
    )


def _buses(sizes: Mapping[int, CollectiveRate]) -> dict[int, float]:
    return {size: rate.busbw for size, rate in sizes.items() if isinstance(rate.busbw, float)}


def _hint_bus(case: Case, run: ProbeRun, rates: _Rates) -> str:
    family = _family(case, run)
    rates_expected = family.rates if family is not None else None
    limit = (
        rates_expected.all_reduce
        if rates_expected is not None and rates_expected.ranks == run.world_size
        else None
    )
    buses = _buses(rates.get("all-reduce", {}))
    large = [rate for size, rate in buses.items() if size >= _LARGE]
    if limit is None or not large or max(large) >= limit or run.simulated:
        return ""
    return f"Hint: all-reduce of 256 MiB is expected above {limit:.0f} GB/s in such a node."


@TEXTS.check("gemm", level=4, probe="gemm")
def _gemm(case: Case) -> Findings:
    yield from _compare(case, "gemm", "TFLOPS")


@TEXTS.check("hbm", level=4, probe="hbm")
def _hbm(case: Case) -> Findings:
    yield from _compare(case, "hbm", "GB/s")


@TEXTS.check("h2d", level=4, probe="h2d")
def _h2d(case: Case) -> Findings:
    yield from _compare(case, "h2d", "GB/s")


def _compare(case: Case, probe: str, unit: str) -> Findings:
    run = ran_well(case, probe)
    rates: dict[str, dict[int, float]] = {}
    for result in run.ranks:
        for name, rate in result.record(RatesRecord).rates.items():
            if isinstance(rate, float):
                rates.setdefault(name, {})[result.rank] = rate
    if slow := [each for name in rates for each in _slow(run, name, unit, rates[name])]:
        raise ConcludedError(slow)
    if not rates or any(len(series) < len(run.ranks) for series in rates.values()):
        raise Unknown(f"the probe {probe} did not record all rates of all ranks")
    parts = [
        f"{name} {min(series.values()):.4g} to {max(series.values()):.4g} {unit}"
        for name, series in rates.items()
    ]
    yield note(
        f"{probe} was measured",
        observed=f"{len(run.ranks)} ranks on {_where(run)}: {'; '.join(parts)}",
        because=_hint(case, run, {name: min(series.values()) for name, series in rates.items()}),
    )


def _slow(run: ProbeRun, name: str, unit: str, series: Mapping[int, float]) -> Findings:
    if run.device == "cpu" or run.simulated:
        return
    hosts: defaultdict[str, list[int]] = defaultdict(list)
    for result in run.ranks:
        if result.rank in series:
            hosts[result.host].append(result.rank)
    for ranks in hosts.values():
        median = statistics.median(series[rank] for rank in ranks)
        for rank in ranks:
            if series[rank] >= _SLOW * median:
                continue
            kind = error if series[rank] < _BROKEN * median else warning
            yield kind(
                f"{run.probe}: rank {rank} is slower than the others in {name}",
                observed=f"{series[rank]:.4g} {unit}",
                required=f"at least {_SLOW:.0%} of the median of this host, {median:.4g} {unit}",
                because="All ranks of a job wait for the slowest one.",
                remedy=_BUSY if run.device == "npu" else None,
                ranks=(rank,),
            )


def _where(run: ProbeRun) -> str:
    return f"a simulated {run.device}; these figures say nothing" if run.simulated else run.device


def _family(case: Case, run: ProbeRun) -> Family | None:
    for probe_run in (run, *case.facts.probes):
        for rank in probe_run.ranks:
            record = rank.record_or_none(ProbeRecord)
            if record and record.name:
                return case.catalog.family_of(record.name)
    return None


def _hint(case: Case, run: ProbeRun, lowest: Mapping[str, float]) -> str:
    family = _family(case, run)
    if family is None or run.simulated:
        return ""
    if run.probe == "hbm" and family.rates and lowest.get("copy", 0.0) < family.rates.copy:
        return f"Hint: copies are expected above {family.rates.copy:.0f} GB/s on {family.id}."
    name = run.first_record(ProbeRecord).name
    peak = next((soc.peak_tflops for soc in family.socs if soc.soc == name), None)
    half = [lowest[dtype] for dtype in ("bfloat16", "float16") if dtype in lowest]
    if run.probe == "gemm" and peak and half and min(half) < _PEAK_SHARE * peak:
        return f"Hint: 16-bit products are expected above half of {name}'s peak, {peak:.0f} TFLOPS."
    return ""


@TEXTS.check("soak", level=4, probe="soak")
def _soak(case: Case) -> Findings:
    run = ran(case, "soak")
    yield from failures(run)
    last: dict[int, float] = {}
    for result in run.ranks:
        series = result.record(SoakRecord).rates
        if not series:
            continue
        last[result.rank] = statistics.fmean(series[-_TENTHS:])
        yield from _find_throttling(run, result.rank, series)
    yield from _slow(run, "the last third of the time", "TFLOPS", last)
    if run.ranks:
        rounds = max(result.record(SoakRecord).rounds for result in run.ranks)
        shown = f"{min(last.values()):.4g} to {max(last.values()):.4g} TFLOPS" if last else "none"
        yield note(observed=f"{rounds} rounds on {run.world_size} ranks on {_where(run)}, {shown}")


def _find_throttling(run: ProbeRun, rank: int, series: list[float]) -> Findings:
    if run.device == "cpu" or run.simulated or len(series) <= _TENTHS:
        return
    end, best = statistics.fmean(series[-_TENTHS:]), max(series)
    if end < _THROTTLED * best:
        yield warning(
            f"soak: rank {rank} gets slower while it works",
            observed=f"{end:.4g} TFLOPS at the end",
            required=f"at least {_THROTTLED:.0%} of its best tenth, {best:.4g} TFLOPS",
            because="A device that is too hot, or that may draw less power, lowers its clock.",
            remedy=_BUSY if run.device == "npu" else None,
            ranks=(rank,),
        )
