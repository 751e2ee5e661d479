"""What shows who somebody is or which machine it was, where nobody has told us the name."""

import re

from ascend_doctor.patterns import defer
from ascend_doctor.redact.shapes import read_shapes
from ascend_doctor.redact.vocabulary import SYNTAXES

IDENTITIES = tuple(read_shapes("identities.txt"))

IPV4 = defer(SYNTAXES["ipv4"][0])
IPV6, _BEFORE_ADDRESS, _BEFORE_VERSION = (
    defer(SYNTAXES[name][0], re.IGNORECASE) for name in ("ipv6", "beforeaddress", "beforeversion")
)
# At most so many characters before an address.
_LENGTH = 48
# An interface or NCCL's port follows; a port or a mask's length.
_AFTER_ADDRESS = defer(r"%[a-z]|<\d+>")
_PORT = defer(r":\d{2,5}\b|/\d{1,2}\b")
# Four-part versions begin lower, inside a text much; an address may too, if its words say so.
LOWEST, _MOST_OF_VERSIONS = (30, 11), 99


def is_address(text: str, start: int, end: int, *, inside: bool = False) -> bool:
    """Whether it is an IPv4 address; ``text`` is around it, ``inside`` one that leaves for good."""
    before = text[max(0, start - _LENGTH) : start]
    if _AFTER_ADDRESS.match(text, end) or _BEFORE_ADDRESS.search(before):
        return True
    if _BEFORE_VERSION.search(before):
        return False
    first, second, *rest = map(int, text[start:end].split("."))
    # RFC 1918.
    private = first == 10 or (first, second) == (192, 168) or (first == 172 and 16 <= second < 32)  # noqa: PLR2004
    return (
        private
        or first >= LOWEST[inside]
        or (inside and max(second, *rest) > _MOST_OF_VERSIONS)
        or _PORT.match(text, end) is not None
    )
