"""Text from outside, made harmless for terminals and line-based formats."""

import re

# About six lines; names without ranges would fill pages.
_NODES_LONGEST = 600

# C0 and C1 controls, and Unicode controls that reorder or hide text. None is printable.
_UNSAFE = "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"

# JSON escapes C0 itself; its line ends must stay.
_UNSAFE_IN_JSON = "[\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"


# Commands to the log readers of GitHub Actions (actions/runner:src/Runner.Common/ActionCommand.cs),
# Azure Pipelines and TeamCity: "::name ...::" where a line begins, "##[" anywhere.
_COMMAND = re.compile(r"^(\s*):(:[A-Za-z-]+(?:\s[^\n]*?)?::)|##(?=\[|vso\[|teamcity\[)")


def one_line(text: str) -> str:
    """The text on one line, control characters as escapes, without a CI command."""
    # Compiling a Unicode class takes longer than writing a page.
    return without_command(text if text.isprintable() else re.sub(_UNSAFE, _escape, text))


def without_command(line: str) -> str:
    """The line with a blank inside of CI commands."""
    return _COMMAND.sub(lambda match: f"{match[1]}: {match[2]}" if match[2] else "# #", line)


def lines(text: str) -> list[str]:
    """The lines of the text, each harmless."""
    return [one_line(line) for line in text.split("\n")]


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape", "surrogatepass").decode("ascii")


def json_text(encoded: bytes) -> str:
    """JSON text with all control characters, also C1 and reordering ones, escaped."""
    text = re.sub(_UNSAFE_IN_JSON, lambda match: f"\\u{ord(match[0]):04x}", encoded.decode())
    # In JSON a blank would change the text, unlike an escape.
    return re.sub(r"##(?=\[|vso\[|teamcity\[)", r"#\\u0023", text) if "##" in text else text


def shorten(nodes: tuple[str, ...]) -> str:
    """Machine names as in Slurm, cut at a readable length."""
    if not nodes:
        return ""
    from ascend_doctor.fleet.hostlist import compress

    text = compress(nodes)
    if len(text) <= _NODES_LONGEST:
        return text
    return f"{text[:_NODES_LONGEST].rpartition(',')[0]}, ... ({len(nodes)} nodes)"
