"""The archive that ``ascend-doctor report`` writes, as the reading commands open it."""

import itertools
import zlib
from pathlib import Path

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes, reason

FOLDER = "ascend-doctor-report"
LOGS = "logs"
ENDING = ".tar.gz"
_REPORT = f"{FOLDER}/report.json"
_GZIP = b"\x1f\x8b"
_AS_GZIP = 16 + zlib.MAX_WBITS
_BLOCK = 512
# The report is the first file of our archives.
_MEMBERS = 8


def read_report_bytes(path: str | Path, limit: int) -> bytes:
    """The content of a file, or of the report in an archive of reports. Raises DataError."""
    import tarfile

    data = read_bytes(path, limit)
    if not data.startswith(_GZIP):
        return data
    try:
        with tarfile.open(path, mode="r|gz") as archive:
            for member in itertools.islice(archive, _MEMBERS):
                file = archive.extractfile(member) if member.name == _REPORT else None
                if file is not None and member.size <= limit:
                    return file.read(limit)
    except (OSError, EOFError, tarfile.TarError, zlib.error) as error:
        why = reason(error) if isinstance(error, OSError) else str(error)
        raise DataError(f"{path}: a damaged archive ({why})") from error
    raise DataError(
        f"{path}: an archive without a report; `ascend-doctor report` writes those,"
        f" and `ascend-doctor diagnose {path}` reads logs in one"
    )


def is_report_archive(head: bytes) -> bool:
    """Whether ``head`` begins one of our archives, by the name of its first member."""
    try:
        header = zlib.decompressobj(_AS_GZIP).decompress(head, _BLOCK)
    except zlib.error:
        return False
    return header.startswith(f"{FOLDER}/".encode())


def is_of_report(name: str) -> bool:
    """Whether an archive member is of `report`, whose logs stand in the order of reading."""
    return FOLDER in name.split("/")


def is_part_of_report(name: str) -> bool:
    """Whether `report` puts this archive member beside the logs."""
    parts = name.split("/")
    return FOLDER in parts and parts[parts.index(FOLDER) + 1 : parts.index(FOLDER) + 2] != [LOGS]
