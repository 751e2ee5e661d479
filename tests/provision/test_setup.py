import fcntl
import http.server
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest

from ascend_doctor.provision import lock as locks
from ascend_doctor.provision.lock import Lock, LockedSource
from ascend_doctor.provision.wheels import hash_file
from tests.knobs import seed
from tests.programs import run_program
from tests.provision import small_world
from tests.provision.small_world import PASSWORD, PROGRAM, World, git, list_imports

KILLS = 2


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return small_world.make(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def prefix(world: World) -> Path:
    """A prefix with a stack of each Megatron, 0.15.3 in use. Tests leave it as they found it."""
    folder = world.root / "a prefix"  # paths with spaces are paths
    for megatron in ("0.12.1", "0.15.3"):
        done = world.setup(megatron, folder)
        assert "failed" not in done.stderr, done.stderr
        assert (folder / "current" / locks.FILE).is_file(), done.stderr
    return folder


def lock_of(stack: Path) -> Lock:
    return locks.read(stack / locks.FILE)


def stack_of(prefix: Path, ref: str) -> Path:
    return next((prefix / "stacks").glob(f"{ref}-*"))


def drift(world: World, stack: Path) -> subprocess.CompletedProcess[str]:
    return world.run("check", "-l", "0", "--only", "stack-lock", "--lock", stack / locks.FILE)


def everything(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_commits_are_those_of_the_refs(world: World, prefix: Path) -> None:
    for ref, branch in (("core_v0.15.3", "core_r0.15.3"), ("core_v0.12.1", "26.1.0_core_r0.12.1")):
        stack = stack_of(prefix, ref)
        for name, repository, reference in (
            ("megatron-lm", "Megatron-LM", ref),
            ("mindspeed", "MindSpeed", branch),
        ):
            commit = git("rev-parse", f"{reference}^{{commit}}", at=world.mirrors / repository)
            locked = next(
                checkout for checkout in lock_of(stack).checkouts if checkout.name == name
            )
            checkout = stack / "src" / name
            assert locked.commit == commit
            assert git("rev-parse", "HEAD", at=checkout) == commit
            assert git("rev-parse", "HEAD^{tree}", at=checkout) == locked.tree
            assert git("status", "--porcelain", "--untracked-files=no", at=checkout) == ""


def test_imports_come_from_one_tree(prefix: Path) -> None:
    for ref in ("core_v0.15.3", "core_v0.12.1"):
        stack = stack_of(prefix, ref)
        origins = list_imports(stack)
        for name, root in (
            ("megatron.core", "src/megatron-lm"),
            ("megatron.training", "src/megatron-lm"),
            ("mindspeed", "src/mindspeed"),
            ("mcore_bridge", "venv"),
        ):
            assert Path(origins[name]).is_relative_to(stack / root)


def test_pip_brings_neither_a_second_core_nor_a_placeholder(prefix: Path) -> None:
    site = next((prefix / "current/venv/lib").glob("python3*")) / "site-packages"
    assert not (site / "megatron").exists()
    names = {wheel.name: wheel.version for wheel in lock_of(prefix / "current").wheels}
    assert "megatron-core" not in names
    assert "mindspeed" not in names
    assert names["numpy"] == "1.26.0"  # the bound of MindSpeed; 1.26.4 and 2.1.0 are there
    completed = run_program([prefix / "current/venv/bin/python", "-m", "pip", "check"], check=False)
    assert completed.returncode == 0, completed.stdout


def test_git_data_is_one_commit_each(world: World, prefix: Path) -> None:
    cache = prefix / "objects/megatron-lm.git"
    assert len((cache / "shallow").read_text().split()) == 2
    assert git("count-objects", "-v", at=stack_of(prefix, "core_v0.15.3") / "src/megatron-lm")
    whole = sum(
        f.stat().st_size for f in (world.mirrors / "Megatron-LM/.git").rglob("*") if f.is_file()
    )
    ours = sum(f.stat().st_size for f in (cache / "objects").rglob("*") if f.is_file())
    assert ours * 2 < whole


def test_check_finds_the_stack_as_locked(world: World, prefix: Path) -> None:
    done = drift(world, prefix / "current")
    assert done.returncode == 0, done.stdout
    assert "0 errors, 0 warnings; 1 passed" in done.stdout


def test_env_of_the_stack_names_its_trees(world: World, prefix: Path) -> None:
    done = world.run("env", "--prefix", prefix, "--shell", "json")
    assert done.returncode == 0, done.stderr
    stack = (prefix / "current").resolve()
    assert str(stack / "src/megatron-lm") in done.stdout.replace(
        str(prefix / "current"), str(stack)
    )


def test_imports_are_looked_for_as_in_a_shell(world: World, tmp_path: Path) -> None:
    """The user's PYTHONPATH counts there, except another tree of Megatron."""
    mine, other = tmp_path / "mine", tmp_path / "other"
    mine.mkdir()
    (mine / "sitecustomize.py").write_text("print('hello')\n")
    (other / "megatron/core").mkdir(parents=True)
    prefix = tmp_path / "p"
    done = world.setup("0.15.3", prefix, PYTHONPATH=f"{other}:{mine}")
    assert (prefix / "current" / locks.FILE).is_file(), done.stderr


def test_a_framework_is_run_in_place(world: World, tmp_path: Path) -> None:
    """MindSpeed-LLM is installed by nothing: its guide has its folder and its requirements."""
    prefix = tmp_path / "prefix"
    done = world.setup("0.12.1", prefix, "--framework", "mindspeed-llm")
    assert "failed" not in done.stderr, done.stderr
    lock = locks.read(prefix / "current")
    assert lock.pythonpath == ("src/megatron-lm", "src/mindspeed", "src/mindspeed-llm")
    assert "einops" in {wheel.name for wheel in lock.wheels}
    carried = next(checkout for checkout in lock.checkouts if checkout.name == "mindspeed-llm")
    assert carried.commit == git("rev-parse", "master", at=world.mirrors / "MindSpeed-LLM")


def test_a_finished_prefix_needs_no_network_and_no_pip(
    world: World, prefix: Path, tmp_path: Path
) -> None:
    shims = tmp_path / "bin"
    shims.mkdir()
    real = run_program(["which", "git"]).stdout.strip()
    (shims / "git").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/git.log\nexec {real} "$@"\n')
    (shims / "git").chmod(0o755)
    arguments = world.arguments("0.15.3", prefix)
    arguments[arguments.index("--git-mirror") + 1] = "http://127.0.0.1:9/"
    done = world.run(*arguments, PATH=f"{shims}:{os.environ['PATH']}", PIP_FIND_LINKS="/nowhere")
    assert [
        line.split()[0]
        for line in done.stderr.splitlines()
        if ":" in line and line[:7] in ("skipped", "built  ", "failed ", "repaire")
    ] == ["skipped"] * 3
    log = (tmp_path / "git.log").read_text()
    assert "fetch" not in log
    assert "ls-remote" not in log


def test_what_is_gone_is_repaired(world: World, prefix: Path) -> None:
    stack = stack_of(prefix, "core_v0.15.3")
    site = next((stack / "venv/lib").glob("python3*")) / "site-packages"
    subprocess.run(
        ["rm", "-rf", site / "peft", *site.glob("peft-*"), stack / "src/mindspeed"], check=True
    )
    assert "mindspeed is missing" in drift(world, stack).stdout
    assert "peft is missing" in drift(world, stack).stdout
    done = world.setup("0.15.3", prefix)
    assert "repaired  mindspeed" in done.stderr
    assert "repaired  environment: peft" in done.stderr
    assert drift(world, stack).returncode == 0


def test_local_changes_are_reported_and_left_alone(world: World, prefix: Path) -> None:
    file = prefix / "current/src/megatron-lm/megatron/core/__init__.py"
    before = file.read_text()
    file.write_text("# mine\n")
    try:
        completed = drift(world, prefix / "current")
        assert completed.returncode == 1
        assert "megatron-lm has local changes" in completed.stdout
        done = world.setup("0.15.3", prefix)
        assert done.returncode == 2
        assert "stash" in done.stderr
        assert file.read_text() == "# mine\n"
    finally:
        file.write_text(before)


def test_an_edited_file_of_a_wheel_is_drift(world: World, prefix: Path) -> None:
    stack = stack_of(prefix, "core_v0.15.3")
    name = "transformers"
    (file,) = stack.glob(f"venv/lib/python3*/site-packages/{name}/__init__.py")
    before = file.read_bytes()
    file.write_bytes(before + b"# mine\n")
    done = drift(world, stack)
    assert done.returncode == 1
    assert f"{name}/__init__.py" in "".join(done.stdout.split())  # long paths are broken
    file.write_bytes(before)
    assert drift(world, stack).returncode == 0


def test_another_commit_is_drift_and_is_repaired(world: World, prefix: Path) -> None:
    stack = stack_of(prefix, "core_v0.15.3")
    other = git("rev-parse", "core_v0.12.1^{commit}", at=world.mirrors / "Megatron-LM")
    git("checkout", "-q", "--detach", other, at=stack / "src/megatron-lm")
    assert "megatron-lm is at another commit" in drift(world, stack).stdout
    done = world.setup("0.15.3", prefix)
    assert "repaired  megatron-lm" in done.stderr
    assert drift(world, stack).returncode == 0


def test_a_damaged_object_is_fetched_again(world: World, prefix: Path) -> None:
    stack = stack_of(prefix, "core_v0.15.3")
    for pack in (prefix / "objects/mindspeed.git/objects").rglob("*"):
        if pack.is_file() and pack.suffix != ".idx":
            pack.chmod(0o644)
            content = bytearray(pack.read_bytes())
            content[len(content) // 2] ^= 0xFF
            pack.write_bytes(content)
    subprocess.run(["rm", "-rf", stack / "src/mindspeed"], check=True)
    done = world.setup("0.15.3", prefix)
    assert "repaired  mindspeed" in done.stderr, done.stderr
    assert drift(world, stack).returncode == 0
    assert git("fsck", "--no-dangling", at=prefix / "objects/mindspeed.git") == ""


def test_a_wrong_documented_ref_is_explained(world: World, tmp_path: Path) -> None:
    done = world.setup("v0.16.0", tmp_path / "p")
    assert done.returncode == 2
    assert "no ref v0.16.0" in done.stderr
    assert "use core_v0.16.0" in done.stderr
    assert not (tmp_path / "p").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["tag", "-d", "core_v0.15.3"], "there is no ref core_v0.15.3; near names: core_v0.12.1"),
        (["tag", "-f", "core_v0.15.3", "core_v0.12.1^{commit}"], "it was moved"),
    ],
)
def test_refs_are_verified_before_anything_is_touched(
    world: World, tmp_path: Path, change: list[str], message: str
) -> None:
    mirror = tmp_path / "Megatron-LM.git"
    git("clone", "-q", "--mirror", world.mirrors / "Megatron-LM", mirror)
    git(*change, at=mirror)
    done = world.setup("0.15.3", tmp_path / "p", "--git-mirror", f"megatron-lm={mirror}")
    assert done.returncode == 2
    assert message in done.stderr
    assert everything(tmp_path / "p") == [".lock"]


