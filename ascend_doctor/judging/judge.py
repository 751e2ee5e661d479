"""Checks, and how facts and data become findings."""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ascend_doctor.errors import DataError, NeedsRoot, NotApplicable, Unknown, Unresolved
from ascend_doctor.findings import Finding, Level, Place, Remedy

if TYPE_CHECKING:
    from ascend_doctor.facts import S, Snapshot
    from ascend_doctor.judging.expectations import Expectation
    from ascend_doctor.matrix.catalog import Catalog
    from ascend_doctor.probe_results import ProbeRun


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a check. ``device`` is npu, cuda or cpu; ``nproc`` the requested ranks.

    ``expected``: what a gate must expect of the machine.
    """

    facts: Snapshot
    catalog: Catalog
    device: str = "npu"
    nproc: int | None = None
    expected: tuple[Expectation, ...] = ()

    def need(self, section: type[S]) -> S:
        """The section. Raises Unknown if not collected."""
        return self.facts.need(section)

    def probe(self, name: str) -> ProbeRun:
        """The run of a probe. Raises Unknown if it did not run."""
        for run in self.facts.probes:
            if run.probe == name:
                if run.not_started:
                    raise Unknown(run.not_started)
                return run
        raise Unknown(f"the probe {name} did not run")


Judgement = Callable[[Case], Iterable[Finding]]


class ConcludedError(Exception):
    """A check has nothing to say beside these findings."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        super().__init__()
        self.findings = tuple(findings)


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check. ``title`` is the property that should hold; ``explain`` is prose for users.

    ``level`` is the first level that has the facts; ``probe`` names the probe that it reads.
    ``scope``: "launch" for a launch and its variables, "entry file" for the launched Python
    file, "shell script" for a script as text, "pod" for a Kubernetes file, else the machine.
    Its complaint follows from the errors of ``caused_by``, whose remedies therefore come first.
    """

    id: str
    title: str
    explain: str
    run: Judgement
    level: int = 0
    probe: str = ""
    scope: str = ""
    caused_by: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """The folder of its module, as in ``ascend_doctor.checks.cann``."""
        return self.run.__module__.split(".")[2]


_CHECKS: dict[str, Check] = {}


def check(
    identity: str, title: str, *, explain: str = "", **about: Any
) -> Callable[[Judgement], Judgement]:
    """Register a check; users read ``explain``, else the function's docstring.

    ``about`` are other fields of Check.

    Raises ValueError for a name that is taken, and without an explanation.
    """

    def register(run: Judgement) -> Judgement:
        page = (explain or run.__doc__ or "").strip()
        if identity in _CHECKS:
            raise ValueError(f"two checks are called {identity}")
        if not page:
            raise ValueError(f"{identity} has no docstring")
        _CHECKS[identity] = Check(id=identity, title=title, explain=page, run=run, **about)
        return run

    return register


def list_registered() -> tuple[Check, ...]:
    """The checks of the modules imported so far; ``ascend_doctor.checks.every`` has all."""
    return tuple(_CHECKS.values())


# Straight-line code: a check yields findings, raises Unknown or NotApplicable, or all is well.


def _finding(  # noqa: PLR0913 - the fields of a finding
    level: Level,
    title: str,
    *,
    observed: str = "",
    required: str = "",
    because: str = "",
    remedy: Remedy | str | None = None,
    commands: tuple[str, ...] = (),
    refs: tuple[str, ...] = (),
    ranks: tuple[int, ...] = (),
    devices: tuple[int, ...] = (),
    nodes: tuple[str, ...] = (),
    location: Place | None = None,
    because_of: str = "",
    needs: str = "",
) -> Finding:
    return Finding(
        level=level,
        title=title,
        observed=observed,
        required=required,
        because=because,
        remedy=Remedy(summary=remedy, commands=commands) if isinstance(remedy, str) else remedy,
        refs=refs,
        ranks=ranks,
        devices=devices,
        nodes=nodes,
        location=location,
        because_of=because_of,
        needs=needs,
    )


# Training will fail, or give wrong results.
error = functools.partial(_finding, Level.ERROR)
# Training may fail, be slow, or depends on what the doctor cannot see.
warning = functools.partial(_finding, Level.WARNING)
# One of several subjects could not be judged. ``needs`` is "root" if root could.
unknown = functools.partial(_finding, Level.UNKNOWN)


def rerun_as_root(*checks: str) -> Remedy:
    """Let root check what only root may see; for the rest sudo would hide the environment."""
    only = " ".join(f"--only {name}" for name in checks)
    return Remedy(
        summary="Let root look at this alone",
        commands=(f'sudo "$(command -v ascend-doctor)" check -l 0 {only}',),
    )


def note(
    title: str = "", *, observed: str = "", because: str = "", refs: tuple[str, ...] = ()
) -> Finding:
    """All is well, with a fact worth knowing; the default title is the check's."""
    return Finding(level=Level.OK, title=title, observed=observed, because=because, refs=refs)


