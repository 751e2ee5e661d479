"""Writes docs/fidelity.md, and the evidence for it as docs/records/fidelity.md.

usage: python -m tests.simulator.fidelity [WHEELS | JOBS]

The operators are read from the simulator, the observations from fidelity.json beside this file.
With WHEELS, a folder of torch_npu wheels of any architecture, what they need is read anew first;
nothing of them is imported. With JOBS, a file that the tests of tests/acceptance/rehearsals have
written, the rows of these jobs are replaced. Which case calls which operator was noted by the
scripts under operators/ with --called.
"""

import ast
import json
import mmap
import re
import statistics
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ascend_doctor.simulator.wheel import operators, read_elf

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SEEN = HERE / "fidelity.json"
PAGE = ROOT / "docs" / "fidelity.md"
RECORD = ROOT / "docs" / "records" / "fidelity.md"
TEXT = HERE / "fidelity.txt"
RECORD_TEXT = HERE / "fidelity-record.txt"
SIMULATED = ROOT / "ascend_doctor" / "simulator"
LINE = ("version", "machine", "imports", "level 2", "groups", "trains", "pretrain", "ran")
WHEEL = re.compile(r"torch_npu-(?P<version>[^-]+)-.*_(?P<machine>x86_64|aarch64)\.whl$")
NAMES = re.compile(r"\b(?:torch_npu|torch\.npu|torch\.ops\.npu)\.([A-Za-z_][\w.]*)|\bnpu::(\w+)")
GRADIENT = re.compile(r"_(backward|grad)(_v\d)?$")
# What CANN exports: acl, HCCL, profiling and runtime functions, the bounded string functions of
# libc_sec, and the classes of the graph engine and of ATB.
CANN_SYMBOL = re.compile(r"acl[A-Za-z]|Hccl|Msprof|rt[A-Z]|[a-z]+_s$|_Z(T[VIS])?NK?(2ge|3atb)\d")


def cann_symbols(folder: Path) -> frozenset[str]:
    """Symbols of CANN that the objects below a folder want, told by their names.

    For a wheel that was only unpacked, of any architecture: it needs no torch beside it.
    """
    objects = [read_elf(path) for path in sorted(folder.rglob("*.so"))]
    own = frozenset().union(*(elf.defined for elf in objects))
    union = frozenset().union(*(elf.undefined for elf in objects))
    return frozenset(name for name in union - own if CANN_SYMBOL.match(name))


class Operator(NamedTuple):
    """An operator with its reference function: where it is, and what that refuses."""

    name: str
    module: str
    summary: str


# ------------------------------------------------------------ wheels


def used_names() -> list[str]:
    """Every name of torch_npu that the probes and the simulator use."""
    names = set()
    for folder in (ROOT / "probes", SIMULATED / "operators"):
        for path in folder.glob("*.py"):
            for dotted, operator in NAMES.findall(path.read_text("utf-8")):
                names.add(operator or dotted.rstrip(".").rpartition(".")[2] or dotted)
    return sorted(names)


def absent_names(folder: Path) -> list[str]:
    """Which of them are neither words of the wheel's Python files nor texts of its libraries."""
    words: set[str] = set()
    for path in folder.rglob("*.py"):
        words.update(re.findall(r"\w+", path.read_text("utf-8", errors="replace")))
    left = [name for name in used_names() if name not in words]
    for path in sorted(folder.rglob("*.so")):
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            left = [name for name in left if data.find(name.encode()) < 0]
    return left


def read_wheel(path: Path) -> dict[str, Any]:
    named = WHEEL.match(path.name)
    assert named, path.name
    with tempfile.TemporaryDirectory() as folder, zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
        inside = Path(folder) / "torch_npu"
        symbols = cann_symbols(inside)
        names = frozenset().union(*(operators(path) for path in inside.glob("lib/*.so")))
        sources = "".join(path.read_text("utf-8") for path in (SIMULATED / "runtime").glob("*.c"))
        written = set(re.findall(r"\w+", sources))
        return {
            "version": named["version"],
            "machine": named["machine"],
            "symbols": len(symbols),
            "written": len(symbols & written),
            "operators": len(names),
            "absent": absent_names(inside),
        }


# ------------------------------------------------------------ operators


def table() -> Iterator[Operator]:
    """All that implements enters, without importing."""
    for path in sorted((SIMULATED / "operators").glob("*.py")):
        for node in ast.parse(path.read_text("utf-8")).body:
            made = getattr(getattr(node, "value", None), "func", None)
            text = (isinstance(node, ast.FunctionDef) and ast.get_docstring(node)) or ""
            for mark in getattr(node, "decorator_list", [made]):
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "implements":
                    for name in mark.args:
                        yield Operator(ast.literal_eval(name), path.stem, text.split("\n")[0])


def refusals() -> Iterator[tuple[str, str]]:
    """Module and text of what reference functions refuse."""
    for path in sorted((SIMULATED / "operators").glob("*.py")):
        if path.stem in {"faults", "memory", "mindspeed", "acl"}:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
                named = (
                    isinstance(node.exc.func, ast.Name) and node.exc.func.id == "NotSimulatedError"
                )
                parts = [_plain(argument) for argument in node.exc.args]
                yield path.stem, f"{': '.join(parts)} is not simulated" if named else parts[0]


def _plain(node: ast.expr) -> str:
    """The text of a message; what is computed in it stands as an ellipsis."""
    if isinstance(node, ast.JoinedStr):
        parts = [str(p.value) if isinstance(p, ast.Constant) else "…" for p in node.values]
        return "".join(parts)
    return str(node.value) if isinstance(node, ast.Constant) else "…"


