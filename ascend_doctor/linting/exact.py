"""What frameworks themselves say of launches: their parsers and validation in a stack."""

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.facts import SETTING, UNTOLD, FrameworkRefusal, Launch, Spot
from ascend_doctor.findings import Place
from ascend_doctor.linting.documents import leaves
from ascend_doctor.linting.inputs import LintInput, PlacedWord
from ascend_doctor.linting.python import find_hydra_main
from ascend_doctor.linting.sourcing import find_above, read_source
from ascend_doctor.machine.files import is_there, read_bytes, write_whole
from ascend_doctor.machine.live import LiveMachine, ProgramMissing
from ascend_doctor.patterns import patterns_of

SITE = Path(__file__).with_name("site")
_BEGIN = "import sys; del sys.path[0]; from ascend_start.__main__ import main; main()"
_PATTERNS = patterns_of(__file__)
_TORCHRUN, _ACCELERATE, _ENTRY, _OWN_ENTRY, _NOT_PASSED, _OPTION_OR_FILE = _PATTERNS[:6]
_FACTORY, _MM_FILE, _VERL, _OTHER_CONFIG, _OFFLINE, _FILE, _PLACEHOLDER = _PATTERNS[6:]
_PROGRAMS = {
    "torch/distributed": "torchrun", "torch": "PyTorch", "accelerate": "accelerate",
    "hydra": "Hydra", "swift": "ms-swift", "llamafactory": "LLaMA-Factory",
    "transformers": "Transformers", "mindspeed": "MindSpeed", "mindspeed_llm": "MindSpeed-LLM",
    "mindspeed_rl": "MindSpeed-RL", "mindspeed_mm": "MindSpeed-MM", "fsdp": "MindSpeed-MM",
    "verl": "verl", "megatron": "Megatron-LM",
}  # fmt: skip
_CONFIG = "--config_file"
_OF_RL = re.compile(rb"(?s)from mindspeed_rl\..*@hydra\.main")
_FSDP = "fsdp/train/trainer.py"
_OF_TREE, _KEY = "hydra", re.compile(r"\+{0,2}\w+(\.\w+)+=")
_OF_SWIFT = ("sft", "pt", "rlhf")
# Hydra's word for the key of an override.
_OF_KEY = "ConfigCompositionException"
# Replaces a value that only the running shell knows.
_STAND_IN = "unknown"
_UNASKED, _LOST = "--exact cannot ask this framework", "it ended without an answer"
_MAX_OTHERS = 4
_MAX_ANSWER = 16 << 20
_MAX_TEXT = 400


class _OptionAnswer(msgspec.Struct):
    dest: str
    typed: str
    values: list[str]
    places: list[int]


class _RefusalAnswer(msgspec.Struct):
    type: str
    text: str
    options: list[_OptionAnswer]
    related: list[str]
    file: str
    line: int
    code: str
    failed: bool = False
    variable: str = ""


class _PartAnswer(msgspec.Struct):
    refusals: list[_RefusalAnswer]
    unknown: list[str]
    ended: str = ""
    options: list[_OptionAnswer] = []
    changed: dict[str, str] = {}


class _Answer(msgspec.Struct):
    launcher: _PartAnswer | None = None
    program: _PartAnswer | None = None
    failed: str = ""
    lost: bool = False


_decoder = msgspec.json.Decoder(_Answer)


class LaunchParts(msgspec.Struct, frozen=True, kw_only=True):
    """A launch for its framework; words have their numbers. ``starter`` reads ``launcher``.

    ``settings`` are those of its configuration files, numbered behind the launch's words. ``tree``
    is the configuration beside the entry file that Hydra composes.
    """

    framework: str
    starter: str
    entry: str
    tree: str = ""
    launcher: list[tuple[str, int]] | None
    words: list[tuple[str, int]] | None
    env: dict[str, str]
    settings: list[PlacedWord] = []