def test_a_dry_run_writes_nothing(world: World, tmp_path: Path) -> None:
    done = world.setup("0.15.3", tmp_path / "p", "--dry-run", PIP_FIND_LINKS="/nowhere")
    assert done.returncode == 0
    assert "core_v0.15.3" in done.stdout
    assert "CANN 9.0.0 is not on this machine" in done.stdout
    assert not (tmp_path / "p").exists()


def test_no_stack_fits_is_said_in_words(world: World, tmp_path: Path) -> None:
    done = world.run(
        "setup",
        "--megatron",
        "0.15.3",
        "--framework",
        "ms-swift==4.0.4",
        "--yes",
        "--prefix",
        tmp_path / "p",
        "--matrix",
        world.rows,
    )
    assert done.returncode == 1
    assert "no stack has" in done.stderr
    assert not (tmp_path / "p").exists()


def test_without_a_terminal_nothing_is_built_unasked(world: World, tmp_path: Path) -> None:
    arguments = [
        argument for argument in world.arguments("0.15.3", tmp_path / "p") if argument != "--yes"
    ]
    done = world.run(*arguments)
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert not (tmp_path / "p").exists()


def test_a_failed_setup_leaves_the_stack_in_use(world: World, prefix: Path, tmp_path: Path) -> None:
    before = os.readlink(prefix / "current")
    done = world.setup(
        "0.15.3", prefix, "--venv", str(tmp_path / "v"), "--quiet", PIP_FIND_LINKS="/nowhere"
    )
    assert done.returncode == 1
    assert "failed    environment: pip download" in done.stderr
    assert "skipped" not in done.stderr  # quiet
    assert "run the same command again" in done.stderr
    assert os.readlink(prefix / "current") == before
    assert drift(world, prefix / "current").returncode == 0


