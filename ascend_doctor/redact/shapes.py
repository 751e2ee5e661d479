"""What secrets look like. docs/redaction.md lists the same for people.

A shape is tried only where one of its triggers stands in the text, and compiled when it is first
tried: most runs meet three or four of them.
"""

# ruff: noqa: E501
import functools
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ascend_doctor.patterns import defer

BETWEEN = "\x1f"  # words of a list; white space for a pattern, and it stands in no word
_CLASS_OR_BLANK = defer(r"\[(?:\\.|[^\]\\])*\]| ")


class Shape(NamedTuple):
    """``pattern`` hides its groups, or all of the match without groups.

    ``triggers`` are lower-case; a text with the shape holds one of them.
    """

    kind: str
    triggers: tuple[str, ...]
    pattern: str

    def compile_shape(self) -> re.Pattern[str]:
        return compile_pattern(self.pattern)


@functools.cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    # A blank in a line separates two words of a list.
    spaced = _CLASS_OR_BLANK.sub(
        lambda match: match[0].replace(" ", f" {BETWEEN}") if match[0] != " " else f"[ {BETWEEN}]",
        pattern,
    )
    return defer(spaced, re.IGNORECASE | re.MULTILINE)


_CLOSE = r"""[\\"'\]]*"""
# Also the Chinese colon.
_IS = rf"{_CLOSE}\s*[=:：]\s*"  # noqa: RUF001

# Issuers' token prefixes, and what is drawn after them.
_ISSUERS = (
    (
        """
        hf_ api_org_ ghp_ gho_ ghs_ ghu_ ghr_ npm_ r8_ gsk_ lin_api_ ntn_ nfp_ fw_ jina_ glsa_ sbp_
        rubygems_ whsec_ pplx- pul- dapi local- dop_v1_ doo_v1_ dor_v1_ sqp_ squ_ sqa_ sgp_
        shpat_ shpca_ shppa_ shpss_ sm_aat_ sm_sat_ rdme_ LTAI
        AKCp NRAK- AKIA ASIA ABIA ACCA AGE-SECRET-KEY-1 AKID sgp_local_
        """,
        r"(?=[a-z]*[A-Z\d])[A-Za-z0-9]{16,}",
    ),
    (
        """
        github_pat_ glpat- gldt- glptt- glrt- glcbt- glft- glsoat- glimt- glagent- gloas- glffct-
        GR1348941 sk- xapp- xoxa- xoxb- xoxc- xoxd- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs- hvs. hvb.
        AIza dckr_ pypi-AgE ya29. figd_ pscale_ nvapi- CFPAT- xai- tvly- tskey- xkeysib- dt0c01.
        ATATT3 sha256~ AQVN sq0 SG. PMAK- dp.pt. dp.ct. dp.st. dp.sa.
        """,
        r"(?=[\w-]{0,200}\d)[\w-]{16,}[\w.=+-]*",
    ),
    ("ABSK sntrys_ sntryu_", r"[\w+/-]{32,}=*"),
    ("A3-", r"[A-Z0-9]{6}-[A-Z0-9-]{20,}"),
)

# Programs and their options for a secret.
_TOOLS = (
    ("sshpass", r"-p\s*"),
    ("mysql|mariadb", "-p(?!ass)"),
    ("login", r"-(?:p(?!ass)\s*|k\s+|-key[\s=]+)"),
    ("redis-cli", r"-a\s+"),
    ("openssl", r"-pass(?:in|out)?\s+pass:"),
    ("ipmi|racadm|sqlcmd|zip", r"(?-i:-P)\s*"),
    ("ldap|snmp|ssh-keygen", r"(?-i:-[wcAXN])\s+"),
)

# Kind, triggers, pattern. git@ stays in URLs: it is everywhere.
_TABLE = r"""
private key `-----begin` -----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----((?:(?!-----END)[\s\S])+)
public key ` aaaa` \b(?:ssh-\w+|ecdsa-[\w-]+)\s+(AAAA[\w+/]{40,}=*)
password in a URL `@` \b[a-z][a-z0-9+.-]{0,30}://(?!git@)([^\s/"'<>]+)@(?=[\w\[.-])
header `authorization` authorization<is>[\\"']*(?:[a-z][\w-]*\s+)?([^"'\\\r\n\x1f|]+)
password `@` (?<![\w/@.:-])\w+:([^\s/"':]{6,})@(?:[\w-]+\.)+\w+:\d{2,5}\b
cookie `cookie` \b(?:set-)?cookie<is>[\\"']*([^"'\\\r\n\x1f|]+)
header `bearer ` \bBearer\s+(?=[\w.~+/-]*\d)([\w.~+/-]{8,}=*)
header `basic ` \bBasic\s+(?=[\w+/]*[\d=])([A-Za-z0-9+/]{12,}={0,2})
signed URL `sig=` `signature=` `key=` `token=` `secret=` `x-amz` `keyid=` [?&](?:sig|signature|key|x-amz-[a-z-]+|accesskeyid|[\w-]{0,40}token|[\w-]{0,40}secret)=([^&\s"'#]{6,})
webhook `hooks.slack.com` `/hook/` `webhook` (?:hooks\.slack\.com/services|/bot/v2/hook|/api/webhooks|/webhookb2)/([\w/@-]{8,})
option `curl` \bcurl\b[^\n|;]{0,200}?\s(?:-u|--user)[\s=]*["']?[^\s:"']+:([^\s"']+)
password `stdin` \b(?:echo|printf)\s+(\S+)\s*\|[^\n|]*password-stdin
password `credentials` credentials: Some\(\("[^"]*", "([^"]+)"\)\)
option `wandb` \bwandb(?: login|: .*wandb\.ai:)\s+([0-9a-f]{40})\b
password `passw` \bpassword for \S+: (\S{3,})
password `passw` \blogin\s+\S+\s+password\s+(\S+)
password `passw` passwords?\b[^\n:=]{0,60} (?:(?:re)?set|changed) to (?=\S*\d)(\S{6,})
password `passw` \bpassword\s+'((?:[^'\n]|''){3,})'
key `api key ` \bapi key ([0-9a-f]{32,})\b
password `:5432:` :5432:[^:\s]{0,100}:[^:\s]{1,100}:([^\s"']+)
password hash `$` \$(?:1|2[aby]|5|6|y|7)\$([\w./$=,-]{20,})
"""


