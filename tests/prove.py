"""Builds and runs stacks of the matrix, and writes what was seen: `python -m tests.prove [ROW]`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import msgspec

from ascend_doctor import __version__, timestamps
from ascend_doctor.commands.options import defaulted, repeated
from ascend_doctor.commands.options.launch import patience_option
from ascend_doctor.commands.options.matrix import catalog, matrix_option
from ascend_doctor.errors import DataError
from ascend_doctor.exits import EXIT_FINDINGS, EXIT_OK, EXIT_UNKNOWN
from ascend_doctor.machine.files import write_whole
from ascend_doctor.machine.scratch import temporary
from ascend_doctor.matrix.evidence import StackRun, Stop
from ascend_doctor.matrix.versions import normalised, satisfies
from ascend_doctor.render.plain import one_line

if TYPE_CHECKING:
    from ascend_doctor.matrix.catalog import Catalog
    from ascend_doctor.matrix.schema import Stack
    from ascend_doctor.provision.lock import Lock, Wheel
    from ascend_doctor.provision.options import SetupOptions

# One version; a range, a wildcard or a choice cannot be installed.
_EXACT = re.compile(r"==([^\s,|*]+)")
# People read evidence beside the row; a compiler's output is not for them.
_LONGEST = 600
_EXIT_CODES = {"executed": EXIT_OK, "documented": EXIT_UNKNOWN, "contradicted": EXIT_FINDINGS}
_FLAT = {"wheels", "probes", "losses", "checkouts", "imports"}
_HEAD = "# Written by python -m tests.prove; what was seen, beside the row of the same name.\n"


@click.command("prove")
@click.argument("identity", metavar="[ROW]", required=False)
@click.option("--framework", metavar="F", help="With this framework, as for setup.")
@repeated("--with", "more", metavar="NAME[==VERSION]", help="Have this as well, as for setup.")
@repeated(
    "--published",
    metavar="NAME SHA256 SOURCE",
    help="The index's hash of a wheel that ran as a build.",
)
@repeated(
    "--accept",
    metavar="WHO:WHAT|CHECK",
    help="As for setup; the evidence has the conflict among what differs, and every error.",
)
@click.option("--python", metavar="PATH", help="Interpreter of the stack.  [default: active]")
@click.option(
    "--prefix",
    metavar="DIR",
    help="Build here, and keep it.  [default: a temporary folder that is removed]",
)
@repeated("--git-mirror", "mirrors", metavar="[NAME=]URL_OR_DIR", help="As for setup.")
@defaulted(
    "--prove",
    "proof",
    type=click.Choice(["1", "2", "3", "4", "rehearse"]),
    default="rehearse",
    help="As for setup: a level, on an NPU where there is one; or level 3 on a simulated NPU.",
)
@click.option(
    "--into",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Matrix folder to write the evidence into.  [default: the one that has the row]",
)
@patience_option()
@matrix_option
def command(
    *, identity: str | None, into: Path | None, overlays: tuple[str, ...], **setup: Any
) -> int:
    """Build the stack ROW, run it, and record what was seen.

    Without ROW every stack, one after the other. Evidence stands in evidence/ROW.yaml of the
    matrix: commits, wheels, what passed and failed, losses, and where a run stopped and why.

    \b
    Exit codes: 0 executed; 1 a row is contradicted; 3 a run could not tell.
    """
    rows = catalog(overlays)
    stacks = [rows.stack(identity)] if identity else rows.stacks
    worst = {"executed": 0, "documented": 1, "contradicted": 2}
    standings = []
    for stack in stacks:
        run = run_stack(stack=stack, rows=rows, overlays=overlays, **setup)
        file = write_run(stack, rows, run, into)
        click.echo(one_line(f"{stack.id} is {run.standing}: {run.summary}"))
        click.echo(one_line(f"evidence: {file}"), err=True)
        standings.append(run.standing)
    return _EXIT_CODES[max(standings, key=lambda standing: worst[standing])]


def run_stack(
    *,
    stack: Stack,
    rows: Catalog,
    prefix: str | None,
    more: tuple[str, ...] = (),
    published: tuple[str, ...] = (),
    **setup: Any,
) -> StackRun:
    from ascend_doctor.commands.setup_run import prepare
    from ascend_doctor.provision.build import build
    from ascend_doctor.provision.conflict import NoStackError
    from ascend_doctor.provision.running import CommandError

    with temporary() as scratch:
        options, prover, display = prepare(
            **setup,
            prefix=prefix or scratch,
            yes=True,
            quiet=False,
            megatron=_release(stack),
            known_good=False,
            additions=(*_additions(stack, rows), *more),
        )
        bare = _bare(options, simulated=prover.simulated)
        names = tuple(normalised(name.partition("==")[0]) for name in more)
        bare = msgspec.structs.replace(bare, additions=names)
        try:
            return _replace_builds(_of_lock(bare, build(options), stack, rows), published)
        except NoStackError as none:
            refused = none.refusal
            # The matrix itself must refuse a row to contradict it, not this machine.
            contradicts = not refused.machine and _is_of(stack, options.framework)
            why = _shorten("; ".join(refused.reasons))
            stop = Stop(step="plan", why=why, contradicts=contradicts)
        except (CommandError, DataError, OSError) as error:
            step = display.failure.title if display.failure else "setup"
            stop = Stop(step=step, why=_shorten(str(error)))
        return msgspec.structs.replace(bare, stop=stop)


def _is_of(stack: Stack, framework: str | None) -> bool:
    """Whether the row names this framework; another may well not fit."""
    return not framework or framework.partition("==")[0] in stack.frameworks


def _release(stack: Stack) -> str:
    """The Megatron-LM of a row; of several the first, as a tag before its branch."""
    match = _EXACT.fullmatch(stack.components.get("megatron-lm", "").split("||")[0].strip())
    if match is None:
        raise DataError("only a row that names its Megatron-LM can be proven")
    return match[1]


def _additions(stack: Stack, rows: Catalog) -> Iterator[str]:
    megatron = rows.component("megatron-lm").release(_release(stack))
    brought = {"megatron-lm", "python", *(megatron.provides if megatron else ())}
    for name, versions in stack.components.items():
        match = _EXACT.fullmatch(versions)
        if match and name not in brought:
            yield f"{name}=={match[1]}"


def _bare(options: SetupOptions, *, simulated: bool) -> StackRun:
    facts = options.facts
    host, python = facts.host, facts.python
    return StackRun(
        date=timestamps.now(),
        tool_version=__version__,
        python=".".join(python.version.split(".")[:2]) if python else "",
        arch=(host.arch if host else None) or "",
        framework=options.framework or "",
        level=options.level,
        simulated=simulated,
    )


def _replace_builds(run: StackRun, published: tuple[str, ...]) -> StackRun:
    wheels, differs = dict(run.wheels), list(run.differs)
    for name, sha256, source in (text.split(" ", 2) for text in published):
        version = wheels[name].partition(" ")[0]
        differs.append(f"{name} {version} ran as a build; the SHA-256 is the index's: {source}")
        wheels[name] = f"{version} {sha256}"
    names = tuple(text.split(" ")[0] for text in published)
    return msgspec.structs.replace(run, wheels=wheels, differs=tuple(differs), published=names)


def _pin(wheel: Wheel) -> str:
    file = f"{wheel.source.file} {wheel.source.sha256}" if wheel.source else wheel.sha256
    return f"{wheel.version} {file}"


def _of_lock(bare: StackRun, lock: Lock, stack: Stack, rows: Catalog) -> StackRun:
    proof = lock.proof
    known = {normalised(component.obtain.distribution) for component in rows.components}
    whole = not lock.failed
    differs = (
        f"{name} {version}, where the row has {stack.components[name]}"
        for name, version in lock.rows.items()
        if name in stack.components
        and not satisfies(rows.component(name).scheme, version, stack.components[name])
    )
    run = msgspec.structs.replace(
        bare,
        differs=(*differs, *(f"accepted: {text}" for text in lock.accepted.values())),
        checkouts={checkout.name: checkout.commit for checkout in lock.checkouts},
        wheels={
            wheel.name: _pin(wheel) if whole else wheel.version
            for wheel in lock.wheels
            if whole or wheel.name in known
        },
    )
    if proof is None:
        return msgspec.structs.replace(run, unknown=("never run",))
    return msgspec.structs.replace(
        run,
        date=proof.date,
        level=proof.level,
        simulated=proof.simulated,
        probes=proof.probes,
        imports=proof.imports,
        losses=proof.losses,
        failed=tuple(_shorten(text) for text in proof.failed),
        unknown=tuple(_shorten(text) for text in proof.unknown),
    )


def _shorten(text: str) -> str:
    """One line of bounded length, without names of this machine and its user."""
    from ascend_doctor.redact.local import ours

    line = one_line(" ".join(ours().text(text).split()))
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


def dump_evidence(content: dict[str, Any]) -> str:
    """YAML with a run's lists on full lines; what two runs share stands once."""
    import yaml

    class Flow(NamedTuple):
        value: object

    class Dumper(yaml.SafeDumper):
        """Knows what goes on a line."""

    def represent(dumper: yaml.SafeDumper, flow: Flow) -> yaml.Node:
        node = dumper.represent_data(flow.value)
        if isinstance(node, yaml.CollectionNode):
            node.flow_style = True
        return node

    Dumper.add_representer(Flow, represent)
    alike: dict[str, object] = {}
    runs = [
        {
            key: Flow(alike.setdefault(str(value), value)) if key in _FLAT else value
            for key, value in run.items()
        }
        for run in content["runs"]
    ]
    whole = {**content, "runs": runs}
    return str(yaml.dump(whole, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=120))


def write_run(stack: Stack, rows: Catalog, run: StackRun, into: Path | None) -> Path:
    """Add a run to the evidence beside the row, or in another matrix folder."""
    folder = into or rows.files("stacks")[stack.id][-1].parent.parent
    file = folder / "evidence" / f"{stack.id}.yaml"
    evidence = rows.evidence(stack.id).add(run)
    content = {"schema": evidence.schema, **msgspec.to_builtins(evidence)}
    file.parent.mkdir(exist_ok=True)
    write_whole(str(file), _HEAD + dump_evidence(content))
    return file


if __name__ == "__main__":
    sys.exit(command(standalone_mode=False))
