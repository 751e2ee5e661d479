"""What repositories and indexes have and the matrix has not: rows to add, heads that moved."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec
from packaging.version import InvalidVersion, Version

from ascend_doctor.matrix.queries import is_version
from ascend_doctor.matrix.schema import Component, Upstream
from ascend_doctor.provision.git import Git
from ascend_doctor.provision.repository import GitRef
from ascend_doctor.provision.running import CommandError
from ascend_doctor.provision.sources import RepositorySource

# Of megatron/core/package_info.py.
_PART = re.compile(r"^(MAJOR|MINOR|PATCH)\s*=\s*(\d+)|^PRE_RELEASE\s*=\s*['\"](\w*)", re.MULTILINE)
_PARTS = 4


class DatedRef(msgspec.Struct, frozen=True, kw_only=True):
    """A ref of a component's repository and the day of its commit; "" if unknown."""

    ref: GitRef
    date: str = ""


class NewRow(msgspec.Struct, frozen=True, kw_only=True):
    """A release without a row. ``requires`` are (component, range) of its metadata."""

    component: str
    version: str
    source: str
    ref: str = ""
    commit: str = ""
    moving: bool = False
    released: str = ""
    core: str = ""
    requires: tuple[tuple[str, str], ...] = ()


class MovedHead(msgspec.Struct, frozen=True, kw_only=True):
    """A branch whose head is another commit than its row has."""

    version: str
    old: str
    new: str


def read_refs(source: RepositorySource, git: Git) -> tuple[DatedRef, ...]:
    """All tags and branches; their days only of a local repository. Raises CommandError."""
    local = Path(source.url)
    if not local.is_dir():
        return tuple(DatedRef(ref=ref) for ref in git.list_refs(source))
    repository = git.local(local)
    refs = repository.refs()
    days = repository.days([ref.commit for ref in refs])
    return tuple(DatedRef(ref=ref, date=days.get(ref.commit, "")) for ref in refs)


def propose_rows(component: Component, refs: Iterable[DatedRef]) -> Iterator[NewRow]:
    upstream = component.upstream
    if upstream is None:
        return
    rows = [
        NewRow(
            component=component.id,
            version=version,
            source=f"{repository_name(upstream.repository)}@{dated.ref.name}",
            ref=dated.ref.name,
            commit=dated.ref.commit,
            moving=dated.ref.moving,
            released=dated.date,
        )
        for dated in refs
        if (version := release_of(upstream, dated)) and not _is_listed(component, version)
    ]
    unique: dict[str, NewRow] = {}
    for row in sorted(rows, key=lambda row: row.moving):  # a tag wins
        unique.setdefault(row.version, row)
    yield from sorted(unique.values(), key=lambda row: (row.released, row.version), reverse=True)


def release_of(upstream: Upstream, dated: DatedRef) -> str:
    """The version that a ref releases; "" if none or too old."""
    pattern = upstream.branches if dated.ref.moving else upstream.tags
    match = re.fullmatch(pattern, dated.ref.name) if pattern else None
    if match is None or (dated.date and dated.date < upstream.since):
        return ""
    return str(match.groupdict().get("version") or dated.ref.name)


def _is_listed(component: Component, version: str) -> bool:
    if not is_version(component.scheme, version):
        return True  # nothing of the component's scheme can be said of it
    return component.release(version) is not None


def find_moved_heads(component: Component, refs: Iterable[DatedRef]) -> Iterator[MovedHead]:
    """Branches of rows whose head moved, except those that a row pins at an older commit."""
    heads = {dated.ref.name: dated.ref.commit for dated in refs if dated.ref.moving}
    for row in component.releases:
        head = heads.get(row.ref or "")
        if row.moving and row.commit and head and head != row.commit:
            yield MovedHead(version=row.version, old=row.commit, new=head)


def find_lost_refs(component: Component, refs: Iterable[DatedRef]) -> Iterator[str]:
    """Rows whose ref the repository lacks, in words; empty if it has no refs at all."""
    names = {dated.ref.name for dated in refs}
    for row in component.releases if names and component.upstream else ():
        # Lists of refs have no commits.
        if row.ref and row.ref not in names and not re.fullmatch(r"[0-9a-f]{7,40}", row.ref):
            yield f"{component.id}=={row.version}: its repository has no ref {row.ref}"


def read_core(upstream: Upstream, source: RepositorySource, git: Git, commit: str) -> str:
    """The megatron-core of a commit of a local repository; "" if it does not say."""
    if not upstream.core or not Path(source.url).is_dir():
        return ""
    try:
        text = git.local(Path(source.url)).text(commit, upstream.core)
    except CommandError:
        return ""
    parts: list[tuple[str, str, str]] = _PART.findall(text)
    if len(parts) != _PARTS:
        return ""
    return ".".join(number for _, number, _ in parts[:3]) + parts[3][2]


def propose_releases(
    component: Component, listed: Mapping[str, object] | Iterable[str]
) -> Iterator[NewRow]:
    """Final releases of an index without a row, newer than the oldest row."""
    rows = [Version(row.version) for row in component.releases if _is_final(row.version)]
    if not rows or component.scheme != "pep440":
        return
    fresh = {
        Version(text): text
        for text in listed
        if _is_final(text) and Version(text) > min(rows) and component.release(text) is None
    }
    for version in sorted(fresh, reverse=True):
        yield NewRow(
            component=component.id,
            version=fresh[version],
            source=f"PyPI {component.obtain.distribution} {fresh[version]} wheel",
        )


def _is_final(text: str) -> bool:
    try:
        version = Version(text)
    except InvalidVersion:
        return False
    # 0+unknown and the like are of builds outside a checkout.
    return not version.is_prerelease and not text.startswith("0+")


def repository_name(url: str) -> str:
    return "/".join(url.removesuffix(".git").rstrip("/").split("/")[-2:])
