"""What secrets look like. docs/redaction.md lists the same for people.

A shape is tried only where one of its triggers stands in the text, and compiled when it is first
tried: most runs meet three or four of them.
"""

import functools
import re
from collections.abc import Iterable
from typing import NamedTuple

BETWEEN = "\x1f"  # words of a list; white space for a pattern, and it stands in no word
_CLASS_OR_BLANK = re.compile(r"\[(?:\\.|[^\]\\])*\]| ")


class Shape(NamedTuple):
    """``pattern`` hides its groups, or all of the match without groups.

    ``triggers`` are lower-case; a text with the shape holds one of them, and one of ``needs``.
    """

    kind: str
    triggers: tuple[str, ...]
    pattern: str
    needs: tuple[str, ...] = ("",)

    def compile_shape(self) -> re.Pattern[str]:
        return _compile(self.pattern)


@functools.cache
def _compile(pattern: str) -> re.Pattern[str]:
    # A blank in a line separates two words of a list.
    spaced = _CLASS_OR_BLANK.sub(
        lambda match: match[0].replace(" ", f" {BETWEEN}") if match[0] != " " else f"[ {BETWEEN}]",
        pattern,
    )
    return re.compile(spaced, re.IGNORECASE | re.MULTILINE)


_CLOSE = r"""[\\"'\]]*"""
# Also the Chinese colon.
_IS = rf"{_CLOSE}\s*[=:：]\s*"  # noqa: RUF001
# Between name and value: a sign in one line, a lone value in the next line, a pair of ``name``
# and ``value``.
_SIGN = rf"""{_CLOSE}[ \t]*(?::=|=>|[=:：])[ \t\r]*(?:\[\s*(?=[\\"']))?"""  # noqa: RUF001
# An XML element, two bracketed values, a sentence; the latter two with a digit.
_WORDED = (
    r""">(?=[^<>\n]+</)|[\\"']+,\s*(?=[\\"'][^\s"']*\d[^\s"']*[\\"']\s*\))"""
    r"|[ \t]+(?:is|was|(?:is )?set to)[ \t]+(?=\S*\d)(?=\S{6})"
)
_FOLD = r"[ \t]*(?:\\|[>|][+-]?)?"
_NEXT = rf"{_CLOSE}[ \t]*[=:]{_FOLD}\s*\n\s*(?=\S{{3,}}[ \t]*$)(?!\S*[:\]]\s*$|-)"
_PAIR = rf"""{_CLOSE}\s*[,;]?\s*["'\\]*\bval(?:ue)?{_CLOSE}\s*[:=]\s*"""
_ASSIGNED = rf"(?:{_SIGN}|{_NEXT}|{_PAIR}|{_WORDED})"
_COLUMN = r"(?:[ \t]+[|│┃][ \t]*|[|│┃][ \t]+)"
# A name in a table: part of a longer word, of capitals or with a value of digits. Other words,
# or two of capitals, may head a column.
_IN_TABLE = (
    rf"(?:(?<=\w)|(?=(?-i:[A-Z_]+)\b)|(?=[a-z]+_)|(?=[\w-]+{_COLUMN}[^\s|]*\d))"
    rf"(?![\w-]+{_COLUMN}(?-i:[A-Z_]+)[ \t]*[|│┃])"
)
_OPTION = r"""(?:[\\"']*(?:=|\s)|[\\"']+,\s*(?=[\\"']))(?!-)"""


def named(
    kind: str, triggers: tuple[str, ...], name: str, value: str
) -> tuple[Shape, Shape, Shape]:
    """A value after its name: assigned or paired, after an option, in the next column."""
    in_column = rf"(?={name}{_COLUMN}){_IN_TABLE}{name}{_COLUMN}{value}"
    in_option = rf"--[\w-]{{0,40}}?{name}{_OPTION}{value}"
    return (
        Shape(kind, triggers, rf"{name}{_ASSIGNED}{value}"),
        Shape(kind, triggers, in_option, ("--",)),
        Shape(kind, triggers, in_column, ("|", "│", "┃")),
    )


