"""Lines that say in plain words that something is wrong, whoever writes them and in which form.

Such words stand in healthy logs as well: in options, counts, advice, and in what a model answers.
A coarse pattern finds the candidates; ``complains`` decides.
"""

import re

_VERBS = (
    r"fail(?:s|ed|ing|ures?)?|fatal|abort(?:s|ed|ing)?|crash(?:es|ed|ing)?|panic(?:ked)?|"
    r"refused|denied|rejected|corrupt(?:ed|ion)?|unsupported|unrecogni[sz]ed|unreachable|"
    r"incompatible|mismatch(?:ed|es)?|unavailable|unhealthy|abnormal(?:ly)?|evicted|notready|"
    r"insufficient|deadlock|backtrace|traceback|undefined|terminated|killed|oops|"
    r"unable to|not (?:be )?support(?:ed)?|doesn't support|timed[ -]?out|time out|no space left|"
    r"core dump(?:ed)?|dumped core|call trace|not (?:been )?implemented|not (?:been )?installed|"
    r"not available|no longer available|out of (?:memory|range|bounds|index)|"
    r"timeout (?:error|exceeded|expired|occurred|reached|after|while|waiting)|"
    r"(?:heartbeat|connect(?:ion)?|wait|read|write) timeout|"
    r"connection (?:reset|closed|lost|aborted)|broken pipe|hardware error|blocked for more than|"
    r"self-detected stall|read-only file ?system|uncorrect(?:able|ed)|segfault|"
    r"no module named|died|oom|expired|interrupted|unresponsive|(?:dependency )?problems? prevent|"
    r"assert(?:ion)?[ _]?fail(?:ed|ures?|s)?|must not be|no matching distribution|"
    r"(?:must|should|has to|needs to) be (?:divisible by|a multiple of)|not (?:be )?divisible by|"
    r"disk quota|unsuccessful|resource exhausted|no longer allowed|not allow(?:ed)? to|"
    r"no route to host|name or service not known|operation not permitted|address already in use|"
    r"too many open files|bad file descriptor|exec format error|not a directory|resource busy|"
    r"stale file handle|(?:heart ?beat|device|card|node|link|agent) (?:is |was )?lost|"
    r"lost (?:connection|heart)"
)
_PROSE = (
    r"errors?|exceptions?|cannot|can't|can not|could not|couldn't|invalid|illegal|missing|"
    r"not found|no such|(?:does|do|did) not exist|doesn't exist|unexpected|conflicts?|"
    r"exceed(?:s|ed|ing)?|(?:does|do|did)(?:n't| not) match|not match|wrong|stuck|hangs|hung|"
    r"expected .{1,80} but|disconnected|dead|faults?|freezes|frozen|overflow|not work(?:ing)?|"
    r"doesn't work|not configured"
)
_CODES = (
    r"(?:returns?|returned) (?:-\d|0x0{0,15}[1-9a-f])|(?:ret|ret_?code|rc|errno|err_?code|"
    r"error_?code|err_?no|return code|exit_?code|error code)"
    r"(?: is|:|=|\[|,| =| ) ?[\[(]?(?:-\d|0x0{0,15}[1-9a-f]|[1-9])"
)
_MESSAGES = (
    r"object has no attribute|(?:is|was) not (?:defined|declared|callable|iterable|subscriptable)|"
    r"object is not|division by zero|unhashable type|missing \d+ required|"
    r"positional arguments? but|"
    r"unexpected keyword argument|(?:not enough|too many) values to unpack|no member named|"
    r"no matching function|does not name a type|ld returned|unbound variable|unknown option|"
    r"is (?:null|None|nullptr|NaN)|core ?dump(?:ed)?|SIG(?:SEGV|ABRT|BUS|FPE|ILL|KILL|QUIT)"
)
_STATUS = (
    r"(?:UNAVAILABLE|INTERNAL|RESOURCE_EXHAUSTED|INVALID_ARGUMENT|DEADLINE_EXCEEDED|"
    r"FAILED_PRECONDITION|NOT_FOUND|UNIMPLEMENTED|UNAUTHENTICATED|PERMISSION_DENIED): "
)
_CHINESE = (
    r"错误|失败|异常|报错|无法|不支持|超时|找不到|不存在|未找到|崩溃|中断|非法|无效|拒绝|"
    r"卡死|卡住|不足|不匹配|不一致|溢出|退出码|终止|故障|缺少|缺失|出错|有误|挂掉|宕机|死机|起不来|"
    r"挂住|挂死|假死|hang住|跑不通|不可用|丢失|断开|冲突|越界|爆显存|闪退|无响应|未能|未安装|未定义|不合法|不正确|中止"
)
_FRAMES = (
    r"\bFile \"[^\"]{1,400}\", line \d+|\bIn file \S{1,400}\.py:\d+|\s\^{5,}\s*$|"
    r"\bframe #\d+: |^\s*#\d+\s+0x[0-9a-f]{6,}|\s@\s+0x[0-9a-f]{6,}|"
    r"^Thread (?:\d+|0x[0-9a-f]+) \(|\bmost recent call (?:first|last)|"
    r"^\s+at [\w$.<>]{1,200}\([\w$]{1,80}\.(?:java|scala|kt):\d+\)"
)
_TABLES = (
    r"Alarm\s{0,20}\||Critical\s{0,20}\||(?:link|status|state).{0,20}\b(?:DOWN|down)\b|"
    r"HTTP/\d\.\d\"? [45]\d\d\b|\b0/\d+ nodes are available|\b\d+/\d+\s+(?:Pending|Error|Unknown|"
    r"Init:)|"
    r"\bloss['\"]?\s*[:=|]?\s*nan\b|Unhandled\w{0,20}Rejection|\bnot (?:\w{1,20} ){0,3}successful|"
    r"^(?:\w{1,40}\.){0,9}(?:queue\.(?:Empty|Full)|SystemExit|StopIteration|KeyboardInterrupt|"
    r"exc\.[A-Z]\w+|"
    r"(?:errors?|exceptions?)\.[A-Z]\w+)(?::|\s*$)"
)

