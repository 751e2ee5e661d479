"""Exceptions raised for real, each with the answer that what was broken implies.

`python -m tests.diagnosis.raised make FOLDER` runs broken programs and writes their logs and
`labels.tsv`; `judge FOLDER` counts what `diagnose` answers. Labels come from the damage alone.
"""

import ast
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import click
from packaging.requirements import Requirement

from ascend_doctor.diagnosis.result import Diagnosis
from ascend_doctor.render.diagnosis import own_error
from tests.diagnosis.logs import of_paths
from tests.diagnosis.raised_scripts import CONFIG, DISTRIBUTED, LIBRARY, USER, WRAPPERS

SITE = Path(metadata.__file__).parent, Path(click.__file__).parent.parent
WORDS = [
    "batch",
    "shard",
    "corpus",
    "vocab",
    "trunk",
    "gate",
    "expert",
    "rope",
    "adapter",
    "router",
]
TIMEOUT_S = 120


class Label(NamedTuple):
    """``says``: texts that the answer must contain, separated by spaces."""

    case: str
    kind: str
    says: str


class Farm:
    """A virtual environment of links to the installed packages, some broken."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / f"env{random.randrange(10_000)}"
        version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
        self.site = self.root / "lib" / version / "site-packages"
        self.site.mkdir(parents=True)
        (self.root / "bin").mkdir()
        home = Path(os.path.realpath(sys.executable)).parent
        (self.root / "pyvenv.cfg").write_text(f"home = {home}\n")
        self.python = self.root / "bin" / "python"
        self.python.symlink_to(os.path.realpath(sys.executable))
        for entry in SITE[1].iterdir():
            if not entry.name.endswith(".pth"):
                (self.site / entry.name).symlink_to(entry)

    def remove(self, distribution: str, *, metadata_only: bool = False) -> None:
        for entry in {file.parts[0] for file in metadata.files(distribution) or ()}:
            if entry != ".." and (entry.endswith(".dist-info") or not metadata_only):
                (self.site / entry).unlink(missing_ok=True)

    def age(self, module: Path, name: str) -> None:
        """Remove a name from a copy of a module."""
        at = self.site
        for part in module.parts[:-1]:
            at /= part
            if at.is_symlink():
                source = at.resolve()
                at.unlink()
                at.mkdir()
                for entry in source.iterdir():
                    (at / entry.name).symlink_to(entry)
        source = (at / module.name).resolve()
        (at / module.name).unlink()
        (at / module.name).write_text(f"{source.read_text()}\ndel {name}\n")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def modules_of() -> dict[str, str]:
    """Each distribution's first module that may be imported."""
    return {
        normal(names[0]): module
        for module, names in metadata.packages_distributions().items()
        if module.isidentifier() and not module.startswith("_")
    }


def fill(template: str, words: list[str]) -> str:
    return template.replace("$a", words[0]).replace("$b", words[1]).replace("$c", words[2])


def write_user(folder: Path, text: str) -> tuple[str, str]:
    """A script's name and its marked place, after comments."""
    name = f"{random.choice(['train', 'finetune', 'pretrain_gpt', 'run'])}.py"
    lines = [f"# {word}" for word in random.sample(WORDS, random.randrange(1, 9))]
    lines += text.strip("\n").split("\n")
    at = next((number for number, line in enumerate(lines, 1) if "#!" in line), 0)
    (folder / name).write_text("\n".join(line.replace("  #!", "") for line in lines) + "\n")
    return name, f"{name}:{at}"


def run(folder: Path, command: list[str]) -> bool:
    """Whether it failed, as it should; its output is in the folder."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "LANG": "C.UTF-8"}
    environment |= {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "OMP_NUM_THREADS": "1"}
    with (folder / "train.log").open("wb") as log:
        try:
            return subprocess.run(command, cwd=folder, env=environment, stdout=log, check=False,
                                  stderr=log, timeout=TIMEOUT_S).returncode != 0  # fmt: skip
        except subprocess.TimeoutExpired:
            return False


def scripted(folder: Path, templates: list[tuple[str, str, str]], *front: str) -> Label | None:
    kind, says, template = random.choice(templates)
    words = random.sample(WORDS, 3)
    name, location = write_user(folder, fill(template, words))
    command = [*(front or (sys.executable,)), name]
    says = fill(says, words).replace("@", location)
    return Label(folder.name, kind, says) if run(folder, command) else None


def of_torchrun(folder: Path) -> Label | None:
    tee = ["--tee", "3"] if random.random() < 0.5 else []
    port = str(random.randrange(20_000, 30_000))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4"]
    return scripted(folder, DISTRIBUTED, *launcher, "--master-port", port, *tee)


def of_removed(folder: Path) -> Label | None:
    """A needed distribution is gone, or only its metadata."""
    modules = modules_of()
    importer = random.choice(sorted(modules))
    rows = [Requirement(row) for row in metadata.requires(importer) or ()]
    needed = [
        normal(row.name) for row in rows if not row.marker or row.marker.evaluate({"extra": ""})
    ]
    needed = [name for name in needed if name in modules]
    if not needed:
        return None
    distribution, farm = random.choice(needed), Farm(folder)
    metadata_only = random.random() < 0.3
    farm.remove(distribution, metadata_only=metadata_only)
    module = modules[distribution if metadata_only else importer]
    version = f"import importlib.metadata\nimportlib.metadata.version({distribution!r})"
    text = f"import {module}\n{version if metadata_only else ''}"
    (folder / "train.py").write_text(text)
    kind = "python-missing-metadata" if metadata_only else "python-missing-module"
    name = metadata.distribution(distribution).metadata["Name"]
    label = Label(
        folder.name, kind, f"-m~pip~install~{name}" + ("" if metadata_only else f" {farm.python}")
    )
    return label if run(folder, [str(farm.python), "train.py"]) else None


def imported_names(importer: str) -> Iterator[tuple[str, str]]:
    """Names that a package's modules import from others."""
    for path in sorted((SITE[1] / importer).glob("*.py"))[:12]:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from ((node.module, name.name) for name in node.names)