# A value for something else: a placeholder, a variable, nothing.
_NOTHING = (
    r"(?![a-z_]+_(?:password|token|secret|key)\b"
    r"|Some\(|none\b|null\b|true\b|false\b|<|\$|\*+(?:\W|$)|%\()"
)
_QUOTED = r"""(?:\\?"([^"\\\n]{3,})\\?"|\\?'([^'\\\n]{3,})\\?'"""
_VALUE = rf"""{_QUOTED}|{_NOTHING}([^\s"'\\,;&)}}\]]{{3,}}))"""
# A token, neither word nor short number: code and vocabularies stay.
_TOKEN = (
    r"""[\\"']*(?=[\w.+/=~%-]*\d|[A-Za-z+/=]{12}|[\w.+/=~%-]{20})(?!\d{1,9}\b|\w*---)"""  # noqa: S105 - a shape
    r"""([\w.+/=~%:-]{6,})"""
)
# As issuers draw it: letters and digits, not a path.
_DRAWN = (
    r"""[\\"']*(?=[\w+/=.-]*\d)(?=[\w+/=.-]*[a-z])([a-z0-9][\w+/=-]{11,}|[a-z0-9][\w+/=.-]{31,})"""
)
_KEYS = "|".join(
    rf"(?<={word}key)|(?<={word}[ _-]key)"
    for word in (
        *("api", "access", "secret", "private", "encryption", "signing", "account", "wandb"),
        *("auth", "shared", "ssh", "deploy", "storage", "master", "subscription"),
    )
)
_VOCABULARY = "".join(
    rf"(?<!{name}[_-])"
    for name in (
        *("eos", "bos", "pad", "unk", "cls", "sep", "mask", "image", "video", "audio", "special"),
        *("forward", "backward", "second", "single", "stop", "start", "end", "think", "next"),
        *("last", "first", "per", "max", "num", "out"),
    )
)
_B64 = r"[A-Za-z0-9+/_-]"

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
        rf"""authorization{_IS}[\\"']*(?:[a-z][\w-]*\s+)?([^"'\\\r\n\x1f]+)""",
    ),
    # A proxy without a scheme.
    Shape("password", ("@",), r"""(?<![\w/@.:-])\w+:([^\s/"':]{6,})@(?:[\w-]+\.)+\w+:\d{2,5}\b"""),
    Shape("cookie", ("cookie",), rf"""\b(?:set-)?cookie{_IS}[\\"']*([^"'\\\r\n\x1f]+)"""),
    Shape("header", ("bearer ",), r"\bBearer\s+(?=[\w.~+/-]*\d)([\w.~+/-]{8,}=*)"),
    Shape("header", ("basic ",), r"\bBasic\s+(?=[\w+/]*[\d=])([A-Za-z0-9+/]{12,}={0,2})"),
    Shape(
        "signed URL",
        ("sig=", "signature=", "key=", "token=", "secret=", "x-amz", "keyid="),
        r"""[?&](?:sig|signature|key|x-amz-[a-z-]+|accesskeyid|[\w-]{0,40}token|[\w-]{0,40}secret)"""
        r"""=([^&\s"'#]{6,})""",
    ),
    Shape("signature", ("signature",), r"\bsignature=([0-9a-f]{32,})\b"),
    Shape(
        "webhook",
        ("hooks.slack.com", "/hook/", "webhook"),
        r"(?:hooks\.slack\.com/services|/bot/v2/hook|/api/webhooks|/webhookb2)/([\w/@-]{8,})",
    ),
    # Program options, also as words of a printed list.
    Shape("option", ("sshpass",), r"""\bsshpass\s+-p\s*["']?([^\s"']+)"""),
    Shape(
        "option",
        ("mysql", "mariadb"),
        r"""\b(?:mysql|mariadb)[\w-]*\b[^\n|;]{0,200}?\s-p(?!ass\b)["']?([^\s"']+)""",
    ),
    Shape(
        "option", ("login",), r"""\blogin\b[^\n|;]{0,200}?\s-p(?!ass\b)\s*["']?([^\s"'-][^\s"']*)"""
    ),
    Shape("option", ("redis-cli",), r"""\bredis-cli\b[^\n|;]{0,200}?\s-a\s+["']?([^\s"']+)"""),
    Shape(
        "option",
        ("curl",),
        r"""\bcurl\b[^\n|;]{0,200}?\s(?:-u|--user)[\s=]*["']?[^\s:"']+:([^\s"']+)""",
    ),
    Shape("option", ("obsutil",), r"(?<=\s)-[ik]=(\S{8,})"),
    Shape("option", ("coscli",), r"\bcoscli\s[^\n|;]*?-i\s+(\S+)(?:\s+-k\s+(\S+))?"),
    Shape("option", ("login -k", "login --k"), r"\blogin\s+(?:-k|--key)[\s=]+(\S{8,})"),
    Shape("password", ("stdin",), r"""\b(?:echo|printf)\s+(\S+)\s*\|[^\n|]*password-stdin"""),
    Shape("password", ("credentials",), r"""credentials: Some\(\("[^"]*", "([^"]+)"\)\)"""),
    Shape("option", ("pass:",), r"""-pass(?:in|out)?\s+pass:([^\s"']+)"""),
    Shape("option", ("wandb",), r"\bwandb(?: login|: .*wandb\.ai:)\s+([0-9a-f]{40})\b"),
    # Names with values.
    *named("password", ("passw", "passphrase"), "(?:passw(?:or)?d|passphrase)", _VALUE),
    *named(
        "password",
        tuple(f"{sign}{word}" for sign in "_-" for word in ("pass", "pw", "psk")),
        rf"[_-](?<=[a-z0-9][_-]){_VOCABULARY}(?:pass|pwd?|psk)",
        rf"(?!\d+\b|/){_VALUE}",
    ),
    Shape("password", ("passw",), r"\bpassword for \S+: (\S{3,})"),
    Shape("password", ("passw",), r"\blogin\s+\S+\s+password\s+(\S+)"),
    Shape("password", ("密码", "口令", "密钥", "令牌"), rf"(?:密码|口令|密钥|令牌){_IS}(\S+)"),
    Shape(
        "password",
        ("密码", "口令", "密钥", "令牌"),
        r"""(?:密码|口令|密钥|令牌)[”"」]?(?:的值)?[为是][“"「]?([^”"」\s，。]{4,})""",  # noqa: RUF001
    ),
    # In a sentence, in SQL, as a key that is called pass.
    Shape(
        "password", ("passw",), r"passwords?\b[^\n:=]{0,60} (?:set|changed) to (?=\S*\d)(\S{6,})"
    ),
    Shape("password", ("passw",), r"\bpassword\s+'((?:[^'\n]|''){3,})'"),
    Shape(
        "password",
        ("pass",),
        r"""(?<![\w-])pass["']?[ \t]*[:=][ \t]*["']?(?=[^\s"']*\d)(?!\d+\b)([^\s"',}]{6,})""",
    ),
    Shape("key", ("api key ",), r"\bapi key ([0-9a-f]{32,})\b"),
    Shape("cookie", ("session",), r"""session_?id["']?\s*[:=]\s*["']?(?=\w*\d)(\w{20,})"""),
    *named("secret", ("secret", "credential"), "(?:secret|credentials?)(?:[_-]?value)?", _VALUE),
    *named("key", ("key",), f"key(?:{_KEYS})(?:[_-]?(?:id|secret|data))?", _VALUE),
    *named("token", ("token",), rf"(?=token){_VOCABULARY}token", _TOKEN),
    *named(
        "key",
        tuple(f"{sign}{word}" for sign in "_-" for word in ("key", "pat", "auth", "ak", "sk")),
        "[_-](?<=[a-z0-9][_-])(?:key|pat|auth|[as]k)",
        _DRAWN,
    ),
    Shape("key", ("ak", "sk"), rf"(?=[as]k)(?<![\w-])[as]k{_ASSIGNED}{_DRAWN}"),
    Shape(
        "token",
        ("token ", "key ", "secret ", "password "),
        r"\b[A-Z0-9]{1,40}_(?:\w{0,40}_)?(?:TOKEN|KEY|SECRET|PASSWORD)[ \t]+(?=\S*\d)(\S{16,})",
    ),
    Shape("docker auth", ("auth",), rf"""["']auth["']\s*:\s*["']({_B64}{{8,}}=*)"""),
    Shape("registry auth", ("_auth",), rf"""\b_auth(?:token)?\s*=\s*["']?({_B64}{{8,}}=*)"""),
    Shape("kube key", ("key-data",), rf"""key-data["']?\s*:\s*["']?({_B64}{{16,}}=*)"""),
    Shape("password", (":5432:",), r""":5432:[^:\s]{0,100}:[^:\s]{1,100}:([^\s"']+)"""),
    Shape("password hash", ("$",), r"\$(?:1|2[aby]|5|6|y|7)\$([\w./$=,-]{20,})"),
    # Tokens that show their issuer.
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
    Shape("cookie", ("_session=",), r"\b\w+_session=([\w%-]{16,})"),
    Shape(
        "ModelScope token", ("ms-",), r"(?<![\w-])ms-[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b"
    ),
    # No word: capitals, small letters and digits mixed, as issuers draw them. Mangled names of C++
    # and checksums are as wild, and stay.
    Shape(
        "random text",
        ("",),
        r"(?-i:\b_{1,2}Z\w+|\bsha\d{3}[=:-][\w+/=-]+|(?<![A-Za-z0-9])(?=[A-Za-z]*\d[A-Za-z]*\d)"
        r"(?=[a-z\d]*[A-Z][a-z\d]*[A-Z])(?=[A-Z\d]*[a-z][A-Z\d]*[a-z])(?![A-Za-z\d]*(?:[a-z]{6}|(?:[A-Z][a-z]{2,}){3}))"
        r"([A-Za-z0-9]{20,}))",
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
