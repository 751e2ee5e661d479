"""What shows who somebody is or which machine it was, where nobody has told us the name."""

# ruff: noqa: E501
import re

from ascend_doctor.patterns import defer
from ascend_doctor.redact.meanings import HOSTS
from ascend_doctor.redact.shapes import read_shapes

_NAME = r"[a-z_][\w.-]*"
# Addresses have other patterns; names that every machine has reveal nothing.
_HOST = r"(?!localhost\b|(?:\d{1,3}\.){3}\d|root\b)[a-z0-9][\w-]*(?:\.[\w-]+)*"

# What is a host or a user, triggers, and a pattern: a table, one row a shape.
_TABLE = r"""
host `host ` ^\s*host\s+:\s+(<host>)
host `endpoint` endpoint["']?\s*[:=]\s*["']?(?=[\w-]*[\d.])(<host>)(?=:\d{2,5}\b)
host `"host"` `'host'` ["']host["']\s*:\s*["'](?=[\w-]*[\d.])(<host>)["']
user `emp` `staff` /(?:emp|employee|staff)[-_](\d{5,})\b
host `--master` `--rdzv` --(?:master[_-]addr|rdzv[_-]endpoint)["']?[=\s,]+["']?(?=[^\s"']*[\d.:-])(<host>)
host ` nccl ` (?<![\w.-])(<host>):\d+:\d+ \[\d+\] NCCL\s
host `hostname[` `tcpstore(` (?:hostname\[|TCPStore\()(<host>)[:\]]
host `hostname ` resolve (?:the )?hostname (<host>)
host `host ` \bhost (<host>) port \d
host `: ssh: ` (?<![\w.-])(<host>): ssh:\s
host `srun: ` \bsrun: (?:error|warning): (<hosts>):\s
host ` on ` `connection to ` \b(?:ON|Connection to) (<hosts>) (?:CANCELLED|FAILED|closed|timed out|reset)\b
host `]` \[(<host>):\d{4,}\](?: \*\*\*|$)
host `node` \b(?:Node:\s+(<host>)(?=/)|NodeName=(<host>))
host `:` \b(?:[A-Z][a-z]{2} [ \d]\d|\d{4}-\d\d-\d\d)[ T]\d\d:\d\d:\d\d\S* (<host>) (?:kernel:|[\w./-]+\[\d+\]:|(?:systemd|sudo|dockerd|containerd)\b)
host ` (1` ` (2` ` (3` ` (4` ` (5` ` (6` ` (7` ` (8` ` (9` (?:\bPING |(?<![\w./-])(?=[\w-]*\d|\w+-))(<host>) \((?=(?:10|[3-9]\d|[12]\d\d)\.(?:\d+\.){2}\d+\))
host `permanently added` added '(<host>)[,']
user ` from ` \bfor (?:invalid )?(?:user )?(<name>) from (?=\d+\.\d+\.|[\da-f]+:)
user `:x:` (?<![\w.-])(<name>):x:\d{4,}:\d+:([^:\n]*):[^:\n]*?/(<name>):/
user ` (` \b[\da-f]{7,40} \(([^\d()\n][^()\n]{0,80}?) +\d{4}-\d\d-\d\d \d\d:
user `machine ` \bmachine \S+ login (<name>)
user `-` `d` (?:(?<![\w-])|(?<=\\n))[-dlbcps](?:[r-][w-][xsStT-]){3}[.+@]? +\d+ (<name>)
user `pts/` `tty` (<name>) +(?:pts/|tty)\d+ +\S*\d
host `]:` \[(?![\d.:]+\]|redacted\])(<host>)\]:\d{2,5}\b
host `tcp://` `ray://` \b(?:tcp|ray)://(<host>)
host `linux ` \bLinux\s(<host>)\s\d+\.\d+\.\d
host `.internal` `.lan` `.corp` `.local` `.intra` (?-i:(?<![\w.@/-])((?:[\w-]+\.)+(?:internal|lan|corp|intranet|intra|cluster\.local|localdomain))\b(?!\.\w))
user `/home` `/users` (?:(?<![\w.~/-])|(?<=://))(?:/[\w.-]+)*?/(?:homes?|Users)/(<name>)
user `users\` \\Users\\+(<name>)
user `employee` `staff` (?:工号|\b(?:employee|emp|staff)[ _-]?(?:id|no|num(?:ber)?)) ([a-z]?\d{5,10}\b)
user `@` (?<![\w./+-])(?!git@)(<name>)@(?=(?:\d{1,3}\.){3}\d)
phone `+` (?<![\w.+])\+\d{1,3}(?:[ -]\d{2,4}){3,4}\b
host `pdsh` \bpdsh\b[^\n|;]{0,100}?-w\s*["']?(<hosts>)
host `ssh://` \bssh://(?:[^\s/@]+@)?(<host>)
user `sudo:` `userid=` \b(?:sudo:\s+|UserId=)(<name>)(?= :|\()
user `chown ` \bchown (?:-\w+ )*(<name>)(?=[:\s])
user `id=` `groups=` (?<=[=,])\d{4,}\((<name>)\)
user `author:` `committer:` `-by:` (?<![A-Za-z-])(?:Author|Committer|[A-Za-z-]{1,30}-by):\s*([^<\n]{0,120}[^<\s])(?=\s*<)
"""
_PARTS = {
    "<name>": _NAME,
    "<host>": _HOST,
    "<hosts>": HOSTS,
}

