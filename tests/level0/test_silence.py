"""No check stays ok when all devices leave out a fact that it reads."""

import msgspec
import pytest

from ascend_doctor.machine.refusals import RefusingMachine
from tests.level0.machine import machine
from tests.level0.mutants import MACHINES
from tests.level0.silence import (
    accusing_checks,
    changed_facts,
    changes,
    facts_of,
    reads_of_ok_checks,
    silent_checks,
)
from tests.machines.compose import names


@pytest.mark.slow
@pytest.mark.parametrize("name", names())
def test_no_check_is_content_with_silence(name: str) -> None:
    assert list(silent_checks(name)) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", MACHINES)
def test_what_this_user_may_not_open_is_not_called_absent(name: str) -> None:
    assert list(accusing_checks(name)) == []


def test_lines_cells_and_whole_answers_are_left_out() -> None:
    left_out = dict(changes("healthy-a2"))
    for what in (
        "gone npu-smi info",
        "empty hccn_tool -i * -tls -g",
        "NA 'Compatibility' of npu-smi info -t board -i *",
        "gone 'address_*' of /etc/hccn.conf",
    ):
        altered = machine("healthy-a2")
        left_out[what](altered)
        before, after = facts_of(machine("healthy-a2")), facts_of(altered)
        assert after != before
        changed = changed_facts("healthy-a2", before, altered)
        assert msgspec.structs.replace(changed, taken_at=after.taken_at) == after


def test_reads_of_a_check_are_recorded() -> None:
    reads = reads_of_ok_checks(facts_of(machine("healthy-a2")))
    assert ("Npu", "temperature_c") in reads["npu-temperature"]
    assert ("HccnDevice", "tls") in reads["hccn-tls"]
    assert ("Npu", "temperature_c") not in reads["hccn-tls"]


def test_the_closed_folder_is_named() -> None:
    altered = machine("healthy-a2")
    altered.refused = {"/usr/local/Ascend/cann-9.0.0/lib64"}
    watched = RefusingMachine(altered)
    with pytest.raises(PermissionError):
        watched.status("/usr/local/Ascend/cann-9.0.0/lib64/libhccl.so")
    assert watched.refused == ("/usr/local/Ascend/cann-9.0.0/lib64",)
