"""What the words of a name say about its value, in any language, case and with any separators."""

# ruff: noqa: E501
import functools
import re
from typing import NamedTuple

_OPEN = r"""[\\"'“”„«‹‘`]{0,12}"""  # noqa: RUF001
# A value for something else: a placeholder, a variable, nothing.
_NOTHING = (
    r"(?![a-z_]+_(?:password|token|secret|key)\b"
    r"|Some\(|(?:none|null|true|false|yes|no)\b|<|\$|\*+(?:\W|$)|%\(|-{5})"
)
VALUE = (
    r"""(?:\\?"([^"\\\n]{3,})\\?"|\\?'([^'\\\n]{3,})\\?'"""
    rf"""|["“”„«‹‘`]{{0,12}}{_NOTHING}((?:(?!</)[^\s"'\\,;&)}}\]“”»›’`，。]){{3,}}))"""  # noqa: RUF001
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
_ENDS = r"""(?=[\\"'“”»`]|[ \t]*(?:$|[,;&?|)}\]<(#\\]))"""
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


# "Password" in other languages, too.
_PASSWORDS = (
    "pass(?:wor|w|or)[dt]|passphrase|passcode|kennwort|contrase[nñ]a|mot_?de_?passe|парол[ьи]|senha"
    "|wachtwoord|has[lł]o|heslo|lösenord|losenord|adgangskode|salasana|lozinka|jelszó?"
    "|palavra_?passe|κωδικός|şifre|m[aậ]t_?kh[aẩ]u|รหัสผ่าน|kata_?sandi|كلمة_?المرور|סיסמה|पासवर्ड"
    "|パスワード|暗証番号|비밀번호|암호|密[码碼]|口令|安全码|授权码|验证码|密语"
)
# Kind ("!": no blanks join its words), names, value. Hosts of other names have a number.
_TABLE = r"""
password  (?:<passwords>)<tail>  <value>
password  (?:^|_)(?:clave|parola|parol|parool|geslo|sandi|sifre|jelszo)$|snmp_?community|community_string|(?:otp|recovery|backup|verification|security|access|unlock|activation|pairing|invit\w+|mfa|2fa|one_?time|sms|login|user|device)_(?:code|pin|seed|phrase|secret)s?$  (?=[\\\"'“„`]*[^\s\"']*\d)(?!\d{1,5}\b)(?=\S{6})<value>
password!  .(?<!by)(?<!com)(?<!sur)(?<!tres)(?<!over)(?<!under)(?:pass|pwd?|psk)$  (?!\d+\b|/|(?<=: )(?-i:[a-z]+ [a-z]))<value>
password!  ^(?:pass|pwd)$  (?=[\\\"'“`]*[^\s\"'”`/\\]*\d)(?!\d+\b)(?=\S{6})<value>
secret  (?:secret[eo]?|credentials?)<tail>  <value>
key  (?:(?:api|app|access|secret|private|priv|encryption|signing|account|wandb|auth|shared|ssh|deploy|storage|master|subscription|license)_?key(?:_secret)?|密钥|私钥|令牌)<tail>  <value>
token  token$  <token>
key!  (?:\wkey(?:ring|tab)?s?|\w(?:certificate|seed|salt|dsn|mnemonic)|o?auth|bearer|crumb|cookie|signature|_session|session_?id|_pat|(?:_|^)[as]k)(?:_data)?$  <drawn>
user  (?:user|log|login|(?<!service_)account|full|display)_?name$|end_?user_id|用户名|姓名|账号|帐号|(?:submitted|created|requested|modified|reported|assigned|owned|triggered|approved|reviewed|launched|updated|uploaded)_?(?:by|to|for)$|(?<!机器)人$|\w用户$|[a-z]_(?:user|owner|login)$|(?:github|gitlab|gitea|event|build|job|run|ci)_(?:actor|author|creator|account)$  <open>(<name>)
user!  ^(?:creator|committer|submitter)$  <open>((?-i:[a-z][\w.-]{2,}))<ends>
user!  ^log_?in$  (?=[\\\"'“`]*\w+[\\\"'”`]*[ \t]*(?:$|[ \t]{2}))<open>(<name>)
user  工号|(?:^|_)(?:employee|emp|staff|account|tenant)_?(?:id|no|num(?:ber)?)$  <open>([a-z]?\d{5,16}\b)
host  (?:^|_)(?:(?:host|node|cluster|machine|computer|sys)_?name|master_addr|node_?list|hosts|host_?list|(?:submit_|batch_?)host|(?:launch|head|master)_node)$|(?:主机|节点|服务器|机器|计算机|设备|集群)名  <open>(<hosts>)
host!  \w_?(?:host|node|server|peer|fqdn)(?:_?addr(?:ess)?)?$|(?:host|node|server|peer)_?addr(?:ess)?$  <open>(?!(?:node|rank|npu|gpu|cpu|worker)[-_]?\d+\b)(?-i:([a-z](?:[a-z\d-]*[a-z-])?\d[a-z\d-]*(?:\.[\w-]+)*)\b(?![(.:/\[]\w|_))
serial  (?:^|_)(?:serial(?:_?(?:number|no|num))?|sn|asset_tag|bar_?code)$|序列号  <open>(?!N/?A\b|none\b|unknown\b)(?=[\w-]*\d)([\w-]{4,})
serial  (?:machine|host|system|hardware|chassis)_?(?:id|uuid|guid)$  <open>(?=[\da-f-]*[a-f])(?=[a-f-]*\d)([\da-f]{8}[\da-f-]{8,28})\b
GUID  guid$  <open>((?:[0-9a-f]{4}:){3}[0-9a-f]{4})\b
phone  手机号|电话|(?:phone|mobile|telephone)(?:_(?:number|no))?$  <open>(\+?\d[\d -]{6,}\d)
identity card  身份证|护照|(?:^|_)(?:id_card|passport|iban|ssn|driver_?licen[cs]e)(?:_?(?:no|num(?:ber)?|id))?$  <open>([a-z]{0,2}\d{6,}x?)\b
"""
_PARTS = {
    "<passwords>": _PASSWORDS,
    "<tail>": _TAIL,
    "<value>": VALUE,
    "<token>": _TOKEN,
    "<drawn>": _DRAWN,
    "<hosts>": HOSTS,
    "<ends>": _ENDS,
    "<open>": _OPEN,
    "<name>": NAME,
}


def _meaning_of(row: str) -> Meaning:
    parts = re.split("(<[a-z]+>)", row)
    kind, names, value = "".join(_PARTS.get(part, part) for part in parts).split("  ")
    return Meaning(kind.rstrip("!"), names, value, "!" not in kind)


_MEANINGS = tuple(map(_meaning_of, _TABLE.strip().splitlines()))
# One of these is in every such name, in small letters.
STEMS = re.compile(
    "key|auth|bearer|crumb|cookie|signature|session|owner|pat|[as]k|_by|_to|request|pass|p(?:wd?|sk)|secret"
    "|credential|token|name|user|creat|commit|submit|employee|emp|staff|account|tenant|master|node|host|server"
    "|peer|serial|sn|tag|guid|phone|mobile|id_card|人|名|用户|手机号|电话|身份证|护照|序列号|[账帐]号|工号"
    "|login|actor|author|addr|machine|system|hardware|chassis|bar_?code|[y_ -]code|[_-]pin"
    "|_seed|_phrase|certificate|salt|dsn|mnemonic|community|iban|ssn|license|fqdn|密钥|私钥|令牌|clave|parol|geslo|sandi"
    f"|sifre|{_PASSWORDS.replace('_?', '[_ ]?')}"
)
_BREAKS = re.compile(r"(?<=[a-z\d])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[. -]+|__+")


@functools.lru_cache(4096)
def meaning(name: str) -> Meaning | None:
    """What the value of a name is, if it is to be hidden."""
    if name == "USER":  # "user" is also a word of the field
        name = "username"
    words = _BREAKS.sub("_", name.rpartition("/")[2]).lower().strip("_")
    for each in _MEANINGS:
        if (each.spaced or " " not in name) and re.search(each.names, words):
            before = words.rpartition("_")[0].rpartition("_")[2]
            return None if each.kind in {"token", "password"} and before in _COMMON else each
    return None
