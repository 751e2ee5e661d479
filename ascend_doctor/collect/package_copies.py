"""Every copy of an import name on the path of an interpreter, in the order in which Python looks.

``sys.meta_path`` asks the path first and the finders of editable installs last. On the path the
first regular package or module wins over all folders without __init__.py, which only together
make a namespace package (importlib, PathFinder).
"""

import ast
import os
import re
import warnings
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from ascend_doctor.facts import PackageCopy
from ascend_doctor.machine.live import Machine, exists, is_directory, read_or_none

_MODULE = re.compile(r"\.(?:py|pyc|so|[\w-]+\.so)")
_INSTALLED = ("site-packages", "dist-packages", "lib-dynload")


class Finder(msgspec.Struct, frozen=True, kw_only=True):
    """setuptools' finder of an editable install. ``mapping``: folder or module by name.

    ``namespaces``: folders by namespace package, searched if ``placeholder`` is on sys.path.
    """

    mapping: dict[str, str] = {}
    namespaces: dict[str, list[str]] = {}
    placeholder: str = ""


def parse_finder(text: str) -> Finder:
    """``__editable___NAME_finder.py`` as setuptools writes it; empty for anything else."""
    answer: dict[str, object] = {}
    for name in ("MAPPING", "NAMESPACES", "PATH_PLACEHOLDER"):
        line = re.search(rf"^{name}(?:: [^=\n]+)? = (.+)$", text, re.MULTILINE)
        if line is not None:
            answer[name] = _literal(line.group(1).replace(' + ".__path_hook__"', ""))
    try:
        return msgspec.convert(
            {
                "mapping": answer.get("MAPPING", {}),
                "namespaces": answer.get("NAMESPACES", {}),
                "placeholder": f"{answer['PATH_PLACEHOLDER']}.__path_hook__"
                if "PATH_PLACEHOLDER" in answer
                else "",
            },
            Finder,
        )
    except msgspec.ValidationError:
        return Finder()


def _literal(text: str) -> object:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about odd escapes and numbers in someone's file
            return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None


def copies(
    machine: Machine, sys_path: Sequence[str], names: Sequence[str]
) -> Mapping[str, tuple[PackageCopy, ...]]:
    """Copies by name, the winner first; each place once, however many entries lead there."""
    return {
        name: tuple(
            msgspec.structs.replace(copy, parts=copy.parts or _parts(machine, copy.path))
            if copy.kind != "module"
            else copy
            for copy in package_copies
        )
        for name, package_copies in bare_copies(machine, sys_path, names).items()
    }


def bare_copies(
    machine: Machine, sys_path: Sequence[str], names: Sequence[str]
) -> dict[str, tuple[PackageCopy, ...]]:
    """The same, without each copy's sub-packages."""
    listed = {entry: _names(machine, entry) for entry in dict.fromkeys(sys_path)}
    finders = dict(_finders(machine, listed))
    return {name: tuple(_once(machine, _order(machine, listed, finders, name))) for name in names}


def _order(
    machine: Machine, listed: Mapping[str, Sequence[str]], finders: Mapping[str, Finder], name: str
) -> list[PackageCopy]:
    regular: list[PackageCopy] = []
    portions: list[PackageCopy] = []
    for entry, inside in listed.items():
        for file, finder in finders.items():
            if finder.placeholder == entry:
                portions += _namespace_portions(file, finder, name)
        copy = _on_path(machine, entry, inside, name)
        if copy is not None:
            (portions if copy.kind == "namespace" else regular).append(copy)
    mapped = [
        PackageCopy(path=path, entry=file, kind="editable")
        for file, finder in finders.items()
        if (path := finder.mapping.get(name))
        # The finder gives nothing for a target that is gone or a namespace package's folder.
        and any(exists(machine, f"{path}{end}") for end in ("/__init__.py", ".py"))
    ]
    return [*regular, *portions, *mapped]


def _on_path(machine: Machine, entry: str, inside: Sequence[str], name: str) -> PackageCopy | None:
    """A package comes before a module before a namespace portion."""
    folder = f"{entry.rstrip('/')}/{name}"
    portion = name in inside and is_directory(machine, folder)
    content = _names(machine, folder) if portion else ()
    module = _find_module(inside, name)
    if _find_module(content, "__init__") is not None:
        return PackageCopy(path=folder, entry=entry, kind="package")
    if module is not None:
        return PackageCopy(path=f"{entry.rstrip('/')}/{module}", entry=entry, kind="module")
    if portion:
        return PackageCopy(path=folder, entry=entry, kind="namespace")
    return None


def _namespace_portions(file: str, finder: Finder, name: str) -> Iterator[PackageCopy]:
    if name not in finder.namespaces:
        return
    for folder in finder.namespaces[name]:
        yield PackageCopy(path=folder, entry=file, kind="namespace")
    parts: dict[str, list[str]] = {}
    for full, path in finder.mapping.items():
        parent, _, child = full.rpartition(".")
        if parent == name and os.path.dirname(path) not in finder.namespaces[name]:
            parts.setdefault(os.path.dirname(path), []).append(child)
    for folder, children in parts.items():
        yield PackageCopy(path=folder, entry=file, kind="namespace", parts=tuple(sorted(children)))


def _finders(machine: Machine, listed: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, Finder]]:
    for entry, inside in listed.items():
        for name in inside:
            if name.startswith("__editable__") and name.endswith("_finder.py"):
                path = f"{entry.rstrip('/')}/{name}"
                yield path, parse_finder(read_or_none(machine, path) or "")


def _parts(machine: Machine, folder: str) -> tuple[str, ...]:
    """Sub-packages: folders with code. pip leaves folders of compiled files and caches behind."""
    return tuple(
        name
        for name in _names(machine, folder)
        if name.isidentifier()
        and not name.startswith("__")
        and _has_code(machine, f"{folder}/{name}")
    )


def _has_code(machine: Machine, folder: str) -> bool:
    """``megatron.legacy`` has no __init__.py, only packages inside."""
    if exists(machine, f"{folder}/__init__.py"):
        return True
    return any(
        name.endswith(".py") or exists(machine, f"{folder}/{name}/__init__.py")
        for name in _names(machine, folder)
    )


def _once(machine: Machine, package_copies: Sequence[PackageCopy]) -> Iterator[PackageCopy]:
    seen = set()
    for copy in package_copies:
        try:
            real_path = machine.status(copy.path).target or copy.path
        except OSError:
            real_path = copy.path
        if real_path not in seen:
            seen.add(real_path)
            yield copy


def _find_module(files: Sequence[str], name: str) -> str | None:
    """The first file of a module among sorted names."""
    for at in range(bisect_left(files, name), len(files)):
        if not files[at].startswith(name):
            break
        if _MODULE.fullmatch(files[at], len(name)):
            return files[at]
    return None


def _names(machine: Machine, folder: str) -> Sequence[str]:
    try:
        return machine.names(folder)
    except OSError:
        return ()


def is_installed(path: str) -> bool:
    """Whether pip, the system or Python itself installed a package: it is no checkout."""
    return any(part in _INSTALLED for part in path.split("/"))
