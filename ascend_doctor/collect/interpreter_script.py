"""Runs inside the examined interpreter and tells about it, importing nothing that is installed.

It has to run on Python 3.6 and must be quick, so it reads the headers of metadata files by itself:
importlib.metadata alone takes as long to import as all of this takes to run.
"""

import enum
import importlib.machinery
import json
import os
import re
import sys
import time

TYPE_CHECKING = False  # as typing has it, which takes milliseconds to import
if TYPE_CHECKING:
    from collections.abc import Iterable

SENTINEL = "ascend-doctor interpreter: "
# Headers come first; a metadata file may have a long description after them.
_TEXT_LIMIT = 1 << 20
# torch's has some two megabytes.
_RECORD_LIMIT = 1 << 24
# Packages with a check of every file; others fail by themselves, and plainly.
WATCHED = ("torch", "torch-npu", "triton-ascend", "mindspeed")
# For local disks; on a network file system thousands of stats would take the whole run's time.
_FILES_DEADLINE = 0.3
_MISSING_SHOWN = 20


class Pickled(enum.Enum):
    """Its member is pickled as this interpreter pickles any enum member."""

    BY_VALUE = 1


def describe(modules: "list[str]") -> "dict[str, object]":
    """All facts, in the words of ``ascend_doctor.facts.Python``."""
    return {
        "executable": sys.executable or "",
        "version": sys.version.split()[0],
        "implementation": sys.implementation.name,
        "prefix": sys.prefix,
        "base_prefix": sys.base_prefix,
        "machine": os.uname().machine,
        "sys_path": list(sys.path),
        "distributions": distributions(sys.path),
        "importable": {name: importable(name) for name in modules},
        "enums_by_getattr": Pickled.BY_VALUE.__reduce_ex__(2)[0] is getattr,
    }


# --- distributions


def distributions(path: "list[str]") -> "list[dict[str, object]]":
    """Distributions in the order of metadata look-ups, with the hidden ones."""
    rows, names, folders, links = [], set(), set(), set()
    for entry in path:
        folder = os.path.realpath(entry)
        if folder in folders:
            continue
        folders.add(folder)
        for name in list_names(entry):
            if name.endswith(".egg-link"):
                links.add(normalise(name[: -len(".egg-link")]))
            row = distribution(entry, name)
            if row is not None:
                row["shadowed"] = row["name"] in names
                names.add(row["name"])
                rows.append(row)
    for row in rows:
        row["editable"] = row["editable"] or row["name"] in links
    return rows


def distribution(folder: str, name: str) -> "dict[str, object] | None":
    """A folder entry as a distribution. Interrupted pip leaves "~" names, which look-ups miss."""
    if not name.endswith((".dist-info", ".egg-info")) or name.startswith(("~", ".")):
        return None
    path = os.path.join(folder, name)
    old = name.endswith(".egg-info")
    inside = set(list_names(path))
    file = ("PKG-INFO" if old else "METADATA") if inside else ""
    headers = parse_headers(read(os.path.join(path, file) if file else path))
    stem = name.rsplit(".", 1)[0].split("-")
    requires = headers.get("requires-dist", [])
    if "requires.txt" in inside:
        requires = parse_requires(read(os.path.join(path, "requires.txt")).splitlines())
    url = read(os.path.join(path, "direct_url.json")) if "direct_url.json" in inside else ""
    direct_url = parse_direct_url(url)
    direct_url.update(
        name=normalise(headers.get("name", stem)[0]),
        version=(headers.get("version") or stem[1:2] or [""])[0],
        location=folder,
        requires=[require for require in requires if "extra" not in require.partition(";")[2]],
        requires_python=headers.get("requires-python", [None])[0],
    )
    if direct_url["name"] in WATCHED and "RECORD" in inside:
        direct_url.update(files(folder, os.path.join(path, "RECORD")))
    return direct_url