def of_aged(folder: Path) -> Label | None:
    """A package is older than its importer."""
    modules = {module: name for name, module in modules_of().items()}
    importer = random.choice(sorted(set(modules) - {"ray", "mypy", "ruff"}))
    choices = [
        (module, name)
        for module, name in imported_names(importer)
        if module.split(".")[0] in modules and module.split(".")[0] != importer
    ]
    if not choices:
        return None
    module, name = random.choice(choices)
    path = Path(*module.split("."))
    path = path / "__init__.py" if (SITE[1] / path).is_dir() else path.with_suffix(".py")
    if not (SITE[1] / path).is_file():
        return None
    farm = Farm(folder)
    farm.age(path, name)
    (folder / "train.py").write_text(f"import {importer}\n")
    old = metadata.distribution(modules[module.split(".")[0]]).metadata["Name"]
    new = metadata.distribution(modules[importer]).metadata["Name"]
    label = Label(folder.name, "python-import-name", f"{name} {old} {new} {farm.python}")
    if not run(folder, [str(farm.python), "train.py"]):
        return None
    # It may have broken its source, or another importer.
    files = re.findall(r"-packages/(\w+)", (log := (folder / "train.log").read_text()))
    return label if f"cannot import name '{name}'" in log and files[-2:-1] == [importer] else None


SHARES: list[tuple[Callable[[Path], Label | None], int]] = [
    (of_removed, 50),
    (of_aged, 30),
    (lambda folder: scripted(folder, USER), 40),
    (lambda folder: scripted(folder, LIBRARY), 35),
    (lambda folder: scripted(folder, WRAPPERS), 15),
    (of_torchrun, 30),
]


def plain(text: str) -> str:
    return text.lower().replace("_", "-").replace(".", "-").replace("~", " ")


def answer_of(diagnosis: Diagnosis) -> tuple[str, str]:
    error = own_error(diagnosis) or next(iter(diagnosis.unexplained), None)
    cause = diagnosis.causes[0] if diagnosis.causes and not own_error(diagnosis) else None
    if cause:
        return cause.id, f"{cause.title}\n{cause.cause}\n{cause.fix}"
    return ("python-exception", error.reading) if error else ("none", "")


@click.group()
def main() -> None:
    """Raised exceptions, and what is made of them."""


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--seed", default=CONFIG["seed"])
@click.option("--share", default=1.0, help="Part of the usual number of cases.")
def make(folder: Path, seed: int, share: float) -> None:
    random.seed(seed)
    folder.mkdir(parents=True, exist_ok=True)
    makers = [maker for maker, many in SHARES for _ in range(round(many * share))]
    random.shuffle(makers)
    with (folder / "labels.tsv").open("w") as labels:
        for number, maker in enumerate(makers):
            for again in range(CONFIG["tries"]):
                (case := folder / f"{number:03}-{again}").mkdir()
                if label := maker(case):
                    print(*label, sep="\t", file=labels, flush=True)
                    break
                case.rename(folder / f"no-{case.name}")


@main.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--wrong", is_flag=True, help="Print what is wrong.")
def judge(folder: Path, *, wrong: bool) -> None:
    counts: Counter[tuple[str, bool]] = Counter()
    for row in (folder / "labels.tsv").read_text().splitlines():
        label = Label(*row.split("\t"))
        kind, text = answer_of(of_paths(folder / label.case / "train.log"))
        lacks = [word for word in label.says.split() if plain(word) not in plain(text)]
        # The catalogue says more than the exception.
        right = kind in label.kind.split("|") and not (lacks and kind.startswith("python-"))
        counts[label.kind, right] += 1
        if wrong and not right:
            click.echo(f"{label.case} {label.kind} got {kind} lacks {lacks}")
    for kind in sorted({kind for kind, _ in counts}):
        click.echo(
            f"{kind:28} {counts[kind, True]:4} of {counts[kind, True] + counts[kind, False]}"
        )
    answered = sum(many for (_, is_right), many in counts.items() if is_right)
    click.echo(f"all {answered} of {counts.total()}")


if __name__ == "__main__":
    main()
