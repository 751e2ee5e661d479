from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.collect.npu_details import (
    parse_board,
    parse_ecc,
    parse_health,
    parse_list,
    parse_map,
    parse_processes,
    parse_topology,
)
from ascend_doctor.collect.npu_table import parse_info
from ascend_doctor.collect.npus import npus
from ascend_doctor.collect.vendor_text import (
    parse_assignments,
    parse_columns,
    parse_frames,
    parse_pairs,
)
from ascend_doctor.collect.vendor_tool import parse_error
from ascend_doctor.machine.live import Completed, LiveMachine
from ascend_doctor.machine.recorded import ReplayMachine
from tests import samples
from tests.present import present

from .replayed import replay

NAMES = [name.removeprefix("npu-smi/") for name in samples.names() if name.startswith("npu-smi/")]
TABLES = [name for name in NAMES if name.startswith("info-")]
# Words and marks of the tables: random text comes near a real one.
MARKS = (
    *("| 0", "| NPU", "Bus-Id", " | ", "+===+", "NA", "-", "...", "Process id", "1 / 2", "OK"),
    *("0000:C1:00.0", "910B3", "9" * 5000, "\n", " : ", "NPU0 ", "Phy-ID1 ", "X ", "\t"),
    *("No running processes found in NPU 1", "Version: 1", "npu-smi 2", "ret is -8005"),
)
PIECES = st.one_of(st.text(max_size=8), st.sampled_from(MARKS))
TEXTS = st.one_of(st.text(), st.lists(PIECES, max_size=60).map("".join))


def sample(name: str) -> str:
    return samples.read(f"npu-smi/{name}")


A2_IDLE = "info-a2-910b3-8cards-idle-24.1.rc1.b030.txt"
A3 = "info-a3-2cards-25.2.0.txt"


# --- the collector


def test_without_npu_smi_nothing_is_claimed(tmp_path: Path) -> None:
    facts = npus(replay(tmp_path))
    assert (facts.tool, facts.devices, facts.error) == ("", (), None)


def test_the_tool_is_found_outside_of_path(tmp_path: Path) -> None:
    machine = replay(
        tmp_path,
        commands={"npu-smi info": sample(A3)},
        files={"/usr/local/sbin/npu-smi": ""},
        env={"PATH": "/usr/bin"},
    )
    assert npus(machine).tool == "/usr/local/sbin/npu-smi"


def test_a_healthy_a3_machine(tmp_path: Path) -> None:
    machine = replay(
        tmp_path,
        commands={
            "npu-smi info": sample(A3),
            "npu-smi info -l": "\tTotal Count                    : 2\n",
            "npu-smi info -t board -i 0": sample("board-910a-23.0.5.txt"),
            "npu-smi info -t ecc -i 1 -c 1": sample("ecc-910a-23.0.5.txt"),
            "npu-smi info -t topo": sample("topo-a3-one-card-sio.txt"),
        },
    )
    facts = npus(machine)
    assert facts.layout == "a3"
    assert facts.listed == 2
    assert [board_.npu_id for board_ in facts.boards] == [0]
    assert [(npu_ecc.npu_id, npu_ecc.chip_id) for npu_ecc in facts.ecc] == [(1, 1)]
    assert facts.topology is not None
    assert facts.health == ()  # every device is OK in the table
    assert facts.error is None


def test_an_alarm_is_looked_into_and_950_has_no_chip_option(tmp_path: Path) -> None:
    machine = replay(
        tmp_path,
        commands={
            "npu-smi info": sample("info-950pr-alarm-25.7.rc1.txt"),
            "npu-smi info -t health -i 1": sample("health-alarm-multi-error-910a-23.0.7.txt"),
        },
    )
    (health,) = npus(machine).health
    assert (health.npu_id, health.codes[0]) == (1, "8C03A000")