def operator_rows(called: Mapping[str, list[str]]) -> Iterator[str]:
    """Rows of the record. ``called``: operator -> the cases that were seen to call it."""
    every = list(table())
    gradients: defaultdict[str, list[str]] = defaultdict(list)
    for operator in every:
        if GRADIENT.search(operator.name):
            gradients[_base(operator.name)].append(operator.name.partition("::")[2])
    for operator in every:
        base = _base(operator.name)
        if GRADIENT.search(operator.name):
            if base in {_base(x.name) for x in every if not GRADIENT.search(x.name)}:
                continue
            gradient = "is one"
        else:
            gradient = ", ".join(f"`{name}`" for name in sorted(set(gradients[base]))) or "-"
        cases = ", ".join(called.get(operator.name, ())) or "no case"
        yield f"| `{operator.name}` | {cases} | {gradient} |"


def module_rows() -> Iterator[str]:
    """Rows of the page: the operators of each module."""
    modules: defaultdict[str, list[str]] = defaultdict(list)
    for operator in table():
        modules[operator.module].append(f"`{operator.name}`")
    yield from (f"| {module} | {', '.join(names)} |" for module, names in modules.items())


def _base(name: str) -> str:
    return re.sub(r"(_v\d)?(\.\w+)?$", "", GRADIENT.sub("", name)).rstrip("_")


# ------------------------------------------------------------ jobs


def median_ratio(jobs: list[dict[str, Any]], key: str) -> str:
    """How many times as much of something a job takes as on the CPU, by as many processes."""
    alike = [job[key] for job in jobs if "one process" not in job["layout"]]
    return f"{statistics.median(seen / alone for seen, alone in alike):.1f}"


# ------------------------------------------------------------ the page


def page() -> str:
    """What is real, what is simulated, and how close it is."""
    seen = json.loads(SEEN.read_text("utf-8"))
    machines: defaultdict[str, list[str]] = defaultdict(list)
    for line in seen["lines"]:
        machines[line["version"]].append(line["machine"])
    return TEXT.read_text("utf-8").format(
        count=len(seen["jobs"]),
        fp32=max(job["apart"] for job in seen["jobs"] if "fp32" in job["job"]),
        bf16=max(job["apart"] for job in seen["jobs"] if "bf16" in job["job"]),
        ratio=median_ratio(seen["jobs"], "step"),
        processor_ratio=median_ratio(seen["jobs"], "cpu"),
        releases=", ".join(f"{name} ({', '.join(on)})" for name, on in machines.items()),
        operators="\n".join(module_rows()),
        refused="\n".join(f"| {module} | {text} |" for module, text in sorted(set(refusals()))),
    )


def record() -> str:
    """The observations, run by run."""
    seen = json.loads(SEEN.read_text("utf-8"))
    wheels = [
        f"| {wheel['version']} | {wheel['machine']} | {wheel['symbols']} | {wheel['written']} "
        f"| {wheel['operators']} | {', '.join(f'`{x}`' for x in wheel['absent']) or 'none'} "
        f"| {wheel['ran']} |"
        for wheel in seen["wheels"]
    ]
    lines = ["| " + " | ".join(line[key] for key in LINE) + " |" for line in seen["lines"]]
    stacks = [
        f"| {stack['mindspeed']} | {stack['megatron']} | {stack['imports']} | {stack['groups']} "
        f"| {stack['trains']} |"
        for stack in seen["stacks"]
    ]
    return RECORD_TEXT.read_text("utf-8").format(
        date=seen["date"],
        names=len(used_names()),
        wheels="\n".join(wheels),
        lines="\n".join(lines),
        stacks="\n".join(stacks),
        operators="\n".join(operator_rows(seen["called"])),
    )


def observe_wheels(seen: dict[str, Any], folder: Path) -> None:
    ran = {(wheel["version"], wheel["machine"]): wheel["ran"] for wheel in seen["wheels"]}
    read = [read_wheel(path) for path in sorted(folder.rglob("torch_npu-*.whl"))]
    seen["wheels"] = [
        {**row, "ran": ran.get((row["version"], row["machine"]), "not tried")} for row in read
    ]


def observe_jobs(seen: dict[str, Any], file: Path) -> None:
    rows = [*seen["jobs"], *map(json.loads, file.read_text("utf-8").splitlines())]
    jobs = {(row["release"], row["job"], row["layout"]): row for row in rows}
    seen["jobs"] = [jobs[key] for key in sorted(jobs)]


def compact(seen: dict[str, Any]) -> str:
    """JSON with a line for each observation."""
    parts = []
    for key, value in seen.items():
        rows = value if isinstance(value, list) else None
        text = json.dumps(value, ensure_ascii=False)
        if rows:
            lines = ",\n  ".join(json.dumps(row, ensure_ascii=False) for row in rows)
            text = f"[\n  {lines}\n ]"
        parts.append(f" {json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main() -> None:
    if len(sys.argv) > 1:
        seen = json.loads(SEEN.read_text("utf-8"))
        path = Path(sys.argv[1])
        (observe_wheels if path.is_dir() else observe_jobs)(seen, path)
        SEEN.write_text(compact(seen), "utf-8")
    PAGE.write_text(page(), "utf-8")
    RECORD.write_text(record(), "utf-8")


if __name__ == "__main__":
    main()
