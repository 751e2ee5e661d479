"""Whether a variable's value is one that it may have."""

import codecs
import ipaddress
import itertools
import re
from collections.abc import Callable

from ascend_doctor.matrix.schema import Bounds, Family, Variable
from ascend_doctor.patterns import defer

_WHOLE = defer(r"[+-]?[0-9]{1,18}")
_NUMBER = defer(r"[+-]?[0-9]{1,18}(\.[0-9]{1,18})?")
# Of HCCL_SOCKET_IFNAME: names with ^ for all but these and = for exactly these.
_FILTER = r"\^?=?[^\s,=^*?\"']+(,[^\s,=^*?\"']+)*"
_LABEL = r"(?!-)[\w-]{1,63}"
_HOST = rf"({_LABEL}\.)*(?!\d+\b){_LABEL}\.?"
_PATTERNS = {
    "ifname_filter": _FILTER,
    "locale": r"POSIX|(C|[a-z]{2,3}(_[A-Z]{2,3})?)(\.[\w-]+)?(@\w+)?",
}
_URL = defer(
    r"(?:https?|socks[45][ah]?)://(?:[^@/\s]*@)?(\[[^\]]+\]|[^:/\s]+)(?::(\d{1,5}))?(?:/\S*)?"
)
_PORTS = defer(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
LAST_PORT = 65535
# Includes word processors' quotes, which come with text copied from a document.
_QUOTES = "\"'\u201c\u201d\u2018\u2019"


def clean(value: str) -> str:
    """The value without unintended surrounding blanks, line ends and quotes."""
    return value.strip().strip(_QUOTES).strip()


def bounds_on(variable: Variable, family: Family | None) -> Bounds:
    return variable.families.get(family.id if family else "", variable)


def describe_bounds(variable: Variable, value: str, family: Family | None = None) -> str:
    """What the value should be, "" if it is allowed or its bounds are unknown."""
    if variable.type == "kv_list":
        return _pairs_text(variable, value)
    bounds = bounds_on(variable, family)
    if fits(bounds, value):
        return ""
    return describe(bounds) or variable.valid


def fits(bounds: Bounds, value: str) -> bool:
    """Whether a value is within the bounds; types without a grammar take any tidy text."""
    if judge := _GRAMMARS.get(bounds.type):
        return judge(value)
    if pattern := _PATTERNS.get(bounds.type, bounds.pattern):
        return re.fullmatch(pattern, value) is not None
    if bounds.type in {"int", "float"}:
        return value in bounds.values or _fits_number(bounds, value)
    choices = bounds.values or (("0", "1") if bounds.type == "bool01" else ())
    if not choices:
        return value == clean(value)
    words = value.removeprefix("^").split(",") if bounds.type == "list" else [value]
    if bounds.any_case:
        choices, words = (
            tuple(choice.lower() for choice in choices),
            [word.lower() for word in words],
        )
    return all(word in choices for word in words)


def _fits_number(bounds: Bounds, value: str) -> bool:
    if not (_NUMBER if bounds.type == "float" else _WHOLE).fullmatch(value):
        return False
    number = float(value)
    return (
        (bounds.low is None or number >= bounds.low)
        and (bounds.high is None or number <= bounds.high)
        and (bounds.above is None or number > bounds.above)
        and (bounds.below is None or number < bounds.below)
        and (bounds.multiple_of is None or number % bounds.multiple_of == 0)
    )


def describe(bounds: Bounds) -> str:
    """Bounds in words, "" for neither a list of words nor a range."""
    if bounds.type == "bool01":
        return "0 or 1"
    if bounds.values and bounds.type not in {"int", "float"}:
        return ("words of: " if bounds.type == "list" else "one of: ") + ", ".join(bounds.values)
    if bounds.type not in {"int", "float"}:
        return ""
    limits = (
        (bounds.low, "from"),
        (bounds.above, "above"),
        (bounds.high, "to" if bounds.low is not None else "up to"),
        (bounds.below, "below"),
    )
    words = [f"{word} {limit:.15g}" for limit, word in limits if limit is not None]
    multiple = f", a multiple of {bounds.multiple_of}" if bounds.multiple_of else ""
    kind = "a whole number" if bounds.type == "int" else "a number"
    return ", or ".join((" ".join((kind, *words)) + multiple, *bounds.values))


def pairs(value: str) -> dict[str, str] | None:
    """``key:value`` pairs separated by commas (brackets keep theirs); None if invalid."""
    pairs_of: dict[str, str] = {}
    for part in re.split(r",(?![^\[\]]*\])", value):
        key, colon, text = part.partition(":")
        if not colon or not key.strip() or not text.strip():
            return None
        pairs_of[key.strip()] = text.strip()
    return pairs_of


def unknown_keys(variable: Variable, value: str) -> list[str]:
    known_pairs = pairs(value) or {} if variable.keys else {}
    return [key for key in known_pairs if key not in variable.keys]


def _pairs_text(variable: Variable, value: str) -> str:
    tidy = value.strip(" ")
    if not variable.keys or tidy != clean(tidy):
        return "" if tidy == clean(tidy) else variable.valid
    value_pairs = pairs(value)
    if value_pairs is None:
        return "key:value pairs, parted by commas"
    wrong = [
        f"{key}: {describe(bounds)}"
        for key, bounds in variable.keys.items()
        if key in value_pairs and not fits(bounds, value_pairs[key])
    ]
    return "; ".join(wrong)


def ports(value: str) -> list[range] | None:
    """The ports of a list such as ``60000,60050-60100``; None if invalid or overlapping."""
    ranges: list[range] = []
    for part in value.split(","):
        match = _PORTS.fullmatch(part)
        if match is None:
            return None
        low, high = int(match[1]), int(match[2] or match[1])
        if not 1 <= low <= high <= LAST_PORT:
            return None
        ranges.append(range(low, high + 1))
    ranges.sort(key=lambda port_range: port_range.start)
    overlap = any(first.stop > two.start for first, two in itertools.pairwise(ranges))
    return None if overlap else ranges


def _is_host(value: str) -> bool:
    """A name, or an address other than the unspecified one."""
    if _is_address(value):
        return not ipaddress.ip_address(value).is_unspecified
    return re.fullmatch(_HOST, value, re.ASCII) is not None


def _is_codec(value: str) -> bool:
    """A Python encoding, with the handling of errors behind a colon."""
    try:
        codecs.lookup(value.partition(":")[0] or "utf-8")
    except LookupError:
        return False
    return True


def _is_address(value: str) -> bool:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return False
    return True


def _is_url(value: str) -> bool:
    match = _URL.fullmatch(value)
    return (
        match is not None and _is_host(match[1].strip("[]")) and 0 < int(match[2] or 1) <= LAST_PORT
    )


_GRAMMARS: dict[str, Callable[[str], bool]] = {
    "ip": _is_address,
    "host": _is_host,
    "url": _is_url,
    "codec": _is_codec,
    "port_spec": lambda value: value == "auto" or ports(value) is not None,
}
