"""Names of nodes as schedulers write them."""

import re
from collections.abc import Iterable, Iterator

from ascend_doctor.errors import DataError
from ascend_doctor.findings import runs_of

_RANGES = re.compile(r"^(?P<head>[^\[\]]*)\[(?P<ranges>[0-9,-]+)\](?P<tail>.*)$")
_RANGE = re.compile(r"^(\d+)(?:-(\d+))?$")
# A slip such as node[1-99999999] would fill the memory.
_MOST = 1_000_000


def parse_hosts(text: str, *, name: str) -> tuple[str, ...]:
    """Nodes of a host file: a name a line, ``node[001-004,7]`` as Slurm writes it, no doubles.

    Ignores comments and ends of lines (``slots=8``, ``:8``). Raises DataError with file and line.
    """
    names: dict[str, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        row = line.partition("#")[0].strip()
        if not row:
            continue
        try:
            words = filter(None, re.split(r",(?![^\[]*\])", row.split()[0]))
            hosts = [host for word in words for host in expand(word)]
        except ValueError as error:
            raise DataError(f"{name}:{number}: {error}") from error
        names.update(dict.fromkeys(hosts))
    if not names:
        raise DataError(f"{name}: names no node; one name a line is wanted")
    return tuple(names)


def expand(word: str) -> Iterator[str]:
    """The nodes of one expression; ``node[08-11]`` keeps its zeros. Raises ValueError."""
    match = _RANGES.match(word)
    if match is None:
        if "[" in word or "]" in word:
            raise ValueError(f"{word!r} is no list of nodes; write it like node[001-004,007]")
        yield word.partition(":")[0]
        return
    for part in match["ranges"].split(","):
        bounds = _RANGE.match(part)
        if bounds is None:
            raise ValueError(f"{part!r} in {word!r} is no range")
        first, last = bounds[1], bounds[2] or bounds[1]
        if int(last) - int(first) > _MOST:
            raise ValueError(f"{part!r} in {word!r} is more than {_MOST} nodes")
        for number in range(int(first), int(last) + 1):
            # The tail may have brackets: rack[1-2]node[1-4].
            yield from expand(f"{match['head']}{number:0{len(first)}d}{match['tail']}")


def plain(name: str) -> str:
    """A name from a file or a cluster, safe for files and command lines."""
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)


def compress(names: Iterable[str]) -> str:
    """The same nodes in one expression that ``srun --exclude`` takes."""
    groups: dict[tuple[str, int, str], list[int]] = {}
    plain: list[str] = []
    for name in names:
        # Nodes are counted by the last number of a name.
        match = re.match(r"^(.*?)(\d{1,9})(\D*)$", name)
        if match:
            # node9 and node10 are no range with zeros: names of one length go together.
            key = (match[1], len(match[2]), match[3])
            groups.setdefault(key, []).append(int(match[2]))
        else:
            plain.append(name)
    for (head, width, tail), numbers in groups.items():
        runs = list(runs_of(numbers))
        text = ",".join(
            f"{first:0{width}d}" + (f"-{last:0{width}d}" if last > first else "")
            for first, last in runs
        )
        single = len(runs) == 1 and runs[0][0] == runs[0][1]
        plain.append(f"{head}{text}{tail}" if single else f"{head}[{text}]{tail}")
    return ",".join(plain)
