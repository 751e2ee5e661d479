import shutil
import subprocess
from pathlib import Path

import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.provision import bundle
from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.signatures import Signers
from ascend_doctor.provision.wheels import hash_file
from tests.conftest import Command
from tests.provision.test_lock import LOCK

pytestmark = pytest.mark.skipif(not shutil.which("ssh-keygen"), reason="needs ssh-keygen")


def key(folder: Path, name: str) -> Path:
    file = folder / name
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(file)]
    subprocess.run(command, check=True, timeout=60, stdin=subprocess.DEVNULL)
    return file.with_suffix(".pub")


def sign(file: Path, public: Path, namespace: str = "ascend-doctor") -> None:
    file.with_name(f"{file.name}.sig").unlink(missing_ok=True)
    command = ["ssh-keygen", "-q", "-Y", "sign", "-f", str(public.with_suffix(""))]
    subprocess.run([*command, "-n", namespace, str(file)], check=True, timeout=60)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    file = tmp_path / locks.FILE
    locks.write(file, LOCK)
    return file


def test_a_lock_is_taken_from_its_signer_alone(tmp_path: Path, lock: Path) -> None:
    ours, theirs = key(tmp_path, "ours"), key(tmp_path, "theirs")
    both = tmp_path / "both.pub"
    both.write_text(f"# the team\n\n{theirs.read_text()}{ours.read_text()}", "utf-8")
    sign(lock, ours)
    assert locks.read(lock, signers=Signers.of(str(ours))) == LOCK
    assert locks.read(lock, signers=Signers.of(str(both))) == LOCK
    with pytest.raises(DataError, match="not signed by a key"):
        locks.read(lock, signers=Signers.of(str(theirs)))


def test_a_lock_that_was_changed_is_refused(tmp_path: Path, lock: Path) -> None:
    ours = key(tmp_path, "ours")
    sign(lock, ours)
    lock.write_text(lock.read_text() + "# more\n")
    with pytest.raises(DataError, match="not signed by a key"):
        locks.read(lock, signers=Signers.of(str(ours)))


def test_a_signature_for_something_else_does_not_count(tmp_path: Path, lock: Path) -> None:
    ours = key(tmp_path, "ours")
    signers = Signers.of(str(ours))
    with pytest.raises(DataError, match=r"\.sig"):
        locks.read(lock, signers=signers)
    sign(lock, ours, namespace="git")
    with pytest.raises(DataError, match="not signed by a key"):
        locks.read(lock, signers=signers)
    lock.with_name(f"{lock.name}.sig").write_text("nothing\n")
    with pytest.raises(DataError, match="not signed by a key"):
        locks.read(lock, signers=signers)


@pytest.mark.parametrize("text", ["", "# none\n", "nothing\n", 'x cert-authority="y" ssh-rsa A\n'])
def test_a_file_without_a_key_is_bad_data(tmp_path: Path, text: str) -> None:
    file = tmp_path / "key.pub"
    file.write_text(text)
    with pytest.raises(DataError, match="public key"):
        Signers.of(str(file))


def test_of_a_bundle_the_sums_are_signed(tmp_path: Path, lock: Path) -> None:
    ours = key(tmp_path, "ours")
    names = [
        locks.FILE,
        *(f"git/{checkout.name}.bundle" for checkout in LOCK.checkouts),
        *(f"wheels/{wheel.file}" for wheel in LOCK.wheels),
    ]
    for name in names[1:]:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("content")
    sums = tmp_path / bundle.SUMS
    sums.write_text("".join(f"{hash_file(tmp_path / name)}  {name}\n" for name in names))
    signers = Signers.of(str(ours))
    with pytest.raises(DataError, match=r"SHA256SUMS\.sig"):
        bundle.read(tmp_path, signers=signers)
    sign(sums, ours)
    assert bundle.read(tmp_path, signers=signers) == LOCK
    lock.write_text(lock.read_text() + "# more\n")
    sums.write_text("".join(f"{hash_file(tmp_path / name)}  {name}\n" for name in names))
    with pytest.raises(DataError, match="not signed by a key"):
        bundle.read(tmp_path, signers=signers)


@pytest.mark.slow
def test_setup_refuses_what_is_not_signed(doctor: Command, tmp_path: Path, lock: Path) -> None:
    public = key(tmp_path, "ours")
    options = ("--locked", "--lock", str(lock), "--require-signed", str(public), "--dry-run")
    done = doctor("setup", *options, "--prefix", str(tmp_path / "p"))
    assert done.returncode == 2
    assert f"{lock}.sig" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert doctor("setup", "--megatron", "0.15.3", "--require-signed", "x").returncode == 2
