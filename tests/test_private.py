import os
import stat
from pathlib import Path

import pytest

from ascend_doctor.machine.private import private_folder, read_mine, write_mine
from ascend_doctor.matrix.loading import CacheEntry

root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def test_what_is_kept_is_for_this_user_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        write_mine(tmp_path / "a" / "b" / "kept", b"data")
    finally:
        os.umask(old)
    assert read_mine(tmp_path / "a" / "b" / "kept") == b"data"
    for name, mode in (("a", 0o777), ("a/b", 0o700), ("a/b/kept", 0o600)):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) & 0o777 in {mode, 0o700}
    assert [path.name for path in (tmp_path / "a" / "b").iterdir()] == ["kept"]


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_what_others_can_write_is_not_read(tmp_path: Path, mode: int) -> None:
    write_mine(tmp_path / "c" / "kept", b"data")
    (tmp_path / "c" / "kept").chmod(mode)
    assert read_mine(tmp_path / "c" / "kept") is None
    (tmp_path / "c" / "kept").chmod(0o600)
    (tmp_path / "c").chmod(0o777)
    assert read_mine(tmp_path / "c" / "kept") is None
    with pytest.raises(PermissionError):
        write_mine(tmp_path / "c" / "kept", b"more")


def test_links_and_pipes_are_not_read(tmp_path: Path) -> None:
    write_mine(tmp_path / "c" / "kept", b"data")
    (tmp_path / "c" / "link").symlink_to("kept")
    os.mkfifo(tmp_path / "c" / "pipe", 0o600)
    assert read_mine(tmp_path / "c" / "link") is None
    assert read_mine(tmp_path / "c" / "pipe") is None
    (tmp_path / "d").symlink_to("c")
    with pytest.raises(OSError, match="link"):
        private_folder(tmp_path / "d")


@root
def test_what_another_user_owns_is_not_read(
    no_real_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    cached = CacheEntry.of("matrix", b"x")
    cached.put({"a": 1})
    assert cached.get() == {"a": 1}
    os.chown(cached.path, 12345, 12345)
    assert cached.get() is None
    os.chown(cached.path, 0, 0)
    os.chown(cached.path.parent, 12345, 12345)
    assert cached.get() is None
    assert cached.path.is_relative_to(no_real_home)


def test_a_file_of_the_same_time_and_size_is_another_one(tmp_path: Path) -> None:
    from ascend_doctor.matrix.loading import load
    from ascend_doctor.matrix.schema import Hazards

    path = tmp_path / "hazards.yaml"
    path.write_text("schema: 1\nhazards: []\n")
    os.utime(path, (1, 1))
    assert load(path, Hazards).schema == 1
    path.write_text("schema: 2\nhazards: []\n")
    os.utime(path, (1, 1))
    assert load(path, Hazards).schema == 2
