"""What secrets look like. docs/redaction.md lists the same for people.

A shape is tried only where one of its triggers stands in the text, and compiled when it is first
tried: most runs meet three or four of them.
"""

import functools
import re
from collections.abc import Iterable
from typing import NamedTuple

from ascend_doctor.patterns import defer

BETWEEN = "\x1f"  # words of a list; white space for a pattern, and it stands in no word
_CLASS_OR_BLANK = defer(r"\[(?:\\.|[^\]\\])*\]| ")


class Shape(NamedTuple):
    """``pattern`` hides its groups, or all of the match without groups.

    ``triggers`` are lower-case; a text with the shape holds one of them, and one of ``needs``.
    """

    kind: str
    triggers: tuple[str, ...]
    pattern: str
    needs: tuple[str, ...] = ("",)

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
        shpat_ shpca_ shppa_ shpss_ shippo_live_ shippo_test_ sm_aat_ sm_pat_ sm_sat_ rdme_ LTAI
        AKCp NRAK- AKIA ASIA ABIA ACCA AGE-SECRET-KEY-1 sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_
        rk_prod_ AKID sgp_local_
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
    ("obsutil", "-k="),
    ("coscli", r"-k\s+"),
    ("openssl", r"-pass(?:in|out)?\s+pass:"),
)

