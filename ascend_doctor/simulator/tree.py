"""The stand-in CANN tree: built once for a wheel, kept in the cache, given to child processes."""

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from ascend_doctor.errors import DoctorError
from ascend_doctor.machine.file_lock import open_lock, take_lock
from ascend_doctor.machine.files import reason
from ascend_doctor.machine.hooks import STARTUP_FILE, prepend_path
from ascend_doctor.machine.private import is_mine, private_folder
from ascend_doctor.matrix.loading import cache_folder
from ascend_doctor.simulator import compile as compiling
from ascend_doctor.simulator import layout
from ascend_doctor.simulator.ledger import new_ledger
from ascend_doctor.simulator.soc import properties
from ascend_doctor.simulator.wheel import TorchNpuWheel, find_wheel, needs

CANN = "9.1.0"
KERNELS = "ascend910b"


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """A built tree. ``root`` is the stand-in for /usr/local/Ascend."""

    root: Path
    cann: str
    kernels: str

    @property
    def home(self) -> Path:
        return layout.cann_folder(self.root, self.cann)

    def environment(
        self,
        base: Mapping[str, str],
        *,
        soc: str,
        devices: int,
        memory_bytes: int,
        faults: Sequence[str] = (),
        haste: float = 1.0,
    ) -> dict[str, str]:
        """The whole environment of a child process on a simulated machine.

        ``memory_bytes`` is for one device. ``faults`` are from ``Injection.line``. HCCL's time
        limits are divided by ``haste``. Processes with the same result share one machine and the
        memory of its devices. Raises DataError for an unknown SoC.
        """
        home = str(self.home)
        env = {key: value for key, value in base.items() if not key.startswith("ASCEND_SIMULATOR_")}
        env |= {
            "ASCEND_TOOLKIT_HOME": home,
            "ASCEND_HOME_PATH": home,
            "ASCEND_OPP_PATH": f"{home}/opp",
            "ASCEND_AICPU_PATH": home,
            "TOOLCHAIN_HOME": f"{home}/toolkit",
            "LD_LIBRARY_PATH": prepend_path(f"{home}/lib64", base.get("LD_LIBRARY_PATH")),
            "PYTHONPATH": prepend_path(f"{home}/python/site-packages", base.get("PYTHONPATH")),
            "PATH": prepend_path(f"{home}/bin", base.get("PATH")),
            "ASCEND_SIMULATOR_SOC": soc,
            "ASCEND_SIMULATOR_DEVICES": str(devices),
            "ASCEND_SIMULATOR_MEMORY": str(memory_bytes),
            "ASCEND_SIMULATOR_CANN": self.cann,
            "ASCEND_SIMULATOR_HASTE": str(haste),
            "ASCEND_SIMULATOR_LEDGER": base.get("ASCEND_SIMULATOR_LEDGER") or str(new_ledger()),
        }
        env |= properties(soc)
        if faults:
            env["ASCEND_SIMULATOR_FAULTS"] = ";".join(faults)
        return env


def build(
    python: Path,
    *,
    cache: Path | None = None,
    cann: str = CANN,
    kernels: str = KERNELS,
    without: str = "",
) -> Tree:
    """The tree for the torch_npu of an interpreter, built unless the cache has it.

    ``cann`` is the tree's claimed version, ``kernels`` the chip family of its operator package,
    ``without`` a function that it lacks. Raises DataError if torch_npu is missing and
    DoctorError without a C compiler.
    """
    wheel = find_wheel(python)
    compiler = compiling.find_compiler()
    path = cache or cache_folder() / "simulator"
    key = _key(wheel, compiler, cann, kernels, without)
    root = path / f"{wheel.version}-{key}"
    tree = Tree(root=root, cann=cann, kernels=kernels)
    try:
        private_folder(path)
        trusted = not tree.root.exists() or is_mine(tree.root.lstat())
    except OSError as error:
        raise DoctorError(f"{path}: {reason(error)}; name another with XDG_CACHE_HOME") from error
    if not trusted:
        raise DoctorError(f"{tree.root}: others can write it, and it would be run; remove it")
    if not tree.root.is_dir():
        with open_lock(path / f"{tree.root.name}.lock") as lock:
            take_lock(lock, wait=True)
            if not tree.root.is_dir():
                _make(tree, wheel, compiler, without)
    return tree


def _make(tree: Tree, wheel: TorchNpuWheel, compiler: compiling.Compiler, without: str) -> None:
    """Build beside the final place and move the whole: half a tree is never visible."""
    work = Path(tempfile.mkdtemp(prefix=f"{tree.root.name}-", dir=tree.root.parent))
    try:
        folder = layout.prepare(
            work, tree.root, version=tree.cann, machine=wheel.machine, kernels=tree.kernels
        )
        compiling.libraries(needs(wheel), compiler, folder, without=without)
        layout.add_python(layout.cann_folder(work, tree.cann))
        work.chmod(0o755)
        work.rename(tree.root)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise


def _key(wheel: TorchNpuWheel, *parts: object) -> str:
    here = Path(__file__).parent
    digest = hashlib.sha256(repr((wheel, *parts)).encode())
    for path in sorted(wheel.folder.glob("lib/*.so")):
        digest.update(f"{path.name} {path.stat().st_size}\0".encode())
    for path in (Path(STARTUP_FILE), *sorted(here.rglob("*"))):
        if path.suffix in {".py", ".c", ".h"}:
            digest.update(os.path.relpath(path, here).encode() + path.read_bytes())
    return digest.hexdigest()[:16]
