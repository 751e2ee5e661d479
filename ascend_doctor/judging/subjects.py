"""One line for each subject of a report: what is there, and how well it is."""

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import msgspec

from ascend_doctor.facts import Host, Snapshot
from ascend_doctor.findings import Finding, Level, quantity, root_causes
from ascend_doctor.judging.judge import Check

# By the folder of the checks. Those of a launch and its variables have no facts.
_NAMES = {
    "host": "Host",
    "npu": "Driver and NPUs",
    "cann": "CANN",
    "python": "Python packages",
    "stack": "Training stack",
    "network": "Network",
    "launch": "Launch settings",
    "probes": "Probes",
}
_PACKAGES = {
    "python": {"torch": "torch", "torch-npu": "torch_npu", "triton-ascend": "triton-ascend"},
    "stack": {
        "megatron-core": "megatron-core",
        "mindspeed": "MindSpeed",
        "mcore-bridge": "mcore-bridge",
        "ms-swift": "ms-swift",
        "verl": "verl",
        "twinkle-kit": "twinkle",
    },
}
_GIB = 2**30
_ON_NODES: dict[Level, Callable[[str], str]] = {
    Level.ERROR: lambda nodes: f"errors on {nodes}",
    Level.WARNING: lambda nodes: f"warnings on {nodes}",
    Level.UNKNOWN: lambda nodes: f"unknown on {nodes}",
    Level.OK: lambda nodes: f"passed on {nodes}",
    Level.SKIPPED: lambda nodes: f"skipped on {nodes}",
}


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A subject, the worst level of its root causes, and its facts in a few words."""

    name: str
    level: Level
    text: str


def subjects(
    findings: Sequence[Finding], chosen: Collection[Check], facts: Snapshot
) -> Iterator[Subject]:
    """Subjects in the order of building a stack; findings about the run itself belong to none."""
    folders = {check.id: check.subject for check in chosen}
    by_folder: dict[str, list[Finding]] = {}
    for finding in findings:
        by_folder.setdefault(folders.get(finding.check, ""), []).append(finding)
    roots = root_causes(findings)
    for folder, name in _NAMES.items():
        about = by_folder.get(folder, [])
        levels = {finding.level for finding in roots if folders.get(finding.check) == folder}
        text = _describe(folder, facts, about)
        level = _worst(levels)
        complaints = any(each.level not in {Level.OK, Level.SKIPPED} for each in about)
        without = folder == "npu" and facts.npus is not None and not facts.npus.devices
        if level is Level.OK and (complaints or without):
            level = Level.SKIPPED
        if about and (text or level not in {Level.OK, Level.SKIPPED}):
            yield Subject(name=name, level=level, text=text)


def merge_subjects(levels: Mapping[str, Counter[Level]]) -> Iterator[Subject]:
    """The subjects of many machines, each with its counts by result, the worst first."""
    for name in (name for name in _NAMES.values() if name in levels):
        counts = levels[name]
        texts = [
            on_nodes(quantity(counts[level], "node"))
            for level, on_nodes in _ON_NODES.items()
            if counts[level]
        ]
        yield Subject(name=name, level=_worst(+counts), text=", ".join(texts))


def _worst(levels: Collection[Level]) -> Level:
    complaints = set(levels) - {Level.OK, Level.SKIPPED}
    return max(complaints, default=Level.OK if Level.OK in levels else Level.SKIPPED)


def _describe(folder: str, facts: Snapshot, findings: list[Finding]) -> str:
    if folder == "host" and facts.host is not None:
        return _host(facts.host)
    if folder == "npu":
        return _npus(facts)
    if folder == "cann" and facts.cann is not None:
        return _cann(facts)
    if folder in _PACKAGES and facts.python is not None:
        listed = (
            f"{name} {distribution.version}"
            for package, name in _PACKAGES[folder].items()
            if (distribution := facts.python.find(package)) is not None
        )
        return ", ".join(listed) or "none installed"
    if folder == "network" and facts.hccn is not None:
        devices = facts.hccn.devices
        links = [device.link for device in devices if device.link]
        links += [port.link for device in devices for port in device.ports if port.link]
        if links:
            return f"{links.count('UP')} of {len(links)} links up"
    counts = Counter(finding.level for finding in findings)
    return f"{counts[Level.OK]} passed" if counts[Level.OK] else ""


def _host(host: Host) -> str:
    parts = [f"{host.os_id} {host.os_version}".strip(), host.arch]
    if host.cpus:
        parts.append(quantity(host.cpus, "CPU"))
    if host.memory:
        parts.append(f"{host.memory / _GIB:.0f} GiB")
    if host.container is not None:
        parts.append(f"container: {host.container.kind}")
    return ", ".join(part for part in parts if part)


def _npus(facts: Snapshot) -> str:
    driver, npus = facts.driver, facts.npus
    parts = []
    if driver is not None:
        version = driver.version or driver.package_version
        parts.append(version or ("version unknown" if driver.present else "no driver"))
    if npus is not None:
        chips = Counter(npu.name or "NPU" for npu in npus.devices)
        parts += [f"{count} x {chip}" for chip, count in chips.items()] or ["no NPU seen"]
    return ", ".join(parts)


def _cann(facts: Snapshot) -> str:
    cann = facts.cann
    if cann is None or not cann.installs:
        return "not installed"
    in_use = cann.in_use
    parts = [(in_use or cann.installs[0]).version or "version unknown"]
    if in_use is None:
        parts.append("not loaded in this shell")
    parts += [f"NNAL {nnal.version}" for nnal in cann.nnal[:1] if nnal.version]
    return ", ".join(parts)
