"""Options of a launch by their names and values: known, misspelt, or of another release."""

import re
from collections.abc import Mapping

from ascend_doctor.checks.launch.options import options, version
from ascend_doctor.checks.launch.rules import OF_TRAINER, is_colocated
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.judging import Finding, Findings, NotApplicable, Remedy, Texts, Unknown, first_of
from ascend_doctor.judging.judge import Case, error, warning
from ascend_doctor.judging.spelling import slip_of
from ascend_doctor.matrix.versions import satisfies
from ascend_doctor.patterns import defer, patterns_of

TEXTS = Texts("option-names")

_FAMILY = ("MindSpeed", "MindSpeed-LLM", "MindSpeed-MM")
# The line of Megatron-LM for MindSpeed's master (Ascend/MindSpeed@master:README.md).
_OF_MASTER = "0.12"
_SWIFT = ("ms-swift", "trl", "transformers")
_SWIFT_SOURCE = ("modelscope/ms-swift@3602360a:swift/arguments",)
_LEFT_OVER = "It raises for options that are left over."
_OF_PROGRAM = "an option of the program"
# MindSpeed up to Megatron-LM 0.7 and MindSpeed-LLM 1.0 use these instead of Megatron-LM's kinds
# (Ascend/MindSpeed@1.0.0_core_r0.7.0:mindspeed/arguments.py:412).
_KINDS_OF_OLD_MINDSPEED = {"rotary-base": "float"}
_VERL = ("actor_rollout_ref.", "trainer.", "critic.", "algorithm.")
_OF_VERL = ("verl.trainer.", "verl.experimental.")
STOPS = "argparse stops at an option that it does not know."
_SHOWN = 8
# Programs of Megatron-LM and MindSpeed-LLM that take only these options and modelopt's.
_WHOLE, _MODELOPT = frozenset({"pretrain_gpt", "posttrain_gpt"}), "export-"
# In shorter words of keys, one letter makes another word: nodes, nnodes.
_LONG_WORD = 8
# A fork's script has other options, too; with this many, near misses are not mistakes.
_LEAST_KNOWN, _FEWEST = 0.7, 3
# Megatron asserts that these exceed 0, or divides by them.
_NO_SIZES = {0, *range(-9, -1)}
_POSITIVE = {
    *("num-layers", "hidden-size", "num-attention-heads", "seq-length", "micro-batch-size"),
    *("global-batch-size", "max-position-embeddings", "tensor-model-parallel-size"),
    *("pipeline-model-parallel-size", "context-parallel-size"),
}
FLOAT, _FILLED, _INT = patterns_of(__file__)
_KINDS = {
    "int": (_INT, "a whole number"),
    "float": (FLOAT, "a number"),
    "word": (defer(".+"), "a value"),
    "bool": (defer(r"|yes|true|[ty10nf]|no|false", re.IGNORECASE), "true or false"),
    "nodes": (defer(r"\d+(:\d+)?"), "a number of nodes, or MIN:MAX, with MIN at most MAX"),
    "count": (defer(r"\s*\+?\d+"), "a whole number of at least 0"),
}