def judge(case: Case, chosen: Collection[Check]) -> tuple[Finding, ...]:
    """Findings of the chosen checks; every check leaves at least one. Never raises."""
    lock = case.facts.stack_lock
    accepted = lock.accepted_checks if lock else ()
    findings = tuple(
        _accept(finding) if finding.check in accepted else finding
        for check in chosen
        for finding in _findings(check, case)
    )
    causes = {check.id: check.caused_by for check in chosen if check.caused_by}
    failed = {finding.check for finding in findings if finding.level is Level.ERROR}
    return tuple(_with_cause(finding, causes, failed) for finding in findings)


def _accept(finding: Finding) -> Finding:
    """An error that the user accepted with the stack is a warning from then on."""
    if finding.level is not Level.ERROR:
        return finding
    accepted = f"The stack was built with --accept {finding.check}."
    because = f"{finding.because} {accepted}" if finding.because else accepted
    return msgspec.structs.replace(finding, level=Level.WARNING, because=because, accepted=True)


def _with_cause(
    finding: Finding, causes: Mapping[str, tuple[str, ...]], failed: Collection[str]
) -> Finding:
    if finding.level in {Level.OK, Level.SKIPPED}:
        return finding
    path = [finding.check]
    own = (finding.because_of,) if finding.because_of else causes.get(finding.check, ())
    # Up the chain of causes to the first, never in a circle.
    while cause := next((name for name in own if name in failed and name not in path), ""):
        path.append(cause)
        own = causes.get(cause, ())
    return msgspec.structs.replace(finding, because_of=path[-1] if path[1:] else "")


def _findings(check: Check, case: Case) -> Iterator[Finding]:
    silent = True
    try:
        for finding in _run(check, case):
            silent = False
            title = finding.title or check.title
            yield msgspec.structs.replace(finding, check=check.id, title=title)
    except Unknown as reason:
        yield Finding(
            check=check.id,
            level=Level.UNKNOWN,
            title=f"Could not tell whether {_inside(check.title)}: {reason}",
            reason=str(reason),
            remedy=rerun_as_root(check.id) if isinstance(reason, NeedsRoot) else None,
            needs=_needs(reason),
        )
    except NotApplicable as reason:
        if silent:
            yield Finding(check=check.id, level=Level.SKIPPED, title=f"{check.title}: {reason}")
    except DataError:
        raise  # a damaged matrix is nobody's finding
    except Exception as crash:  # noqa: BLE001 - a crashed check is a result
        yield Finding(
            check=check.id,
            level=Level.UNKNOWN,
            title=f"Could not tell whether {_inside(check.title)}: the check itself failed",
            observed=f"{type(crash).__name__}: {crash}",
            because="This is a bug in ascend-doctor.",
            remedy=Remedy(
                summary="Report it with the machine that shows it",
                commands=("ascend-doctor check -l 0 --record ascend-doctor-machine",),
            ),
        )
    else:
        if silent:
            yield Finding(check=check.id, level=Level.OK, title=check.title)


def _run(check: Check, case: Case) -> Iterator[Finding]:
    """Beside a fault nothing says that all is well, or what a probe left open."""
    fault = False
    try:
        for finding in check.run(case):
            if finding.title or not fault:
                fault |= finding.level > Level.OK
                yield finding
    except ConcludedError as end:
        yield from end.findings
    except Unknown:
        if not (fault and check.probe):
            raise


# Names that may begin a title and look like ordinary words.
_NAMES = ("Ascend", "Gloo", "Megatron", "Python", "Triton")


def _inside(title: str) -> str:
    word = title.split(maxsplit=1)[0]
    ordinary = word[1:].islower() or len(word) == 1
    return title if word.startswith(_NAMES) or not ordinary else title[0].lower() + title[1:]


def _needs(reason: Unknown) -> str:
    if isinstance(reason, NeedsRoot):
        return "root"
    return "values" if isinstance(reason, Unresolved) else ""


@functools.cache
def import_below(package: str, folder: str, *, without: str = "") -> None:
    """Import a package's modules, except folders of one name; pkgutil takes much longer."""
    for name in sorted(os.listdir(folder)):
        module, extension = os.path.splitext(name)
        if extension == ".py" and module != "__init__":
            importlib.import_module(f"{package}.{module}")
        elif not extension and name not in {without, "__pycache__"}:
            import_below(f"{package}.{name}", os.path.join(folder, name), without=without)
