"""Random mistakes in MindSpeed-RL's configurations."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from ascend_doctor.checks import all_checks
from ascend_doctor.findings import Finding, Level
from ascend_doctor.linting.inputs import subjects
from ascend_doctor.linting.launch_checks import findings, machine, suits
from ascend_doctor.matrix.catalog import Catalog
from tests.acceptance.clones import clone, git
from tests.acceptance.linting.seeding import replace, slip

REPOSITORY, COMMIT = "Ascend/MindSpeed-RL", "05a90d77cb6cfad8999e2aee21068284db959579"
CATALOG = Catalog()
CHECKS = tuple(check for check in all_checks() if suits(check))


class RlMistake(msgspec.Struct, frozen=True):
    """A kind of mistake, the configuration that is judged, and the changed file and line."""

    kind: str
    configuration: str
    file: str
    line: int
    content: str


def number(name: str, *others: str) -> Callable[[str, random.Random], str]:
    return replace(rf"^ +{name} ?: +(\d+)", lambda _, dice: dice.choice(others))


def plus(name: str) -> Callable[[str, random.Random], str]:
    return replace(rf"^ +{name} ?: +(\d+)", lambda m, dice: str(int(m[1]) + dice.choice((1, 3))))


KINDS: dict[str, Callable[[str, random.Random], str]] = {
    "TP": number("tensor_model_parallel_size", "3", "6", "5"),
    "PP": number("pipeline_model_parallel_size", "3", "5", "7"),
    "EP": number("expert_model_parallel_size", "3", "5"),
    "NPUs": plus("num_npus"),
    "global batch": plus("global_batch_size"),
    "micro batch": number("micro_batch_size", "3", "5", "7"),
    "sequence": plus("seq_length"),
    "model length": number("max_model_len", "512", "256"),
    "rollout TP": number("infer_tensor_parallel_size", "3", "5", "6"),
    "rollout PP": number("infer_pipeline_parallel_size", "2"),
    "rollout EP": number("infer_expert_parallel_size", "3", "5"),
    "dispatch": plus(r"\w+_dispatch_size"),
    "heads": plus("num_attention_heads"),
    "groups": plus("num_query_groups"),
    "layers": plus("num_layers"),
    "list of layers": replace(r"num_layer_list: +(\d)", lambda m, _: str(int(m[1]) + 1)),
    "dtype": replace(r"dtype: +(\"?bfloat16\"?)", lambda *_: "float16"),
    "mask": replace(r"reset_attention_mask: +(true)", lambda *_: "false"),
    "padding": replace(r"no_pad_to_seq_lengths: +(true)", lambda *_: "false"),
    "verifiers": replace(r"verifier_weight: +\[(1\.0)\]", lambda *_: "1.0, 1.0"),
    "longest answer": plus("rollout_max_tokens"),
    "key": replace(r"^ +(\w{8,}) ?:", lambda m, dice: slip(m[1], dice)),
    "truth": replace(r"^ +\w+: +(true|false)", lambda m, dice: slip(m[1], dice)),
    "no number": replace(
        r"^ +(?:\w+_size|seq_length|num_\w+): +(\d+)", lambda m, _: m[1][0] + "x" + m[1][1:]
    ),
    "model": replace(r"^  model: +(\w+)", lambda m, dice: slip(m[1], dice)),
}


def files() -> dict[str, str]:
    """The configurations and their models, by path."""
    checkout = clone(REPOSITORY)
    listed = git(checkout, "ls-tree", "-r", "--name-only", COMMIT, "configs").decode().split()
    chosen = [path for path in listed if re.fullmatch(r"configs/(model/)?\w+\.yaml", path)]
    return {path: git(checkout, "show", f"{COMMIT}:{path}").decode() for path in chosen}


def configurations(contents: dict[str, str]) -> list[str]:
    return sorted(path for path in contents if "/model/" not in path)


def mistakes(contents: dict[str, str], seed: int, count: int) -> Iterator[RlMistake]:
    """One mistake in one configuration each, or in the model that it names."""
    dice = random.Random(seed)
    paths = configurations(contents)
    while count:
        path, kind = dice.choice(paths), dice.choice(sorted(KINDS))
        model = re.search(r"- model:\s+- (\w+)", contents[path])
        own = (path, f"configs/model/{model[1]}.yaml") if model else (path,)
        places = [
            (file, row, changed)
            for file in own
            for row, line in enumerate(contents[file].split("\n"))
            if (changed := KINDS[kind](line, dice)) and changed != line
        ]
        if places:
            file, row, changed = dice.choice(places)
            lines = contents[file].split("\n")
            lines[row] = changed
            yield RlMistake(kind, path, file, row + 1, "\n".join(lines))
            count -= 1


def reports(contents: dict[str, str], path: str, folder: Path) -> list[Finding]:
    """Errors and warnings about a configuration among these files."""
    for name, content in contents.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, "utf-8")
    base, target = machine("0.12.1", ""), folder / path
    judged = (
        finding
        for each in subjects(str(target), target.read_bytes(), CATALOG)
        for finding in findings(each, base, CATALOG, CHECKS)
    )
    return [finding for finding in judged if finding.level in {Level.ERROR, Level.WARNING}]


def is_found(mistake: RlMistake, contents: dict[str, str], folder: Path) -> bool:
    """Whether a report stands at the line that was changed."""
    changed = contents | {mistake.file: mistake.content}
    spots = (finding.location for finding in reports(changed, mistake.configuration, folder))
    wrong = (str(folder / mistake.file), mistake.line)
    return any(spot is not None and (spot.file, spot.line) == wrong for spot in spots)
