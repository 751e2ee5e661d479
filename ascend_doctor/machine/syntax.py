"""Where and why a text is no JSON or YAML, in words that the catalogue has in each language."""

from ascend_doctor.patterns import defer

_ENDS = "the text breaks off"
_MALFORMED = defer(r"JSON is malformed: (?P<problem>.*) \(byte (?P<byte>\d+)\)")


def describe_json(error: Exception, data: bytes | str, *, line: int = 1) -> str:
    """The fault in a text by msgspec or Python's reader; the text begins at ``line``."""
    import json

    raw = data.encode() if isinstance(data, str) else data
    if isinstance(error, json.JSONDecodeError):
        return _at(
            error.doc[: error.pos].encode(errors="replace"), error.msg.removesuffix(" at"), line
        )
    if isinstance(error, UnicodeDecodeError):
        return _describe_no_text(raw)
    if match := _MALFORMED.fullmatch(str(error)):
        # The reader has consumed the first of them.
        before = int(match["byte"]) - (match["problem"] == "trailing characters")
        return _at(raw[:before], match["problem"], line)
    if str(error) == "Input data was truncated":
        return _at(raw, _ENDS, line)
    return str(error)


def describe_yaml(error: Exception, text: str) -> str:
    """The YAML reader's message over several lines, which quote the text."""
    import yaml

    if isinstance(error, yaml.MarkedYAMLError) and error.problem:
        mark = error.problem_mark or error.context_mark
        return locate(error.problem, mark.line + 1, mark.column + 1) if mark else error.problem
    if isinstance(error, yaml.reader.ReaderError):
        return _at(text.encode()[: error.position], error.reason)
    return " ".join(str(error).split())


def _describe_no_text(data: bytes) -> str:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return f"no UTF-8 text (byte {error.start})"
    return "no UTF-8 text"


def _at(before: bytes, problem: str, first: int = 1) -> str:
    last = before[before.rfind(b"\n") + 1 :].decode(errors="replace")
    return locate(problem, first + before.count(b"\n"), len(last) + 1)


def locate(problem: str, line: int, column: int) -> str:
    """The fault and its place, both counted from one."""
    return f"{problem} in line {line}, column {column}"
