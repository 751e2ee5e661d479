"""Options of a launch by their names and values: known, misspelt, or of another release."""

import re
from collections.abc import Collection, Iterator, Mapping

from ascend_doctor.checks.launch.options import options, version
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.findings import Finding, Remedy, first_of
from ascend_doctor.judging.judge import Case, check, error, unknown, warning
from ascend_doctor.judging.spelling import slip_of
from ascend_doctor.matrix.versions import satisfies

_FAMILY = ("MindSpeed", "MindSpeed-LLM", "MindSpeed-MM")
# The line of Megatron-LM that MindSpeed's master is for (Ascend/MindSpeed@master:README.md).
_OF_MASTER = "0.12"
_SWIFT = ("ms-swift", "trl", "transformers")
# Of msrun (MindSpore), deepspeed and accelerate.
_LAUNCHERS = frozenset(
    (
        *("worker_num", "local_worker_num", "join", "cluster_time_out", "bind_core", "sim_level"),
        *("sim_rank_id", "rank_table_file", "tail_worker_log", "worker_log_name"),
        *("hostfile", "include", "exclude", "num_nodes", "num_gpus", "launcher", "launcher_args"),
        *("config_file", "machine_rank", "num_processes", "num_machines", "main_process_ip"),
        *("main_process_port", "mixed_precision", "deepspeed_config_file"),
    )
)
# Of MindSpeed up to Megatron-LM 0.7 and of MindSpeed-LLM 1.0, in place of Megatron-LM's own
# (Ascend/MindSpeed@1.0.0_core_r0.7.0:mindspeed/arguments.py:412).
_KINDS_OF_OLD_MINDSPEED = {"rotary-base": "float"}
_VERL = ("actor_rollout_ref.", "trainer.", "critic.", "algorithm.")
STOPS = "argparse stops at an option that it does not know."
_SHOWN = 8
# Programs of Megatron-LM and MindSpeed-LLM that take these options and no others, but modelopt's.
_WHOLE, _MODELOPT = frozenset({"pretrain_gpt", "posttrain_gpt"}), "export-"
# Of shorter words of keys a letter more or less makes another one: nodes, nnodes.
_LONG_WORD = 8
# A script of a fork has options of its own; where they are this many, near misses are no mistakes.
_LEAST_KNOWN, _FEWEST = 0.7, 3
# A program that took a third of its options over, and many, is an extension of Megatron-LM.
_LEAST_SHARED, _FEWEST_SHARED = 0.3, 12
# Shorter names of a program's own are near to others by chance.
_LEAST_LETTERS = 10
# Megatron asserts that these are above 0, or divides by them.
_POSITIVE = frozenset(
    (
        *("num-layers", "hidden-size", "num-attention-heads", "seq-length", "micro-batch-size"),
        *("global-batch-size", "max-position-embeddings", "tensor-model-parallel-size"),
        *("pipeline-model-parallel-size", "context-parallel-size"),
    )
)
# `--seq-length4096`: the blank before the value is missing.
_JOINED = re.compile(r"([a-z][a-z-]+)(\d+(?:\.\d+)?)")
_FLOAT = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?|inf|nan", re.IGNORECASE)
_INT = re.compile(r"[-+]?\d+(_\d+)*")
_KINDS = {
    "int": (_INT, "a whole number"),
    "float": (_FLOAT, "a number"),
    "word": (re.compile(".+"), "a value"),
    "nodes": (re.compile(r"\d+(:\d+)?"), "a number of nodes, or MIN:MAX"),
    "ranks": (re.compile(r"\d+|auto|[cgnx]pu"), "a number of ranks, or auto, npu, cpu, gpu or xpu"),
}


