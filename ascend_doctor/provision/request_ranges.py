"""What `setup` and `matrix solve` ask for, and what the machine is, as versions of components."""

import difflib
import re
from collections.abc import Sequence

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.facts import Snapshot
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.queries import component_of, is_version, near_rows
from ascend_doctor.matrix.schema import Release
from ascend_doctor.matrix.versions import VersionError, normalised, satisfies
from ascend_doctor.provision.lock import REF

FRAMEWORKS = ("ms-swift", "twinkle", "verl", "mindspeed-llm")
_ALIKE = 0.76
# A name, or a name with one version: a URL or marker would be another way in.
_ADDITION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(==[A-Za-z0-9][A-Za-z0-9._+!-]*)?")
# Or a component at a branch, a tag or a full commit.
_AT_REF = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)@(.+)")
# torchvision: Transformers' image processors need it, which adaptor and frameworks import.
ALWAYS = ("mindspeed", "torch", "torch-npu", "torchvision", "cann", "python")


class StackRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A Megatron version (0.15.3, 0.15) or ref, a framework and additions, each maybe with one.

    ``framework`` is as ms-swift==4.2.3, an addition as NAME, NAME==VERSION or NAME@REF.
    """

    megatron: str | None = None
    framework: str | None = None
    additions: tuple[str, ...] = ()

    def spell(self, catalog: Catalog) -> "StackRequest":
        """With LLaMA Factory as llama-factory, and X=V as X==V."""
        framework, *others = (
            re.sub(r"^([\w. -]+)=(?!=)", r"\1==", text)
            for text in (self.framework or "", *self.additions)
        )
        name, mark, version = framework.partition("==")
        known = {_plain(known): known for known in frameworks_of(catalog)}
        framework = known.get(_plain(name), name) + mark + version
        return msgspec.structs.replace(self, framework=framework or None, additions=tuple(others))

    @property
    def framework_name(self) -> str:
        return normalised((self.framework or "").partition("==")[0])

    @property
    def framework_version(self) -> str:
        return (self.framework or "").partition("==")[2]

    def others(self, catalog: Catalog) -> dict[str, str]:
        """Versions, "" for any, of the additions that are not components."""
        pairs = (addition.partition("==") for addition in split_additions(catalog, self.additions))
        return {name: version for name, _, version in pairs}

    def ranges(self, catalog: Catalog) -> dict[str, str]:
        """Ranges by component.

        Without a Megatron-LM only frameworks that train with it ask for one; without anything
        it is about the driver and CANN. Raises DataError for an unknown framework, and for an
        absent ref, with the right one if the matrix knows it.
        """
        if not (self.megatron or self.framework or self.additions):
            return {"cann": "", "driver": ""}
        name = self.framework_name
        ranges = dict.fromkeys(ALWAYS, "")
        if self.megatron:
            ranges["megatron-lm"] = _refs(catalog, self.megatron)
        elif name in FRAMEWORKS:
            ranges["megatron-lm"] = ""
        else:
            del ranges["mindspeed"]
        if name:
            _check_framework(catalog, name)
        if name in catalog.component_ids:
            own = {row.version for row in catalog.sets if row.framework == name}
            release = is_version(catalog.component(name).scheme, self.framework_version)
            named = self.framework_version if release or self.framework_version not in own else ""
            ranges[name] = range_of(catalog, name, named)
        ranges |= {ref: ranges.get(ref, "") for ref in refs_of(catalog, self.additions)}
        for addition in self.additions:
            name, _, version = addition.partition("==")
            if (component := component_of(catalog, name)) is not None:
                asked = range_of(catalog, component, version.strip())
                ranges[component] = asked or ranges.get(component, "")
                # vLLM and Triton run on an NPU through it.
                plugin = f"{component}-ascend"
                if not self.megatron and plugin in catalog.component_ids:
                    fitting = (
                        f"=={row.version}"
                        for row in catalog.component(plugin).releases
                        for need in row.requires
                        if (need.component, need.versions) == (component, asked)
                    )
                    ranges.setdefault(plugin, " || ".join(fitting))
        return ranges


def _plain(name: str) -> str:
    return re.sub(r"[\W_]", "", name.lower())


def range_of(catalog: Catalog, name: str, version: str) -> str:
    """As 2.7.1, or a line as 2.7. Raises DataError."""
    component = catalog.component(name)
    if version and not is_version(component.scheme, version):
        raise DataError(f"{name}=={version}: {version} is not a version of {name}")
    known = [row.version for row in component.releases]
    if version not in known and any(row.startswith(f"{version}.") for row in known):
        version += {"pep440": ".*", "ascend": ".X"}.get(component.scheme, "")
    return f"=={version}" if version else ""


def frameworks_of(catalog: Catalog) -> list[str]:
    """The frameworks that may be named: those with rows, and those with sets."""
    return [*FRAMEWORKS, *sorted({row.framework for row in catalog.sets} - {*FRAMEWORKS})]


def _check_framework(catalog: Catalog, name: str) -> None:
    known = frameworks_of(catalog)
    if name not in known and name not in catalog.component_ids:
        near = difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(known)}"
        raise DataError(f"--framework {name}: no such framework; {hint}")


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
        raise DataError(
            f"Megatron {megatron} is not known; {near_rows(component, megatron)} are, and "
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
