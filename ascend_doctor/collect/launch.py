"""A launch command that the user gave: its options, as far as checks ask for them."""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from ascend_doctor.facts import LOOPBACK, UNTOLD, Launch
from ascend_doctor.machine.files import is_there
from ascend_doctor.patterns import patterns_of, read_patterns

_TABLE = {
    name: tuple(" ".join(rows).split())
    for name, rows in read_patterns(Path(__file__).with_name("launch.txt")).items()
}
MEMORY_SWITCHES = _TABLE["memory"]
_SWITCHES = frozenset((*_TABLE["switches"], *MEMORY_SWITCHES))
OPTIONS = frozenset((*_TABLE["options"], *_SWITCHES))
_PATTERNS = patterns_of(__file__)
_LAUNCHER_SWITCHES, _FILE, _ONE_DASH, _ASSIGNED, _NOT_KEPT, _OTHER_ROLE = _PATTERNS[:6]
_OF_PROGRAMS, _OF_LAUNCHERS = _PATTERNS[6:11], _PATTERNS[11:]
# The first words of a command may be the launcher and its options.
_MOST_BEFORE = 40
_DASHES, _LAUNCHER_MODULES = ("-m", "--module"), ("torch.distributed.", "accelerate.")
_PROGRAMS = tuple(
    zip(_OF_PROGRAMS, ("megatron", "megatron-swift", "swift", "verl", "verl"), strict=True)
)


# Of a command's first words, the names of launchers.
_TORCHRUN = "torchrun"
_LAUNCHERS = tuple(zip((_TORCHRUN, "accelerate", "deepspeed"), _OF_LAUNCHERS, strict=True))


def takes_value(word: str) -> bool:
    return word.startswith("--") and "=" not in word and _key(word[2:]) not in _SWITCHES


def _key(name: str) -> str:
    return name.replace("-", "_").lower()


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """``word`` counts the words of the command from 0."""

    value: str
    word: int


def program(command: Sequence[str]) -> str:
    """The framework of the command's options."""
    for before, word, after in zip(("", *command), command, (*command[1:], ""), strict=False):
        # A value: `--bert-embedder-type megatron`; a program: `--standalone pretrain_gpt.py`.
        ends = not after or after.startswith("-")
        if before.startswith("--") and ends and "." not in word:
            continue
        for pattern, name in _PROGRAMS:
            if pattern.search(word):
                return name
    return ""


def _find_entry(command: Sequence[str]) -> tuple[int, str]:
    """The number of the word that names what is started, and its module; else 0 and ""."""
    start = command[:_MOST_BEFORE]
    for number, (dash, name) in enumerate(pairwise(start), start=1):
        if dash in _DASHES and "." in name and not name.startswith(_LAUNCHER_MODULES):
            return number, name
    for number, (before, word) in enumerate(zip(("", *start), start, strict=False)):
        name = word.rpartition(UNTOLD)[2].lstrip("/")
        if _FILE.fullmatch(name):
            return number, name.removesuffix(".py").replace("/", ".").lstrip(".")
        # ms-swift: swift/cli/_megatron/main.py routes a command to the module of its name.
        route = "".join(start[number + 1 : number + 2])
        if name.rpartition("/")[2] == "megatron" and route.isalpha() and program((before, word)):
            return number + 1, f"swift.cli._megatron.{route}"
    return 0, ""


def find_absent(
    command: Sequence[str], is_missing: Callable[[str], bool] = lambda name: not is_there(name)
) -> str:
    """The missing Python file that torchrun is to start, from here; else ""."""
    start = command[:_MOST_BEFORE]
    files = [word for word in start if _FILE.fullmatch(word)]
    is_module = "-m" in start and "torch.distributed.run" not in start
    if is_module or not files or read_launcher(command) is None or not is_missing(files[0]):
        return ""
    return files[0]


def read_options(command: Sequence[str]) -> dict[str, Said]:
    """Options by name, the last wins: ``--a-b 1``, ``--a_b=1``, ``x.y.a_b=1``, shell ``A_B=1``."""
    options: dict[str, Said] = {}
    for position, word in enumerate(command):
        assigned = _ASSIGNED.fullmatch(word)
        if assigned:
            name, value = _short_name(*assigned.group(1, 2)), assigned.group(3)
        elif word.startswith("--"):
            name = word[2:]
            following = command[position + 1] if position + 1 < len(command) else "--"
            value = "" if following.startswith("--") else following
        else:
            continue
        key = _key(name)
        if key in OPTIONS:
            # Keeps no other addresses.
            shown = value if key != "master_addr" or value in LOOPBACK else ""
            options[key] = Said(value=shown, word=position)
    return options


def _short_name(before: str, name: str) -> str:
    for whole in ("trainer.", "checkpoint_engine.", "router_replay.", "actor_resource."):
        if f".{before}".endswith(f".{whole}") and whole + name in OPTIONS:
            return whole + name
    return "" if _OTHER_ROLE.search(before) else name


def parse_options(command: Sequence[str]) -> dict[str, str]:
    return {name: option.value for name, option in read_options(command).items()}


def _find_launcher(command: Sequence[str]) -> tuple[str, int]:
    """The name of the launcher, and the number of its last word; "" without one."""
    start = command[:_MOST_BEFORE]
    for number, (before, word) in enumerate(zip(("", *start), start, strict=False)):
        for name, pattern in _LAUNCHERS:
            named = pattern.fullmatch(word) or pattern.fullmatch(f"{before} {word}")
            if named and (name != "deepspeed" or before[:2] != "--"):
                return name, number
    return "", len(command)


def read_launcher(command: Sequence[str]) -> tuple[str, dict[str, str]] | None:
    """The launcher, and its options before the script by their written names."""
    launcher, start = _find_launcher(command)
    options: dict[str, str] = {}
    position = start + 1
    while position < len(command):
        word, following = command[position], " ".join(command[position + 1 : position + 2])
        position += 1
        if word == "--":  # of a wrapper, such as debugpy-run
            continue
        if not word.startswith("-"):
            return (launcher, options) if options or UNTOLD not in word else None
        name, equals, value = word.lstrip("-").partition("=")
        plain = name.replace("_", "-")
        takes = (
            not equals
            and not _LAUNCHER_SWITCHES.fullmatch(plain)
            and word[:2] in {"--", "-r", "-t"}
        )
        if takes and not following.startswith("-") and not following.endswith(".py"):
            value, position = following, position + 1
        if word.startswith("--"):
            options[name] = UNTOLD if value and _NOT_KEPT.search(plain) else value
    return None


def launch(command: Sequence[str], *, partial: bool = False) -> Launch:
    """The options of a command; an empty command has none. ``partial``: more may exist."""
    if not command:
        return Launch()
    launcher, launcher_options = read_launcher(command) or ("", {})
    entry, module = _find_entry(command)
    # Before it the options are those of accelerate, deepspeed or msrun.
    own = command if launcher == _TORCHRUN else command[entry:]
    flags = (word[2:].split("=")[0] for word in own if word.startswith("--"))
    one_dash = (match.group(1) for match in map(_ONE_DASH.fullmatch, command) if match)
    return Launch(
        source="the command line",
        present=True,
        program=program(command),
        module=module,
        options=parse_options(command),
        flags=tuple(dict.fromkeys(flag for flag in flags if flag and UNTOLD not in flag)),
        one_dash=tuple(dict.fromkeys(one_dash)),
        launcher=launcher,
        launcher_options=launcher_options,
        partial=partial,
    )
