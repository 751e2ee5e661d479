"""The Megatron that the interpreter takes: whose it is, and what its functions take."""

import posixpath
from typing import TypeVar

from ascend_doctor.checks.probes.run_failures import ran, ran_well
from ascend_doctor.checks.stack.megatron import TWO_COPIES, prepend
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.judging import Case, Finding, Findings, Texts, error, note, warning
from ascend_doctor.judging.packages import npu_only
from ascend_doctor.judging.version_compare import is_in_range, leading
from ascend_doctor.matrix.schema import Function
from ascend_doctor.probe_records.stack import MegatronTreeRecord, RefusedCall

TEXTS = Texts("megatron-tree")

_PROBE = "megatron-tree"
# The releases whose functions the matrix describes.
_READ = ">=0.12,<0.20"
_SHOWN = 8


_Measured = TypeVar("_Measured")


def _record(case: Case) -> MegatronTreeRecord:
    return ran(case, _PROBE).first_record(MegatronTreeRecord)


def _require(measured: _Measured | None) -> _Measured:
    if measured is None:
        raise Unknown(f"the probe {_PROBE} did not get this far")
    return measured


@TEXTS.check("megatron-origin", level=1, probe=_PROBE)
def megatron_origin(case: Case) -> Findings:
    ran_well(case, _PROBE)
    record = _record(case)
    named = _require(record.named).rstrip("/")
    roots = {
        name: posixpath.dirname(posixpath.dirname(folder))
        for name, folder in record.parts.items()
        if folder
    }
    core, version = roots["core"], record.version
    other = roots.get("training", core)
    if other != core:
        yield TEXTS.finding(
            "two-trees", remedy=prepend(other), refs=(TWO_COPIES,), core=core, other=other
        )
    elif len(record.copies) > 1:
        yield TEXTS.finding(
            "one-imported",
            title=f"{len(record.copies)} copies of megatron.core are on the path",
            observed="; ".join(f"{copy.version} in {copy.path}" for copy in record.copies),
            refs=(TWO_COPIES,),
        )
    if record.distributions and version not in record.distributions:
        yield TEXTS.finding(
            "tools-read",
            known=", ".join(record.distributions),
            core=core,
            version=version,
        )
    if named and core != named:
        yield TEXTS.finding("other-path", remedy=prepend(named), named=named, core=core)


@TEXTS.check("api-drift", level=1, probe=_PROBE)
def api_drift(case: Case) -> Findings:
    record = _record(case)
    calls, version = _require(record.callers), record.version
    if not is_in_range(version, _READ):
        raise Unknown(f"the table has no Megatron-core {version}")
    functions = case.catalog.component("megatron-core").functions
    for function in functions:
        yield from _compare(function, record)
    if calls:
        yield _refusal(version, calls)
    unused = [
        f"{_last(function.name)}({', '.join(others)})"
        for function in functions
        for required, others in [_split_parameters(function, version)]
        if required and others and not function.name.endswith("Config")
    ]
    yield note(
        observed=f"{len(record.api)} functions of megatron.core {version}; "
        f"calls read in: {', '.join(record.searched) or 'no framework'}",
        because=f"Other releases take {', '.join(unused)} as well." if unused else "",
    )


def _compare(function: Function, record: MegatronTreeRecord) -> Findings:
    version = record.version
    required, _ = _split_parameters(function, version)
    has = record.api.get(function.name, [])
    missing = [name for name in required if name not in has]
    if missing:
        yield TEXTS.finding(
            "frameworks-made",
            title=f"{_last(function.name)} of this Megatron-core {version} does not take "
            + ", ".join(missing),
            observed=f"{function.name}({', '.join(has)})"
            if has
            else f"there is no {function.name}",
            version=version,
        )
    new = [name for name in has if name not in required]
    if new:
        yield TEXTS.finding(
            "grown", function=_last(function.name), version=version, new=", ".join(new)
        )


def _split_parameters(function: Function, version: str) -> tuple[list[str], list[str]]:
    number = ".".join(map(str, leading(version, 3)))
    rows = function.takes.items()
    required = [
        name
        for releases, names in rows
        if not releases or is_in_range(number, releases)
        for name in names
    ]
    return required, [name for _, names in rows for name in names if name not in required]


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _refusal(version: str, calls: list[RefusedCall]) -> Finding:
    shown = [f"{call.where}: {call.call}({', '.join(call.keywords)}=)" for call in calls[:_SHOWN]]
    more = len(calls) - len(shown)
    return TEXTS.finding(
        "frameworks-call",
        observed="\n".join([*shown, *([f"and {more} more"] if more else [])]),
        version=version,
    )


@TEXTS.check("gdn", level=1, probe=_PROBE)
def gdn(case: Case) -> Findings:
    nets = _require(_record(case).gdn)
    if not nets.bridge_has:
        raise NotApplicable("no mcore-bridge with gated delta nets is installed")
    value = nets.variable
    native = value is None or value.strip() == "1"
    whole = nets.megatron and (case.device != "npu" or nets.mindspeed)
    if native and not nets.megatron:
        yield (warning if value is None else error)(
            "USE_MCORE_GDN asks for Megatron's gated delta net, and there is none",
            observed=f"USE_MCORE_GDN is {'unset, which means 1' if value is None else value}; no "
            "megatron.core.ssm.gated_delta_net",
            required="USE_MCORE_GDN=0, or Megatron-core 0.16.0 or newer",
            because="Such models fail at import. Others do not care.",
            remedy="Choose the implementation of transformers",
            commands=("export USE_MCORE_GDN=0",),
        )
    elif native and not nets.fla:
        yield TEXTS.finding("no-fla")
    elif not native and whole and nets.fla:
        yield TEXTS.finding("unasked-gdn", value=value)


@TEXTS.check("gdn-mask", level=1, probe=_PROBE)
def gdn_mask(case: Case) -> Findings:
    npu_only(case)
    nets = _require(_record(case).gdn)
    if not nets.bridge_has:
        raise NotApplicable("no mcore-bridge with gated delta nets is installed")
    if not nets.bridge_masks:
        yield TEXTS.finding("no-padding")