def test_one_setup_at_a_time(world: World, prefix: Path) -> None:
    with (prefix / ".lock").open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(f"{os.getpid()} name")
        file.flush()
        done = world.setup("0.15.3", prefix)
        file.truncate(0)
    assert done.returncode == 2
    assert f"another setup (process {os.getpid()}) works on" in done.stderr


def test_a_wheel_that_was_changed_in_the_prefix_is_not_installed(
    world: World, tmp_path: Path
) -> None:
    prefix, lock = tmp_path / "p", tmp_path / "a.lock"
    world.setup("0.15.3", prefix)
    shutil.copyfile(prefix / "current" / locks.FILE, lock)
    numpy_wheel = next(prefix.glob("wheels/*/numpy*"))
    numpy_wheel.write_bytes(numpy_wheel.read_bytes() + b"more")
    subprocess.run(["rm", "-rf", *(prefix / "stacks").iterdir()], check=True)
    done = world.run(
        *("setup", "--locked", "--lock", lock, "--prefix", prefix, "--matrix", world.rows),
        *("--git-mirror", world.mirrors, "--python", sys.executable, "--yes", "--prove", "0"),
    )
    assert "failed" not in done.stderr, done.stderr
    assert hash_file(numpy_wheel) == numpy_wheel.parent.name


