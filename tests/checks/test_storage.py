from typing import Any

import msgspec
import pytest

from ascend_doctor.facts import FileSystem, Snapshot, Storage
from ascend_doctor.findings import Level
from tests.checks.machine import only, run
from tests.checks.server import GIB, a2, commands


def on(use: str = "logs", untold: tuple[str, ...] = (), **fields: Any) -> Snapshot:
    plain = FileSystem(
        path="/data", uses=(use,), size=100 * GIB, free=50 * GIB, files=1000000, files_free=900000
    )
    mounted = msgspec.structs.replace(plain, **fields)
    return msgspec.structs.replace(a2(), storage=Storage(places=(mounted,), untold=untold))


def test_a_file_system_with_room() -> None:
    assert run("disk-room", on())[0].level is Level.OK
    assert run("disk-room", on(files=0, files_free=0))[0].level is Level.OK, "NFS counts no inodes"


@pytest.mark.parametrize("fields", [{"free": 0}, {"files_free": 0}])
def test_a_full_file_system(fields: dict[str, Any]) -> None:
    finding = only("disk-room", on(**fields), Level.ERROR, "/data is full", "logs of CANN")
    assert "df -h /data && df -i /data" in commands(finding)
    only("disk-room", on("models", **fields), Level.WARNING, "can be read")


@pytest.mark.parametrize("fields", [{"free": GIB - 1}, {"files_free": 999}])
def test_a_file_system_that_is_nearly_full(fields: dict[str, Any]) -> None:
    only("disk-room", on(**fields), Level.WARNING, "nearly full")


def test_a_file_system_that_cannot_be_written() -> None:
    only("disk-room", on(read_only=True, free=0), Level.WARNING, "read-only")
    only("disk-room", on("operators", path=".", free=0), Level.ERROR, "the current folder")


def test_a_file_system_that_was_not_told() -> None:
    only("disk-room", on(untold=("/mnt",)), Level.UNKNOWN, "/mnt")
    only("disk-room", a2(), Level.UNKNOWN, "not collected")