@check("run-flags-known", "This Megatron-LM version has all options", scope="launch")
def run_flags_known(case: Case) -> Iterator[Finding]:
    """Options of Megatron-LM's scripts come and go between versions; argparse stops at them.

    The options of each version are kept as data, and those that MindSpeed, MindSpeed-LLM,
    MindSpeed-MM and torchrun add; MindSpeed's by the branch for that Megatron-LM. One that other
    versions have is an error, and so is one that differs from a known one by a letter or two. One
    that none of them has may belong to the script that is launched: then nobody but that script can
    tell.
    """
    options(case)
    if _extends(case):
        yield from _find_slips_of_extension(case)
        return
    launch = _megatron_launch(case)
    table, newest = case.catalog.flags, version(case)
    listed = table.listed(newest) if newest else ""
    if newest and not listed:
        raise Unknown(f"no row has the options of Megatron-LM {newest}")
    releases = (listed,) if listed else table.versions
    have = frozenset().union(*(table.of(release) for release in releases))
    source = tuple(url for release in releases for url in table.read_in(release))
    added = _spelt_like(have, case.catalog.options.of(*_FAMILY) | table.mindspeed)
    added |= table.of_launcher if launch.launcher else table.of_launcher | _LAUNCHERS
    strange = [
        name
        for name in launch.flags
        if name not in have | added and name not in launch.launcher_options
    ]
    judged = f"Megatron-LM {newest}" if newest else f"Megatron-LM {releases[0]} to {releases[-1]}"
    if not newest and not _resembles(case, launch):
        raise Unknown("which Megatron-LM it is; give --megatron or examine its environment")
    yield from _odd_marks(case, launch, strange, have | added, source)
    others = []
    for name in (each for each in strange if not _value_of_joined(case, launch, each)):
        releases = table.versions_with(name)
        close = "" if releases else slip_of(name, have | added)
        if not launch.program and _is_other_spelling(name, close):
            close = ""  # a script of its own, with a spelling of its own
        if not releases and not close:
            others.append(name)
            continue
        right = f"--{close}" if close else f"Megatron-LM {', '.join(releases)}, or another option"
        yield error(
            f"No Megatron-LM has an option --{name}"
            if close
            else f"Megatron-LM {newest} has no option --{name}",
            observed=f"--{name}",
            required=right,
            because=STOPS,
            remedy=Remedy(summary=f"Write {right}") if close else None,
            refs=source,
            location=launch.places.get(f"--{name}"),
        )
    where = f"{judged}, MindSpeed, MindSpeed-LLM and MindSpeed-MM"
    yield from _find_undefined(launch, others, where, whole=bool(newest))
    yield from _of_other_branches(case, launch, listed, have)


def _spelt_like(parser: frozenset[str], names: Collection[str]) -> frozenset[str]:
    """Names without those that the parser spells with hyphens; converters have underscores."""
    return frozenset(
        name for name in names if "_" not in name or name.replace("_", "-") not in parser
    )


def _find_undefined(
    launch: Launch, names: list[str], where: str, *, whole: bool
) -> Iterator[Finding]:
    """Options that no table has: errors where the program's parser is known as a whole."""
    own = names
    if whole and launch.module.rpartition(".")[2] in _WHOLE:
        # A quoted element of an array is split where it is expanded without quotes.
        own = [name for name in names if name.startswith(_MODELOPT) or " " in name]
    for name in names:
        if name not in own:
            yield error(
                f"No parser defines --{name}",
                observed=f"--{name}",
                required="an option of the program",
                because=f"{STOPS} It is not in {where}.",
                remedy=Remedy(summary=f"Remove --{name}, or correct its name"),
                location=launch.places.get(f"--{name}"),
            )
    yield from _strangers(launch, own, where)


def _of_other_branches(
    case: Case, launch: Launch, listed: str, have: frozenset[str]
) -> Iterator[Finding]:
    """Options that MindSpeed has, but in no branch for this Megatron-LM."""
    tables = case.catalog.options
    mindspeed = tables.table(_FAMILY[0])
    line = ".".join(listed.split(".")[:2])
    branches = [
        ref
        for ref in mindspeed.commits
        if line and (f"core_r{line}." in ref or (ref == "master" and line == _OF_MASTER))
    ]
    known = have | tables.of(*_FAMILY[1:]) | case.catalog.flags.of_launcher | _LAUNCHERS
    known = known.union(*map(mindspeed.has, branches))
    for name in launch.flags if branches else ():
        if name in mindspeed.options and name not in known:
            yield error(
                f"MindSpeed for Megatron-LM {listed} has no option --{name}",
                observed=f"--{name}",
                required=f"MindSpeed {', '.join(mindspeed.refs_with(name))}, or another option",
                because=STOPS,
                refs=tuple(f"Ascend/MindSpeed@{ref}:mindspeed" for ref in branches),
                location=launch.places.get(f"--{name}"),
            )


