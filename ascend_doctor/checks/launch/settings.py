"""Settings that go together or exclude each other: conditions beside texts of matrices/checks."""

from collections.abc import Callable

import msgspec

from ascend_doctor.checks.launch.rules import ABSENT, UNKNOWN, LaunchNames, evaluate, fill
from ascend_doctor.checks.npu.npus import visible_npus
from ascend_doctor.facts import Environment, Host, Launch
from ascend_doctor.judging import Case, Finding, Findings, Remedy, Texts, Unresolved
from ascend_doctor.judging.chip import device_count, family_or_none, require_answers
from ascend_doctor.judging.env_values import number, settings, show_values, unset
from ascend_doctor.judging.judge import Judgement
from ascend_doctor.matrix.check_texts import FindingText
from ascend_doctor.patterns import defer

TEXTS = Texts("settings")

_VARIABLE = defer(r"\b[A-Z][A-Z0-9_]+\b")
# Megatron makes about a dozen groups, each with a send and a receive buffer.
_GROUPS, _BUFFERS = 12, 2
_SIZES = ("HCCL_BUFFSIZE", "P2P_HCCL_BUFFSIZE")


class SettingNames(LaunchNames):
    """Variables in capitals, facts of the ``chip``, the ``program``, options of the launch."""

    def __init__(self, case: Case) -> None:
        facts = msgspec.structs.replace(case.facts, launch=case.facts.launch or Launch())
        super().__init__(msgspec.structs.replace(case, facts=facts))
        self.variables = settings(case)
        self._withheld = case.need(Environment).withheld
        self.shown = ""

    def has(self, name: str) -> object:
        if name.isupper():
            return name in self.variables or name in self._withheld
        return super().has(name)

    def value(self, name: str) -> object:
        """None for a variable without a known value, and of an unknown chip."""
        first, _, rest = name.partition(".")
        if name.isupper():
            return self._parse(name, self.variables[name]) if name in self.variables else None
        if first == "chip":
            return getattr(family_or_none(self.case), rest, None)
        others: dict[str, Callable[[], object]] = {
            "shown": lambda: self.shown,
            "program": lambda: self.launch.program,
            "cores": lambda: self.case.need(Host).cpus,
            "cpus": lambda: self.case.need(Host).cpus_usable,
            "devices": lambda: device_count(self.case),
        }
        if name in others:
            return others[name]()
        return TEXTS.names.get(name) or super().value(name)


def _judge_conditions(identity: str) -> Judgement:
    def judge(case: Case) -> Findings:
        names = SettingNames(case)
        for text in TEXTS.of_check(identity).values():
            holds = evaluate(text.when, names)
            if holds not in (UNKNOWN, ABSENT) and holds:
                yield _report(text, names)
        if names.unknown:
            raise Unresolved(f"{', '.join(names.unknown)} is known when the launch runs")

    return judge


def _report(text: FindingText, names: SettingNames) -> Finding:
    names.shown = show_values(names.variables, *dict.fromkeys(_VARIABLE.findall(text.when)))
    remedy = unset(*text.unset) if text.unset else None
    if text.remedy:
        commands = tuple(fill(command, names) for command in text.commands)
        remedy = Remedy(summary=fill(text.remedy, names), commands=commands)
    return Finding(
        level=text.level,
        title=fill(text.title, names),
        observed=fill(text.observed, names) or names.shown,
        required=fill(text.required, names),
        because=fill(text.because, names),
        remedy=remedy,
        refs=tuple(fill(ref, names) for ref in text.refs),
    )


def _exceeds_device(case: Case, size: float) -> bool:
    """Whether two buffers of this many MB exceed a device here, or the largest known."""
    if not size:
        return False
    devices = case.facts.npus.devices if case.facts.npus else ()
    here = [npu.hbm.total for npu in devices if npu.hbm and npu.hbm.total]
    chips = [soc for row in case.catalog.families for soc in row.socs]
    named = {npu.name for npu in devices}
    known = [soc.memory_gib << 10 for soc in chips if soc.memory_gib and soc.soc in named]
    known = known or [soc.memory_gib << 10 for soc in chips if soc.memory_gib]
    return size * _BUFFERS > (min(here) if here else max(known))


def _variables_memory(case: Case) -> Findings:
    values = settings(case)
    size = number(values.get("HCCL_BUFFSIZE"), 0)
    if larger := [
        name for name in _SIZES if _exceeds_device(case, number(values.get(name), 0) or 0)
    ]:
        name, shown = larger[0], show_values(values, larger[0])
        yield TEXTS.finding("above-device", remedy=unset(name), name=name, shown=shown)
    if larger or not size or case.facts.npus is None:
        return
    devices = visible_npus(case).devices
    require_answers(devices, "the memory", lambda npu: npu.hbm)
    totals = [npu.hbm.total for npu in devices if npu.hbm and npu.hbm.total]
    taken = size * _BUFFERS * _GROUPS
    if totals and taken > min(totals) / 4:
        shown, taken, total = show_values(values, "HCCL_BUFFSIZE"), taken / 1024, min(totals)
        yield TEXTS.finding("much-memory", taken=taken, shown=shown, size=size, total=total)


_OTHERS: dict[str, Judgement] = {"variables-memory": _variables_memory}
for each in TEXTS.checks:
    TEXTS.check(each)(_OTHERS.get(each) or _judge_conditions(each))