def test_a_missing_process_section_is_asked_for(tmp_path: Path) -> None:
    table = sample("info-a2-910b2c-container-npu2-25.5.1.txt")
    answer = sample("proc-mem-a2-910b3-25.5.1.txt")
    asked = {"npu-smi info": table, "npu-smi info -t proc-mem -i 2 -c 0": answer}
    (process,) = npus(replay(tmp_path / "told", commands=asked)).processes or ()
    assert (process.npu_id, process.pid) == (2, 64120)
    empty = {"npu-smi info": table, "npu-smi info -t proc-mem -i 2 -c 0": "\n"}
    assert npus(replay(tmp_path / "mute", commands=empty)).processes is None


@pytest.mark.parametrize(
    ("name", "kind", "status"),
    [
        ("err-dcmi-8005.txt", "dcmi-8005", 187),
        ("err-dcmi-8020-card-in-other-container.txt", "dcmi-8020", 172),
        ("err-no-card.txt", "no-card", 0),
    ],
)
def test_a_failure_is_named(tmp_path: Path, name: str, kind: str, status: int) -> None:
    answer = {"stdout": sample(name), "exit_code": status}
    facts = npus(replay(tmp_path, commands={"npu-smi info": answer}))
    assert facts.tool == "npu-smi"
    assert facts.error is not None
    assert (facts.error.kind, facts.error.exit_code) == (kind, status)
    assert not facts.complete


def test_a_loader_error_stands_on_stderr(tmp_path: Path) -> None:
    answer = {"stderr": sample("err-libc_sec-missing.txt"), "exit_code": 127}
    facts = npus(replay(tmp_path, commands={"npu-smi info": answer}))
    assert facts.error is not None
    assert facts.error.kind == "libc-sec-missing"


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ({"timed_out": True}, "timeout"),
        ({"exit_code": -11}, "crashed"),
        ({"stdout": "\x1b[31mwhat?\n"}, "unrecognised"),
        ({"stdout": "", "exit_code": 3}, "unrecognised"),
    ],
)
def test_no_answer_has_a_reason(tmp_path: Path, answer: dict[str, object], kind: str) -> None:
    facts = npus(replay(tmp_path, commands={"npu-smi info": answer}))
    assert facts.error is not None
    assert facts.error.kind == kind
    assert facts.error.text


def test_a_hang_ends_all_further_questions_and_keeps_the_table(tmp_path: Path) -> None:
    asked: list[str] = []

    class Counting(ReplayMachine):
        def run(self, argv: list[str], **options: object) -> Completed:
            asked.append(str(options["name"]))
            return super().run(argv, **options)  # type: ignore[arg-type]

    replay(
        tmp_path,
        commands={
            "npu-smi info": sample(A2_IDLE),
            "npu-smi info -l": "\tTotal Count : 8\n",
            "npu-smi info -m": {"timed_out": True},
            "npu-smi info -t topo": sample("topo-a2-8x910b3-hccs-24.1.rc1.txt"),
        },
    )
    facts = npus(Counting(tmp_path))
    assert asked == ["npu-smi info", "npu-smi info -l", "npu-smi info -m"]
    assert len(facts.devices) == 8
    assert facts.listed == 8
    assert facts.error is not None
    assert facts.error.kind == "timeout"
    assert "npu-smi info -m did not answer within" in facts.error.text


def test_a_trailing_warning_leaves_the_table_whole(tmp_path: Path) -> None:
    text = sample(A3) + sample("warning-trailing-incomplete-driver.txt")
    facts = npus(replay(tmp_path, commands={"npu-smi info": text}))
    assert len(facts.devices) == 4
    assert facts.complete
    assert facts.warnings[0].startswith("[WARNING]The driver package")


def test_output_over_the_limit_is_not_complete(tmp_path: Path) -> None:
    answer = {"stdout": sample(A3), "truncated": True, "exit_code": None}
    assert not npus(replay(tmp_path, commands={"npu-smi info": answer})).complete