def _odd_marks(
    case: Case, launch: Launch, strange: list[str], known: frozenset[str], source: tuple[str, ...]
) -> Iterator[Finding]:
    """Known options behind one dash, and those that their value follows without a blank."""
    joined = {f"--{name}": _value_of_joined(case, launch, name) for name in strange}
    wrong = {f"-{name}": f"--{name}" for name in launch.one_dash if name in known}
    for written, right in (*joined.items(), *wrong.items()):
        if right:
            yield error(
                f"No Megatron-LM has an option {written}",
                observed=written,
                required=right,
                because=STOPS,
                remedy=Remedy(summary=f"Write {right}"),
                refs=source,
                location=launch.places.get(written),
            )


def _value_of_joined(case: Case, launch: Launch, name: str) -> str:
    """Option and number, with the blank that is missing between them; else an empty text."""
    match = None if launch.values.get(name) else _JOINED.fullmatch(name)
    kind = case.catalog.options.kinds.get(match.group(1), "") if match else ""
    return f"--{match.group(1)} {match.group(2)}" if match and kind in {"int", "float"} else ""


def _megatron_launch(case: Case) -> Launch:
    """The launch of a script that takes Megatron-LM's options. Raises NotApplicable."""
    options(case)
    launch = case.need(Launch)
    # Others call their scripts pretrain_NAME.py, too.
    fine = (
        _resembles(case, launch, 0.5, 0)
        if launch.program == "megatron"
        else (not launch.program and _resembles(case, launch))
    )
    if not fine:
        raise NotApplicable("the launch command does not start a script of Megatron-LM")
    return launch


def _resembles(
    case: Case, launch: Launch, share: float = _LEAST_KNOWN, fewest: int = _FEWEST
) -> bool:
    """Whether most options are those of some Megatron-LM or MindSpeed."""
    table = case.catalog.flags
    known = {*table.every, *table.some, *table.mindspeed, *case.catalog.options.of(*_FAMILY)}
    known -= table.of_launcher
    mine = [name for name in launch.flags if name not in table.of_launcher]
    count = sum(name in known for name in mine)
    return count >= max(fewest, share * len(mine))


def _extends(case: Case) -> bool:
    """Whether a program has many of Megatron-LM's options, and as many of its own."""
    launch = case.need(Launch)
    return (
        not launch.program
        and not _resembles(case, launch)
        and _resembles(case, launch, _LEAST_SHARED, _FEWEST_SHARED)
    )


def _find_slips_of_extension(case: Case) -> Iterator[Finding]:
    """Options that a program takes over from Megatron-LM, with one slip or their value joined."""
    launch = case.need(Launch)
    long = [name for name in case.catalog.flags.every if len(name) >= _LEAST_LETTERS]
    for name in launch.flags:
        right = _value_of_joined(case, launch, name)
        if not right and name not in case.catalog.flags.every:
            close = slip_of(name, long, most=1)
            own = not close or close in launch.flags or _is_other_spelling(name, close)
            right = "" if own else f"--{close}"
        if right:
            yield error(
                f"No Megatron-LM has an option --{name}",
                observed=f"--{name}",
                required=right,
                because=STOPS,
                remedy=Remedy(summary=f"Write {right}"),
                location=launch.places.get(f"--{name}"),
            )


def _is_other_spelling(name: str, known: str) -> bool:
    return name.replace("_", "-") == known.replace("_", "-")


