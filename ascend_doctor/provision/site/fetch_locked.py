"""Downloads the files of a lock by PEP 751, several at a time, with the session of pip.

    python fetch_locked.py LOCK FOLDER

Run by the stack's interpreter, whose pip has the settings and credentials.
"""

import concurrent.futures
import hashlib
import importlib
import os
import sys
import threading
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

_CONNECTIONS = 6
_CHUNK = 1 << 20
_MEGA = 1_000_000


class LockedFile(NamedTuple):
    name: str
    url: str
    sha256: str
    size: int


def list_files(lock: dict[str, Any], folder: Path, ranks: dict[Any, int]) -> list[LockedFile]:
    """One file of each package; ``ranks`` are the interpreter's tags, the best is least.

    Raises LookupError for a package without a file for this interpreter.
    """
    return [_choose(package, folder, ranks) for package in lock.get("packages", [])]


def _choose(package: dict[str, Any], folder: Path, ranks: dict[Any, int]) -> LockedFile:
    if "archive" in package:
        return _describe(package["archive"], folder)
    parse = importlib.import_module("pip._vendor.packaging.utils").parse_wheel_filename
    fitting = []
    for wheel in package.get("wheels", []):
        file = _describe(wheel, folder)
        if rank := [ranks[tag] for tag in parse(file.name)[3] if tag in ranks]:
            fitting.append((min(rank), file))
    if fitting:
        return min(fitting)[1]
    if "sdist" in package:
        return _describe(package["sdist"], folder)
    raise LookupError(f"{package['name']} has no file for this Python")


def _describe(entry: dict[str, Any], folder: Path) -> LockedFile:
    url = entry.get("url") or (folder / entry["path"]).as_uri()
    name = entry.get("name") or unquote(urlsplit(url).path.rpartition("/")[2])
    return LockedFile(name, url, entry.get("hashes", {}).get("sha256", ""), entry.get("size", 0))


def fetch(file: LockedFile, folder: Path, session: Any) -> None:
    """Raises ValueError for content that is not the lock's, and what the session raises."""
    path, digest = folder / os.path.basename(file.name), hashlib.sha256()
    answer = session.get(file.url, headers={"Accept-Encoding": "identity"}, stream=True)
    answer.raise_for_status()
    with answer, path.open("wb") as stream:
        for block in iter(lambda: answer.raw.read(_CHUNK), b""):
            stream.write(block)
            digest.update(block)
    if file.sha256 and digest.hexdigest() != file.sha256:
        path.unlink()
        raise ValueError(f"{file.name}: the SHA-256 is {digest.hexdigest()}, not {file.sha256}")


def main(lock: Path, folder: Path) -> None:
    toml = "tomllib" if sys.version_info >= (3, 11) else "pip._vendor.tomli"
    content = importlib.import_module(toml).loads(lock.read_text("utf-8"))
    tags = importlib.import_module("pip._internal.utils.compatibility_tags").get_supported()
    files = list_files(content, lock.parent, {tag: rank for rank, tag in enumerate(tags)})
    command = importlib.import_module("pip._internal.commands").create_command("download")
    options, _ = command.parse_args([])
    sessions = threading.local()

    def get(file: LockedFile) -> None:
        if not hasattr(sessions, "own"):
            sessions.own = command._build_session(options)  # noqa: SLF001 - the public one is for one thread
        fetch(file, folder, sessions.own)

    whole, there = sum(file.size for file in files), 0
    with concurrent.futures.ThreadPoolExecutor(_CONNECTIONS) as pool:
        begun = {pool.submit(get, file): file for file in files}
        try:
            for count, done in enumerate(concurrent.futures.as_completed(begun), 1):
                done.result()
                there += begun[done].size
                size = f", {there / _MEGA:.0f} of {whole / _MEGA:.0f} MB" if whole else ""
                sys.stderr.write(f"{count} of {len(files)} files{size}\n")
                sys.stderr.flush()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
    except Exception as error:  # noqa: BLE001 - one line for whoever reads the setup's failure
        sys.exit(f"ERROR: {type(error).__name__}: {error}")
