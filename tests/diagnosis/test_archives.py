"""Archives of logs that anybody may have made: within limits, and nothing is unpacked."""

import gzip
import io
import os
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.diagnosis import archives
from ascend_doctor.diagnosis.logs import find
from ascend_doctor.errors import DataError
from tests.diagnosis.forms import tar, zip_files
from tests.diagnosis.logs import answer, of_files, of_paths

OOM = "[rank2]: RuntimeError: NPU out of memory. Tried to allocate 3.47 GiB (NPU 2; 60.97 GiB"
STEP = "iteration 10/ 100 | lm loss: 2.3\n"


def reasons(files: dict[str, bytes]) -> dict[str, str]:
    diagnosis = of_files({**files, "train.log": STEP})
    return {Path(unread.name).name: unread.reason for unread in diagnosis.not_read}


@pytest.mark.slow
def test_names_of_an_archive_lead_nowhere(tmp_path: Path) -> None:
    names = ("../../out.log", "/etc/absolute.log", "a/../../b.log", "c\x1b[2J\n.log")
    of_files({"train.log": f"{OOM}\n"})  # makes the caches of this home
    for name, pack in (("x.tar", tar), ("x.zip", zip_files)):
        (tmp_path / name).write_bytes(pack(dict.fromkeys(names, f"{OOM}\n")))
        before = sorted(tmp_path.parent.rglob("*"))
        diagnosis = of_paths(tmp_path / name)
        assert answer(diagnosis) == "npu-oom-torch"
        assert diagnosis.causes[0].count == len(names)
        assert sorted(tmp_path.parent.rglob("*")) == before


def test_links_and_devices_of_a_tar_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.log"
    secret.write_text(f"{OOM}\n")
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for kind, name in ((tarfile.SYMTYPE, "s"), (tarfile.LNKTYPE, "h"), (tarfile.CHRTYPE, "c")):
            info = tarfile.TarInfo(f"{name}.log")
            info.type, info.linkname = kind, str(secret)
            archive.addfile(info)
    (tmp_path / "x.tar").write_bytes(whole.getvalue())
    with pytest.raises(DataError, match="no logs in it"):
        find((str(tmp_path / "x.tar"),))


@pytest.mark.slow
def test_an_archive_that_is_too_deep_is_named() -> None:
    data = zip_files({"a.log": OOM})
    for _ in range(archives.DEPTH):
        data = zip_files({"in.zip": data})
    assert "nested more than 3 deep" in reasons({"x.zip": data})["in.zip"]


@pytest.mark.slow
def test_too_many_files_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MEMBERS", 5)
    unread = reasons({"x.tar": tar({f"{n}.log": STEP for n in range(9)})})
    assert unread == {"x.tar": "more than 5 files in archives"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["x.zip", "x.tgz", "in.zip"])
def test_what_grows_without_end_is_read_up_to_the_limit(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(archives, "BYTES", 1 << 20)
    large = {"a.log": STEP * 100_000}
    packed = {"x.zip": zip_files(large), "x.tgz": tar(large, "w:gz"), "in.zip": zip_files(large)}
    outer = {"x.zip": zip_files({"in.zip": packed["in.zip"]})} if name == "in.zip" else {}
    unread = reasons(outer or {name: packed[name]})
    assert any("GiB in archives" in reason for reason in unread.values())


@pytest.mark.slow
def test_a_tar_that_claims_a_huge_header_is_refused() -> None:
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, 1 << 34
    data = (
        info.tobuf(tarfile.USTAR_FORMAT) if info.size < 1 << 33 else info.tobuf(tarfile.GNU_FORMAT)
    )
    unread = reasons({"x.tar": data + bytes(archives._HEADER + 1024)})
    assert "64 MiB" in unread["x.tar"]


def test_what_cannot_be_opened_is_named_and_the_others_are_read() -> None:
    whole = bytearray(zip_files({"a.log": STEP, "b.log": f"{OOM}\n"}))
    # Mark the directory's first entry as encrypted.
    whole[whole.index(b"PK\x01\x02") + 8] |= 1
    diagnosis = of_files({"x.zip": bytes(whole), "broken.zip": b"PK\x03\x04 and no more"})
    assert answer(diagnosis) == "npu-oom-torch"
    by_name = {Path(unread.name).name: unread.reason for unread in diagnosis.not_read}
    assert by_name["a.log"] == "encrypted"
    assert "not read to its end" in by_name["broken.zip"]


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_tar_that_was_cut_is_read_as_far_as_it_goes(mode: str) -> None:
    noise = "".join(f"{n} {n * 7919 % 10007:x}\n" for n in range(50_000))
    data = tar({"a.log": f"{OOM}\n", "b.log": noise}, mode)
    diagnosis = of_files({"x.tar": data[: len(data) * 3 // 4], "train.log": STEP})
    assert diagnosis.not_read
    if mode == "w":
        assert answer(diagnosis) == "npu-oom-torch"


def test_core_files_and_checkpoints_in_an_archive_are_named_as_not_read() -> None:
    data = zip_files({"model.safetensors": b"EI0006: no", "a/core.77": b"\0" * 500, "t.log": STEP})
    assert sorted(reasons({"x.zip": data})) == ["core.77", "model.safetensors"]


def test_a_packed_log_in_a_tar_is_unpacked() -> None:
    packed = tar({"logs/train.log.gz": gzip.compress(f"{OOM}\n".encode())}, "w:xz")
    assert answer(of_files({"x.tar.xz": packed})) == "npu-oom-torch"


def test_the_copy_of_a_packed_tar_has_no_name_and_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    archive = tmp_path / "x.tgz"
    archive.write_bytes(tar({"a.log": OOM}, "w:gz"))
    logs, _ = find((str(archive),))
    (folder,) = tmp_path.glob("ascend-doctor-*")
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IRWXU
    assert os.listdir(folder) == []
    assert len(logs) == 1


@given(st.binary(max_size=600), st.sampled_from(["x.zip", "x.tar", "x.tgz", "x.tar.zst"]))
def test_any_bytes_are_refused_in_words(data: bytes, name: str) -> None:
    of_files({name: data, "train.log": STEP})


@pytest.mark.slow
@given(st.data())
def test_a_damaged_archive_does_not_end_the_diagnosis(data: st.DataObject) -> None:
    pack = data.draw(st.sampled_from([tar, zip_files]))
    whole = bytearray(pack({"a.log": STEP, "b/c.log": f"{OOM}\n"}))
    for offset in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=8)):
        whole[offset] = data.draw(st.integers(0, 255))
    of_files({"x.zip" if pack is zip_files else "x.tar": bytes(whole), "train.log": STEP})


def test_a_wheel_is_no_archive_of_logs() -> None:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("a.log", OOM)
    assert reasons({"x.whl": whole.getvalue()}) == {"x.whl": "not a log by its name"}
