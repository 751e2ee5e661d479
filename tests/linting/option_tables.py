"""Make matrices/options.yaml from git directories of the frameworks.

    python -m tests.linting.option_tables FOLDER > matrices/options.yaml

FOLDER has OWNER+NAME/repo for each repository below, and unpacked wheels as wheels/NAME.
"""

import ast
import contextlib
import re
import subprocess
import sys
import textwrap
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import yaml

CORE = ("0.12.1", "0.15.3", "0.16.1")
# Classes of MindSpeed-RL, and the parts of configurations that they read.
RL_REFS = ("2.1.0", "2.2.0", "2.3.0", "fea_asyncflow", "master")
RL_CLASSES = {
    "MegatronConfig": "megatron_training",
    "RLConfig": "rl_config",
    "GenerateConfig": "generate_config",
    "ProfilerConfig": "profiler_config",
    "MsprobeConfig": "msprobe_config",
}
VERL = ("v0.6.0", "v0.7.0", "v0.7.1", "v0.8.0", "v0.9.0", "1dda039b9c63")
# Their keys are known, too; most of their configurations stand in one file.
VERL_OLD = ("v0.2.0.post2", "v0.3.0.post1", "v0.4.1", "v0.5.0")
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
# Repository, refs and files with the parsers of scripts of Megatron-LM.
PARSERS = [
    (
        "NVIDIA/Megatron-LM",
        tuple(f"core_v{release}" for release in CORE),
        r"megatron/(training|post_training)/arguments\.py|pretrain_\w+\.py",
    ),
    (
        "NVIDIA/Megatron-LM",
        ("core_v0.17.1", "core_v0.18.2", "core_v0.19.0"),
        r"megatron/(core|training)/.*config\w*\.py",
    ),
    *((repository, refs, pattern) for _, repository, refs, pattern in TABLES[:1]),
    (
        TABLES[1][1],
        TABLES[1][2],
        r"(mindspeed_llm/(?!tasks/(checkpoint|evaluation)|mindspore).*|(pre|post)train_\w+)\.py",
    ),
    *((repository, refs, pattern) for _, repository, refs, pattern in TABLES[2:3]),
]
# Whose branch a version of Megatron-LM tells. What ms-swift has depends on transformers, too.
BY_REF = ("MindSpeed",)
PLAIN = re.compile(r"(?!(?:on|off|yes|no|true|false|null|y|n)$)[a-z_][\w-]*", re.IGNORECASE)
WHEELS = [
    ("transformers", r"(training_args\w*|generation/configuration_utils)\.py"),
    ("accelerate", r"commands/launch\.py"),
    ("deepspeed", r"launcher/runner\.py"),
]
ENUMS = {"IntervalStrategy", "SaveStrategy", "HubStrategy", "SchedulerType"}
CHOICES: dict[str, str] = {}


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


def files(folder: Path, refs: tuple[str, ...], pattern: str) -> Iterator[ast.Module]:
    """The Python files of these refs, each content once."""
    read: set[str] = set()
    for sha in filter(None, (commit(folder, ref) for ref in refs)):
        for row in git(folder, "ls-tree", "-r", sha).splitlines():
            blob, path = row.split()[2], row.split("\t")[1]
            if re.fullmatch(pattern, path) and blob not in read:
                read.add(blob)
                with warnings.catch_warnings(), contextlib.suppress(SyntaxError):
                    warnings.simplefilter("ignore")
                    yield ast.parse(git(folder, "cat-file", "blob", blob))


def kinds(folder: Path) -> dict[str, str]:
    """The values that the parsers of Megatron-LM and MindSpeed's family take, by option."""
    seen: dict[str, set[str]] = defaultdict(set)
    for repository, refs, pattern in PARSERS:
        for tree in files(folder / repository.replace("/", "+") / "repo", refs, pattern):
            for node in ast.walk(tree):
                if isinstance(node, ast.Call):
                    for name, kind in call_kinds(node):
                        seen[name].add(kind)
                elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                    kind = annotated(node.annotation)
                    if "|" in kind:
                        seen[node.target.id.replace("_", "-")].add(kind)
    return merged(seen)


def merged(seen: dict[str, set[str]]) -> dict[str, str]:
    """One kind where all definitions agree, and all their choices together."""
    kinds_: dict[str, str] = {}
    for name, several in seen.items():
        plain = {kind.rstrip("+") for kind in several - {"?"}}
        words = {kind for kind in plain if "|" not in kind}
        if words == {"int", "float"}:
            kind = "float"
        elif len(words) == 1 and (words == plain or words <= {"word", "int"}):
            kind = words.pop()
        elif words or not plain:
            continue
        else:
            kind = "|".join(sorted({w for k in plain for w in k.split("|") if w})) + "|"
        if kind:
            kinds_[name] = kind + "+" * any(each.endswith("+") for each in several)
    return kinds_


