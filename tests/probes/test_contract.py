import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.programs import on_cpu, run_program

PROBES = Path(__file__).parent.parent.parent / "probes"

HEAD = f"""
import sys
sys.path.insert(0, {str(PROBES)!r})
import _probe
"""


def run(
    tmp_path: Path,
    body: str,
    *arguments: str,
    records: bool = True,
    env: dict[str, str] | None = None,
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """Run a probe with this body; gives the process and rank 0's events."""
    script = tmp_path / "one.py"
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    script.write_text(
        f"{HEAD}\ndef body(probe):\n{lines}\n_probe.main(body, name='one')\n", "utf-8"
    )
    options = ["--records", str(tmp_path)] if records else []
    done = run_program(
        [sys.executable, script, *options, *arguments],
        check=False,
        env={**os.environ, **(env or {})},
    )
    record = tmp_path / "rank-0.jsonl"
    text = record.read_text("utf-8") if record.exists() else ""
    return done, [json.loads(line) for line in text.splitlines()]


def last(events: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return [event for event in events if event["event"] == kind][-1]


def test_arguments_are_gone_before_the_body_imports_anything(tmp_path: Path) -> None:
    done, events = run(tmp_path, "probe.measure('argv', sys.argv[1:])", "--device", "cpu")
    assert done.returncode == 0
    assert last(events, "value")["value"] == []


def test_the_folder_of_the_probes_hides_no_package(tmp_path: Path) -> None:
    _, events = run(tmp_path, "probe.measure('path', sys.path)")
    assert str(PROBES) not in last(events, "value")["value"]


def test_a_stage_is_on_disk_before_its_work_begins(tmp_path: Path) -> None:
    body = "with probe.stage('deep'):\n    import os; os._exit(5)"
    done, events = run(tmp_path, body)
    assert done.returncode == 5
    assert last(events, "stage")["name"] == "deep"
    assert not [event for event in events if event["event"] == "end"]


def test_the_innermost_error_is_kept(tmp_path: Path) -> None:
    body = (
        "try:\n    raise ImportError('libhccl.so: gone')\n"
        "except ImportError as inner:\n    raise RuntimeError('wrapper') from inner"
    )
    done, events = run(tmp_path, body)
    end = last(events, "end")
    assert done.returncode == 1
    assert end["ok"] is False
    assert end["error"] == "ImportError: libhccl.so: gone"
    assert "wrapper" in end["traceback"]


def test_a_library_that_exits_is_a_failure(tmp_path: Path) -> None:
    done, events = run(tmp_path, "raise SystemExit(0)")
    assert done.returncode == 1
    assert last(events, "end")["error"] == "SystemExit: 0"


def test_a_skip_names_its_reason(tmp_path: Path) -> None:
    done, events = run(tmp_path, "probe.skip('no such device')")
    assert done.returncode == 0
    assert last(events, "end")["skipped"] == "no such device"


def test_wrong_values_are_recorded_and_do_not_stop_the_others(tmp_path: Path) -> None:
    done, events = run(tmp_path, "probe.expect('a', 1, 1)\nprobe.expect('b', 2, 3)")
    assert done.returncode == 0
    wrong = last(events, "wrong")
    assert (wrong["what"], wrong["got"], wrong["wanted"]) == ("b", "2", "3")
    assert last(events, "end")["compared"] == 2
    assert last(events, "end")["ok"] is True


def test_values_that_json_lacks_are_texts(tmp_path: Path) -> None:
    _, events = run(tmp_path, "probe.measure('x', {'a': [float('nan'), float('inf')]})")
    assert last(events, "value")["value"] == {"a": ["nan", "inf"]}


def test_the_take_down_comes_after_the_result(tmp_path: Path) -> None:
    body = "def fails():\n    raise OSError('a peer left')\nprobe._closers.append(fails)"
    done, events = run(tmp_path, body)
    assert done.returncode == 0
    kinds = [event["event"] for event in events]
    assert kinds.index("end") < kinds.index("stage")
    values = {event["key"]: event["value"] for event in events if event["event"] == "value"}
    assert values["teardown_error"] == "OSError: a peer left"


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        ("probe.measure('a', 1)", 0, "ok"),
        ("probe.expect('sum', 1, 2)", 1, "WRONG: sum"),
        ("with probe.stage('x'):\n    raise ValueError('y')", 1, "FAILED in x: ValueError: y"),
        ("probe.skip('no device')", 0, "skipped: no device"),
    ],
)
def test_alone_it_prints_a_line_for_people(tmp_path: Path, body: str, code: int, text: str) -> None:
    done, events = run(tmp_path, body, "--device", "cpu", records=False)
    assert done.returncode == code
    assert not events
    assert done.stdout.startswith("one rank 0/1 on cpu ")
    assert text in done.stdout