@TEXTS.check("run-flags-known")
def run_flags_known(case: Case) -> Findings:
    options(case)
    launch = _megatron_launch(case)
    table, newest = case.catalog.flags, version(case)
    listed = table.listed(newest) if newest else ""
    if newest and not listed:
        raise Unknown(f"no row has the options of Megatron-LM {newest}")
    releases = (listed,) if listed else table.versions
    have = frozenset().union(*(table.of(release) for release in releases))
    source = tuple(url for release in releases for url in table.read_in(release))
    added = case.catalog.options.of(*_FAMILY) | table.mindspeed
    spelt = {name for name in added if "_" not in name or name.replace("_", "-") not in have}
    known = have | spelt | table.of_launcher
    strange = [
        name for name in launch.flags if name not in known and name not in launch.launcher_options
    ]
    judged = f"Megatron-LM {newest}" if newest else f"Megatron-LM {releases[0]} to {releases[-1]}"
    if not newest and not _resembles(case, launch):
        raise Unknown("which Megatron-LM it is; give --megatron or examine its environment")
    for name in launch.one_dash:
        if name in known:
            yield _report_unknown(launch, f"-{name}", f"--{name}", source)
    others, own = [], _has_known_parser(launch)
    for name in strange:
        releases = table.versions_with(name)
        # `--seq-length4096`: no blank before the value.
        begin = "" if launch.values.get(name) else name.rstrip("0123456789")
        joined = f"{begin} {name[len(begin) :]}" if begin in known else ""
        close = "" if releases else slip_of(name, known) or joined
        if own and len(strange) == 1 and not releases and not close:
            # Megatron-LM's parser takes no beginnings of names (allow_abbrev=False).
            longer = [each for each in known if each.startswith(name)]
            if len(longer) > 1:
                yield _report_unknown(launch, f"--{name}", f"one of {', '.join(sorted(longer))}")
                continue
            close = "".join(longer)
        if not launch.program and name.replace("_", "-") == close.replace("_", "-"):
            close = ""  # its own spelling
        if not releases and not close:
            others.append(name)
            continue
        has = f"--{close}" if close else f"Megatron-LM {', '.join(releases)}, or another option"
        title = "" if close else f"Megatron-LM {newest} has no option --{name}"
        yield _report_unknown(launch, f"--{name}", has, source, title)
    where = f"{judged}, MindSpeed, MindSpeed-LLM and MindSpeed-MM"
    yield from _find_undefined(launch, others, where, whole=bool(newest))
    yield from _of_other_branches(case, launch, listed, have)


def _has_known_parser(launch: Launch) -> bool:
    return launch.module.rpartition(".")[2] in _WHOLE


def is_of_fork(case: Case) -> bool:
    """Whether several options are unknown: the program's validation may differ, too."""
    launch, catalog = case.need(Launch), case.catalog
    known = catalog.megatron_options | catalog.flags.of_launcher
    return len(set(launch.flags) - known - launch.launcher_options.keys()) > 1


def _find_undefined(launch: Launch, names: list[str], where: str, *, whole: bool) -> Findings:
    own = names
    if whole and _has_known_parser(launch):
        # The shell splits a quoted array element where it expands it without quotes.
        own = [name for name in names if name.startswith(_MODELOPT) or " " in name]
    for name in names:
        if name not in own:
            title, because = f"No parser defines --{name}", f"{STOPS} It is not in {where}."
            yield _report_unknown(launch, f"--{name}", _OF_PROGRAM, (), title, because)
    yield from _strangers(launch, own, where)


def _of_other_branches(case: Case, launch: Launch, listed: str, have: frozenset[str]) -> Findings:
    tables = case.catalog.options
    mindspeed = tables.table(_FAMILY[0])
    line = ".".join(listed.split(".")[:2])
    branches = [
        ref
        for ref in mindspeed.commits
        if line and (f"core_r{line}." in ref or (ref == "master" and line == _OF_MASTER))
    ]
    known = have | tables.of(*_FAMILY[1:]) | case.catalog.flags.of_launcher
    known = known.union(*map(mindspeed.has, branches))
    for name in launch.flags if branches else ():
        if name in mindspeed.options and name not in known:
            title = f"MindSpeed for Megatron-LM {listed} has no option --{name}"
            has = f"MindSpeed {', '.join(mindspeed.refs_with(name))}, or another option"
            refs = tuple(f"Ascend/MindSpeed@{ref}:mindspeed" for ref in branches)
            yield _report_unknown(launch, f"--{name}", has, refs, title)


def _report_unknown(
    launch: Launch,
    written: str,
    right: str,
    source: tuple[str, ...] = (),
    title: str = "",
    because: str = STOPS,
) -> Finding:
    fix = f"Write {right}" if right[0] == "-" else f"Remove {written}, or correct its name"
    return error(
        title or f"No Megatron-LM has an option {written}",
        observed=written,
        required=right,
        because=because,
        remedy=Remedy(summary=fix),
        refs=source,
        location=launch.places.get(written),
    )


def _refuse_value(
    launch: Launch, name: str, value: str, expected: str, because: str, refs: tuple[str, ...] = ()
) -> Finding:
    return error(
        f"--{name} does not take {value!r}" if value else f"--{name} has no value",
        observed=f"--{name} {value}".rstrip(),
        required=expected,
        because=because,
        refs=refs,
        location=launch.places.get(f"--{name}=", launch.places.get(f"--{name}")),
    )


