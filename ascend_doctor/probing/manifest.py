"""What a probe says of itself: when it runs, in how much time, and behind which others."""

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import folder

_MANIFEST = re.compile(r"^MANIFEST = (\{\n.*?^\})", re.MULTILINE | re.DOTALL)


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``MANIFEST`` of a file in probes/, read as text, as its imports may be missing.

    ``seconds`` and ``seconds_cpu`` are its deadlines: HCCL needs 140 s to report a failed link, and
    operators compile at their first call. ``needs``: probes without which it would fail for
    their reasons, with their needs. ``forked``: a process that has torch can fork it. ``soaks``: it
    lasts the requested minutes longer. ``sized`` takes the parallel sizes without torchrun.
    ``agents``: once on every node, where it starts the ranks. ``does``, ``on_cpu``: docs/probes.md.
    """

    order: int
    level: int
    seconds: float
    seconds_cpu: float
    needs: tuple[str, ...]
    does: str
    on_cpu: str
    torchrun: bool = False
    soaks: bool = False
    sized: bool = False
    agents: bool = False
    forked: bool = False


def manifests() -> dict[str, Manifest]:
    """The shipped probes in the order of running, each behind what it needs.

    Raises DataError that names the file and what its manifest lacks.
    """
    files = {
        file.stem.replace("_", "-"): file
        for file in folder("probes").glob("*.py")
        if not file.name.startswith("_")
    }
    read = {probe: _manifest(file) for probe, file in files.items()}
    ordered = dict(sorted(read.items(), key=lambda item: (item[1].order, item[0])))
    before: set[str] = set()
    for probe, manifest in ordered.items():
        late = sorted(set(manifest.needs) - before)
        if late:
            raise DataError(
                f"{files[probe]}: MANIFEST needs {late[0]}, which does not run before it"
            )
        before.add(probe)
    return {
        probe: msgspec.structs.replace(manifest, needs=tuple(dict.fromkeys(_needs(probe, ordered))))
        for probe, manifest in ordered.items()
    }


def _needs(probe: str, read: Mapping[str, Manifest]) -> Iterator[str]:
    for need in read[probe].needs:
        yield from _needs(need, read)
        yield need


def _manifest(file: Path) -> Manifest:
    text = _MANIFEST.search(file.read_text("utf-8"))
    if text is None:
        raise DataError(f"{file}: no MANIFEST, which says when the probe runs")
    try:
        values: Any = ast.literal_eval(text[1])
        return msgspec.convert(values, Manifest)
    except (ValueError, SyntaxError, msgspec.ValidationError) as error:
        raise DataError(f"{file}: MANIFEST: {error}") from error
