"""Random mistakes in launch files of other projects."""

import random
import re
from collections.abc import Callable, Iterator

import msgspec

from ascend_doctor.matrix.catalog import Catalog

SOURCE = "source /usr/local/Ascend/ascend-toolkit/set_env.sh"
CATALOG = Catalog()


class Mistake(msgspec.Struct, frozen=True):
    """A kind of mistake, the line that has it (from 1), and the whole script with it."""

    kind: str
    line: int
    script: str


Change = Callable[[str, random.Random], str]


def prepare(script: str) -> str:
    """The script with a line that sources CANN, as launches have on an NPU."""
    if re.search(r"^\s*(source|\.) ", script, re.MULTILINE):
        return script
    lines = script.split("\n")
    lines.insert(1 if lines[0].startswith("#!") else 0, SOURCE)
    return "\n".join(lines)


def slip(word: str, dice: random.Random) -> str:
    """The word with a letter dropped, doubled, or exchanged with the next one."""
    while True:
        at = dice.randrange(1, len(word) - 1)
        way = dice.randrange(3)
        if way == 0:
            changed = word[:at] + word[at + 1 :]
        elif way == 1:
            changed = word[:at] + word[at] + word[at:]
        else:
            changed = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        if changed != word and changed.strip("-_") == changed:
            return changed


def replace(pattern: str, change: Callable[[re.Match[str], random.Random], str]) -> Change:
    def apply(line: str, dice: random.Random) -> str:
        match = re.search(pattern, line)
        if match is None:
            return ""
        return line[: match.start(1)] + change(match, dice) + line[match.end(1) :]

    return apply


KNOWN = sorted(name for name in CATALOG.flags.every if len(name) > 8 and not name[-1].isdigit())
VARIABLES = sorted(variable.name for variable in CATALOG.variables.variables)
SIZES = "num-layers|hidden-size|seq-length|micro-batch-size|num-attention-heads|train-iters"
KINDS: dict[str, Change] = {
    "blank after a backslash": replace(r"(\\)$", lambda *_: "\\ "),
    "no backslash": replace(r"^[^#\"']*[^#\"'\s](\s*\\)$", lambda *_: ""),
    "A = b": replace(r"^[A-Z_]+(=)[\w./-]+\s*(?:#.*)?$", lambda *_: " = "),
    "no $": replace(r"--[\w-]+ (\$\{?[A-Z][A-Z_]+\}?)(?:\s|$)", lambda m, _: m[1].strip("${}")),
    "misspelt variable": replace(
        r"--[\w-]+ \$\{?([A-Z][A-Z_]{4,})\}?(?:\s|$)", lambda m, dice: slip(m[1], dice)
    ),
    "misspelt option": replace(
        rf"--({'|'.join(KNOWN)})(?:\s|=|$)", lambda m, dice: slip(m[1], dice)
    ),
    "misspelt environment variable": replace(
        rf"^\s*export ({'|'.join(VARIABLES)})=", lambda m, dice: slip(m[1], dice)
    ),
    "no number": replace(
        r"--(?:num-layers|hidden-size|seq-length|train-iters|num-attention-heads) (\d+)",
        lambda m, dice: m[1] + dice.choice("kxOl"),
    ),
    "no choice": replace(r"--lr-decay-style (\w+)", lambda m, dice: slip(m[1], dice)),
    "size of 3": replace(r"^(?:TP|PP|CP)=(\d+)\s*$", lambda *_: "3"),
    "open quote": replace(r"^[A-Za-z_]+=\"[^\"$]+(\")\s*$", lambda *_: ""),
    "open brace": replace(r"\$\{[A-Z_]+(\}) \\$", lambda *_: ""),
    "unit in a value": replace(r"^export HCCL_CONNECT_TIMEOUT=(\d+)", lambda m, _: m[1] + "s"),
    "no export": replace(
        r"^(export )(?:HCCL_CONNECT_TIMEOUT|PYTORCH_NPU_ALLOC_CONF|TASK_QUEUE_ENABLE)=",
        lambda *_: "",
    ),
    "typographic quote": replace(r"^[A-Z_]+=(\")[^\"]+\"\s*$", lambda *_: "\u201c"),
    # Written down before a further set was seen by lint.
    "comment after a backslash": replace(r"( \\)$", lambda *_: " \\ # as before"),
    "no value": replace(rf"--(?:{SIZES})( \d+)", lambda *_: ""),
    "no blank before a value": replace(rf"--(?:{SIZES})( )\d+", lambda *_: ""),
    "one dash": replace(
        r"(?:^|\s)(--)(?:bf16|sequence-parallel|use-flash-attn|swiglu)", lambda *_: "-"
    ),
    "typographic dash": replace(rf"(?:^|\s)(--)(?:{SIZES}) ", lambda *_: "\u2013"),
    "value after a switch": replace(
        r"--(?:bf16|use-flash-attn|sequence-parallel|swiglu)( )\\$", lambda *_: " true "
    ),
    "two precisions": replace(r"--bf16( ?)(?:\\|$)", lambda *_: " --fp16 "),
    "export A= b": replace(r"^export [A-Z_]+(=)\w+\s*$", lambda *_: "= "),
    "single quotes around a variable": replace(
        r"--[\w-]+ (\$\{?[A-Z][A-Z_]+\}?)(?:\s|$)", lambda m, _: f"'{m[1]}'"
    ),
    "no bracket": replace(r"^\s*if \[ [^\]]*( \]);", lambda *_: ""),
    "no equals sign": replace(
        r"^(?:TP|PP|CP|EP|MBS|GBS|NNODES|SEQ_LEN\w*)(=)\d+\s*$", lambda *_: " "
    ),
    "array without [@]": replace(r"\s\"?\$\{[A-Z_]+(\[@\])\}\"? \\$", lambda *_: ""),
    "other case": replace(r"--[\w-]+ \$\{?([A-Z][A-Z_]{2,})\}?(?:\s|$)", lambda m, _: m[1].lower()),
}


def in_string(script: str, number: int) -> bool:
    """Whether a line (from 0) begins within double quotes."""
    before = "\n".join(
        line for line in script.split("\n")[:number] if not line.strip().startswith("#")
    )
    return before.count('"') % 2 == 1


def mistakes(
    scripts: list[str], seed: int, count: int, changes: dict[str, Change] = KINDS
) -> Iterator[tuple[int, Mistake]]:
    """``count`` mistakes of all kinds in turn, with the numbers of their scripts."""
    dice = random.Random(seed)
    made: set[tuple[int, int, str]] = set()
    kinds = list(changes)
    tries = 0
    while len(made) < count and tries < count * 20_000:
        tries += 1
        kind = kinds[len(made) % len(kinds)] if tries % 200 else dice.choice(kinds)
        number = dice.randrange(len(scripts))
        lines = scripts[number].split("\n")
        at = dice.randrange(len(lines))
        if lines[at].lstrip().startswith("#") or (number, at, kind) in made:
            continue
        if kind == "no backslash" and in_string(scripts[number], at):
            continue
        if kind == "no backslash" and not "".join(lines[at + 1 : at + 2]).strip():
            continue
        changed = changes[kind](lines[at], dice)
        if not changed:
            continue
        made.add((number, at, kind))
        script = "\n".join((*lines[:at], changed, *lines[at + 1 :]))
        yield number, Mistake(kind, at + 1, script)
