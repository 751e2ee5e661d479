"""What the examined interpreter really imports, judged."""

import shlex

import msgspec

from ascend_doctor.checks.probes.run_failures import failures, ran, report_late
from ascend_doctor.checks.python.packages import LISTED, STOPS
from ascend_doctor.checks.python.torch_import import AUTOLOAD_REF, OF_CANN, load_cann
from ascend_doctor.errors import Unknown
from ascend_doctor.judging import Case, Finding, Findings, Level, Remedy, Texts, error, note
from ascend_doctor.patterns import defer
from ascend_doctor.probe_records.stack import ImportedModule, InspectEnvRecord

TEXTS = Texts("imports")

# Messages of glibc's loader (elf/dl-load.c, dl-lookup.c) and of Python's import.
_LIBRARY = defer(r"(?P<name>[\w.+-]+\.so[\w.]*): cannot open shared object file")
_MODULE = defer(r"^ModuleNotFoundError: No module named '(?P<name>[\w.]+)'")
_SYMBOL = defer(r"undefined symbol: (?P<name>\S+)")
_ENVIRONMENT = Remedy(
    summary="Activate the environment that trains, or name its interpreter with --python; "
    "`ascend-doctor setup` makes one"
)
_WITHOUT = "torch without autoload"


@TEXTS.check("inspect-env", level=1, probe="inspect-env")
def inspect_env(case: Case) -> Findings:
    run = ran(case, "inspect-env")
    broken = [*failures(run)]
    yield from broken
    record = run.first_record(InspectEnvRecord)
    modules = record.modules
    if modules is None:
        if not broken:
            yield error(record.blocks or "The interpreter imports nothing", remedy=_ENVIRONMENT)
        return
    failed = {name: module for name, module in modules.items() if module.ok is not True}
    yield from _torch(case, failed)
    errors = {outcome.error for name, outcome in failed.items() if name.startswith("torch")}
    for name, outcome in failed.items():
        if not name.startswith("torch") and outcome.error not in errors:
            yield _failure(case, name, outcome)
    yield from _devices(case, modules)
    if not failed and not broken:
        versions = [f"{name} {module.version or ''}".strip() for name, module in modules.items()]
        yield note(observed=", ".join(versions))


def _torch(case: Case, failed: dict[str, ImportedModule]) -> Findings:
    torch, without = failed.get("torch"), failed.get(_WITHOUT)
    if torch is not None and without is None and _late(torch):
        yield _slow_import("torch", torch)
    elif torch is not None and without is None:
        yield error(
            f"`import torch` fails, because torch loads its extension and {_reason(torch)}",
            observed=f"{torch.outermost}\ncaused by {torch.error}",
            required="import torch succeeds with the extension it loads",
            because="Everything that imports torch fails with it, torchrun included. With "
            "TORCH_DEVICE_BACKEND_AUTOLOAD=0 torch imports, but there is no NPU.",
            remedy=_remedy(case, torch),
            refs=(AUTOLOAD_REF,),
            because_of="torch-autoload",
        )
    elif without is not None:
        yield _failure(case, "torch", without)
    if "torch_npu" in failed and torch is None:
        finding = msgspec.structs.replace(
            _failure(case, "torch_npu", failed["torch_npu"]), because_of="torch-npu-libraries"
        )
        if case.device == "npu":
            yield finding
        else:
            yield msgspec.structs.replace(
                finding, level=Level.WARNING, because=f"On {case.device} it is not used."
            )


def _devices(case: Case, modules: dict[str, ImportedModule]) -> Findings:
    outcome = modules.get("torch_npu", ImportedModule())
    if case.device == "npu" and outcome.ok is True and outcome.devices == 0:
        yield TEXTS.finding("no-device")


def _failure(case: Case, name: str, outcome: ImportedModule) -> Finding:
    if _late(outcome):
        return _slow_import(name, outcome)
    return TEXTS.finding(
        "installed-but",
        title=f"`import {name}` fails: {_reason(outcome)}",
        observed="\n".join(text for text in (outcome.error, outcome.output) if text),
        remedy=_remedy(case, outcome),
        name=name,
    )


def _late(outcome: ImportedModule) -> bool:
    return str(outcome.error).startswith("TimeoutError: no end")


def _slow_import(name: str, outcome: ImportedModule) -> Finding:
    where = f"python3 -X importtime -c 'import {name}'"
    return report_late(f"`import {name}` succeeds", str(outcome.error), where)


def _reason(outcome: ImportedModule) -> str:
    text = str(outcome.error)
    if match := _LIBRARY.search(text):
        return f"{match['name']} is not found"
    if match := _MODULE.search(text):
        return f"the module {match['name']} is missing"
    if match := _SYMBOL.search(text):
        return f"the symbol {match['name']} is missing"
    return text.splitlines()[0][:200]


def _remedy(case: Case, outcome: ImportedModule) -> Remedy | None:
    text = str(outcome.error)
    if (match := _LIBRARY.search(text)) and match["name"] in OF_CANN:
        try:
            return load_cann(case)
        except Unknown:
            return Remedy(
                summary="Source the set_env.sh of CANN in the shell that starts Python; if there "
                "is none, install CANN"
            )
    if match := _MODULE.search(text):
        top = match["name"].partition(".")[0]
        if top == "transformer_engine" and case.device == "npu":
            return Remedy(
                summary="Import mindspeed.megatron_adaptor first, which brings what stands in for "
                "Transformer Engine on NPUs; installing NVIDIA's breaks MindSpeed"
            )
        package = {**STOPS, **LISTED}.get(top)
        python = case.facts.python.executable if case.facts.python else "python"
        return Remedy(
            summary=f"Install what brings the module {top} into this environment",
            commands=(shlex.join([python, "-m", "pip", "install", package]),) if package else (),
        )
    return None