def _strangers(launch: Launch, names: list[str], where: str) -> Iterator[Finding]:
    """One finding about all options that no table has."""
    if names:
        yield unknown(
            f"Options that are not known to {where}",
            observed=first_of([f"--{name}" for name in names], _SHOWN),
            because="They may belong to the script that is launched.",
            location=launch.places.get(f"--{names[0]}"),
        )


@check("run-option-values", "Megatron-LM accepts the option values", scope="launch")
def run_option_values(case: Case) -> Iterator[Finding]:
    """The parser stops at a word where a number belongs, and at a word that is not a choice.

    A switch such as --bf16 takes no value; one behind it is an argument too many. Choices are
    extended by MindSpeed-LLM and by forks, so that only slips of the hand are reported of them.
    """
    options(case)
    launch = case.need(Launch)
    # A program that extends Megatron-LM has switches of its own, but its numbers and choices.
    if _extends(case):
        kinds = {
            name: kind
            for name, kind in case.catalog.options.kinds.items()
            if kind in {"int", "float"} or "|" in kind
        }
    else:
        launch, kinds = _megatron_launch(case), case.catalog.options.kinds
    yield from _find_sizes_below_one(launch, kinds)
    newest = version(case)
    if not newest or satisfies("pep440", newest, "<0.8"):
        kinds = {**kinds, **_KINDS_OF_OLD_MINDSPEED}
    for name, value in launch.values.items():
        kind = kinds.get(name, "")
        expected = "" if UNTOLD in value else describe_kind(kind, value)
        if expected and "|" in kind:
            close = slip_of(value, kind.strip("|").split("|"))
            expected = f"--{name} {close}" if close else ""
        elif expected and kind == "flag" and value.lower() == "true":
            expected = f"--{name}"
        if expected:
            yield error(
                f"--{name} does not take {value!r}" if value else f"--{name} has no value",
                observed=f"--{name} {value}".rstrip(),
                required=expected,
                because="argparse stops at it.",
                refs=tuple(
                    source.url for source in case.catalog.options.sources if "LM@" in source.url
                ),
                location=launch.places.get(f"--{name}=", launch.places.get(f"--{name}")),
            )


def _find_sizes_below_one(launch: Launch, kinds: Mapping[str, str]) -> Iterator[Finding]:
    """Sizes that no training has; several of -1 stand for those that a checkpoint holds.

    Megatron-DeepSpeed's tasks/eval_harness/evaluate.py takes -1 for what it reads from there.
    """
    sizes = {
        name: value
        for name, value in launch.values.items()
        if name in kinds and name in _POSITIVE and _INT.fullmatch(value) and int(value) < 1
    }
    elsewhere = [name for name, value in sizes.items() if int(value) == -1]
    if len(elsewhere) > 1:
        yield unknown(
            "Sizes of the launch come from elsewhere",
            observed=", ".join(f"--{name} -1" for name in elsewhere),
            because="Programs that read sizes from a checkpoint are started with -1 instead.",
            location=launch.places.get(f"--{elsewhere[0]}"),
        )
        sizes = {name: value for name, value in sizes.items() if name not in elsewhere}
    for name, value in sizes.items():
        yield error(
            f"--{name} does not take {value!r}",
            observed=f"--{name} {value}",
            required="1 or more",
            because="It is no size that a training can have.",
            location=launch.places.get(f"--{name}=", launch.places.get(f"--{name}")),
        )


def describe_kind(kind: str, value: str) -> str:
    """What an option of this kind takes, where the value is something else."""
    if kind in _KINDS:
        pattern, text = _KINDS[kind]
        return "" if pattern.fullmatch(value) else text
    if kind == "flag":
        return f"no value behind it; {value!r} is one" if value else ""
    choices = [choice for choice in kind.split("|") if choice]
    return "" if not choices or value in choices else f"one of {', '.join(choices)}"


