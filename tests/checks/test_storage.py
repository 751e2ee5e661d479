from typing import Any

import msgspec
import pytest

from ascend_doctor.facts import FileSystem, Snapshot, Storage
from ascend_doctor.findings import Level
from tests.checks.levels import cannot_tell, fails, passes, warns
from tests.checks.machine import run, without
from tests.checks.server import GIB, a2, commands


def on(use: str = "logs", untold: tuple[str, ...] = (), **fields: Any) -> Snapshot:
    plain = FileSystem(
        path="/data", uses=(use,), size=100 * GIB, free=50 * GIB, files=1000000, files_free=900000
    )
    mounted = msgspec.structs.replace(plain, **fields)
    return msgspec.structs.replace(a2(), storage=Storage(places=(mounted,), untold=untold))


def test_a_file_system_with_room() -> None:
    passes("disk-room", on())
    assert run("disk-room", on(files=0, files_free=0))[0].level is Level.OK, "NFS counts no inodes"


@pytest.mark.parametrize("fields", [{"free": 0}, {"files_free": 0}])
def test_a_full_file_system(fields: dict[str, Any]) -> None:
    finding = fails("disk-room", on(**fields), "/data is full", "logs of CANN")
    assert "df -h /data && df -i /data" in commands(finding)
    warns("disk-room", on("models", **fields), "can be read")


def test_a_file_system_that_was_not_told() -> None:
    cannot_tell("disk-room", on(untold=("/mnt",)), "/mnt")
    cannot_tell("disk-room", without(a2(), "storage"), "not collected")