# kubectl's table of pods: ready, status, restarts, age.
_POD = r"\b\d+/\d+\s+{}[A-Z][\w:]{{2,60}}\s+\d+\s+(?:\([^)]{{1,40}}\)\s+)?\d+[smhdy]"
_WELL = r"(?!Running|Completed|Succeeded|Terminating|ContainerCreating|PodInit)"
_NAMES = r"(?:Error|Exception|Interrupt|Failed|Failure)\b(?:: |['\"(]|:?\s*$)"
# The texts in bytes: GB 18030 has others for the Chinese words.
_GB = "|".join(
    "".join(rf"\x{byte:02x}" for byte in word.encode("gb18030")) for word in _CHINESE.split("|")
)

# Candidates: the same shapes without a look at what is around them. A carriage return may begin
# a line, which an anchor does not know.
_ANCHOR = re.compile(r"(?<![\[\\])\^")
COARSE = (
    f"(?i:{_VERBS}|{_PROSE}|{_MESSAGES}|{_CODES})|{_NAMES}|{_STATUS}|{_CHINESE}|{_GB}|"
    f"{_ANCHOR.sub('', f'{_FRAMES}|{_TABLES}')}|{_POD.format('')}"
)

_FREE = r"(?<![\w./=-])(?:{})(?![\w/-]|\.\w|=\S)"
# Chinese has no spaces: a letter of another script is no part of a word.
_PLAIN = re.IGNORECASE | re.ASCII
_SAYS = re.compile(_FREE.format(f"{_VERBS}|{_MESSAGES}"), _PLAIN)
_SAYS_IN_PROSE = re.compile(_FREE.format(_PROSE), _PLAIN)
_SHOWS = re.compile(f"{_STATUS}|{_FRAMES}|{_TABLES}|{_POD.format(_WELL)}")
_CODE = re.compile(rf"(?<![\w./-])(?:{_CODES})", _PLAIN)
_NAMED = re.compile(_NAMES, re.ASCII)
_SAYS_IN_CHINESE = re.compile(
    rf"(?<![无未零])(?<!没有)(?<!发现)(?<!0个)(?:{_CHINESE})(?!率|检测|处理|重试|\s*[:=\uff1a]?\s*0)"
)

