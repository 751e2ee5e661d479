"""The archive of `report`: what is in it, and who opens it."""

import json
import pickle
import re
import tarfile
from pathlib import Path

import pytest

from tests.conftest import Command
from tests.machines.compose import build

pytestmark = pytest.mark.slow

SECRET = "hf_abcdefghijklmnopqrstuvwxyz0123456789"
OOM = "[rank3]: RuntimeError: NPU out of memory. Tried to allocate 3.47 GiB (NPU 0; 60 GiB total)"
BROKEN = ("cann-not-sourced", "four-cards-lost", "driver-not-loaded")


@pytest.fixture
def job(tmp_path: Path) -> Path:
    """Logs and a launch with secrets."""
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "train.log").write_text(f"master 10.1.2.3 token={SECRET}\n{OOM}\n")
    (folder / "gz-a2-57.log").write_text("epoch 1 by panxiaoyu_rw, w00487123\n")
    (folder / "dump_3").write_bytes(pickle.dumps({"pg_config": {}, "entries": []}, 2))
    (folder / "core").write_bytes(b"\0\1\2 10.1.2.3")
    (tmp_path / "train.sh").write_text(
        f"export HF_TOKEN={SECRET}\nexport MASTER_ADDR=10.1.2.3\n"
        "torchrun --nproc-per-node 8 pretrain_gpt.py --tensor-model-parallel-size 3\n"
    )
    return folder


def contents(archive: Path) -> dict[str, str]:
    with tarfile.open(archive) as opened:
        return {
            member.name.partition("/")[2]: file.read().decode()
            for member in opened
            if (file := opened.extractfile(member))
        }


@pytest.mark.parametrize("machine", BROKEN)
def test_it_is_judged_as_the_machine_is(doctor: Command, tmp_path: Path, machine: str) -> None:
    here = ("--replay", str(build(machine, tmp_path / "machine")))
    archive = tmp_path / "node-7.tar.gz"
    assert doctor("report", *here, "-o", str(archive)).returncode == 0
    live = json.loads(doctor("check", "-l", "0", *here, "--json", "--redact").stdout)
    judged = json.loads(doctor("judge", str(archive), "--json").stdout)
    assert judged["verdict"] == live["verdict"]
    assert doctor("diff", str(archive), str(archive)).returncode == 0
    merged = json.loads(doctor("merge", str(archive), "--json").stdout)
    assert [node["name"] for node in merged["fleet"]["nodes"]] == ["node-7"]


def test_it_holds_the_job_without_its_names(doctor: Command, job: Path, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    launch = str(tmp_path / "train.sh")
    done = doctor("report", str(job), "--launch", launch, "-o", str(archive))
    files = contents(archive)
    assert {"index.html", "report.json", "logs/job/train.log"} <= files.keys()
    assert "HF_TOKEN" in files["launch/train.sh"]
    assert files["launch/train.sh.lint.txt"]
    assert '"pg_config": {}' in files["logs/job/dump_3"]
    assert "core: not text" in files["README.txt"]
    assert files["README.txt"] == done.stderr
    for text in files.values():
        assert SECRET not in text
        assert "10.1.2.3" not in text
    names = re.compile("gz-a2-57|panxiaoyu|w00487123")
    assert not names.search("".join([*files, *files.values()]))
    answer = json.loads(doctor("diagnose", str(archive), "--json").stdout)
    assert [cause["id"] for cause in answer["causes"]] == ["npu-oom-torch"]
    assert (answer["logs"], answer["not_read"]) == (3, [])


def test_of_a_long_log_both_ends_are_kept(doctor: Command, tmp_path: Path) -> None:
    log, archive = tmp_path / "train.log", tmp_path / "a.tar.gz"
    log.write_text("first\n" + "between\n" * 400_000 + f"{OOM}\n")
    doctor("report", str(log), "-o", str(archive))
    text = contents(archive)["logs/train.log"]
    assert text.startswith("first\n")
    assert text.endswith(f"{OOM}\n")
    assert "left out" in text
    assert len(text) < log.stat().st_size / 2


@pytest.mark.parametrize("command", [("judge",), ("merge", "-v")])
def test_another_archive_is_refused(
    doctor: Command, tmp_path: Path, command: tuple[str, ...]
) -> None:
    other = tmp_path / "other.tar.gz"
    with tarfile.open(other, "w:gz") as archive:
        archive.add(__file__, "x")
    done = doctor(*command, str(other))
    assert done.returncode == 2
    assert f"`ascend-doctor diagnose {other}` reads it" in done.stderr


def test_a_damaged_archive_is_an_error(doctor: Command, tmp_path: Path) -> None:
    archive = tmp_path / "a.tar.gz"
    doctor("report", "-o", str(archive))
    archive.write_bytes(archive.read_bytes()[:2000])
    done = doctor("judge", str(archive))
    assert done.returncode == 2
    assert "damaged archive" in done.stderr
