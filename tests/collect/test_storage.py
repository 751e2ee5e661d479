import os
from pathlib import Path

import pytest

from ascend_doctor.collect.storage import folders, room, storage
from ascend_doctor.machine.live import LiveMachine


def test_room_of_a_folder(tmp_path: Path) -> None:
    usage = room(str(tmp_path))
    assert usage["path"] == str(tmp_path)
    assert 0 <= usage["free"] <= usage["size"]
    above = room(str(tmp_path / "not" / "there"))
    assert above["path"] == str(tmp_path), "the nearest folder that exists"


def test_folders_by_use() -> None:
    usual = dict.fromkeys(folders(LiveMachine({"HOME": "/home/ada"})))
    assert list(usual) == [
        ("operators", "."),
        ("operators", "/home/ada"),
        ("logs", "/home/ada"),
        ("temporary", "/tmp"),
        ("models", "/home/ada"),
    ]
    named = {
        "HOME": "/home/ada",
        "ASCEND_WORK_PATH": "/data/npu/",
        "TMPDIR": "/scratch",
        "HF_HOME": "/data/hf",
        "MODELSCOPE_CACHE": "relative",
    }
    named_folders = list(folders(LiveMachine(named)))
    assert ("logs", "/data/npu") in named_folders
    assert ("temporary", "/scratch") in named_folders
    assert [path for use, path in named_folders if use == "models"] == ["/data/hf"]


def test_a_folder_is_asked_once(tmp_path: Path) -> None:
    facts = storage(LiveMachine({"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}))
    (home,) = [file_system for file_system in facts.places if file_system.path == str(tmp_path)]
    assert home.uses == ("operators", "logs", "temporary", "models")
    assert facts.untold == ()


def test_a_folder_that_may_not_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ascend").mkdir()
    assert room(str(tmp_path), ("logs", "models"))["closed"] == ""
    monkeypatch.setattr(os, "access", lambda path, _: not path.endswith("ascend"))
    assert room(str(tmp_path), ("models", "logs"))["closed"] == str(tmp_path / "ascend")