def test_a_real_program_that_prints_a_table(tmp_path: Path) -> None:
    program = tmp_path / "npu-smi"
    table = tmp_path / "table"
    table.write_text(sample(A3), "utf-8")
    program.write_text(f'#!/bin/sh\n[ "$*" = info ] && exec cat {table}\nexit 1\n', "utf-8")
    program.chmod(0o755)
    facts = npus(LiveMachine({"PATH": f"{tmp_path}:/usr/bin:/bin"}))
    assert facts.tool == str(program)
    assert [npu.device for npu in facts.devices] == [0, 1, 2, 3]
    assert facts.error is None


# --- the table


def test_a_table_that_ends_early_is_not_complete() -> None:
    lines = sample(A2_IDLE).splitlines()
    for end in range(len(lines)):
        table = parse_info("\n".join(lines[:end]))
        closed = lines[end - 1].startswith("+=") if end else False
        assert table.complete == (closed and bool(table.devices)), end
        assert len(table.devices) == max(0, (end - 6 + 1) // 3)


def test_half_a_device_is_no_device() -> None:
    lines = sample(A3).splitlines()
    table = parse_info("\n".join(line for line in lines if "A3:00.0" not in line))
    assert [npu.device for npu in table.devices] == [0, 2, 3]
    assert not table.complete


def test_a_lower_row_alone_is_no_device() -> None:
    """npu-smi omits the upper row where it cannot read the health."""
    table = parse_info(
        sample(A3).replace("| 0     Ascend910           | OK            | 158.4", "", 1)
    )
    assert [npu.device for npu in table.devices] == [1, 2, 3]
    assert not table.complete


def test_no_value_is_not_zero() -> None:
    (npu,) = parse_info(sample("info-310p3-npuid2144-22.0.2.txt")).devices
    assert (npu.hbm, npu.device) == (None, None)


NOISE = st.text(alphabet=st.characters(exclude_characters="|")).filter(
    lambda line: len(line.splitlines()) < 2 and not line.strip().startswith(("+=", "..", "…"))
)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLES)
@given(data=st.data())
def test_noise_lines_change_no_row(name: str, data: st.DataObject) -> None:
    lines = sample(name).splitlines()
    whole = parse_info("\n".join(lines))
    for _ in range(data.draw(st.integers(1, 4))):
        number = data.draw(st.integers(0, len(lines)))
        lines.insert(number, data.draw(NOISE))
    noisy = parse_info("\n".join(lines))
    assert (noisy.devices, noisy.processes, noisy.complete) == (
        whole.devices,
        whole.processes,
        whole.complete,
    )


def parse_all(text: str) -> None:
    for parse in (parse_info, parse_list, parse_map, parse_topology, parse_error):
        parse(text)
    for parse_of in (parse_health, parse_ecc, parse_board, parse_processes):
        parse_of(text, 0)
    for parse_text in (parse_assignments, parse_columns, parse_frames, parse_pairs):
        parse_text(text)


@given(TEXTS)
def test_no_parser_raises(text: str) -> None:
    parse_all(text)


@pytest.mark.parametrize("piece", [" ", "| ", "Process id:1 Process name:", "dcmi module "])
def test_a_long_line_of_one_piece_ends(piece: str) -> None:
    """With a pattern that backtracks this would run for hours."""
    parse_all(piece * 20_000)


@given(data=st.data())
def test_a_mangled_sample_raises_nothing(data: st.DataObject) -> None:
    text = sample(data.draw(st.sampled_from(NAMES)))
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    parse_all(text[:start] + data.draw(PIECES) + text[end:])


# --- errors


def test_a_healthy_answer_that_quotes_an_error_is_no_error() -> None:
    quoting = "\tError Information  : There is no NPU card on this server. ret is -8005\n"
    assert parse_error(quoting) is None


def test_unknown_dcmi_codes_have_a_kind() -> None:
    error = present(parse_error("dcmi module initialize failed. ret is -8008\n"))
    assert error.kind == "dcmi-8008"
