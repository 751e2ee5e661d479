"""Make matrices/options.yaml from git directories of the frameworks.

    python -m tests.linting.option_tables FOLDER > matrices/options.yaml

FOLDER has OWNER+NAME/repo for each repository below, and unpacked wheels as wheels/NAME.
"""

import ast
import re
import subprocess
import sys
import textwrap
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import yaml

CORE = ("0.12.1", "0.15.3", "0.16.1")
# The classes of MindSpeed-RL that its configurations fill, with the part that each reads.
RL_REFS = ("2.1.0", "2.2.0", "2.3.0", "fea_asyncflow", "master")
RL_CLASSES = {
    "MegatronConfig": "megatron_training",
    "RLConfig": "rl_config",
    "GenerateConfig": "generate_config",
    "ProfilerConfig": "profiler_config",
    "MsprobeConfig": "msprobe_config",
}
VERL = ("v0.6.0", "v0.7.0", "v0.7.1", "1dda039b9c63")
CONFIGS = "verl/trainer/config"
# Table, repository, refs, which files.
TABLES = [
    (
        "MindSpeed",
        "Ascend/MindSpeed",
        (
            *(f"{release}_core_r0.12.1" for release in ("2.1.0", "2.2.0", "2.3.0", "26.0.0")),
            *("26.1.0_core_r0.12.1", "core_r0.14.0", "core_r0.15.3", "core_r0.16.0"),
            *("core_r0.17.0", "core_r0.18.0", "master"),
        ),
        r"mindspeed/.*\.py",
    ),
    (
        "MindSpeed-LLM",
        "Ascend/MindSpeed-LLM",
        ("2.0.0", "2.1.0", "2.2.0", "2.3.0", "26.0.0", "26.1.0", "master"),
        r"(mindspeed_llm/.*|[^/]+)\.py",
    ),
    (
        "MindSpeed-MM",
        "Ascend/MindSpeed-MM",
        ("v2.0.0", "v2.1.0", "v2.2.0", "v2.3.0", "v26.0.0", "v26.1.0", "master"),
        r"(mindspeed_mm/.*|[^/]+)\.py",
    ),
    (
        "ms-swift",
        "modelscope/ms-swift",
        (
            *(f"release/3.{minor}" for minor in (8, 9, 10, 11, 12)),
            *(f"release/4.{minor}" for minor in range(6)),
            "main",
        ),
        r"swift/.*(arg|config|template|tuner).*\.py",
    ),
    ("trl", "huggingface/trl", ("main",), r"trl/.*(config|args).*\.py"),
    (
        "verl",
        "verl-project/verl",
        ("v0.6.0", "v0.7.0", "v0.7.1", "main"),
        r"(verl|recipe)/.*(config/.*\.yaml|config.*\.py|workers/config/.*\.py)",
    ),
]
# Whose branch a version of Megatron-LM tells. What ms-swift has depends on transformers, too.
BY_REF = ("MindSpeed",)
WHEELS = [("transformers", r"(training_args\w*|generation/configuration_utils)\.py")]


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    done = subprocess.run(command, check=True, capture_output=True, timeout=300)
    return done.stdout.decode("utf-8", "replace")


def commit(folder: Path, ref: str) -> str:
    listed = git(folder, "for-each-ref", "--format=%(refname) %(objectname) %(*objectname)")
    commits = {row.split()[0]: row.split()[-1] for row in listed.splitlines()}
    spelt = (f"{kind}/{name}" for kind in ("heads", "tags") for name in (ref, f"v{ref}"))
    return next((commits[f"refs/{name}"] for name in spelt if f"refs/{name}" in commits), "")


