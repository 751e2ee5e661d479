"""Timestamps of reports, snapshots and locks: RFC 3339, written in UTC."""

import re
from typing import Annotated

import msgspec

# An upper-case T and Z, as in XML Schema, which some formats require.
_FORM = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?"
    r"(Z|\+00:00)"
)
Timestamp = Annotated[str, msgspec.Meta(pattern=rf"^({_FORM})?$(?!\n)")]
_FRACTION = re.compile(r"\.([0-9]{1,6})[0-9]*")


def now() -> str:
    import datetime as dt

    return dt.datetime.now(dt.timezone.utc).isoformat(timespec="seconds")


def seconds(timestamp: str) -> float:
    """Seconds since 1970; 0 without a time, and for a day that no calendar has."""
    import datetime as dt

    # Python 3.10 reads neither Z nor a fraction of other than three or six digits.
    text = re.sub(r"Z$", "+00:00", timestamp)
    text = _FRACTION.sub(lambda match: f".{match[1]:0<6}", text)
    try:
        time = dt.datetime.fromisoformat(text)
        return time.timestamp() if time.tzinfo else 0
    except (ValueError, OverflowError):
        return 0