def test_killed_anywhere_it_goes_on(world: World, prefix: Path) -> None:
    dice = random.Random(seed(0))
    world.setup("0.12.1", prefix)
    previous = (prefix / "current").resolve()
    subprocess.run(["rm", "-rf", *(prefix / "stacks").glob("core_v0.15.3*")], check=True)
    start = time.monotonic()
    assert "built     environment" in world.setup("0.15.3", prefix).stderr
    length = time.monotonic() - start
    expected = (prefix / "current").resolve()
    for _ in range(KILLS):
        world.setup("0.12.1", prefix)  # in use again
        subprocess.run(["rm", "-rf", expected, *prefix.glob("objects/*")], check=True)
        subprocess.run(["rm", "-rf", previous / "src"], check=True)  # its objects went as well
        world.setup("0.12.1", prefix)
        process = subprocess.Popen(
            [PROGRAM, *world.arguments("0.15.3", prefix)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=world.env,
        )
        delay = length * dice.random() ** 2  # git is done early; pip takes the rest
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        in_use = (prefix / "current").resolve()
        assert in_use in (previous, expected.parent / in_use.name)
        assert drift(world, in_use).returncode == 0, delay
        list_imports(in_use)
        done = world.setup("0.15.3", prefix)
        assert "failed" not in done.stderr, (delay, done.stderr)
        assert (prefix / "current").resolve() == expected, (delay, done.stderr)
        assert drift(world, expected).returncode == 0, delay
        assert Path(list_imports(expected)["megatron.core"]).is_relative_to(expected)
        assert not list((prefix / "stacks").glob("*/.state/scratch"))
        print(f"killed after {delay:.1f} of {length:.1f} s: healthy")  # noqa: T201 - shown by -s


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk on which git's data fit and an environment does not."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command: list[str | Path] = ["mount", "-t", "tmpfs", "-o", "size=4m", "none", folder]
    if os.geteuid() != 0 or run_program(command, check=False).returncode:
        pytest.skip("mounting a small disk takes root")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


def test_a_full_disk_is_told_and_outlived(world: World, small_disk: Path) -> None:
    prefix = small_disk / "p"
    done = world.setup("0.15.3", prefix)
    assert done.returncode == 1
    assert "failed    environment" in done.stderr
    assert "MiB are left on the disk of" in done.stderr
    assert not (prefix / "current").exists()
    subprocess.run(["mount", "-o", "remount,size=400m", small_disk], check=True)
    done = world.setup("0.15.3", prefix)
    assert "skipped   megatron-lm" in done.stderr
    assert "built     environment" in done.stderr
    assert drift(world, prefix / "current").returncode == 0


def test_the_lock_builds_the_same_elsewhere(world: World, prefix: Path, tmp_path: Path) -> None:
    file = prefix / "current" / locks.FILE
    elsewhere = tmp_path / "p"
    arguments: list[str | Path] = ["setup", "--prove", "0", "--locked", "--lock", file]
    arguments += ["--prefix", elsewhere, "--yes"]
    where: list[str | Path] = ["--git-mirror", world.mirrors, "--python", sys.executable]
    where += ["--matrix", world.rows]
    done = world.run(*arguments, *where)
    ours, theirs = lock_of(prefix / "current"), lock_of(elsewhere / "current")
    assert ours.checkouts == theirs.checkouts, done.stderr
    assert [wheel for wheel in ours.wheels if wheel.exact] == [
        wheel for wheel in theirs.wheels if wheel.exact
    ]
    assert ours.settings == theirs.settings
    # Source-only packages are built again of the same source; the file differs.
    (here,), (there,) = (
        [wheel for wheel in lock.wheels if wheel.source] for lock in (ours, theirs)
    )
    assert (here.name, here.version, here.source) == (there.name, there.version, there.source)
    assert here.source == LockedSource(
        file="decorator-0.15.0.tar.gz", sha256=hash_file(world.index / "decorator-0.15.0.tar.gz")
    )
    assert here.sha256 != there.sha256
    assert drift(world, elsewhere / "current").returncode == 0
    # Another setup finds it in elsewhere.
    assert "built" not in world.run(*arguments, *where).stderr
    # An index with another file of the same name is refused.
    changed = tmp_path / "index"
    subprocess.run(["cp", "-r", world.index, changed], check=True)
    small_world.wheel(changed, "peft", "0.15.0", files={"peft/__init__.py": "# changed\n"})
    done = world.run(*arguments[:-2], tmp_path / "q", "--yes", *where, PIP_FIND_LINKS=str(changed))
    assert done.returncode == 1
    assert "peft" in done.stderr
    assert not (tmp_path / "q/current").exists()
    # So is another source.
    changed = tmp_path / "sources"
    subprocess.run(["cp", "-r", world.index, changed], check=True)
    (changed / "decorator-0.15.0.tar.gz").unlink()
    small_world.source(changed, "decorator", "0.15.0", more="# changed\n")
    done = world.run(*arguments[:-2], tmp_path / "s", "--yes", *where, PIP_FIND_LINKS=str(changed))
    assert done.returncode == 1
    assert "decorator" in done.stderr


def test_a_bundle_builds_the_same_without_a_network(
    world: World, prefix: Path, tmp_path: Path
) -> None:
    bundle = tmp_path / "bundle"
    world.setup("0.15.3", prefix, "--bundle", bundle)
    subprocess.run(["sha256sum", "--quiet", "-c", "SHA256SUMS"], cwd=bundle, check=True)
    elsewhere = tmp_path / "p"
    program: list[str | Path] = [PROGRAM, "setup", "--offline", "--from", bundle, "--yes"]
    program += ["--prefix", elsewhere, "--prove", "0"]
    where: list[str | Path] = ["--python", sys.executable, "--matrix", world.rows]
    refused = ["unshare", "-n"] if _can_unshare() else []
    env = {**world.env, "PIP_FIND_LINKS": "/nowhere"}
    done = run_program([*refused, *program, *where], check=False, env=env)
    ours, theirs = lock_of(prefix / "current"), lock_of(elsewhere / "current")
    assert [checkout.tree for checkout in ours.checkouts] == [
        checkout.tree for checkout in theirs.checkouts
    ], done.stderr
    assert ours.wheels == theirs.wheels
    assert Path(list_imports(elsewhere / "current")["megatron.core"]).is_relative_to(
        elsewhere.resolve()
    )
    damaged = next((bundle / "wheels").glob("numpy*"))
    damaged.write_bytes(damaged.read_bytes() + b"x")
    done = run_program([*program, "--megatron", "0.15.3"], check=False, env=env)
    assert done.returncode == 2
    assert "is damaged" in done.stderr


def _can_unshare() -> bool:
    try:
        done = run_program(["unshare", "-n", "true"], check=False)
    except OSError:
        return False
    return done.returncode == 0


class _Guarded(http.server.SimpleHTTPRequestHandler):
    """Files for password holders; git's dumb protocol needs no more."""

    def do_GET(self) -> None:
        expected = b64encode(f"robot:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {expected}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.end_headers()
            return
        super().do_GET()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        pass


@pytest.fixture
def guarded(world: World, tmp_path: Path) -> Iterator[str]:
    """A server that speaks git's oldest protocol, without single commits, behind a password."""
    served = tmp_path / "served"
    for name in ("Megatron-LM", "MindSpeed"):
        git("clone", "-q", "--bare", world.mirrors / name, served / f"{name}.git")
        git("update-server-info", at=served / f"{name}.git")

    def handler(*args: object) -> _Guarded:
        return _Guarded(*args, directory=str(served))  # type: ignore[arg-type]

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


def test_credentials_are_used_and_never_printed_or_stored(
    world: World, guarded: str, tmp_path: Path
) -> None:
    prefix = tmp_path / "p"
    arguments = world.arguments("0.15.3", prefix)
    at = arguments.index("--git-mirror") + 1
    arguments[at] = f"http://robot:{PASSWORD}@{guarded}/"
    done = world.run(*arguments)
    assert (prefix / "current" / locks.FILE).is_file(), done.stderr
    arguments[at] = f"http://robot:wrong-{PASSWORD}@{guarded}/"
    arguments[arguments.index("--prefix") + 1] = str(tmp_path / "q")
    refused = world.run(*arguments)
    assert refused.returncode == 1
    for text in (done.stdout, done.stderr, refused.stdout, refused.stderr):
        assert PASSWORD not in text
        assert "robot" not in text
    for file in [*prefix.rglob("*"), *(tmp_path / "q").rglob("*")]:
        if file.is_file() and not file.is_symlink():
            assert PASSWORD.encode() not in file.read_bytes(), file
