from __future__ import annotations

from pathlib import Path

from ascend_doctor.collect.storage import folders, room, storage
from ascend_doctor.machine.live import LiveMachine


def test_room_of_a_folder(tmp_path: Path) -> None:
    found = room(str(tmp_path))
    assert found["path"] == str(tmp_path)
    assert 0 <= found["free"] <= found["size"]
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
    found = list(folders(LiveMachine(named)))
    assert ("logs", "/data/npu") in found
    assert ("temporary", "/scratch") in found
    assert [path for use, path in found if use == "models"] == ["/data/hf"]


def test_a_folder_is_asked_once(tmp_path: Path) -> None:
    found = storage(LiveMachine({"HOME": str(tmp_path), "TMPDIR": str(tmp_path)}))
    (home,) = [one for one in found.places if one.path == str(tmp_path)]
    assert home.uses == ("operators", "logs", "temporary", "models")
    assert found.untold == ()