def split_launch(subject: LintInput) -> LaunchParts | None:
    """The parts of a launch that a framework can judge; None for another subject."""
    words = list(_number_words(subject.words))
    texts = [text for text, _ in words]
    starter, launcher = _find_starter(texts)
    framework, entry, name = _find_program(texts, subject, alone=launcher is None)
    of_launcher, of_program = words[: entry + 1], words[entry + 1 :]
    settings: list[PlacedWord] = []

    def with_settings(
        part: list[tuple[str, int]], read: Sequence[PlacedWord]
    ) -> list[tuple[str, int]]:
        first = len(subject.words) + len(settings)
        settings.extend(read)
        return part + [(f"{SETTING}{each.text}", first + n) for n, each in enumerate(read)]

    if starter == "accelerate":
        file = dict(pairwise(texts[: entry + 1])).get(_CONFIG, "")
        of_launcher = with_settings(of_launcher, _read_settings(subject.file, file, ""))
    for prefix, file in _find_files(framework, texts[entry + 1 :]):
        read = _read_settings(subject.file, file, prefix)
        framework = framework if read else ""
        of_program = with_settings(of_program, read)
    if framework == "mindspeed_rl":
        others = {n for n, word in enumerate(subject.words) if word.location.file != subject.file}
        of_program = [(SETTING * (n in others) + text, n) for text, n in of_program]
    tree = _find_tree(subject.file, name)
    framework = framework if framework != _OF_TREE or tree else ""
    if framework.startswith("mindspeed"):
        name = os.path.abspath(find_above(subject.file, name) or name)
    if launcher is None and not framework:
        return None
    of_starter = None if launcher is None else of_launcher[launcher + 1 :]
    if "--" in texts[:entry]:  # of a wrapper, such as debugpy-run
        of_starter = of_launcher[texts.index("--") + 1 :]
    variables = subject.environment.variables if subject.environment is not None else {}
    return LaunchParts(
        framework=framework,
        starter=starter,
        entry=name,
        tree=tree,
        launcher=of_starter,
        words=of_program if framework else None,
        env={key: value for key, value in variables.items() if not _NOT_PASSED.match(key)},
        settings=settings,
    )


def _find_starter(texts: Sequence[str]) -> tuple[str, int | None]:
    for number, text in enumerate(texts):
        if _TORCHRUN.fullmatch(text):
            return "torchrun", number
        if _ACCELERATE.search(" ".join(texts[max(number - 1, 0) : number + 1])):
            return "accelerate", number
    return "torchrun", None


def _find_program(texts: Sequence[str], subject: LintInput, *, alone: bool) -> tuple[str, int, str]:
    """The framework, the number of the word before its own, and what is started."""
    program = subject.launch.program if subject.launch is not None else ""
    for number, (text, following) in enumerate(zip(texts, [*texts[1:], ""], strict=False)):
        if alone and program.endswith("swift") and text in _OF_SWIFT:
            return "swift", number, f"{program.partition('-')[0]} {text}"
        command = " ".join(texts[max(number - 1, 0) : number + 1])
        if _FACTORY.search(command) and _OPTION_OR_FILE.fullmatch(following):
            return "llamafactory", number, text
        if _VERL.fullmatch(text) and not _OTHER_CONFIG.search(" ".join(texts)):
            return "verl", number, text
        module = number > 1 and texts[number - 1] == "-m" and texts[number + 1 :]
        if text.endswith(".py") or _VERL.fullmatch(text) or (module and alone):
            return _name_framework(texts[number + 1 :], text, subject), number, text
    return "", len(texts), ""


def _name_framework(texts: Sequence[str], entry: str, subject: LintInput) -> str:
    source = read_source(find_above(subject.file, entry))
    signs = {
        "mindspeed_rl": source is not None and _OF_RL.search(source.content),
        "fsdp": entry.endswith(_FSDP),
        "mindspeed_mm": any(map(_MM_FILE.match, texts)),
        "megatron": _ENTRY.fullmatch(entry),
        _OF_TREE: any(map(_KEY.match, texts)),
    }
    return next((name for name, sign in signs.items() if sign), "")


def _find_tree(script: str, entry: str) -> str:
    """The configuration file that an entry file or module names; else ""."""
    name = entry if entry.endswith(".py") else entry.replace(".", "/") + ".py"
    source = read_source(find_above(script, name))
    main = find_hydra_main(source.content.decode("utf-8", "replace")) if source else None
    if source is None or main is None or not main.name:
        return ""
    file = f"{main.name.removesuffix('.yaml')}.yaml"
    path = os.path.abspath(os.path.join(os.path.dirname(source.name), main.folder, file))
    return path if is_there(path) else ""


