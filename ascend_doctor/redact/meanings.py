"""What the words of a name say about its value, in any language, case and with any separators."""

import functools
import re
from typing import NamedTuple

_OPEN = r"""[\\"'“`]{0,12}"""
# A value for something else: a placeholder, a variable, nothing.
_NOTHING = (
    r"(?![a-z_]+_(?:password|token|secret|key)\b"
    r"|Some\(|(?:none|null|true|false|yes|no)\b|<|\$|\*+(?:\W|$)|%\(|-{5})"
)
VALUE = (
    r"""(?:\\?"([^"\\\n]{3,})\\?"|\\?'([^'\\\n]{3,})\\?'"""
    rf"""|["“`]{{0,12}}{_NOTHING}((?:(?!</)[^\s"'\\,;&)}}\]”`，。]){{3,}}))"""  # noqa: RUF001
)
# A token, neither word nor short number: code and vocabularies stay.
_TOKEN = (
    rf"{_OPEN}(?=[\w.+/=~%-]*\d|[A-Za-z+/=]{{12}}|[\w.+/=~%-]{{20}})(?!\d{{1,9}}\b|\w*---)"
    r"([\w.+/=~%:-]{6,})"
)
# As issuers draw it: letters and digits, not a path.
_DRAWN = (
    rf"{_OPEN}(?=[\w+/=.-]*\d)(?=[\w+/=.-]*[a-z])"
    r"([a-z0-9][\w+/=-]{11,}|[a-z0-9][\w+/=.-]{31,})"
)
NAME = r"[^\W\d][\w.-]*"
# As Slurm lists them: node[01-04],login1.
HOSTS = r"(?!localhost\b|unbound\b|(?:\d{1,3}\.){3}\d)[a-z](?a:[\w.,\[\]-])*"
_ENDS = r"""(?=[\\"'”`]|[ \t]*(?:$|[,;&?|)}\]<(#\\]))"""
_TAIL = r"(?:_?(?:value|id|data|b64|base64|\d+))*$"
# Tokens of a vocabulary, passes of a model.
_COMMON = frozenset(
    """
    eos bos pad unk cls sep mask image video audio special forward backward second single stop
    start end think next last first per max num out
    """.split()  # noqa: SIM905 - as in names.py
)


class Cell(NamedTuple):
    """A value, its place in a text, and what its name says that it is."""

    kind: str
    start: int
    end: int


class Meaning(NamedTuple):
    """Names whose words, joined by "_", match ``names`` have values like ``value``."""

    kind: str
    names: str
    value: str
    spaced: bool = True  # also where blanks join the words


_MEANINGS = (
    Meaning(
        "password",
        r"(?:passw(?:or)?[dt]|passphrase|passcode|kennwort|contrase[nñ]a|mot_de_passe|парол[ьи]|senha"
        rf"|wachtwoord|has[lł]o|heslo|パスワード|비밀번호|密[码碼]|口令|安全码|授权码|验证码){_TAIL}",
        VALUE,
    ),
    Meaning(
        "password",
        r".(?<!by)(?<!com)(?<!sur)(?<!tres)(?<!over)(?<!under)(?:pass|pwd?|psk)$",
        rf"(?!\d+\b|/|(?<=: )(?-i:[a-z]+ [a-z])){VALUE}",
        spaced=False,
    ),
    Meaning(
        "password",
        r"^(?:pass|pwd)$",
        rf"(?=[\\\"'“`]*[^\s\"'”`/\\]*\d)(?!\d+\b)(?=\S{{6}}){VALUE}",
        spaced=False,
    ),
    Meaning("secret", rf"(?:secret[eo]?|credentials?){_TAIL}", VALUE),
    Meaning(
        "key",
        r"(?:(?:api|app|access|secret|private|priv|encryption|signing|account|wandb|auth|shared|ssh"
        rf"|deploy|storage|master|subscription|license)_?key(?:_secret)?|密钥|私钥|令牌){_TAIL}",
        VALUE,
    ),
    Meaning("token", "token$", _TOKEN),
    Meaning(
        "key",
        r"(?:\wkey|auth|cookie|signature|_session|session_?id|_pat|(?:_|^)[as]k)(?:_data)?$",
        _DRAWN,
        spaced=False,
    ),
    Meaning(
        "user",
        r"(?:user|log|login|(?<!service_)account|full|display)_?name$|end_?user_id|用户名|姓名|账号|帐号"
        r"|(?:submitted|created|requested|modified|reported|assigned|owned)_(?:by|to)$|(?<!机器)人$"
        r"|[a-z]_(?:user|owner)$|job_account$",
        rf"{_OPEN}({NAME})",
    ),
    Meaning(
        "user",
        "^(?:creator|committer|submitter)$",
        rf"{_OPEN}((?-i:[a-z][\w.-]{{2,}})){_ENDS}",
        spaced=False,
    ),
    Meaning(
        "user",
        r"工号|(?:^|_)(?:employee|emp|staff|account|tenant)_?(?:id|no|num(?:ber)?)$",
        rf"{_OPEN}([a-z]?\d{{5,16}}\b)",
    ),
    Meaning(
        "host",
        r"(?:^|_)(?:(?:host|node|cluster|machine|computer|sys)_?name|master_addr|nodelist|hosts"
        r"|hostlist|(?:submit_|batch_?)host|(?:launch|head|master)_node)$|主机名|节点名",
        rf"{_OPEN}({HOSTS})",
    ),
    Meaning(
        "serial",
        r"(?:^|_)(?:serial(?:_?(?:number|no|num))?|sn|asset_tag)$|序列号",
        rf"{_OPEN}(?!N/?A\b|none\b|unknown\b)(?=[\w-]*\d)([\w-]{{4,}})",
    ),
    Meaning("GUID", "guid$", rf"{_OPEN}((?:[0-9a-f]{{4}}:){{3}}[0-9a-f]{{4}})\b"),
    Meaning(
        "phone",
        r"手机号|电话|(?:phone|mobile|telephone)(?:_(?:number|no))?$",
        rf"{_OPEN}(\+?\d[\d -]{{6,}}\d)",
    ),
    Meaning("identity card", "身份证|^id_card", rf"{_OPEN}(\d{{15,17}}[\dx])"),
)
# One of these is in every such name, in small letters.
STEMS = re.compile(
    "key|auth|cookie|signature|session|owner|pat|[as]k|_by|_to|pass|p(?:wd?|sk)|kennwort|contrase"
    "|парол|senha|wachtwoord|has[lł]o|heslo|secret|credential|token"
    "|name|user|creat|commit|submit|employee|emp|staff|account|tenant|master|node|host"
    "|serial|sn|tag|guid|phone|mobile|id_card|パスワード|비밀번호|密[码碼]"
    "|口令|授权码|验证码|安全码|密钥|私钥|令牌|用户名|姓名|[账帐]号|工号|人|主机名|节点名|序列号|手机号|电话|身份证"
)
_BREAKS = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[. -]+|__+")


@functools.lru_cache(4096)
def meaning(name: str) -> Meaning | None:
    """What the value of a name is, if it is to be hidden."""
    if name == "USER":  # "user" is also a word of the field
        name = "username"
    words = _BREAKS.sub("_", name).lower().strip("_")
    for each in _MEANINGS:
        if (each.spaced or " " not in name) and re.search(each.names, words):
            before = words.rpartition("_")[0].rpartition("_")[2]
            return None if each.kind in {"token", "password"} and before in _COMMON else each
    return None