def call_kinds(call: ast.Call) -> Iterator[tuple[str, str]]:
    """The kinds of the options of a call of add_argument, or of one that adds a choice."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name == "add_argument":
        for option in options(call):
            yield option, kind_of(call)
    elif name.startswith("add_parser_argument_choices"):
        words = [str(each.value) for each in call.args if isinstance(each, ast.Constant)]
        if len(words) == 2:
            yield words[0][2:], f"{words[1]}|"


def kind_of(call: ast.Call) -> str:
    """int, float, word, flag, or the choices, each with a | behind it.

    A + at the end says that it takes several. "?" are choices that are computed, "" all else.
    """
    keywords = {keyword.arg: keyword.value for keyword in call.keywords}
    action, choices, kind = (keywords.get(name) for name in ("action", "choices", "type"))
    several = "+" * ("nargs" in keywords)
    if None in keywords or action is not None:
        return "flag" * str(getattr(action, "value", "")).startswith("store_")
    if isinstance(choices, ast.List | ast.Tuple) and all(
        isinstance(choice, ast.Constant) for choice in choices.elts
    ):
        return "".join(f"{choice.value}|" for choice in choices.elts) + several  # type: ignore[attr-defined]
    if choices is not None:
        return "?"
    if kind is None or (isinstance(kind, ast.Name) and kind.id == "str"):
        return "" if several else "word"
    return kind.id + several if isinstance(kind, ast.Name) and kind.id in {"int", "float"} else ""


def annotated(node: ast.expr) -> str:
    """The kind of a field of a class: of Literal its choices, of Optional what it may be."""
    if isinstance(node, ast.Subscript):
        name = ast.unparse(node.value).rpartition(".")[2]
        if name == "Literal":
            words = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            return "".join(f"{each.value!s}|" for each in words if isinstance(each, ast.Constant))
        return annotated(node.slice) if name == "Optional" else ""
    if isinstance(node, ast.BinOp) and ast.unparse(node.right) == "None":
        return annotated(node.left)
    if isinstance(node, ast.BinOp) and ast.unparse(node.right) == "str":
        return CHOICES.get(ast.unparse(node.left), "")
    names_ = {"int": "int", "float": "float", "bool": "bool", "str": "word", "torch.dtype": "?"}
    return names_.get(ast.unparse(node), CHOICES.get(ast.unparse(node), ""))


def read_choices(tree: ast.Module) -> None:
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name in ENUMS:
            words = [each.value for each in node.body if isinstance(each, ast.Assign)]
            CHOICES[node.name] = "".join(f"{ast.literal_eval(word)}|" for word in words)


def field_kinds(trees: Iterable[ast.Module]) -> dict[str, set[str]]:
    """The kinds of the fields of classes of arguments."""
    seen: dict[str, set[str]] = defaultdict(set)
    for tree in trees:
        for node in ast.walk(tree):
            if not isinstance(node, ast.ClassDef) or not re.search("Arg|Mixin", node.name):
                continue
            for field in node.body:
                if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
                    seen[field.target.id].add(annotated(field.annotation))
    return seen


def override_kinds(folder: Path) -> dict[str, str]:
    """All keys of verl's configurations; bool, int or float where all that name it agree.

    "open" is a mapping that takes any key, "any" another value.
    """
    seen: dict[str, set[str]] = defaultdict(set)
    for ref in (*VERL_OLD, *VERL):
        for path in git(folder, "ls-tree", "-r", "--name-only", ref, CONFIGS).split():
            if "_generated_" in path or (ref in VERL_OLD and re.search(r"/ppo_\w+\.yaml", path)):
                for key, value in dotted(yaml.safe_load(git(folder, "show", f"{ref}:{path}")), ()):
                    seen[key].add("" if ref in VERL_OLD else kind_of_value(value))
    seen = {key: several - {""} for key, several in seen.items()}
    return {
        key: "float"
        if several == {"int", "float"}
        else min(several)
        if len(several) == 1
        else "any"
        for key, several in seen.items()
    }


def tree(kinds_: dict[str, str]) -> dict[str, object]:
    """Kinds of dotted keys as a mapping of mappings."""
    whole: dict[str, object] = {}
    for key, kind in sorted(kinds_.items()):
        *above, last = key.split(".")
        node = whole
        for word in above:
            inner = node.setdefault(word, {})
            if not isinstance(inner, dict):  # of another release a plain value
                inner = node[word] = {}
            node = inner
        node.setdefault(last, kind)
    return whole


def flow(node: Mapping[str, object]) -> str:
    """A mapping as YAML between braces."""
    plain = re.compile(r"[\w.+-][\w.|+-]*")
    parts = []
    for key, value in node.items():
        name = key if PLAIN.fullmatch(key) else f'"{key}"'
        text = flow(value) if isinstance(value, dict) else str(value)
        shown = text if isinstance(value, dict) or plain.fullmatch(text) else f'"{text}"'
        parts.append(f"{name}: {shown}" if text else name)
    return "{" + ", ".join(parts) + "}"


def folded(node: Mapping[str, object], indent: str) -> list[str]:
    """A mapping as lines of YAML."""
    return [
        textwrap.fill(
            f"{key}: {flow(value) if isinstance(value, dict) else value}",
            1200,
            initial_indent=indent,
            subsequent_indent=indent + "  ",
            break_on_hyphens=False,
            break_long_words=False,
        )
        for key, value in node.items()
    ]


def dotted(node: object, path: tuple[str, ...]) -> Iterator[tuple[str, object]]:
    if not isinstance(node, dict) or not node:
        yield ".".join(path), node
        return
    for key, value in node.items():
        yield from dotted(value, (*path, str(key)))


def kind_of_value(value: object) -> str:
    """bool, int, float, open, or "" for another one. YAML 1.1 reads 1e-6 as a word."""
    if value == {}:
        return "open"
    if isinstance(value, str) and re.fullmatch(r"\d+(\.\d+)?e-?\d+", value):
        return "float"
    return {bool: "bool", int: "int", float: "float"}.get(type(value), "")


def wrapped(words: list[str], indent: str) -> str:
    text = ", ".join(word if PLAIN.fullmatch(word) else f'"{word}"' for word in words)
    return textwrap.fill(
        text, 1200, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


def rl_defaults(folder: Path, ref: str) -> Iterator[tuple[str, object]]:
    """Key and value of each attribute, and those of a mapping."""
    listed = git(folder, "ls-tree", "-r", "--name-only", ref, "mindspeed_rl/config_cls").split()
    for path in listed:
        for node in ast.walk(ast.parse(git(folder, "show", f"{ref}:{path}"))):
            if not isinstance(node, ast.ClassDef) or node.name not in RL_CLASSES:
                continue
            for statement in ast.walk(node):
                if isinstance(statement, ast.Assign) and isinstance(
                    statement.targets[0], ast.Attribute
                ):
                    name = f"{RL_CLASSES[node.name]}.{statement.targets[0].attr}"
                    with contextlib.suppress(ValueError):
                        value = ast.literal_eval(statement.value)
                        yield name, value
                        for inner in value if isinstance(value, dict) else ():
                            yield f"{name}.{inner}", value[inner]


def rl_kinds(folder: Path) -> dict[str, str]:
    """Kinds of MindSpeed-RL's defaults."""
    seen: dict[str, set[str]] = defaultdict(set)
    for ref in RL_REFS:
        for key, value in rl_defaults(folder, commit(folder, ref)):
            if value is not None:
                seen[key].add("" if isinstance(value, str) else kind_of_value(value))
    return {key: min(kinds_) for key, kinds_ in seen.items() if len(kinds_) == 1 and min(kinds_)}


