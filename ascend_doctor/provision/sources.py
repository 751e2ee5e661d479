"""Where git fetches a component from: upstream, or a mirror that was named; without credentials."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit, urlunsplit

from ascend_doctor.errors import DataError


@dataclass(frozen=True, kw_only=True)
class RepositorySource:
    """``url`` may be shown; ``env`` has the credentials for git. Never print ``secrets``."""

    url: str
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)


def source(text: str) -> RepositorySource:
    """The source of a URL or folder; only git gets its user name and password.

    They travel in the environment, which other users cannot read, unlike arguments.
    """
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or "@" not in parts.netloc:
        return RepositorySource(url=text)
    login, _, location = parts.netloc.rpartition("@")
    clean = urlunsplit(parts._replace(netloc=location))
    user, _, password = login.partition(":")
    rewrite = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.{parts.scheme}://{login}@{location}/.insteadOf",
        "GIT_CONFIG_VALUE_0": f"{parts.scheme}://{location}/",
    }
    hidden = {login, user, password, unquote(password), quote(password, safe="")}
    return RepositorySource(
        url=clean, env=rewrite, secrets=tuple(sorted(hidden - {""}, key=len))[::-1]
    )


class Mirrors:
    """--git-mirror: NAME=URL_OR_DIR for one component, or a place of several."""

    def __init__(self, named: Iterable[str], components: Iterable[str]) -> None:
        known = set(components)
        self._by_component: dict[str, str] = {}
        self._general: list[str] = []
        for text in named:
            name, mark, target = text.partition("=")
            if mark and name in known:
                self._by_component[name] = _expand(target)
            elif mark and "/" not in name:
                raise DataError(f"--git-mirror {name}=...: no component is called {name}")
            else:
                self._general.append(_expand(text))

    def source(self, component: str, upstream: str) -> RepositorySource:
        """Where to fetch a component; upstream only if no mirror covers it.

        A folder covers what it holds, a URL everything. Raises DataError for a named folder
        that is not one.
        """
        if component in self._by_component:
            return source(self._by_component[component])
        last = upstream.rstrip("/").rpartition("/")[2].removesuffix(".git")
        for spot in self._general:
            if "://" in spot:
                return source(f"{spot.rstrip('/')}/{last}.git")
            for name in (f"{last}.git", last, f"{component}.git", component):
                if _is_repository(os.path.join(spot, name)):
                    return RepositorySource(url=os.path.join(spot, name))
        return source(upstream)


def _expand(text: str) -> str:
    if "://" in text or ("@" in text and ":" in text):  # user@host:path is ssh's
        return text
    path = os.path.abspath(os.path.expanduser(text))
    if not os.path.isdir(path):
        raise DataError(f"--git-mirror {text}: no such folder")
    return path


def _is_repository(path: str) -> bool:
    return os.path.exists(os.path.join(path, ".git")) or (
        os.path.isfile(os.path.join(path, "HEAD")) and os.path.isdir(os.path.join(path, "objects"))
    )