def test_a_fault_strikes_only_its_rank_and_stage(tmp_path: Path) -> None:
    body = "with probe.stage('sum a'):\n    probe.measure('tampers', probe.tampers('sum a'))"
    for fault, expected in (("rank=0,stage=sum", True), ("rank=1,stage=sum", False)):
        env = {"ASCEND_DOCTOR_PROBE_FAULT": f"{fault},do=value"}
        _, events = run(tmp_path, body, env=env)
        assert last(events, "value")["value"] is expected


def test_it_ends_by_itself_should_nobody_end_it(tmp_path: Path) -> None:
    done, events = run(tmp_path, "import time; time.sleep(600)", "--deadline", "-0.475")
    assert done.returncode == 1
    assert "time.sleep" not in done.stdout
    assert not [event for event in events if event["event"] == "end"]
    assert "in body" in (tmp_path / "rank-0.stack").read_text("utf-8")


def test_no_probe_hides_a_package_of_its_name() -> None:
    names = {path.stem for path in PROBES.glob("*.py")}
    packages = {"triton", "apex", "megatron", "mindspeed", "peft", "numpy", "torch", "torch_npu"}
    assert not names & (packages | set(sys.stdlib_module_names))


def test_nobody_goes_on_before_all_have_joined(examined_python: Path, tmp_path: Path) -> None:
    """As HCCL, the backend meets only in its first collective; rank 1 is late."""
    script = tmp_path / "one.py"
    script.write_text(
        f"""{HEAD}
import time
from pathlib import Path

_probe.BACKENDS["cpu"] = "fake"
_probe.os.environ[_probe.PREFIX] = "one"  # this backend asks no launcher where to meet
late = Path({str(tmp_path / "late")!r})

def body(probe):
    probe.torch()
    import torch.testing._internal.distributed.fake_pg
    if probe.rank == 1:
        time.sleep(2)
        late.touch()
    probe.join()
    probe.expect("rank 1 is there", late.exists(), True)

_probe.main(body, name='one')
""",
        "utf-8",
    )
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    run_program(
        [examined_python, *launcher, script, "--device", "cpu", "--records", str(tmp_path)],
        env=on_cpu(),
    )
    events = [
        json.loads(line)
        for file in tmp_path.glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    assert [event["compared"] for event in events if event["event"] == "end"] == [1, 1]
    assert not [event for event in events if event["event"] == "wrong"]


def test_a_case_that_has_no_more_time_says_so(tmp_path: Path) -> None:
    sleeper = tmp_path / "sleeper.py"
    sleeper.write_text("import time; time.sleep(60)\n", "utf-8")
    body = f"""
sys.path.insert(0, {str(PROBES)!r})
import _cases
for whole in (0.0, 90.0):
    child = _cases.Child({str(sleeper)!r}, "--run-cases", "cpu")
    probe.measure(str(whole), child.next(0.4, of=whole)["error"])
    child.close()
"""
    _, events = run(tmp_path, body)
    assert {event["key"]: event["value"] for event in events if event["event"] == "value"} == {
        "0.0": "TimeoutError: no end after 0 s",
        "90.0": "TimeoutError: no time left, 0 of 90 s",
    }
