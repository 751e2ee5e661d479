"""Records of probes: what they read is what probes write, and what is damaged is told as such."""

import importlib
import pkgutil
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from ascend_doctor import probe_records
from ascend_doctor.checks import all_checks
from ascend_doctor.errors import Unknown
from ascend_doctor.facts import Snapshot
from ascend_doctor.findings import Level
from ascend_doctor.judging.judge import Case, judge
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.probe_records.common import ProbeRecord, read_record
from ascend_doctor.probe_records.training import LoraRecord, SmokeTrainRecord
from ascend_doctor.probe_results import ProbeResult, ProbeRun

PROBES = Path(__file__).parent.parent / "probes"
WRITTEN = "\n".join(path.read_text("utf-8") for path in sorted(PROBES.glob("*.py")))
# What records arrange from keys that are data.
ARRANGED = {"plans", "collections", "runs"}


def structs() -> Iterator[type[msgspec.Struct]]:
    for module in pkgutil.iter_modules(probe_records.__path__):
        loaded = importlib.import_module(f"{probe_records.__name__}.{module.name}")
        for value in vars(loaded).values():
            if isinstance(value, type) and issubclass(value, msgspec.Struct):
                yield value


STRUCTS = sorted({*structs()} - {msgspec.Struct}, key=lambda struct: struct.__name__)
RECORDS = [struct for struct in STRUCTS if issubclass(struct, ProbeRecord)]


def test_probes_write_every_field_that_is_read() -> None:
    words = {*re.findall(r"\w+", WRITTEN)}
    for struct in STRUCTS:
        names = {field.encode_name for field in msgspec.structs.fields(struct)} - ARRANGED
        absent = sorted(names - words)
        assert not absent, f"no probe writes {', '.join(absent)} of {struct.__name__}"


@pytest.mark.parametrize("record", RECORDS, ids=lambda struct: struct.__name__)
def test_a_record_names_the_probe_that_writes_it(record: type[ProbeRecord]) -> None:
    named = re.findall(r"probes/([\w*]+\.py)", record.__doc__ or "")
    assert all(list(PROBES.glob(name)) for name in named)
    assert named or record.__name__ in {"ProbeRecord", "PairTable", "NoMeetingRecord"}


@pytest.mark.parametrize("record", RECORDS, ids=lambda struct: struct.__name__)
def test_what_is_damaged_is_told_as_such(record: type[ProbeRecord]) -> None:
    values = {field.encode_name: object for field in msgspec.structs.fields(record)}
    with pytest.raises(ValueError, match="Expected `"):
        read_record(record, values)
    result = ProbeResult(values=values)
    assert result.record_or_none(record) is None
    with pytest.raises(Unknown, match="the record is damaged: Expected `"):
        result.record(record)


CHECKS = sorted((check for check in all_checks() if check.probe), key=lambda check: check.id)
# They judge only the probe's end and what it compared.
BY_END = {"collectives", "sequence-gather"}


@pytest.mark.parametrize("values", ["empty", "damaged"])
def test_no_check_passes_on_a_record_that_says_nothing(values: str) -> None:
    """An old record without fields, and one whose fields are of other types, crash nothing."""
    fields = {field.encode_name for struct in RECORDS for field in msgspec.structs.fields(struct)}
    written: dict[str, object] = dict.fromkeys(fields, -1j) if values == "damaged" else {}
    result = ProbeResult(ok=True, values=written)
    catalog = Catalog()
    for check in CHECKS:
        run = ProbeRun(probe=check.probe, device="npu", exit_code=0, ranks=(result,))
        case = Case(facts=Snapshot(probes=(run,)), catalog=catalog, device="npu")
        findings = judge(case, [check])
        assert not any("the check itself failed" in finding.title for finding in findings)
        if values == "damaged" and check.id not in BY_END:
            assert {finding.level for finding in findings} <= {Level.UNKNOWN, Level.SKIPPED}


def test_fields_that_no_record_has_are_passed_over() -> None:
    assert read_record(ProbeRecord, {"name": "Ascend910B3", "later": {1: 2}}).name == "Ascend910B3"


def test_keys_that_are_data_are_arranged() -> None:
    run = {"losses": [1.0, None], "differences": {"dense tensor": "nan"}}
    record = read_record(LoraRecord, {"whole": run, "mended": [], "megatron": "0.15.3"})
    assert record.runs["whole"].differences == {"dense tensor": "nan"}
    resumed = {"TP2": {"loaded": {}}, "megatron": "0.15.3", "mended": []}
    assert [*(read_record(SmokeTrainRecord, {"resumed": resumed}).resumed or {})] == ["TP2"]