def read_shapes(table: str, parts: Mapping[str, str]) -> Iterator[Shape]:
    """Shapes of a table: kind, triggers in backticks, pattern; ``parts`` replace <words> of it."""
    for row in table.strip().splitlines():
        kind, *triggers, pattern = re.split(" ?`(.*?)` ", row)
        pattern = re.sub("<[a-z]+>", lambda match: parts.get(match[0], match[0]), pattern)
        yield Shape(kind, tuple(triggers[::2]), pattern)


SHAPES = (
    *read_shapes(_TABLE, {"<is>": _IS}),
    *(
        Shape(
            "option",
            tuple(tool.split("|")),
            rf"""\b(?:{tool})[\w-]*\b[^\n|;]{{0,200}}?\s{option}["']?([^\s"'-][^\s"']*)""",
        )
        for tool, option in _TOOLS
    ),
)
# Tokens without a known issuer: letters, a separator and a drawn word; letters and digits in turns,
# as no name has them. Mangled names of C++, checksums and names of cached files are as wild, and stay.
_UNKNOWN = r"""
JWT `eyj` \beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?
token `.atlasv1.` \b\w{14}\.atlasv1\.[\w=-]{40,}
token `:a` (?-i:\b\d{8,10}:A[\w-]{34}\b)
token `q~` (?-i:\b[\w.~]{3}\dQ~[\w.~-]{31,34})
ModelScope token `ms-` (?<![\w-])ms-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b
token `_` `-` `.` (?-i:(?:(?<![\w./:-])|(?<=^[+-]))(?:[a-z]{2,8}_(?:live|test|prod|sandbox|pat|sec)_(?=\w*\d)(?:(?=\w*[A-Z])\w{12,}|\w{24,})|(?:(?!(?:sha|md5|commit|hash|layer|blob|run|job|task|build|image|tree|id|rev|etag|node|op|te|kernel|func|graph|model|cache)[_-])[a-z]{2,8}[_-](?=[\da-f]{40})|[A-Z]{2,6}[_-](?:[A-Za-z\d]{16,}_)?)(?=[\da-f]*\d)(?=\d*[a-f])[\da-f]{19,}|(?:[A-Za-z]{1,8}\.){0,3}[\da-f]{20,}\.(?=\w*\d)(?=\w*[A-Z])\w{12,})(?![\w./-]))
random text `` (?-i:\b_{1,2}Z\w+|\bsha\d{3}[=:-][\w+/=-]+|(?<![A-Za-z0-9])(?:(?=[A-Za-z]*\d[A-Za-z]*\d)(?=[a-z\d]*[A-Z][a-z\d]*[A-Z])(?=[A-Z\d]*[a-z][A-Z\d]*[a-z])(?:(?![A-Za-z\d]*(?:[a-z]{6}|(?:[A-Z][a-z]{2,}){3}))|(?=[A-Za-z\d]{40})(?=(?:[A-Za-z]{1,20}\d+){4}))([A-Za-z0-9]{20,})|(?<![/.\\])(?![A-Z\d]*(?:[A-Z]{1,4}\d{2,4}){4})(?=(?:[A-Z]+\d+){3}|(?:[A-Z]*\d+[A-Z]){3}|(?:\d*[a-z]+\d+){4})(?=[\da-fA-F]*[g-zG-Z])([A-Z\d]{20,}|[a-z\d]{26,})(?![A-Za-z\d]|\.[a-z])))
"""
TOKENS = (
    *(
        Shape(
            "token",
            tuple(prefix.lower() for prefix in prefixes.split()),
            rf"(?-i:(?<![A-Za-z0-9_])(?:{'|'.join(map(re.escape, prefixes.split()))}){drawn})",
        )
        for prefixes, drawn in _ISSUERS
    ),
    *read_shapes(_UNKNOWN, {}),
)


class ShapeIndex:
    def __init__(self, shapes: tuple[Shape, ...]) -> None:
        self._shapes = shapes
        self._triggers: dict[str, int] = {}
        for at, shape in enumerate(shapes):
            for word in shape.triggers:
                self._triggers[word] = self._triggers.get(word, 0) | 1 << at
        self._subsets: dict[int, tuple[Shape, ...]] = {}

    def within(self, lowered: str) -> tuple[Shape, ...]:
        """The shapes that may be in a lower-case text."""
        bits = 0
        for word, shapes in self._triggers.items():
            if word in lowered:
                bits |= shapes
        subset = self._subsets.get(bits)
        if subset is None:
            subset = tuple(shape for at, shape in enumerate(self._shapes) if bits >> at & 1)
            self._subsets[bits] = subset
        return subset
