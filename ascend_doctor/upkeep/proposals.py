"""What repositories and indexes have and the matrix has not: rows to add, heads that moved."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.version import InvalidVersion, Version

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.queries import is_version
from ascend_doctor.matrix.schema import Component, Upstream
from ascend_doctor.provision.git import Git
from ascend_doctor.provision.repository import GitRef
from ascend_doctor.provision.running import CommandError
from ascend_doctor.provision.sources import RepositorySource

# Of megatron/core/package_info.py.
_PART = re.compile(r"^(MAJOR|MINOR|PATCH)\s*=\s*(\d+)|^PRE_RELEASE\s*=\s*['\"](\w*)", re.MULTILINE)
_PARTS = 4


@dataclass(frozen=True, kw_only=True)
class DatedRef:
    """A ref of a component's repository and the day of its commit; "" if unknown."""

    ref: GitRef
    date: str = ""


@dataclass(frozen=True, kw_only=True)
class NewRow:
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


@dataclass(frozen=True, kw_only=True)
class MovedHead:
    """A branch whose head is another commit than its row has."""

    component: str
    version: str
    old: str
    new: str
    date: str = ""


@dataclass(frozen=True, kw_only=True)
class LostRef:
    """A row's ref that is missing from its repository."""

    component: str
    version: str
    ref: str


def read_refs(source: RepositorySource, git: Git, *, dated: bool) -> tuple[DatedRef, ...]:
    """All tags and branches; their days only of a local repository.

    Raises CommandError, and DataError for days that a server does not give.
    """
    local = Path(source.url)
    if not local.is_dir():
        if dated:
            raise DataError(
                f"{source.url}: a server tells no dates; --as-of needs --git-mirror DIR"
            )
        return tuple(DatedRef(ref=ref) for ref in git.list_refs(source))
    repository = git.local(local)
    refs = repository.refs()
    days = repository.days([ref.commit for ref in refs])
    return tuple(DatedRef(ref=ref, date=days.get(ref.commit, "")) for ref in refs)


def propose_rows(
    component: Component, refs: Iterable[DatedRef], as_of: str = ""
) -> Iterator[NewRow]:
    """The refs without a row of a component, newest first. ``as_of``: later ones do not count."""
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
        if (version := release_of(upstream, dated, as_of)) and not _is_listed(component, version)
    ]
    unique: dict[str, NewRow] = {}
    for row in sorted(rows, key=lambda row: row.moving):  # a tag wins
        unique.setdefault(row.version, row)
    yield from sorted(unique.values(), key=lambda row: (row.released, row.version), reverse=True)


def release_of(upstream: Upstream, dated: DatedRef, as_of: str = "") -> str:
    """The version that a ref releases; "" if none, too old, or too young."""
    pattern = upstream.branches if dated.ref.moving else upstream.tags
    match = re.fullmatch(pattern, dated.ref.name) if pattern else None
    if match is None or (dated.date and dated.date < upstream.since):
        return ""
    if as_of and dated.date > as_of:
        return ""
    return str(match.groupdict().get("version") or dated.ref.name)


def _is_listed(component: Component, version: str) -> bool:
    if not is_version(component.scheme, version):
        return True  # nothing of the component's scheme can be said of it
    return component.release(version) is not None


def find_moved_heads(
    component: Component, refs: Iterable[DatedRef], as_of: str = ""
) -> Iterator[MovedHead]:
    """Branches of rows whose head moved, except those that a row pins at an older commit."""
    heads = {
        dated.ref.name: dated
        for dated in refs
        if dated.ref.moving and not (as_of and dated.date > as_of)
    }
    for row in component.releases:
        head = heads.get(row.ref or "")
        if row.moving and row.commit and head and head.ref.commit != row.commit:
            yield MovedHead(
                component=component.id,
                version=row.version,
                old=row.commit,
                new=head.ref.commit,
                date=head.date,
            )


def find_lost_refs(component: Component, refs: Iterable[DatedRef]) -> Iterator[LostRef]:
    """Refs of rows that the repository lacks; empty if it has no refs at all."""
    names = {dated.ref.name for dated in refs}
    for row in component.releases if names and component.upstream else ():
        # Lists of refs have no commits.
        if row.ref and row.ref not in names and not re.fullmatch(r"[0-9a-f]{7,40}", row.ref):
            yield LostRef(component=component.id, version=row.version, ref=row.ref)


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