NAMES = tuple(read_shapes(_TABLE, _PARTS))
_PAIR_TABLE = r"""
`%40` ([\w.+-]+)%40([\w-]+(?:\.[\w-]+)*\.[a-z]{2,})\b
`ssh ` `scp ` `rsync ` `sftp ` (?<=\s)(?<![\w./+-])(?!git@)(<name>)@(<host>)(?=[:\s]|$)
`@` (?<![\w./+-])(?!git@)(<name>)@(<host>)(?=:[~/])
`@` (?<![\w./+-])(?!git@)([\w.+-]+)@([\w-]+(?:\.[\w-]+)*\.[a-z]{2,})\b(?![\w/-])
"""
PAIRS = tuple(read_shapes(_PAIR_TABLE, _PARTS))
_NUMBER_TABLE = r"""
MAC address `:` (?<![\w:.-])(?:[0-9a-f]{2}:){5,19}[0-9a-f]{2}(?![\w:])
MAC address `-` (?<![\w-])(?=[\d-]*[a-f])(?:[0-9a-f]{2}-){5}[0-9a-f]{2}(?![\w-])
MAC address `-` (?<![\w-])(?=[\d-]*[a-f])(?:[0-9a-f]{4}-){2}[0-9a-f]{4}(?![\w-])
MAC address `mac` `chassis` `ether` `hwaddr` `lladdr` \b(?:mac|chassis|ether|hwaddr|lladdr)\W{1,4}(?:0x)?([0-9a-f]{12})\b
serial `vdie` \bVDie[ _]?ID\s*[:=]\s*((?:[0-9A-Z]{6,}[ -]?){2,})
"""
NUMBERS = tuple(read_shapes(_NUMBER_TABLE, {}))


# Four numbers, without a fifth, a version suffix, or a file ending.
IPV4 = defer(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w+]|\.\d|-[a-z])"
    r"(?!\.(?:dist|egg|tar|whl|zip|post|rc|dev|so|oe|el)\w*)"
)
IPV6 = defer(
    r"(?<![\w:.])(?:[0-9a-f]{1,4}:){2,7}(?::?[0-9a-f]{1,4}|:)(?::[0-9a-f]{1,4})*(?![\w:]|\.\d)"
    r"|(?<![\w:.])(?:[0-9a-f]{1,4}:){1,6}(?::[0-9a-f]{1,4}){1,6}(?![\w:]|\.\d)",
    re.IGNORECASE,
)
# What distinguishes an address from a version of four parts, at most so many characters before it.
_BEFORE_ADDRESS = defer(
    r"(?:addr(?:ess)?(?:_?\d+)?|ip|nic|inet|host|server|gateway|broadcast|peer|remote|detect"
    r"|endpoint|master|connect(?:ed)?|bound|client|://|@|(?:_|\b)ip(?:_?\d+)?|host-[\da-f]{8} |IF_IP)"
    r"[\"'\\\]]*(?:\s*[:=(\[|│>]{1,2}\s*(?:(?:\\|>-|\[)\s+)?|\s{0,3}is\s|\s{0,3}"
    r"|,?\s*[\"']?value[\"']?\s*[:=]\s*)[\"'\[\\]*$",
    re.IGNORECASE,
)
_BEFORE_VERSION = defer(
    r"(?:==|[<>~!]=|version|driver|firmware|software|release|cann|toolkit|nnal|tag|newer|than"
    r"|\bv|[a-z]-[a-z][\w.-]*|tensorrt|curand|cu\d+)[\"'\]]*\s*[:=(]?\s*[\"'\[]*$",
    re.IGNORECASE,
)
_LENGTH = 48
# An interface or NCCL's port follows; a port or a mask's length.
_AFTER_ADDRESS = defer(r"%[a-z]|<\d+>")
_PORT = defer(r":\d{2,5}\b|/\d{1,2}\b")
# Four-part versions begin lower; an address may too, if its words say so.
LOWEST = 30


def is_address(text: str, start: int, end: int) -> bool:
    """Whether that number of four parts is an IPv4 address; ``text`` is around it."""
    before = text[max(0, start - _LENGTH) : start]
    if _AFTER_ADDRESS.match(text, end) or _BEFORE_ADDRESS.search(before):
        return True
    if _BEFORE_VERSION.search(before):
        return False
    first, second = map(int, text[start:end].split(".")[:2])
    # RFC 1918.
    private = first == 10 or (first, second) == (192, 168) or (first == 172 and 16 <= second < 32)  # noqa: PLR2004
    return private or first >= LOWEST or _PORT.match(text, end) is not None
