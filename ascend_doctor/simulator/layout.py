"""The files around the libraries: the folders and version files of a CANN install, all marked.

Layout and keys are those of CANN 8.5 and newer, as captured: ascend_toolkit_install.info of 8.5.0,
version.info of 9.1, the folder listing of 8.5.0.
"""

import shutil
from pathlib import Path

from ascend_doctor.machine.hooks import STARTUP_FILE

MARK = "simulated"
COMPONENTS = ("compiler", "hccl", "opp", "runtime", "toolkit")
KERNELS = "opp/built-in/op_impl/ai_core/tbe/kernel"
NODE_LIBRARY = "libascend_node.so"  # gives a simulated node its host name
HOLES_LIBRARY = "libascend_holes.so"  # files of ranks at true size take no room for zeros
NOTICE = f"""This is not CANN. It is the stand-in of a {MARK} NPU, made by ascend-doctor.
Its libraries compute on the host; nothing here drives an Ascend device.
"""
# The part of CANN's module acl that MindSpeed asks for.
ACL = "import sys\n\nfrom ascend_simulator import acl\n\nsys.modules[__name__] = acl\n"
RT_HEADER = "include/experiment/runtime/runtime/rt.h"  # where triton-ascend looks for it first
_HERE = Path(__file__).parent


def cann_folder(root: Path, version: str) -> Path:
    return root / f"cann-{version}"


def prepare(root: Path, final: Path, *, version: str, machine: str, kernels: str) -> Path:
    """Folders of a CANN install below ``root``; returns the folder for its libraries.

    ``final`` is the later place of ``root``: version files name their own place. ``kernels`` is
    the chip family of the installed operator package.
    """
    cann = cann_folder(root, version)
    libraries = cann / f"{machine}-linux" / "lib64"
    libraries.mkdir(parents=True)
    (root / "cann").symlink_to(cann.name)
    (cann / "lib64").symlink_to(f"{machine}-linux/lib64")
    marker = f"{KERNELS}/{kernels}/{MARK}"
    for name in ("bin", "conf", marker, f"{KERNELS}/config/{kernels}", "python/site-packages"):
        (cann / name).mkdir(parents=True)
    (cann / "SIMULATED").write_text(NOTICE, "utf-8")
    shutil.copy(_HERE / "host" / "set_env.sh", cann)
    _programs(cann)
    _versions(cann, cann_folder(final, version), version=version, machine=machine)
    return libraries


def _programs(cann: Path) -> None:
    compiler, header = cann / "bin" / "bisheng", cann / RT_HEADER
    shutil.copyfile(_HERE / "host" / "bisheng.sh", compiler)
    compiler.chmod(0o755)
    header.parent.mkdir(parents=True)
    shutil.copy(_HERE / "runtime" / "rt.h", header)


def add_python(cann: Path) -> None:
    """The Python side: our kernels as package ``ascend_simulator``, and their loader."""
    site = cann / "python" / "site-packages"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(_HERE / "operators", site / "ascend_simulator", ignore=ignore)
    shutil.copy(STARTUP_FILE, site)
    for name in ("tbe", "te"):
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(f'"""{NOTICE}"""\n', "utf-8")
    (site / "acl.py").write_text(ACL, "utf-8")


def _versions(cann: Path, final: Path, *, version: str, machine: str) -> None:
    path = cann / f"{machine}-linux"
    for name, package in (("toolkit", "toolkit"), ("ops", f"{MARK}-ops")):
        _properties(
            path / f"ascend_{name}_install.info",
            package_name=f"Ascend-cann-{package}",
            version=version,
            innerversion=MARK,
            arch=machine,
            os="linux",
            path=str(final / path.name),
            note=MARK,
        )
    for name in COMPONENTS:
        (cann / name).mkdir(exist_ok=True)
        _properties(
            cann / name / "version.info", Version=version, version_dir="cann", timestamp=MARK
        )


def _properties(path: Path, /, **values: str) -> None:
    path.write_text("".join(f"{key}={value}\n" for key, value in values.items()), "utf-8")