def rows_of(
    names_by_ref: dict[str, set[str]], kinds_: dict[str, str], *, by_ref: bool
) -> list[str]:
    """All options with their kinds, and with ``by_ref`` those that refs lack, by these refs.

    What is written is taken out of ``kinds_``.
    """
    every: set[str] = set().union(*names_by_ref.values())
    rows = folded({"options": {name: kinds_.pop(name, "") for name in sorted(every)}}, "    ")
    if by_ref:
        missing: dict[str, dict[str, str]] = {}
        for name in sorted(every):
            refs = ",".join(ref for ref, own in names_by_ref.items() if name not in own)
            missing.setdefault(refs, {})[name] = ""
        missing.pop("", None)
        rows += [
            "    lacks:",
            *folded({f'"{refs}"': names_ for refs, names_ in missing.items()}, "      "),
        ]
    return rows


def main(folder: Path) -> None:
    """Print the file."""
    out = [
        "# Made by tests/linting/option_tables.py from the commits that it names.",
        "schema: 1",
        "tables:",
    ]
    parsers = {name: kind for name, kind in kinds(folder).items() if kind != "word"}
    swift = swift_kinds(folder)
    for name, repository, refs, pattern in TABLES:
        checkout = folder / repository.replace("/", "+") / "repo"
        of_family = name.startswith("MindSpeed")
        commits, names_by_ref = table(checkout, refs, pattern, fields=not of_family)
        if name == "verl":  # the others are keys of its configurations
            keys_ = {word for key in override_kinds(checkout) for word in key.split(".")}
            names_by_ref = {ref: words - keys_ for ref, words in names_by_ref.items()}
        out += [f"  - name: {name}", f"    repository: {repository}", "    commits:"]
        out += [f'      "{ref}": "{sha[:12]}"' for ref, sha in commits.items()]
        own = parsers if of_family else swift if name == "ms-swift" else {}
        out += rows_of(names_by_ref, own, by_ref=name in BY_REF)
    for name, pattern in WHEELS:
        root = folder / "wheels" / name
        texts = [
            path.read_text("utf-8")
            for path in root.rglob("*.py")
            if re.fullmatch(rf"{name}/{pattern}", str(path.relative_to(root)))
        ]
        options_ = {option for text in texts for option in names(text, ".py")}
        calls = (node for text in texts for node in ast.walk(ast.parse(text)))
        pairs = (pair for node in calls if isinstance(node, ast.Call) for pair in call_kinds(node))
        own = {**swift, **{option: kind for option, kind in pairs if kind not in {"word", "?"}}}
        version = next(root.glob("*.dist-info")).name.split("-")[1].removesuffix(".dist")
        out += [f"  - name: {name}", f"    repository: huggingface/{name}", "    commits:"]
        out += [f'      "v{version}": ""', *rows_of({version: options_}, own, by_ref=False)]
    out += ["overrides:"]
    checkout = folder / "verl-project+verl" / "repo"
    out += folded(
        tree(override_kinds(checkout) | rl_kinds(folder / "Ascend+MindSpeed-RL" / "repo")), "  "
    )
    sources = [
        f"NVIDIA/Megatron-LM@core_v{release}:megatron/training/arguments.py" for release in CORE
    ]
    sources += [f"verl-project/verl@{ref}:{CONFIGS}" for ref in VERL]
    sources += [f"Ascend/MindSpeed-RL@{ref}:mindspeed_rl/config_cls" for ref in RL_REFS]
    out += ["sources:", *(f'  - {{url: "{url}", date: "2026-11-22"}}' for url in sources)]
    print("\n".join(out))  # noqa: T201
    add_kinds(Path("matrices/flags.yaml"), parsers)