def _find_files(framework: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    if framework in {"llamafactory", "fsdp"} and not texts[0].startswith("-"):
        yield "", texts[0]
    for text, following in pairwise([*texts, ""] if framework == "mindspeed_mm" else ()):
        if named := _MM_FILE.match(text):
            yield f"{named.group(1)}.", text.partition("=")[2] or following


def _read_settings(script: str, file: str, prefix: str) -> list[PlacedWord]:
    """key.key=value of a configuration file, values as JSON; none if it is unreadable."""
    path = find_above(script, file)
    source = read_source(path) if path else None
    documents = leaves(source.content.decode("utf-8", "replace")) if source else None
    return [
        PlacedWord(
            text=f"{prefix}{'.'.join(leaf.path)}="
            + (json.dumps(leaf.text) if leaf.tag == "str" else leaf.text),
            location=Place(file=path, line=leaf.line, column=leaf.column),
        )
        for leaf in (documents or ((),))[0]
        if leaf.path
    ]


def _number_words(words: Sequence[PlacedWord]) -> Iterator[tuple[str, int]]:
    """Words with numbers; "your model path", three words of a shell, counts as one."""
    number = 0
    while number < len(words):
        text, first = words[number].text, number
        number += 1
        if _PLACEHOLDER.fullmatch(text):
            text = UNTOLD
            while number < len(words) and not words[number].text.startswith("-"):
                number += 1
        yield text, first


def split_launches(inputs: Sequence[LintInput]) -> dict[int, LaunchParts]:
    return {number: part for number, each in enumerate(inputs) if (part := split_launch(each))}


def ask(
    inputs: Sequence[LintInput],
    parts: Mapping[int, LaunchParts],
    python: str,
    env: Mapping[str, str],
    folder: Path,
    seconds: float,
) -> list[LintInput]:
    """The launches with their frameworks' answers, in the stack of an interpreter.

    ``folder`` is private. Raises DataError if the interpreter cannot be started.
    """
    request = {"launches": msgspec.to_builtins([*parts.values()]), "seconds": seconds}
    question, answer = folder / "request.json", folder / "answer.json"
    write_whole(str(question), msgspec.json.encode(request))
    private = {
        **env,
        **dict.fromkeys(("HOME", "TMPDIR", "XDG_CACHE_HOME", "TORCH_EXTENSIONS_DIR"), str(folder)),
        "PYTHONPATH": ":".join(filter(None, (str(SITE), env.get("PYTHONPATH", "")))),
        "PYTHONDONTWRITEBYTECODE": "1",
        **dict.fromkeys(("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"), "1"),
    }
    command = [python, "-c", _BEGIN, str(question), str(answer)]
    try:
        done = LiveMachine(private).run(command, deadline=seconds)
    except ProgramMissing as error:
        raise DataError(str(error)) from error
    last = done.stderr.strip().splitlines()[-1:] or ["it ended early"]
    why = "the deadline passed" if done.timed_out else last[0][:_MAX_TEXT]
    answers = dict.fromkeys(parts, _Answer(failed=why))
    with contextlib.suppress(DataError, OSError, msgspec.DecodeError):
        lines = read_bytes(str(answer), _MAX_ANSWER).splitlines()
        answers |= dict(zip(parts, (_decoder.decode(line) for line in lines), strict=False))
    return [
        _with_answer(each, parts[number], answers[number])
        if number in parts
        else mark_unasked(each)
        for number, each in enumerate(inputs)
    ]


def mark_unasked(subject: LintInput) -> LintInput:
    name = _name_program(subject)
    where = subject.words[0].location if subject.words else None
    refusal = FrameworkRefusal(program=name, text=_UNASKED, location=where, outcome="unjudged")
    return _with_refusals(subject, refusal) if name else subject


def _name_program(subject: LintInput) -> str:
    launched = subject.launch or Launch()
    return launched.program or launched.module.rpartition(".")[2]


def _with_refusals(subject: LintInput, *refusals: FrameworkRefusal) -> LintInput:
    launched = msgspec.structs.replace(subject.launch or Launch(), refusals=refusals)
    return msgspec.structs.replace(subject, launch=launched)


def _name(option: _OptionAnswer) -> str:
    """An option with its values, or a setting as its file has it."""
    words = (option.typed.lstrip(SETTING).removesuffix("="), *option.values)
    return (": " if option.typed.startswith(SETTING) else " ").join(words)


def _with_answer(subject: LintInput, parts: LaunchParts, answer: _Answer) -> LintInput:
    answers = _PlacedAnswers(subject, parts)
    return _with_refusals(
        subject,
        *(answers.of_part(answer.launcher, parts.starter) if answer.launcher else ()),
        *(answers.of_part(answer.program, _PROGRAMS[parts.framework]) if answer.program else ()),
        *answers.of_failure(answer),
    )


class _PlacedAnswers:
    def __init__(self, subject: LintInput, parts: LaunchParts) -> None:
        self._words = (*subject.words, *parts.settings)
        self._subject, self._launch = subject, subject.launch or Launch()
        self._parts = parts

    def of_failure(self, answer: _Answer) -> Iterator[FrameworkRefusal]:
        asked = self._parts.framework
        name = _PROGRAMS.get(asked) or _name_program(self._subject) or self._parts.starter
        lost = answer.lost or (asked and answer.program is None)
        if text := answer.failed or (_LOST if lost else "" if asked else _UNASKED):
            yield self._refusal(name, text, [], outcome="unjudged")

    def of_part(self, part: _PartAnswer, name: str) -> Iterator[FrameworkRefusal]:
        seen: set[int] = set()
        last, unseen = "", part.ended
        for refusal in part.refusals:
            places = {number for option in refusal.options[:1] for number in option.places}
            if refusal.failed or self._reads_files(refusal):
                unseen = unseen or refusal.text
            elif not (places and places <= seen):
                seen |= places
                last = refusal.text
                yield self._of_refusal(refusal, part, name)
        # It ended for another reason, such as an absent file.
        if unseen and not (last and unseen.endswith(last)):
            yield self._refusal(name, unseen, [], outcome="unjudged")
        for option in part.options:
            if option.dest in part.changed and option.dest not in part.unknown:
                value = part.changed[option.dest]
                yield self._refusal(name, value, [option], outcome="changed")

    def _of_refusal(
        self, refusal: _RefusalAnswer, part: _PartAnswer, name: str
    ) -> FrameworkRefusal:
        doubtful = {*part.unknown} & {*refusal.related, *(each.dest for each in refusal.options)}
        set_elsewhere = refusal.variable and self._launch.open_environment
        own_option = self._is_own_option(refusal)
        outcome = "unjudged" if doubtful or set_elsewhere or own_option else "refused"
        file = refusal.file
        for folder, program in _PROGRAMS.items():
            if f"/{folder}/" in file:
                name, file = program, f"{folder}/{file.rpartition(f'/{folder}/')[2]}"
                break
        text = refusal.text if refusal.file == "argparse" else f"{refusal.type}: {refusal.text}"
        refused = self._refusal(name, text, refusal.options, outcome=outcome)
        if refusal.type == _OF_KEY and refusal.options:
            key = self._launch.places.get(f"key {refusal.options[0].typed.rstrip('=')}")
            refused = msgspec.structs.replace(refused, location=key or refused.location)
        source = f"{file}:{refusal.line}" if refusal.line else ""
        return msgspec.structs.replace(refused, source=source, code=refusal.code)

    def _is_own_option(self, refusal: _RefusalAnswer) -> bool:
        extra = refusal.file == "argparse" and refusal.text.startswith("unrecognized")
        megatron = self._parts.framework == "megatron"
        return extra and megatron and not _OWN_ENTRY.fullmatch(self._parts.entry)

    def _reads_files(self, refusal: _RefusalAnswer) -> bool:
        values = [value for option in refusal.options for value in option.values]
        absent = any(
            value == _STAND_IN or ("/" in value and not is_there(value)) for value in values
        )
        needs_file = absent and _FILE.search(refusal.text) is not None
        return needs_file or _OFFLINE.search(refusal.text) is not None

    def _refusal(
        self, program: str, text: str, options: Sequence[_OptionAnswer], *, outcome: str
    ) -> FrameworkRefusal:
        named = (
            Spot(name=_name(each)[:80], location=where)
            for each in options
            if (where := self._locate(each)) is not None
        )
        spots = list(dict.fromkeys(named))
        name = os.path.basename(self._parts.entry)
        begin = next(
            (word.location for word in self._words if os.path.basename(word.text) == name),
            self._words[0].location,
        )
        return FrameworkRefusal(
            program=program,
            text=" ".join(text.split())[:_MAX_TEXT],
            option=spots[0].name if spots else "",
            location=spots[0].location if spots else begin,
            others=tuple(spots[1 : _MAX_OTHERS + 1]),
            outcome=outcome,
        )

    def _locate(self, option: _OptionAnswer) -> Place | None:
        places = [number for number in option.places if 0 <= number < len(self._words)]
        if self._parts.launcher is not None and not self._parts.entry:
            return next(w.location for w in self._words if _TORCHRUN.fullmatch(w.text))
        if not places and option.dest == "world_size":
            names = [w for w in self._words if w.text.replace("_", "-").startswith("--nproc-per")]
            return names[0].location if names else None
        return self._words[places[0]].location if places else None