def _megatron_launch(case: Case) -> Launch:
    options(case)
    launch = case.need(Launch)
    # Other projects also call their scripts pretrain_NAME.py.
    fine = _has_known_parser(launch) or (
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
    launchers = case.catalog.flags.of_launcher
    mine = [name for name in launch.flags if name not in launchers]
    count = sum(name in case.catalog.megatron_options for name in mine)
    return count >= max(fewest, share * len(mine))


def _strangers(launch: Launch, names: list[str], where: str) -> Findings:
    if names:
        yield TEXTS.finding(
            "options-known",
            launch.places.get(f"--{names[0]}"),
            observed=first_of([f"--{name}" for name in names], _SHOWN),
            where=where,
        )


@TEXTS.check("run-option-values")
def run_option_values(case: Case) -> Findings:
    launch, kinds = _megatron_launch(case), case.catalog.option_kinds
    newest, own = version(case), _has_known_parser(launch) and not is_of_fork(case)
    if not newest or satisfies("pep440", newest, "<0.8"):
        kinds = {**kinds, **_KINDS_OF_OLD_MINDSPEED}
    for name, value in launch.values.items():
        kind = "" if name in launch.launcher_options else kinds.get(name, "")
        expected = "" if UNTOLD in value else describe_kind(kind, value)
        if expected and "|" in kind:
            # Another program may have more choices; of that only slips are reported.
            close = slip_of(value, kind.strip("|+").split("|"))
            expected = f"--{name} {close}" if close else expected * own
        elif expected and kind == "flag" and value.lower() == "true":
            expected = f"--{name}"
        if expected:
            refs = tuple(each.url for each in case.catalog.options.sources if "LM@" in each.url)
            yield _refuse_value(launch, name, value, expected, "argparse stops at it.", refs)
        elif kind and name in _POSITIVE and _INT.fullmatch(value) and int(value) in _NO_SIZES:
            because = "It is no size that a training can have."
            yield _refuse_value(launch, name, value, "1 or more", because)
        elif kind and name in _POSITIVE and value == "-1":
            where = launch.places.get(f"--{name}")
            yield TEXTS.finding("sizes-launch", where, observed=f"--{name} -1")


def describe_kind(kind: str, value: str) -> str:
    """What an option of this kind takes, if the value is something else."""
    if _FILLED.fullmatch(value) or not kind:
        return ""
    if kind[0] == "/":
        pattern, _, text = kind[1:].rpartition("/")
        return "" if re.fullmatch(pattern, value, re.IGNORECASE) else text
    if kind[-1] == "+":
        lacks = (describe_kind(kind[:-1], each) for each in value.split() or ("",))
        return next(filter(None, lacks), "")
    if kind == "flag":
        return f"no value behind it; {value!r} is one" if value else ""
    if kind in _KINDS:
        known, text = _KINDS[kind]
        low, _, high = value.partition(":")
        order = high.isdecimal() and low.isdecimal() and int(low[:9]) > int(high[:9])
        return "" if known.fullmatch(value) and not order else text
    *choices, _ = kind.split("|")
    return "" if not choices or value in choices else f"one of {', '.join(choices)}"


@TEXTS.check("run-swift-options")
def run_swift_options(case: Case) -> Findings:
    options(case)
    launch = case.need(Launch)
    if launch.program not in {"swift", "megatron-swift"}:
        raise NotApplicable("the launch command does not start ms-swift")
    tables = case.catalog.options
    known = {name.replace("-", "_") for name in tables.of(*_SWIFT)}
    known |= {name.replace("-", "_") for name in case.catalog.flags.launcher}
    yield from _find_field_values(launch, case.catalog.swift_kinds, *_SWIFT_SOURCE)
    others = []
    for flag in launch.flags:
        name = flag.replace("-", "_")
        close = "" if name in known else slip_of(name, known)
        if close:
            title, because = f"ms-swift has no option --{flag}", _LEFT_OVER
            yield _report_unknown(launch, f"--{flag}", f"--{close}", _SWIFT_SOURCE, title, because)
        elif name not in known:
            others.append(flag)
    where = "ms-swift 3.8 to 4.5, transformers and trl"
    if len(others) > 1:  # of another release or a fork
        yield from _strangers(launch, others, where)
        return
    for flag in others:
        title = f"No ms-swift has an option --{flag}"
        because = f"{_LEFT_OVER} It is not in {where}."
        yield _report_unknown(launch, f"--{flag}", _OF_PROGRAM, _SWIFT_SOURCE, title, because)


def _find_field_values(launch: Launch, kinds: Mapping[str, str], *refs: str) -> Findings:
    """Values that argument classes do not take."""
    for name, value in launch.values.items():
        kind = kinds.get(name.replace("-", "_"), "")
        expected = "" if UNTOLD in value else describe_kind(kind, value)
        if expected and value.lower() not in {"none", "null"}:
            yield _refuse_value(launch, name, value, expected, "The parser stops at it.", refs)


@TEXTS.check("run-trainer-values")
def run_trainer_values(case: Case) -> Findings:
    options(case)
    launch = case.need(Launch)
    names = {*launch.flags, *launch.values}
    if launch.program or not names >= OF_TRAINER:
        raise NotApplicable("the launch command starts no trainer of Transformers")
    yield from _find_field_values(launch, case.catalog.trainer_kinds)


@TEXTS.check("run-verl-keys")
def run_verl_keys(case: Case) -> Findings:
    options(case)
    launch = case.need(Launch)
    verl = launch.program == "verl" and any(key.startswith(_VERL) for key in launch.keys)
    if not verl and not any("." in key for key in launch.keys):
        raise NotApplicable("no key of verl is overridden")
    if launch.module.startswith("verl.") and not launch.module.startswith(_OF_VERL):
        raise Unknown("a fork of verl has keys of its own")
    keys = case.catalog.override_keys
    # Keys of Megatron's configuration nearly match its option names.
    added = {name.replace("-", "_") for name in case.catalog.megatron_options}
    whole = verl and is_colocated(launch.module) and "main_" in launch.module
    absent = [key for key in launch.keys if key[0] != "+" and not has_key(keys, key)]
    # With several, groups of another configuration are chosen, or it is a fork. A file with a
    # mapping that verl lacks is handed on by another program.
    strangers = [key for key in absent if not has_key(keys, key.partition(".")[0])]
    spots = (launch.places.get(f"key {key}") for key in strangers)
    handed = any(spot and spot.file.endswith((".yaml", ".yml")) for spot in spots)
    fork = not whole or handed or len(absent) > 1
    for key in launch.keys:
        name, strict = key.lstrip("+"), verl and key[0] != "+"
        if not strict and not has_key(keys, name.partition(".")[0]):
            name = name.partition(".")[2]  # of another project, behind its own name
        own = verl and "override_transformer_config" in key
        name = name.rpartition(".")[2] if own else name
        known = has_key(keys, name) or (own and name in added)
        close = "" if known else slip_of(name, added if own else keys)
        lost = key in absent and not fork
        if not close and not lost:
            continue
        word, right = _find_difference(name, close or _key_meant(keys, name))
        if strict or (len(word) >= _LONG_WORD and word.rstrip("s") != right.rstrip("s")):
            yield (error if strict else warning)(
                f"verl has no key {key}",
                observed=word,
                required=right or "a key of verl's configuration",
                because="Hydra stops: the key is not in the configuration."
                if strict
                else "Where Hydra adds a key, nothing reads it.",
                remedy=Remedy(summary=f"Write {right}" if right else f"Remove {key}"),
                refs=("verl-project/verl@1dda039b:verl/trainer/config",),
                location=launch.places.get(f"key {key}", launch.places.get(key)),
            )


def has_key(keys: Mapping[str, str], key: str) -> bool:
    """Whether a configuration has a key, or a mapping above it that takes any."""
    words = key.split(".")
    above = (".".join(words[:count]) for count in range(1, len(words)))
    if key in keys or any(keys.get(each) in {"open", "any"} for each in above):
        return True
    return words[0] == "hydra" or any(known.startswith(f"{key}.") for known in keys)


def _key_meant(keys: Mapping[str, str], key: str) -> str:
    """The key beside it that begins the same, or the only other one that ends the same."""
    above, _, last = key.rpartition(".")
    beside = [each for each in keys if each.startswith(f"{above}.{last}")]
    alike = beside or [each for each in keys if each.endswith(f".{last}")]
    return alike[0] if len(alike) == 1 else ""


def _find_difference(key: str, known: str) -> tuple[str, str]:
    """The one word that differs, in both; else both."""
    mine, others = key.split("."), known.split(".")
    pairs = [pair for pair in zip(mine, others, strict=False) if pair[0] != pair[1]]
    return pairs[0] if len(pairs) == 1 and len(mine) == len(others) else (key, known)
