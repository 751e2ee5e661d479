"""What parsers get of CANN's files: versions, installations and their trees."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from ascend_doctor.collect.cann import cann
from ascend_doctor.collect.cann_files import (
    parse_atb_version,
    parse_component,
    parse_running_versions,
)
from ascend_doctor.collect.vendor_text import parse_assignments
from ascend_doctor.machine.live import LiveMachine

from .sample_facts import Facts, Readers, value


def component(text: str) -> Facts:
    parsed = parse_component("it", text)
    return msgspec.structs.asdict(parsed) if parsed else {}


def installed(text: str) -> Facts:
    with TemporaryDirectory() as folder:
        root = Path(folder) / "cann"
        (root / "runtime").mkdir(parents=True)
        arch = parse_assignments(text)["arch"]
        file = root / "ascend_nnae_install.info"
        if "toolkit" in text:
            file = root / f"{arch}-linux" / "ascend_toolkit_install.info"
            file.parent.mkdir()
        file.write_text(text)
        active = cann(LiveMachine({"ASCEND_HOME_PATH": str(root)})).in_use
    return {} if active is None else msgspec.structs.asdict(active)


def lay_out_tree(text: str, ascend: Path) -> Path:
    """What ``tree`` listed: a version folder, and "latest" with links into it."""
    toolkit = ascend / "ascend-toolkit"
    release = ""
    for line in text.splitlines():
        if line.startswith("|   |-- "):
            release = line[8:]
        if not line.startswith("|   |   "):
            continue
        entry, _, target = line[12:].partition(" -> ")
        path = toolkit / release / entry
        path.parent.mkdir(parents=True, exist_ok=True)
        if target:
            path.symlink_to(target)
        elif "." in entry:
            path.write_text("")
        else:
            path.mkdir()
    (toolkit / "set_env.sh").write_text("")
    return toolkit


def lay_out_listing(text: str, root: Path) -> None:
    """What ``ls`` listed of a toolkit from 8.5 on."""
    root.mkdir(parents=True)
    for name in text.split():
        path = root / name
        path.write_text("") if name.endswith(".sh") else path.mkdir()


def toolkit_of(lay_out: Callable[[str, Path], object]) -> Callable[[str], Facts]:
    def facts(text: str) -> Facts:
        with TemporaryDirectory() as home:
            ascend = Path(home) / "Ascend"
            ascend.mkdir()
            lay_out(text, ascend)
            for runtime in ascend.rglob("runtime"):
                (runtime / "version.info").write_text("Version=1.2.3\n")
            installs = cann(LiveMachine({"HOME": home})).installs
        roots = [install.root.removeprefix(f"{ascend}/") for install in installs]
        return {"roots": roots, "set_env": [bool(install.set_env) for install in installs]}

    return facts


def running(text: str) -> Facts:
    versions = parse_running_versions(text)
    return {"count": len(versions), "versions": set(versions.values())}


READERS: Readers = (
    ("cann/nnal-atb-*", value(parse_atb_version)),
    ("cann/toolkit-install.info-* cann/nnae-install.info-*", installed),
    ("cann/*-version.info-*", component),
    ("cann/*version.cfg-*", running),
    (
        "cann/ls-cann-*",
        toolkit_of(lambda text, ascend: lay_out_listing(text, ascend / "cann-8.5.0")),
    ),
    ("cann/tree-*", toolkit_of(lay_out_tree)),
    ("cann/*", parse_assignments),
)
