"""Where and why a text is no JSON or YAML, in words that the catalogue has in each language."""

import re

_ENDS = "the text breaks off"
# Messages of msgspec and Python, before the place.
JSON_PROBLEMS = (
    "expected '\"'",
    "expected ',' or ']'",
    "expected ',' or '}'",
    "expected ':'",
    "invalid character",
    "invalid character in unicode escape",
    "invalid number",
    "invalid escape character in string",
    "invalid escaped character",
    "invalid utf-16 surrogate pair",
    "object keys must be strings",
    "trailing characters",
    "trailing comma in array",
    "trailing comma in object",
    "unexpected end of escaped utf-16 surrogate pair",
    "unexpected end of hex escape",
    "Expecting value",
    "Expecting property name enclosed in double quotes",
    "Extra data",
    "Expecting ',' delimiter",
    "Expecting ':' delimiter",
    "Invalid control character",
    "Invalid \\escape",
    "Invalid \\uXXXX escape",
    "Unterminated string starting",
    _ENDS,
)
YAML_PROBLEMS = (
    "block sequence entries are not allowed in this context",
    "could not find expected ':'",
    "control characters are not allowed",
    "did not find expected '-' indicator",
    "did not find expected ',' or ']'",
    "did not find expected ',' or '}'",
    "did not find expected <document start>",
    "did not find expected key",
    "did not find expected alphabetic or numeric character",
    "did not find expected comment or line break",
    "did not find expected node content",
    "did not find expected whitespace",
    "did not find expected whitespace or line break",
    "found a tab character that violates indentation",
    "found a tab character where an indentation space is expected",
    "found character that cannot start any token",
    "found undefined tag handle",
    "found unexpected ':'",
    "found unexpected document indicator",
    "found unexpected end of stream",
    "found unknown escape character",
    "found undefined alias",
    "found unhashable key",
    "invalid Unicode character",
    "mapping keys are not allowed in this context",
    "mapping values are not allowed in this context",
    "could not determine a constructor for the tag {0}",
)
# Messages of msgspec for a sound text with unexpected values.
SHAPE_PROBLEMS = (
    "Expected {0}, got {1}",
    "Expected {0}, got {1} - at {2}",
    "Expected {0} - at {1}",
    "Object contains unknown field {0}",
    "Object contains unknown field {0} - at {1}",
    "Object missing required field {0}",
    "Object missing required field {0} - at {1}",
    "Invalid enum value {0}",
    "Invalid enum value {0} - at {1}",
    "Invalid value {0}",
    "Invalid value {0} - at {1}",
)
_MALFORMED = re.compile(r"JSON is malformed: (?P<problem>.*) \(byte (?P<byte>\d+)\)")


def describe_json(error: Exception, data: bytes | str, *, line: int = 1) -> str:
    """The fault in a text by msgspec or Python's reader; the text begins at ``line``."""
    import json  # noqa: PLC0415 - only for a text that is none

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
    import yaml  # noqa: PLC0415 - seldom needed, see matrix/loading.py

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