SHAPES = (
    Shape(
        "private key",
        ("-----begin",),
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----((?:(?!-----END)[\s\S])+)",
    ),
    Shape("public key", (" aaaa",), r"\b(?:ssh-\w+|ecdsa-[\w-]+)\s+(AAAA[\w+/]{40,}=*)"),
    # git@ stays: it is everywhere.
    Shape(
        "password in a URL",
        ("@",),
        r"""\b[a-z][a-z0-9+.-]{0,30}://(?!git@)([^\s/"'<>]+)@(?=[\w\[.-])""",
    ),
    Shape(
        "header",
        ("authorization",),
        rf"""authorization{_IS}[\\"']*(?:[a-z][\w-]*\s+)?([^"'\\\r\n\x1f|]+)""",
    ),
    # A proxy without a scheme.
    Shape("password", ("@",), r"""(?<![\w/@.:-])\w+:([^\s/"':]{6,})@(?:[\w-]+\.)+\w+:\d{2,5}\b"""),
    Shape("cookie", ("cookie",), rf"""\b(?:set-)?cookie{_IS}[\\"']*([^"'\\\r\n\x1f|]+)"""),
    Shape("header", ("bearer ",), r"\bBearer\s+(?=[\w.~+/-]*\d)([\w.~+/-]{8,}=*)"),
    Shape("header", ("basic ",), r"\bBasic\s+(?=[\w+/]*[\d=])([A-Za-z0-9+/]{12,}={0,2})"),
    Shape(
        "signed URL",
        ("sig=", "signature=", "key=", "token=", "secret=", "x-amz", "keyid="),
        r"""[?&](?:sig|signature|key|x-amz-[a-z-]+|accesskeyid|[\w-]{0,40}token|[\w-]{0,40}secret)"""
        r"""=([^&\s"'#]{6,})""",
    ),
    Shape(
        "webhook",
        ("hooks.slack.com", "/hook/", "webhook"),
        r"(?:hooks\.slack\.com/services|/bot/v2/hook|/api/webhooks|/webhookb2)/([\w/@-]{8,})",
    ),
    # Options of programs, also as words of a printed list.
    *(
        Shape(
            "option",
            tuple(tool.split("|")),
            rf"""\b(?:{tool})[\w-]*\b[^\n|;]{{0,200}}?\s{option}["']?([^\s"'-][^\s"']*)""",
        )
        for tool, option in _TOOLS
    ),
    Shape(
        "option",
        ("curl",),
        r"""\bcurl\b[^\n|;]{0,200}?\s(?:-u|--user)[\s=]*["']?[^\s:"']+:([^\s"']+)""",
    ),
    Shape("password", ("stdin",), r"""\b(?:echo|printf)\s+(\S+)\s*\|[^\n|]*password-stdin"""),
    Shape("password", ("credentials",), r"""credentials: Some\(\("[^"]*", "([^"]+)"\)\)"""),
    Shape("option", ("wandb",), r"\bwandb(?: login|: .*wandb\.ai:)\s+([0-9a-f]{40})\b"),
    Shape("password", ("passw",), r"\bpassword for \S+: (\S{3,})"),
    Shape("password", ("passw",), r"\blogin\s+\S+\s+password\s+(\S+)"),
    # In a sentence, in SQL, as a key that is called pass.
    Shape(
        "password",
        ("passw",),
        r"passwords?\b[^\n:=]{0,60} (?:(?:re)?set|changed) to (?=\S*\d)(\S{6,})",
    ),
    Shape("password", ("passw",), r"\bpassword\s+'((?:[^'\n]|''){3,})'"),
    Shape("key", ("api key ",), r"\bapi key ([0-9a-f]{32,})\b"),
    Shape("password", (":5432:",), r""":5432:[^:\s]{0,100}:[^:\s]{1,100}:([^\s"']+)"""),
    Shape("password hash", ("$",), r"\$(?:1|2[aby]|5|6|y|7)\$([\w./$=,-]{20,})"),
)
# After what names announce: tokens that show their issuer.
TOKENS = (
    Shape("JWT", ("eyj",), r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),
    *(
        Shape(
            "token",
            tuple(prefix.lower() for prefix in prefixes.split()),
            rf"(?-i:(?<![A-Za-z0-9_])(?:{'|'.join(map(re.escape, prefixes.split()))}){drawn})",
        )
        for prefixes, drawn in _ISSUERS
    ),
    Shape("token", (".atlasv1.",), r"\b\w{14}\.atlasv1\.[\w=-]{40,}"),
    Shape("token", (":a",), r"(?-i:\b\d{8,10}:A[\w-]{34}\b)"),
    Shape("token", ("q~",), r"(?-i:\b[\w.~]{3}\dQ~[\w.~-]{31,34})"),
    Shape(
        "ModelScope token", ("ms-",), r"(?<![\w-])ms-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
    ),
    # No word: letters and digits in turns, as issuers draw them. Mangled names of C++, checksums
    # and names of cached files are as wild, and stay.
    Shape(
        "random text",
        ("",),
        r"(?-i:\b_{1,2}Z\w+|\bsha\d{3}[=:-][\w+/=-]+|(?<![A-Za-z0-9])"
        r"(?:(?=[A-Za-z]*\d[A-Za-z]*\d)(?=[a-z\d]*[A-Z][a-z\d]*[A-Z])(?=[A-Z\d]*[a-z][A-Z\d]*[a-z])"
        r"(?![A-Za-z\d]*(?:[a-z]{6}|(?:[A-Z][a-z]{2,}){3}))([A-Za-z0-9]{20,})"
        r"|(?<![/.\\])(?![A-Z\d]*(?:[A-Z]{1,4}\d{2,4}){4})(?=(?:[A-Z]+\d+){3}|(?:[A-Z]*\d+[A-Z]){3}|(?:\d*[a-z]+\d+){4})(?=[\da-fA-F]*[g-zG-Z])"
        r"([A-Z\d]{20,}|[a-z\d]{26,})(?![A-Za-z\d]|\.[a-z])))",
    ),
)


class ShapeIndex:
    def __init__(self, shapes: tuple[Shape, ...]) -> None:
        self._shapes = shapes
        self._triggers = _bits(shape.triggers for shape in shapes)
        self._needs = _bits(shape.needs for shape in shapes)
        self._subsets: dict[int, tuple[Shape, ...]] = {}

    def within(self, lowered: str) -> tuple[Shape, ...]:
        """The shapes that may be in a lower-case text."""
        bits = 0
        for word, shapes in self._triggers:
            if word in lowered:
                bits |= shapes
        needed = 0
        for word, shapes in self._needs:
            if word in lowered:
                needed |= shapes
        bits &= needed
        subset = self._subsets.get(bits)
        if subset is None:
            subset = tuple(shape for at, shape in enumerate(self._shapes) if bits >> at & 1)
            self._subsets[bits] = subset
        return subset


def _bits(words: Iterable[tuple[str, ...]]) -> list[tuple[str, int]]:
    bits: dict[str, int] = {}
    for at, texts in enumerate(words):
        for text in texts:
            bits[text] = bits.get(text, 0) | 1 << at
    return list(bits.items())