def names(content: str, path: str, *, fields: bool = True) -> Iterator[str]:
    """Options of add_argument, keys of YAML, and with ``fields`` those of classes."""
    if path.endswith(".yaml"):
        yield from keys(content)
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(content)
        except SyntaxError:
            return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr == "add_argument":
                yield from options(node)
        elif fields and isinstance(node, ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    yield statement.target.id


def options(call: ast.Call) -> Iterator[str]:
    for argument in call.args:
        if isinstance(argument, ast.Constant) and str(argument.value).startswith("--"):
            yield str(argument.value)[2:]


def keys(content: str) -> Iterator[str]:
    try:
        waiting = [yaml.safe_load(content)]
    except yaml.YAMLError:
        return
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield from (str(key) for key in node if re.fullmatch(r"\w+", str(key)))
            waiting += node.values()
        elif isinstance(node, list):
            waiting += node


def table(
    folder: Path, refs: tuple[str, ...], pattern: str, *, fields: bool
) -> tuple[dict[str, str], dict[str, set[str]]]:
    """Commits and names by ref."""
    commits: dict[str, str] = {}
    fields_by_ref: dict[str, set[str]] = defaultdict(set)
    read: dict[str, tuple[str, ...]] = {}
    for ref in refs:
        sha = commit(folder, ref)
        if not sha:
            print(f"{folder}: no {ref}", file=sys.stderr)  # noqa: T201
            continue
        commits[ref] = sha
        for row in git(folder, "ls-tree", "-r", sha).splitlines():
            blob, path = row.split()[2], row.split("\t")[1]
            if re.fullmatch(pattern, path):
                if blob not in read:
                    content = git(folder, "cat-file", "blob", blob)
                    read[blob] = tuple(names(content, path, fields=fields))
                fields_by_ref[ref] |= set(read[blob])
    return commits, fields_by_ref


def kinds(folder: Path) -> dict[str, str]:
    """What Megatron-LM's parser takes as a value, where all releases that are read agree."""
    seen: dict[str, set[str]] = defaultdict(set)
    for release in CORE:
        content = git(folder, "show", f"core_v{release}:megatron/training/arguments.py")
        for node in ast.walk(ast.parse(content)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                for name in options(node):
                    seen[name].add(kind_of(node))
    merged: dict[str, str] = {}
    for name, several in seen.items():
        if "" in several:
            continue
        if len(several) == 1:
            merged[name] = next(iter(several))
        elif all("|" in kind for kind in several):
            merged[name] = "|".join(sorted({part for kind in several for part in kind.split("|")}))
    return merged


def kind_of(call: ast.Call) -> str:
    """int, float, flag, the choices with | between them, or "" for what is not told."""
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    action, choices, kind = (keywords.get(name) for name in ("action", "choices", "type"))
    if "nargs" in keywords or None in keywords:
        return ""
    if isinstance(action, ast.Constant) and str(action.value).startswith("store_"):
        return "flag"
    if isinstance(choices, ast.List | ast.Tuple) and all(
        isinstance(choice, ast.Constant) for choice in choices.elts
    ):
        return "|".join(str(choice.value) for choice in choices.elts) + "|"  # type: ignore[attr-defined]
    if choices is None and isinstance(kind, ast.Name) and kind.id in {"int", "float"}:
        return kind.id
    return ""


def override_kinds(folder: Path) -> dict[str, str]:
    """Whether a key of verl is bool, int or float, where all its generated configurations agree."""
    seen: dict[str, set[str]] = defaultdict(set)
    for ref in VERL:
        for path in git(folder, "ls-tree", "-r", "--name-only", ref, CONFIGS).split():
            if "_generated_" in path:
                for key, value in dotted(yaml.safe_load(git(folder, "show", f"{ref}:{path}")), ()):
                    if value is not None:
                        seen[key].add(kind_of_value(value))
    kinds = {key: next(iter(several)) for key, several in seen.items() if len(several) == 1}
    return {key: kind for key, kind in kinds.items() if kind}


def override_words(folder: Path) -> dict[str, str]:
    """The known words of keys that take any: registries and the enumeration of estimators."""
    words: dict[str, set[str]] = defaultdict(set)
    for ref in VERL:
        replicas = git(folder, "show", f"{ref}:verl/workers/rollout/replica.py")
        words["actor_rollout_ref.rollout.name"].update(
            re.findall(r'RolloutReplicaRegistry\.register\("(\w+)"', replicas)
        )
        estimators = git(folder, "show", f"{ref}:verl/trainer/ppo/core_algos.py")
        body = re.split(r"class AdvantageEstimator\b", estimators)[1].split("\nclass ")[0]
        words["algorithm.adv_estimator"].update(
            re.findall(r'^    [A-Z_]+ = "(\w+)"', body, re.MULTILINE)
        )
        engines = git(folder, "grep", "-h", "backend=", ref, "--", "verl/workers/engine")
        for several in re.findall(r"backend=(\[[^]]*\]|\"\w+\")", engines):
            words["actor_rollout_ref.actor.strategy"].update(re.findall(r'"(\w+)"', several))
    return {key: "|".join(sorted(known)) + "|" for key, known in words.items()}


def dotted(node: object, path: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    if not isinstance(node, dict):
        yield ".".join(path), node
        return
    for key, value in node.items():
        yield from dotted(value, (*path, str(key)))


def kind_of_value(value: object) -> str:
    """bool, int, float, or "" for another one. YAML 1.1 reads 1e-6 as a word."""
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?e-?\d+", value):
        return "float"
    return {bool: "bool", int: "int", float: "float"}.get(type(value), "")


def wrapped(words: list[str], indent: str) -> str:
    plain = re.compile(r"(?!(?:on|off|yes|no|true|false|null|y|n)$)[a-z_][\w-]*", re.IGNORECASE)
    text = ", ".join(word if plain.fullmatch(word) else f'"{word}"' for word in words)
    return textwrap.fill(
        text, 110, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def rl_defaults(folder: Path, ref: str) -> Iterator[tuple[str, str, object]]:
    """Class, key and value of each attribute; of a mapping as a value its own keys, too."""
    listed = git(folder, "ls-tree", "-r", "--name-only", ref, "mindspeed_rl/config_cls").split()
    for path in listed:
        for node in ast.walk(ast.parse(git(folder, "show", f"{ref}:{path}"))):
            if not isinstance(node, ast.ClassDef) or node.name not in RL_CLASSES:
                continue
            for statement in ast.walk(node):
                if isinstance(statement, ast.Assign) and isinstance(
                    statement.targets[0], ast.Attribute
                ):
                    name = statement.targets[0].attr
                    try:
                        value = ast.literal_eval(statement.value)
                    except ValueError:
                        value = None
                    yield node.name, name, value
                    for inner in value if isinstance(value, dict) else ():
                        yield f"{node.name}.{name}", str(inner), value[inner]


def rl_tables(folder: Path) -> tuple[list[str], dict[str, str]]:
    """Tables of MindSpeed-RL's keys, a class each, and the kinds of their defaults."""
    names_by_owner: dict[str, set[str]] = defaultdict(set)
    seen: dict[str, set[str]] = defaultdict(set)
    for ref in RL_REFS:
        for owner, name, value in rl_defaults(folder, commit(folder, ref)):
            names_by_owner[owner].add(name)
            if value is not None:
                first, *rest = owner.split(".")
                key = ".".join((RL_CLASSES[first], *rest, name))
                seen[key].add(kind_of_value(value) if not isinstance(value, str) else "")
    rows: list[str] = []
    for owner, names_ in sorted(names_by_owner.items()):
        rows += [f"  - name: MindSpeed-RL/{owner}", "    repository: Ascend/MindSpeed-RL"]
        rows += ["    commits:"]
        rows += [f'      "{ref}": "{commit(folder, ref)[:12]}"' for ref in RL_REFS]
        rows += ["    options: [", wrapped(sorted(names_), "      "), "    ]"]
    kinds_ = {key: next(iter(several)) for key, several in seen.items() if len(several) == 1}
    return rows, {key: kind for key, kind in kinds_.items() if kind}


def rows_of(names_by_ref: dict[str, set[str]], *, by_ref: bool) -> list[str]:
    """All options, and with ``by_ref`` those that each ref lacks."""
    every: set[str] = set().union(*names_by_ref.values())
    rows = ["    options: [", wrapped(sorted(every), "      "), "    ]"]
    if by_ref:
        rows.append("    lacks:")
        for ref, names_ in names_by_ref.items():
            rows += [f'      "{ref}": [', wrapped(sorted(every - names_), "        "), "      ]"]
    return rows


def main(folder: Path) -> None:
    """Print the file."""
    out = [
        "# Made by tests/linting/option_tables.py from the commits that it names.",
        "schema: 1",
        "tables:",
    ]
    for name, repository, refs, pattern in TABLES:
        checkout = folder / repository.replace("/", "+") / "repo"
        commits, names_by_ref = table(
            checkout, refs, pattern, fields=not name.startswith("MindSpeed")
        )
        head = [f"  - name: {name}", f"    repository: {repository}", "    commits:"]
        out += head
        out += [f'      "{ref}": "{sha[:12]}"' for ref, sha in commits.items()]
        out += rows_of(names_by_ref, by_ref=name in BY_REF)
    for name, pattern in WHEELS:
        root = folder / "wheels" / name
        options_ = sorted(
            {
                option
                for path in root.rglob("*.py")
                if re.fullmatch(rf"{name}/{pattern}", str(path.relative_to(root)))
                for option in names(path.read_text("utf-8"), str(path))
            }
        )
        version = next(root.glob("*.dist-info")).name.split("-")[1].removesuffix(".dist")
        out += [f"  - name: {name}", f"    repository: huggingface/{name}", "    commits:"]
        out += [f'      "v{version}": ""', "    options: [", wrapped(options_, "      "), "    ]"]
    tables, rl_kinds = rl_tables(folder / "Ascend+MindSpeed-RL" / "repo")
    out += [*tables, "kinds:"]
    found_kinds = kinds(folder / "NVIDIA+Megatron-LM" / "repo")
    out += [f'  {name}: "{kind}"' for name, kind in sorted(found_kinds.items())]
    out += ["overrides:"]
    checkout = folder / "verl-project+verl" / "repo"
    dotted_kinds = override_kinds(checkout) | override_words(checkout) | rl_kinds
    out += [f"  {key}: {kind}" for key, kind in sorted(dotted_kinds.items())]
    sources = [
        f"NVIDIA/Megatron-LM@core_v{release}:megatron/training/arguments.py" for release in CORE
    ]
    sources += [f"verl-project/verl@{ref}:{CONFIGS}" for ref in VERL]
    sources += [f"Ascend/MindSpeed-RL@{ref}:mindspeed_rl/config_cls" for ref in RL_REFS]
    out += ["sources:", *(f'  - {{url: "{url}", date: "2026-11-22"}}' for url in sources)]
    print("\n".join(out))  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
