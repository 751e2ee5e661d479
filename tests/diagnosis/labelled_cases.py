"""Labelled logs of a folder, and the table that records each by address, digest and label."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.machine.parsing import read_yaml

TABLE = Path(__file__).with_name("labelled.tsv")
COLUMNS = ("set", "kind", "digest", "root", "now", "also", "guilty", "excused", "source")
DIGEST_LENGTH = 12
NOT_ACCUSED = "-"

_UNITS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
_TEENS = ("tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth")
_ORDINALS = (
    *(*_UNITS, *_TEENS, "seventeenth", "eighteenth", "nineteenth", "twentieth"),
    *(f"twenty-{unit}" for unit in _UNITS),
)

Files = Mapping[str, str]


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """A label with a text, or with the digest of its texts' file."""

    source: str
    root: str
    now: str = ""
    also: tuple[str, ...] = ()
    guilty: tuple[int, ...] | None = None
    text: str = ""
    lines: tuple[str, ...] = ()
    files: dict[str, str] = {}
    sha256: str = ""


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded of a case.

    ``now``: the catalogue entry learnt from the case. ``also``: equally right answers, of which
    the table may have more than the folder. ``guilty``: None is not judged, empty means that no
    rank may be accused.
    """

    set: str
    kind: str
    digest: str
    root: str
    now: str
    also: tuple[str, ...]
    guilty: tuple[int, ...] | None
    source: str

    @property
    def key(self) -> tuple[str, str, str]:
        return self.set, self.kind, self.digest

    @property
    def name(self) -> str:
        return f"set {self.set}, {self.kind}, {self.digest}, {self.source}"

    @property
    def right(self) -> frozenset[str]:
        return frozenset({self.now or self.root, *self.also})


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """``files`` is None where the folder holds only the label."""

    label: Label
    files: Files | None


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """``excused``: faults that the case may have: accused, alarm, fine."""

    label: Label
    excused: frozenset[str]


def read_cases(folder: Path) -> list[Case]:
    """All cases by set. Raises DataError that names what is wrong with the folder."""
    sets = [(*_set_of(path), path) for path in folder.glob("first_sight/*.yaml")]
    threads = [("threads", path.stem, path) for path in folder.glob("threads/*.yaml")]
    if not sets or not threads:
        raise DataError(f"{folder}: no folder with first_sight/*.yaml and threads/*.yaml")
    ordered = sorted(sets, key=lambda each: (int(each[0]), each[1])) + sorted(threads)
    return [case for name, kind, path in ordered for case in _cases_of(name, kind, path)]


def _set_of(path: Path) -> tuple[str, str]:
    """The set's number and the kind; the first set's files have only the kind."""
    ordinal, _, kind = path.stem.rpartition("-")
    if (ordinal or "first") not in _ORDINALS:
        raise DataError(f"{path}: its name does not begin with the number of a set")
    return str(_ORDINALS.index(ordinal or "first") + 1), kind


def _cases_of(name: str, kind: str, path: Path) -> Iterator[Case]:
    try:
        rows = msgspec.convert(read_yaml(path), list[Row], strict=True)
    except msgspec.ValidationError as error:
        raise DataError(f"{path}: {error}") from error
    for row in rows:
        files = _files_of(row, path.parent.parent)
        label = Label(
            set=name,
            kind=kind,
            digest=row.sha256[:DIGEST_LENGTH] or _digest_of(files or {}),
            root=row.root,
            now=row.now,
            also=row.also,
            guilty=row.guilty,
            source=" ".join(row.source.split()).removeprefix("https://github.com/"),
        )
        yield Case(label=label, files=files)


def _files_of(row: Row, folder: Path) -> Files | None:
    if row.sha256:
        return _files_by_digest(folder / f"{row.sha256}.json", row.sha256)
    if not (row.files or row.text or row.lines):
        raise DataError(f"{folder}: the row {row.source!r} has no text and no digest")
    return row.files or {"train.log": row.text or "\n".join(row.lines) + "\n"}


def _files_by_digest(path: Path, digest: str) -> Files | None:
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    if hashlib.sha256(data).hexdigest() != digest:
        raise DataError(f"{path}: its digest is not its name")
    return msgspec.json.decode(data, type=dict[str, str])


def _digest_of(files: Files) -> str:
    data = msgspec.json.encode(files, order="sorted")
    return hashlib.sha256(data).hexdigest()[:DIGEST_LENGTH]


def read_records(table: Path = TABLE) -> dict[tuple[str, str, str], Record]:
    """By set, kind and digest. A row without a set is of the set and kind above."""
    if not table.exists():
        return {}
    _, *lines = table.read_text("utf-8").splitlines()
    records, above = {}, [""]
    for line in lines:
        fields = line.split("\t")
        above = fields[:2] if fields[0] else above
        record = _parse_fields([*above, *fields[2:]])
        records[record.label.key] = record
    return records


def _parse_fields(fields: list[str]) -> Record:
    values = dict(zip(COLUMNS, fields, strict=True))
    excused, also, guilty = values.pop("excused"), values.pop("also"), values.pop("guilty")
    ranks = (
        tuple(int(rank) for rank in guilty.split(",") if rank != NOT_ACCUSED) if guilty else None
    )
    label = Label(**values, also=tuple(also.split(",")) if also else (), guilty=ranks)
    return Record(label=label, excused=frozenset(excused.split(",")) if excused else frozenset())


def write_records(records: Iterable[Record], table: Path = TABLE) -> None:
    lines, above = ["\t".join(COLUMNS)], ""
    for record in records:
        label = record.label
        group = f"{label.set}\t{label.kind}"
        lines.append(("\t" if group == above else group) + _format_line(record))
        above = group
    table.write_text("\n".join(lines) + "\n", "utf-8")


def _format_line(record: Record) -> str:
    label = record.label
    guilty = "" if label.guilty is None else ",".join(map(str, label.guilty)) or NOT_ACCUSED
    also, excused = ",".join(label.also), ",".join(sorted(record.excused))
    values = (label.digest, label.root, label.now, also, guilty, excused, label.source)
    return "".join(f"\t{value}" for value in values)


def with_recorded(
    cases: Iterable[Case], records: Mapping[tuple[str, str, str], Record]
) -> list[Case]:
    """Cases with the table's equally right answers too."""
    return [
        msgspec.structs.replace(
            case,
            label=msgspec.structs.replace(
                case.label,
                also=tuple(dict.fromkeys((*case.label.also, *records[case.label.key].label.also))),
            ),
        )
        if case.label.key in records
        else case
        for case in cases
    ]


def find_mismatches(
    cases: Iterable[Case], records: Mapping[tuple[str, str, str], Record]
) -> list[str]:
    """A line for each difference of folder and table."""
    labels = {case.label.key: case.label for case in cases}
    problems = []
    for key, label in labels.items():
        if key not in records:
            problems.append(f"{label.name}: the text has no recorded digest")
        elif msgspec.structs.replace(records[key].label, also=label.also) != label:
            problems.append(f"{label.name}: the label is not the recorded one")
    absent = [record.label for key, record in records.items() if key not in labels]
    return problems + [f"{label.name}: recorded, and not in the folder" for label in absent]
