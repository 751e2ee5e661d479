"""What shows who somebody is or which machine it was, where nobody has told us the name."""

import functools
import re
from typing import NamedTuple

from ascend_doctor.redact.meanings import HOSTS
from ascend_doctor.redact.shapes import Shape

_NAME = r"[a-z_][\w.-]*"
# Addresses have other patterns; names that every machine has reveal nothing.
_HOST = r"(?!localhost\b|(?:\d{1,3}\.){3}\d|root\b)[a-z0-9][\w-]*(?:\.[\w-]+)*"
_STAFF = r"(?:工号|\b(?:employee|emp|staff)[ _-]?(?:id|no|num(?:ber)?))"
_NUMBER = r"[a-z]?\d{5,10}\b"

# ``kind`` "host" and "user" become such pseudonyms.
NAMES = (
    Shape(
        "host",
        ("--master", "--rdzv"),
        rf"""--(?:master[_-]addr|rdzv[_-]endpoint)["']?[=\s,]+["']?(?=[^\s"']*[\d.:-])({_HOST})""",
    ),
    Shape("host", ("host ",), rf"^\s*host\s+:\s+({_HOST})"),
    Shape("host", (" nccl ",), rf"(?<![\w.-])({_HOST}):\d+:\d+ \[\d+\] NCCL "),
    Shape("host", ("hostname[", "tcpstore("), rf"(?:hostname\[|TCPStore\()({_HOST})[:\]]"),
    Shape("host", ("hostname ",), rf"resolve (?:the )?hostname ({_HOST})"),
    Shape("host", ("host ",), rf"\bhost ({_HOST}) port \d"),
    Shape("host", (": ssh: ",), rf"""(?<![\w.-])({_HOST}): ssh: """),
    Shape("host", ("srun: ",), rf"\bsrun: (?:error|warning): ({HOSTS}): "),
    Shape("host", (" on ",), rf"\bON ({HOSTS}) (?:CANCELLED|FAILED)\b"),
    Shape("host", ("]",), rf"\[({_HOST}):\d{{4,}}\](?: \*\*\*|$)"),
    Shape("host", ("node",), rf"\b(?:Node:\s+({_HOST})(?=/)|NodeName=({_HOST}))"),
    # syslog
    Shape(
        "host",
        (":",),
        rf"\b(?:[A-Z][a-z]{{2}} [ \d]\d|\d{{4}}-\d\d-\d\d)[ T]\d\d:\d\d:\d\d\S* ({_HOST}) "
        r"(?:kernel:|[\w./-]+\[\d+\]:|(?:systemd|sudo|dockerd|containerd)\b)",
    ),
    Shape("host", ("ping ",), rf"\bPING ({_HOST}) \("),
    Shape("user", ("machine ",), rf"\bmachine \S+ login ({_NAME})"),
    # ls -l, who
    Shape(
        "user", ("-", "d"), rf"(?<![\w-])[-dlbcps](?:[r-][w-][xsStT-]){{3}}[.+@]? +\d+ ({_NAME})"
    ),
    Shape("user", ("pts/", "tty"), rf"({_NAME}) +(?:pts/|tty)\d+ +\S*\d"),
    Shape("host", ("]:",), rf"\[(?![\d.:]+\]|redacted\])({_HOST})\]:\d{{2,5}}\b"),
    Shape("host", ("tcp://", "ray://"), rf"\b(?:tcp|ray)://({_HOST})"),
    Shape("host", ("linux ",), rf"\bLinux\s({_HOST})\s\d+\.\d+\.\d"),
    Shape(
        "host",
        (".internal", ".lan", ".corp", ".local", ".intra"),
        # A site's host names are lower-case; enumeration members are not.
        r"(?-i:(?<![\w.@/-])((?:[\w-]+\.)+(?:internal|lan|corp|intranet|intra|cluster\.local"
        r"|localdomain))\b(?!\.\w))",
    ),
    Shape(
        "user",
        ("/home", "/users"),
        rf"(?:(?<![\w.~/-])|(?<=://))(?:/[\w.-]+)*?/(?:homes?|Users)/({_NAME})",
    ),
    Shape("user", ("users\\",), rf"\\Users\\+({_NAME})"),
    Shape("user", ("employee", "staff"), rf"{_STAFF} ({_NUMBER})"),
    Shape("user", ("emp", "staff"), r"/(?:emp|employee|staff)[-_](\d{5,})\b"),
    Shape("user", ("@",), rf"(?<![\w./+-])(?!git@)({_NAME})@(?=(?:\d{{1,3}}\.){{3}}\d)"),
    Shape("phone", ("+",), r"(?<![\w.+])\+\d{1,3}(?:[ -]\d{2,4}){3,4}\b"),
    Shape(
        "host",
        ("endpoint",),
        rf"""endpoint["']?\s*[:=]\s*["']?(?=[\w-]*[\d.])({_HOST})(?=:\d{{2,5}}\b)""",
    ),
    Shape(
        "host", ('"host"', "'host'"), rf"""["']host["']\s*:\s*["'](?=[\w-]*[\d.])({_HOST})["']"""
    ),
    Shape("host", ("pdsh",), rf"""\bpdsh\b[^\n|;]{{0,100}}?-w\s*["']?({HOSTS})"""),
    Shape("host", ("ssh://",), rf"\bssh://(?:[^\s/@]+@)?({_HOST})"),
    Shape("user", ("sudo:", "userid="), rf"\b(?:sudo:\s+|UserId=)({_NAME})(?= :|\()"),
    Shape("user", ("chown ",), rf"\bchown (?:-\w+ )*({_NAME})(?=[:\s])"),
    Shape("user", ("id=", "groups="), rf"(?<=[=,])\d{{4,}}\(({_NAME})\)"),
    Shape(
        "user",
        ("author:", "committer:", "-by:"),
        r"(?<![A-Za-z-])(?:Author|Committer|[A-Za-z-]{1,30}-by):\s*([^<\n]{0,120}[^<\s])(?=\s*<)",
    ),
)
_SSH = rf"(?<![\w./+-])(?!git@)({_NAME})@({_HOST})"
PAIRS = (
    Shape("", ("%40",), r"([\w.+-]+)%40([\w-]+(?:\.[\w-]+)*\.[a-z]{2,})\b"),
    Shape("", ("ssh ", "scp ", "rsync ", "sftp "), rf"(?<=\s){_SSH}(?=[:\s]|$)"),
    Shape("", ("@",), rf"{_SSH}(?=:[~/])"),
    Shape(
        "", ("@",), r"(?<![\w./+-])(?!git@)([\w.+-]+)@([\w-]+(?:\.[\w-]+)*\.[a-z]{2,})\b(?![\w/-])"
    ),
)

