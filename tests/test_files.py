import os
import stat
from pathlib import Path

import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.machine import files
from ascend_doctor.machine.files import (
    open_emptied,
    read_bytes,
    read_start,
    why_not_written,
    write_whole,
)

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def test_a_file_is_written_whole_with_the_mode_of_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_whole(str(tmp_path / "new"), "text")
    finally:
        os.umask(old)
    assert (tmp_path / "new").read_text() == "text"
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    assert [path.name for path in tmp_path.iterdir()] == ["new"]


def test_owner_mode_links_and_other_names_stay(tmp_path: Path) -> None:
    there, other, link = (tmp_path / name for name in ("there", "other", "link"))
    there.write_text("old")
    there.chmod(0o604)
    link.symlink_to(there)
    write_whole(str(link), "new")
    assert link.is_symlink()
    assert there.read_text() == "new"
    assert stat.S_IMODE(there.stat().st_mode) == 0o604
    other.hardlink_to(there)
    write_whole(str(there), "newer")
    assert other.read_text() == "newer"


@root
def test_the_owner_of_a_file_stays(tmp_path: Path) -> None:
    (tmp_path / "there").write_text("old")
    os.chown(tmp_path / "there", 12345, 54321)
    write_whole(str(tmp_path / "there"), "new")
    status = (tmp_path / "there").stat()
    assert (status.st_uid, status.st_gid) == (12345, 54321)


@root
@pytest.mark.parametrize("what", ["link", "file"])
def test_what_another_planted_where_all_may_write_is_refused(tmp_path: Path, what: str) -> None:
    precious, shared = tmp_path / "precious", tmp_path / "shared"
    precious.write_text("mine")
    shared.mkdir()
    shared.chmod(0o1777)
    planted = shared / "report.json"
    if what == "link":
        planted.symlink_to(precious)
    else:
        planted.write_text("theirs")
    os.chown(planted, 12345, 12345, follow_symlinks=False)
    with pytest.raises(DataError, match="another user"):
        write_whole(str(planted), "report")
    assert "another user" in why_not_written(str(planted))
    assert precious.read_text() == "mine"


@root
def test_a_device_is_written_to_and_stays_one(tmp_path: Path) -> None:
    device = tmp_path / "null"
    os.mknod(device, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    write_whole(str(device), "gone")
    assert stat.S_ISCHR(device.stat().st_mode)


def test_a_pipe_that_nobody_reads_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="cannot be written"):
        write_whole(str(tmp_path / "pipe"), "text")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_whole(str(tmp_path / "pipe"), "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)


def test_a_disk_that_is_full_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").write_text("old")

    def full(_: int, __: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files, "write_all", full)
    with pytest.raises(DataError, match="No space left"):
        write_whole(str(tmp_path / "there"), "new")
    assert (tmp_path / "there").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there"]


def test_only_regular_files_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(DataError, match=r"not a (regular )?file"):
            read_bytes(path, 10)
    (tmp_path / "large").write_bytes(b"x" * 11)
    with pytest.raises(DataError, match="larger than"):
        read_bytes(tmp_path / "large", 10)
    reader, writer = os.pipe()
    os.write(writer, b"ours")
    os.close(writer)
    assert read_bytes(f"/dev/fd/{reader}", 10) == b"ours"
    os.close(reader)


def test_a_read_ends_at_its_limit_and_closes(tmp_path: Path) -> None:
    (tmp_path / "long").write_bytes(bytes(range(256)) * 1000)
    whole = (tmp_path / "long").read_bytes()
    for limit in (0, 1, 70000, 1 << 20):
        number = os.open(tmp_path / "long", os.O_RDONLY)
        assert read_start(number, limit) == whole[:limit]
        with pytest.raises(OSError, match="descriptor"):
            os.fstat(number)


def test_a_log_is_emptied_and_no_link_followed(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("older")
    os.close(open_emptied(str(tmp_path / "log")))
    assert (tmp_path / "log").read_text() == ""
    (tmp_path / "precious").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    (tmp_path / "second").hardlink_to(tmp_path / "precious")
    for name in ("link", "second"):
        with pytest.raises(OSError, match="name"):
            open_emptied(str(tmp_path / name))
    assert (tmp_path / "precious").read_text() == "mine"