def files(folder: str, record: str) -> "dict[str, object]":
    """Modules and libraries that RECORD lists, and the first missing or emptied ones.

    Tests may be stripped from an image. Past the deadline the result is empty: a slow file system.
    """
    end = time.monotonic() + _FILES_DEADLINE
    try:
        # Paths from there are half as long to look up.
        root = os.open(folder, os.O_RDONLY)
    except OSError:
        return {}
    count, missing = 0, []
    # A pattern that begins with a character is searched three times as fast.
    text = "\n" + read(record, _RECORD_LIMIT)
    for path in re.findall(r'\n"?([^/."\n][^,"\n]*\.(?:py|so))"?,', text):
        if "/test" in path:
            continue
        count += 1
        try:
            gone = not os.access(path, os.F_OK, dir_fd=root) or (
                path.endswith(".so") and os.stat(path, dir_fd=root).st_size == 0
            )
        except OSError:
            gone = True
        if gone:
            missing.append(path)
        if count % 64 == 0 and time.monotonic() > end:
            return {}
    return {"files_listed": count, "files_missing": missing[:_MISSING_SHOWN]}


def parse_headers(text: str) -> "dict[str, list[str]]":
    """Values of the fields that are read, by lower-case name, up to the first empty line."""
    headers = {}  # type: dict[str, list[str]]
    blank = re.search(r"(?m)^[^\S\n]*$", text)
    head = text[: blank.start()] if blank else text
    for key, value in re.findall(
        r"(?im)^(name|version|requires-dist|requires-python)[^\S\n]*:(.*)", head
    ):
        headers.setdefault(key.lower(), []).append(value.strip())
    return headers


def parse_requires(text: "Iterable[str]") -> "list[str]":
    """``requires.txt`` of an egg: without extras, conditions as markers."""
    requirements, section = [], ""
    for raw in text:
        line = raw.strip()
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif line and not section:
            requirements.append(line)
        elif line and section.startswith(":"):
            requirements.append(line + "; " + section[1:])
    return requirements


def parse_direct_url(text: str) -> "dict[str, object]":
    """URL, commit and editable of PEP 610, without user, password and query of the URL."""
    try:
        answer = json.loads(text or "{}")
    except (ValueError, RecursionError):
        answer = {}
    answer = answer if isinstance(answer, dict) else {}
    url = answer.get("url")
    parts = [answer.get(name) for name in ("vcs_info", "dir_info")]
    vcs, folder = [part if isinstance(part, dict) else {} for part in parts]
    commit = vcs.get("commit_id")
    return {
        "direct_url": re.sub(r"(?<=://)[^/]*@|[?#].*", "", url, flags=re.DOTALL)
        if isinstance(url, str)
        else None,
        "commit": commit if isinstance(commit, str) else None,
        "editable": folder.get("editable") is True,
    }


def normalise(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# --- modules


def importable(name: str) -> bool:
    """Whether an import would find the module. Looks up parent packages, never imports them."""
    parent = name.rpartition(".")[0]
    if not parent:
        return ask_finders(name) is not None
    try:
        places = list(getattr(ask_finders(parent), "submodule_search_locations", None) or ())
        return importlib.machinery.PathFinder.find_spec(name, places) is not None
    except Exception:  # noqa: BLE001 - path hooks of other packages run here
        return False


def ask_finders(name: str) -> "object | None":
    """What the first finder that knows the top-level module says of it."""
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(name, None)
        except Exception:  # noqa: BLE001 - a finder that some package has put there
            spec = None
        if spec is not None:
            return spec
    return None


# --- files


def list_names(folder: str) -> "list[str]":
    """Names in the file system's order, as importlib.metadata takes them."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def read(path: str, limit: int = _TEXT_LIMIT) -> str:
    try:
        if os.path.isfile(path):
            with open(path, "rb", 0) as file:
                size = min(limit, os.path.getsize(path))  # what read() is asked for it allocates
                return file.read(size).decode("utf-8", "replace")
    except OSError:
        pass
    return ""


if __name__ == "__main__":
    sys.stdout.write("\n" + SENTINEL + json.dumps(describe(sys.argv[1:])) + "\n")
    sys.stdout.flush()
    os._exit(0)  # nothing that a site hook has started delays the answer