_BYTE = r"[0-9a-f]{2}"
NUMBERS = (
    Shape("MAC address", (":",), rf"(?<![\w:.-])(?:{_BYTE}:){{5,19}}{_BYTE}(?![\w:])"),
    Shape("MAC address", ("-",), rf"(?<![\w-])(?=[\d-]*[a-f])(?:{_BYTE}-){{5}}{_BYTE}(?![\w-])"),
    Shape(
        "MAC address", ("-",), r"(?<![\w-])(?=[\d-]*[a-f])(?:[0-9a-f]{4}-){2}[0-9a-f]{4}(?![\w-])"
    ),
    Shape(
        "MAC address",
        ("mac", "chassis", "ether", "hwaddr", "lladdr"),
        r"\b(?:mac|chassis|ether|hwaddr|lladdr)\W{1,4}(?:0x)?([0-9a-f]{12})\b",
    ),
    Shape("serial", ("vdie",), r"\bVDie[ _]?ID\s*[:=]\s*((?:[0-9A-Z]{6,}[ -]?){2,})"),
)


# Each is compiled on first use.
@functools.cache
def ipv4() -> re.Pattern[str]:
    """Four numbers, without a fifth, a version suffix, or a file ending."""
    return re.compile(
        r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w+]|\.\d|-[a-z])"
        r"(?!\.(?:dist|egg|tar|whl|zip|post|rc|dev|so|oe|el)\w*)"
    )


@functools.cache
def ipv6() -> re.Pattern[str]:
    return re.compile(
        r"(?<![\w:.])(?:[0-9a-f]{1,4}:){2,7}(?::?[0-9a-f]{1,4}|:)(?::[0-9a-f]{1,4})*(?![\w:]|\.\d)"
        r"|(?<![\w:.])(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6}(?![\w:]|\.\d)",
        re.IGNORECASE,
    )


class Around(NamedTuple):
    """Context that distinguishes an address from a version of four parts."""

    address: re.Pattern[str]
    version: re.Pattern[str]


# The most characters between a word and its number.
_LENGTH = 48


@functools.cache
def _around() -> Around:
    return Around(
        re.compile(
            r"(?:addr(?:ess)?(?:_?\d+)?|ip|nic|inet|host|server|gateway|broadcast|peer|remote|detect"
            r"|endpoint|master|connect(?:ed)?|bound|client|://|@|(?:_|\b)ip(?:_?\d+)?"
            r"|IF_IP)[\"'\\\]]*(?:\s*[:=(\[|│>]{1,2}\s*(?:(?:\\|>-|\[)\s+)?|\s{0,3}is\s|\s{0,3}"
            r"|,?\s*[\"']?value[\"']?\s*[:=]\s*)[\"'\[\\]*$",
            re.IGNORECASE,
        ),
        re.compile(
            r"(?:==|[<>~!]=|version|driver|firmware|software|release|cann|toolkit|nnal|tag|newer|than"
            r"|\bv|[a-z]-[a-z][\w.-]*|tensorrt|curand|cu\d+)[\"'\]]*\s*[:=(]?\s*[\"'\[]*$",
            re.IGNORECASE,
        ),
    )


# Four-part versions begin lower; an address may too, if its words say so.
LOWEST = 30


def is_address(text: str, start: int, end: int) -> bool:
    """Whether that number of four parts is an IPv4 address; ``text`` is around it."""
    before = text[max(0, start - _LENGTH) : start]
    # An interface or NCCL's port follows.
    if re.match(r"%[a-z]|<\d+>", text[end:]) or _around().address.search(before):
        return True
    if _around().version.search(before):
        return False
    first, second = map(int, text[start:end].split(".")[:2])
    # RFC 1918.
    private = first == 10 or (first, second) == (192, 168) or (first == 172 and 16 <= second < 32)  # noqa: PLR2004
    # Only addresses have a port or mask length.
    return private or first >= LOWEST or bool(re.match(r":\d{2,5}\b|/\d{1,2}\b", text[end:]))
