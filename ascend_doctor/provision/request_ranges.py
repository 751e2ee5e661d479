"""What `setup` and `matrix solve` ask for, and what the machine is, as versions of components."""

import difflib
import re
from collections.abc import Sequence

from ascend_doctor.errors import DataError
from ascend_doctor.facts import Snapshot
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import Release
from ascend_doctor.matrix.versions import VersionError, normalised, satisfies
from ascend_doctor.provision.lock import REF

FRAMEWORKS = ("ms-swift", "twinkle", "verl", "mindspeed-llm")
_SHOWN = 4  # releases, the newest first
# A name, or a name with one version: a URL or marker would be another way in.
_ADDITION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(==[A-Za-z0-9][A-Za-z0-9._+!-]*)?")
# Or a component at a branch, a tag or a full commit.
_AT_REF = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)@(.+)")
# torchvision: Transformers' image processors need it, which adaptor and frameworks import.
_ALWAYS = ("mindspeed", "torch", "torch-npu", "torchvision", "cann", "python")


def wishes(
    catalog: Catalog, megatron: str, framework: str | None = None, additions: Sequence[str] = ()
) -> dict[str, str]:
    """Ranges by component for a Megatron version (0.15.3, 0.15) or ref (core_v0.15.3).

    ``framework`` and ``additions`` may name a version (ms-swift==4.2.3). Raises DataError for
    an unknown framework and an absent ref, with the right one if the matrix knows it.
    """
    ranges = {"megatron-lm": _refs(catalog, megatron)} | dict.fromkeys(_ALWAYS, "")
    if framework:
        name, mark, version = framework.partition("==")
        if name not in FRAMEWORKS:
            raise DataError(f"{name} is none of the frameworks {', '.join(FRAMEWORKS)}")
        ranges[name] = f"=={version}" if mark else ""
    ranges |= {name: ranges.get(name, "") for name in refs_of(catalog, additions)}
    for addition in additions:
        name, mark, version = addition.partition("==")
        if (component := component_of(catalog, name)) is not None:
            ranges[component] = f"=={version.strip()}" if mark else ranges.get(component, "")
    return ranges


def machine_of(facts: Snapshot, rows: Catalog) -> dict[str, str]:
    """A machine as versions of components, without what could not be determined."""
    cann = facts.cann.in_use if facts.cann else None
    names = {device.name for device in facts.npus.devices} if facts.npus else set()
    families = {family.id for name in names if (family := rows.family_of(name))}
    python = ".".join(facts.python.version.split(".")[:2]) if facts.python else None
    known = {
        "arch": facts.host.arch if facts.host else None,
        "glibc": facts.host.glibc if facts.host else None,
        "driver": facts.driver.version if facts.driver else None,
        "cann": cann.version if cann else None,
        "python": python,
        "soc": families.pop() if len(families) == 1 else None,
    }
    return {name: value for name, value in known.items() if value}


def split_additions(catalog: Catalog, additions: Sequence[str]) -> tuple[str, ...]:
    """The additions that are not components: requirements for pip alone.

    Raises DataError for one that is neither NAME nor NAME==VERSION, except those at a ref.
    """
    named = [addition for addition in additions if not _AT_REF.fullmatch(addition)]
    if wrong := next((addition for addition in named if not _ADDITION.fullmatch(addition)), None):
        raise DataError(f"--with {wrong}: give NAME, NAME==VERSION or NAME@REF")
    return tuple(
        addition for addition in named if not component_of(catalog, addition.partition("==")[0])
    )


def refs_of(catalog: Catalog, additions: Sequence[str]) -> dict[str, str]:
    """Refs of NAME@REF by component. Raises DataError for an invalid ref, or no repository."""
    refs = {}
    for match in filter(None, map(_AT_REF.fullmatch, additions)):
        name, ref = match.groups()
        component = component_of(catalog, name)
        if component is None or not catalog.component(component).repository:
            raise DataError(f"--with {name}@{ref}: the matrix names no repository of {name}")
        if not REF.fullmatch(ref):
            raise DataError(f"--with {name}@{ref}: that is no branch, tag or full commit")
        refs[component] = ref
    return refs


def component_of(catalog: Catalog, name: str) -> str | None:
    """The id of the component with this id or distribution."""
    normal = normalised(name.strip())
    for component in catalog.components:
        if normal in (component.id, normalised(component.obtain.distribution)):
            return component.id
    return None


def _refs(catalog: Catalog, megatron: str) -> str:
    component = catalog.component("megatron-lm")
    for ref in component.refs:
        if ref.ref == megatron and not ref.exists:
            seen = f", although {ref.seen_in} name it" if ref.seen_in else ""
            raise DataError(f"Megatron-LM has no ref {megatron}{seen}; use {ref.use}. {ref.note}")
        if ref.ref == megatron and ref.use:
            return f"=={ref.use}"
    if any(release.version == megatron for release in component.releases):
        return f"=={megatron}"
    numbered = [release.version for release in component.releases if _is_release(release, megatron)]
    if not numbered:
        known = [release.version for release in component.releases]
        near = difflib.get_close_matches(megatron, known, n=3) or known[:_SHOWN]
        raise DataError(
            f"Megatron {megatron} is not known; {', '.join(near)} are, and "
            "`ascend-doctor matrix show megatron-lm` lists all"
        )
    return " || ".join(f"=={number}" for number in numbered)


def _is_release(row: Release, number: str) -> bool:
    """Whether a row is the tag of release 0.15.3, or of line 0.15; not a moving branch."""
    if row.moving:
        return False
    version_range = f"=={number}" if number.count(".") > 1 else f"=={number}.*"
    try:
        return satisfies("pep440", row.attributes.get("core", ""), version_range)
    except VersionError:
        return False