@check("run-swift-options", "ms-swift has all options", scope="launch")
def run_swift_options(case: Case) -> Iterator[Finding]:
    """ms-swift raises for options that none of its argument classes has.

    Their fields are kept as data, with those of the classes of transformers and trl that they
    extend. One that differs from a known one by a letter or two is an error.
    """
    options(case)
    launch = case.need(Launch)
    if launch.program not in {"swift", "megatron-swift"}:
        raise NotApplicable("the launch command does not start ms-swift")
    tables = case.catalog.options
    known = {name.replace("-", "_") for name in tables.of(*_SWIFT)}
    known |= {name.replace("-", "_") for name in case.catalog.flags.launcher}
    others = []
    for flag in launch.flags:
        name = flag.replace("-", "_")
        close = "" if name in known else slip_of(name, known)
        if close:
            yield error(
                f"ms-swift has no option --{flag}",
                observed=f"--{flag}",
                required=f"--{close}",
                because="It raises for options that are left over.",
                remedy=Remedy(summary=f"Write --{close}"),
                refs=("modelscope/ms-swift@3602360a:swift/arguments",),
                location=launch.places.get(f"--{flag}"),
            )
        elif name not in known:
            others.append(flag)
    yield from _strangers(launch, others, "ms-swift 3.8 to 4.5, transformers and trl")


@check("run-verl-keys", "verl has all overridden keys", scope="launch")
def run_verl_keys(case: Case) -> Iterator[Finding]:
    """Hydra refuses to override a key that verl's configuration does not have.

    The words of its keys are kept as data. A key behind a plus is added on purpose, and of other
    trainers on top of verl the keys are not known: of these only what differs from a whole key of
    verl by a slip of the hand in one word counts.
    """
    options(case)
    launch = case.need(Launch)
    verl = launch.program == "verl" and any(key.startswith(_VERL) for key in launch.keys)
    if not verl and not any("." in key for key in launch.keys):
        raise NotApplicable("no key of verl is overridden")
    known = case.catalog.options.of("verl")
    added = {
        name.replace("-", "_") for name in (*case.catalog.options.kinds, *case.catalog.flags.every)
    }
    for key in launch.keys:
        strict = verl and not key.startswith("+")
        if strict:
            slips = _slips(key.split("."), known)
        elif verl and "override_transformer_config" in key:
            # Megatron's configuration has nearly the names of its options.
            slips = _slips(key.split(".")[-1:], known | added)
        else:
            slips = _slip_of_key(key.lstrip("+"), case.catalog.options.overrides)
        for word, close in slips:
            yield (error if strict else warning)(
                f"verl has no key {key}",
                observed=word,
                required=close,
                because="Hydra stops: the key is not in the configuration."
                if strict
                else "Where Hydra adds a key, nothing reads it.",
                remedy=Remedy(summary=f"Write {close}"),
                refs=("verl-project/verl@1dda039b:verl/trainer/config",),
                location=launch.places.get(f"key {key}", launch.places.get(key)),
            )


def _slips(words: list[str], known: Collection[str]) -> list[tuple[str, str]]:
    """The words that are not known, each with what was probably meant."""
    pairs = ((word, slip_of(word, known)) for word in words if word not in known)
    return [(word, close) for word, close in pairs if close]


def _slip_of_key(key: str, known: Collection[str]) -> list[tuple[str, str]]:
    """The one word of a key that is misspelt, where all others are those of a known key.

    A framework on top of verl may have its own word before them.
    """
    words = key.split(".")
    if key in known or ".".join(words[1:]) in known:
        return []
    return _slip_in(words, known) or _slip_in(words[1:], known)


def _slip_in(words: list[str], known: Collection[str]) -> list[tuple[str, str]]:
    for number, word in enumerate(words):
        if len(word) < _LONG_WORD:
            continue
        alike = {
            each[number]
            for each in (other.split(".") for other in known)
            if len(each) == len(words)
            and each[:number] == words[:number]
            and each[number + 1 :] == words[number + 1 :]
        }
        slips = [
            pair for pair in _slips([word], alike) if pair[0].rstrip("s") != pair[1].rstrip("s")
        ]
        if slips:
            return slips
    return []
