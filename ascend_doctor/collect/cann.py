"""CANN on disk: toolkits in the old and the new layout, their parts, and NNAL."""

import os

import msgspec

from ascend_doctor.collect.cann_files import (
    parse_atb_version,
    parse_component,
    parse_running_versions,
)
from ascend_doctor.collect.cann_shell import shell
from ascend_doctor.collect.cann_tree import CannTree, nnals, respell, toolkits
from ascend_doctor.collect.vendor_text import first, parse_assignments, parse_pairs
from ascend_doctor.facts import Cann, CannComponent, CannInstall, Nnal
from ascend_doctor.machine.live import Machine, exists, matches, read_or_none

_KERNELS = "opp/built-in/op_impl/ai_core/tbe/kernel"
# Tools that do not need the operator package; the toolkit itself has them.
_NO_OPERATORS = {"ops_oam"}


def cann(machine: Machine) -> Cann:
    """Every toolkit and NNAL in the usual folders or by the environment."""
    trees, installs = [], []
    for tree in toolkits(machine):
        install = _install(machine, tree)
        if install is not None:
            trees.append(tree)
            installs.append(install)
    libraries = [(tree, nnal) for tree in nnals(machine) if (nnal := _nnal(machine, tree))]
    cann_shell = shell(machine, trees, [tree for tree, _ in libraries])
    leads = (cann_shell.home, cann_shell.toolkit_home, *cann_shell.library_roots)
    places = [respell(machine, trees, path) for path in leads if path]
    return Cann(
        source=", ".join(cann_install.root for cann_install in installs),
        installs=tuple(installs),
        active=next((spot[0].root for spot in places if spot), None),
        nnal=tuple(nnal for _, nnal in libraries),
        shell=cann_shell,
    )


def _install(machine: Machine, tree: CannTree) -> CannInstall | None:
    root = tree.root
    architectures = matches(machine, root, "*-linux")
    path, info = _first_info(
        machine,
        [f"{folder}/ascend_toolkit_install.info" for folder in architectures]
        + [f"{root}/ascend_nnae_install.info"],
    )
    components = _components(machine, root)
    version = info.get("version") or next(
        (component.public for component in components if component.public), None
    )
    if version is None and not components:
        return None
    named = os.path.basename(os.path.dirname(path)).removesuffix("-linux") if path else ""
    infos = [
        parse_assignments(read_or_none(machine, f"{folder}/ascend_ops_install.info") or "")
        for folder in architectures
    ]
    new = exists(machine, f"{root}/set_env.sh")
    return CannInstall(
        root=root,
        version=version,
        arch=info.get("arch") or named or None,
        components=components,
        kernels=tuple(
            os.path.basename(soc)
            for soc in matches(machine, f"{root}/{_KERNELS}", "ascend*")
            if _has_operators(machine, soc)
        ),
        ops_packages=_ops_packages(infos, components),
        ops_arch=next((arch for info in infos if (arch := info.get("arch"))), None),
        set_env=f"{root}/set_env.sh" if new else _old_set_env(machine, tree),
        simulated="simulated" in info.get("innerversion", ""),
    )


def _first_info(machine: Machine, paths: list[str]) -> tuple[str, dict[str, str]]:
    for path in paths:
        text = read_or_none(machine, path)
        if text is not None:
            return path, parse_assignments(text)
    return "", {}


def _components(machine: Machine, root: str) -> tuple[CannComponent, ...]:
    """Components by their version files, each once though links give some a second name.

    From 8.5 on share/info has these files, too, with the release as ``Version`` (the runtime reads
    it there: hicann/runtime, RUNTIME_VERSION_PATH). version.cfg lists components without a file.
    """
    components: dict[str, CannComponent] = {}
    seen: dict[str, str] = {}
    for folder in matches(machine, root, "*"):
        name = os.path.basename(folder)
        component = _component(machine, folder)
        if component is None:
            continue
        real = machine.status(f"{folder}/version.info").target
        if real not in seen or os.path.basename(os.path.dirname(real)) == name:
            components.pop(seen.get(real, ""), None)
            seen[real] = name
            components[name] = component
    for folder in matches(machine, f"{root}/share/info", "*"):
        component = _component(machine, folder)
        if component is not None:
            public = component.public or component.version
            components.setdefault(component.name, msgspec.structs.replace(component, public=public))
    running = parse_running_versions(read_or_none(machine, f"{root}/version.cfg") or "")
    for name, (inner, public) in running.items():
        components.setdefault(
            name, CannComponent(name=name, version=inner or None, public=public or None)
        )
    return tuple(components[name] for name in sorted(components))


def _component(machine: Machine, folder: str) -> CannComponent | None:
    text = read_or_none(machine, f"{folder}/version.info")
    return parse_component(os.path.basename(folder), text) if text else None


def _ops_packages(
    infos: list[dict[str, str]], components: tuple[CannComponent, ...]
) -> tuple[str, ...]:
    """Names and releases of operator packages: opp_kernel up to 8.3, separate files from 8.5 on."""
    named = [
        f"{info['package_name']} {info.get('version', '')}"
        for info in infos
        if "package_name" in info
    ]
    named += [
        f"{component.name} {component.public or ''}"
        for component in components
        if component.name == "opp_kernel"
    ]
    return tuple(dict.fromkeys(name.strip() for name in named))


def _has_operators(machine: Machine, folder: str) -> bool:
    try:
        return bool(set(machine.names(folder)) - _NO_OPERATORS)
    except OSError:
        return False


def _old_set_env(machine: Machine, tree: CannTree) -> str | None:
    """``ascend-toolkit/set_env.sh``, which always leads to the folder ``latest`` beside it."""
    for spelling in tree.spellings:
        folder, name = os.path.split(spelling)
        if name == "latest" and exists(machine, f"{folder}/set_env.sh"):
            return f"{folder}/set_env.sh"
    return None


def _nnal(machine: Machine, tree: CannTree) -> Nnal | None:
    text = read_or_none(machine, f"{tree.root}/version.info")
    if text is None:
        return None
    scripts = [f"{os.path.dirname(spelling)}/set_env.sh" for spelling in tree.spellings]
    script = next((path for path in scripts if exists(machine, path)), None)
    return Nnal(
        root=tree.root,
        version=parse_atb_version(text),
        arch=first(parse_pairs(text), "Platform"),
        set_env=script,
    )