# Options and counts, advice, reactions, first tries, names of tests, comments and echoed commands.
_EXCUSES = re.compile(
    r"\b(?:errors?|fail(?:s|ed|ures?)|exceptions?|invalid|missing|killed|abort(?:ed|s)|"
    r"mismatch(?:es)?|overflow(?: cond)?|"
    r"time-?outs?|conflicts?|dead|wrong)"
    r"[\"')]?\s*[:=]\s*[\"']?(?:0\b|\d+\.\d|\d+e-|null|none|false|true|nan|n/a|\[\]|\{\}|\"\"|'')|"
    r"\b(?:errors?|faults?|fail\w*)[\w ]{0,30}?\s*[:|]\s*(?:0|na|n/a|none|ok)\s*\|?\s*$|"
    r"\berrors? (?:on|of|at|\()[^:=]{0,40}[:=]\s*\d+\.\d+(?:e[-+]?\d+)?\s*(?:[,;%]|$)|"
    r"\(0: ?normal|"
    r":\s*\[\]|\b(?:count|total)\W{0,3}0\b|\berrors?[ -]handling|\bwill (?:not )?be (?:enabled|"
    r"disabled|"
    r"available|unavailable|used)\b|[;,] (?:using|disabled|patched)\b|"
    r"\b(?:0|no|without(?: any)?|zero|any) (?:[\w()-]+ ){0,3}(?:errors?|fail\w*|exceptions?|"
    r"missing|conflicts?|"
    r"mismatch\w*|invalid|unsupported|timed|crash\w*|corrupt\w*|killed)|"
    r"(?-i:[A-Z]\w*Warning\b(?!  ))|\b(?:warn|warning|note|hint|info|debug|tip)(?::|\]|\s*\()|"
    r"warnings\.warn|"
    r"npm warn|\bfall(?:s|ing|en)? ?back|\bfallback|\bretry|\bretries|\bretrying|\bskip(?:s|ped|"
    r"ping)?\b|"
    r"\bignor(?:e|ed|es|ing)\b|\binstead\b|\bdefaulting\b|\busing default|\bby default|"
    r"\boptional\b|\bmight\b|\bin case\b|\bwhether\b|"
    r"\bto (?:avoid|prevent|detect) (?:[\w-]+ ){0,3}(?:errors?|fail|oom|deadlock|time|overflow|"
    r"crash|"
    r"conflict|hang)|"
    r"\bon (?:failure|error|exception|timeout)\b|\bdeprecated\b|\bnot an error\b|\bif (?:it|you|"
    r"the|this|"
    r"any|there|a|an|not|one)\b|\brecover(?:ed|y)\b|\bhandler\b|\bsuccess(?:fully)?\b|"
    r"\bcorrected\b|"
    r"^-- |^(?:checking|looking) |\.\.\. ?(?:ok|yes|done)\b|\b(?:PASSED|ok|OK)\s*$|^\s*\+ |^\s*#+ |"
    r"^\s*(?:[\w.-]+@[\w.-]+:\S*|\[[\w.-]+@[\w.-]+ [^\]]*\])[#$] |^\$ |\bACPI\b|\.{5,} |"
    r"^[\s\w]{0,40}(?:errors|failures|exceptions|faults):\s*$|\bfault[- ](?:toleran|detect)|"
    r"\byou may observe\b|"
    r"level[\"']?\s*[:=]|\berrors? (?:key|rate|metric|bar|term|code table|function|\d*\.\d)",
    _PLAIN,
)
# A model's answers or thoughts, printed by an evaluation: sentences of a speaker.
_PROSE_MARKS = re.compile(
    r"\b(?:[Ww]e|[Ll]et's|[Ll]et me|[Tt]herefore|[Tt]hus|[Hh]ence|[Ss]he|[Hh]e|[Tt]hey|[Ww]ait,|"
    r"[Ss]o,|"
    r"I(?:'m|'ll| am| have| think| need| can| will| should| would))\b"
)


def shows(line: str) -> bool:
    """Whether a line has a form that only failures print: frames, states, tables."""
    return _SHOWS.search(line) is not None


def excuses(line: str) -> bool:
    """Takes back what the line says, or gives advice."""
    return _EXCUSES.search(line) is not None


def complains(line: str) -> bool:
    """Whether a line without a level says in words that something is wrong."""
    if excuses(line):
        return False
    if _SAYS.search(line) or _CODE.search(line) or _NAMED.search(line):
        return True
    if _SAYS_IN_CHINESE.search(line):
        return True
    return bool(_SAYS_IN_PROSE.search(line)) and not _PROSE_MARKS.search(line)