def add_kinds(path: Path, kinds_: dict[str, str]) -> None:
    """Write the kinds of Megatron-LM's own options beside their names."""
    text = path.read_text("utf-8")
    flags = yaml.safe_load(text)
    every = {name: kinds_.get(name, "") for name in flags["every"]}
    some = {
        f'"{has}"': {name: kinds_.get(name, "") for name in names_}
        for has, names_ in flags["some"].items()
    }
    rows = [*folded({"every": every}, ""), "some:", *folded(some, "  ")]
    begin, end = text.index("every:"), text.index("mindspeed:")
    path.write_text(text[:begin] + "\n".join(rows) + "\n" + text[end:], "utf-8")


def swift_kinds(folder: Path) -> dict[str, str]:
    """The kinds of ms-swift's arguments, with those that it takes over from transformers."""
    _, repository, refs, _ = TABLES[3]
    checkout = folder / repository.replace("/", "+") / "repo"
    megatron = field_kinds(files(checkout, refs, r"swift/megatron/.*arg.*\.py"))
    fields = field_kinds(files(checkout, refs, r"swift/(?!megatron/).*(arg|config).*\.py"))
    for path in (folder / "wheels").rglob("trainer_utils.py"):
        read_choices(ast.parse(path.read_text("utf-8")))
    for path in (folder / "wheels").rglob("training_args.py"):
        for key, several in field_kinds([ast.parse(path.read_text("utf-8"))]).items():
            fields[key] |= several
    # A class that others extend repeats a field as a plain text.
    for own in (megatron, fields):
        for key, several in own.items():
            own[key] = several - {"word"} if any("|" in k for k in several) else several
    both = merged(megatron), merged(fields)
    names_ = megatron.keys() | fields.keys()
    seen = {
        key: {
            kinds_.get(key, "")
            for kinds_, own in zip(both, (megatron, fields), strict=True)
            if key in own
        }
        for key in names_
    }
    return {key: kind for key, kind in merged(seen).items() if kind != "word"}


if __name__ == "__main__":
    main(Path(sys.argv[1]))
