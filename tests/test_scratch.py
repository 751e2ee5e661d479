"""Temporary folders have room for sockets where TMPDIR has."""

import tempfile
from pathlib import Path

import pytest

from ascend_doctor.machine.scratch import temporary


@pytest.mark.parametrize(
    ("length", "moved"), [(40, False), (52, False), (53, True), (75, True), (76, False)]
)
def test_a_folder_has_room_for_sockets_where_the_place_itself_has(
    length: int, moved: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer than 75, TMPDIR has none for the training either, and that is to be seen."""
    with tempfile.TemporaryDirectory(dir="/tmp") as base:
        path = Path(base, "x" * (length - len(base) - 1))
        path.mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(path))
        with temporary(room=32) as folder:
            assert (Path(folder).parent != path) is moved
            assert not moved or len(folder) + 32 <= 107
        assert not Path(folder).exists()
