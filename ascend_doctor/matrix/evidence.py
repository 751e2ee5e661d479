"""What was seen when stacks of the matrix were run: ``matrices/evidence/<stack>.yaml``."""

from typing import Annotated, Literal

import msgspec

from ascend_doctor.matrix.schema import Row

Standing = Literal["documented", "executed", "contradicted"]
_WORD = r"[A-Za-z0-9][A-Za-z0-9._+!-]*"
_Name = Annotated[str, msgspec.Meta(pattern=rf"\A{_WORD}\Z")]
_Wheel = Annotated[str, msgspec.Meta(pattern=rf"\A{_WORD}(( {_WORD})? [0-9a-f]{{64}})?\Z")]


class Stop(Row, frozen=True, kw_only=True):
    """The step at which a run ended before the stack ran, and why.

    ``contradicts``: rows of the matrix exclude each other; else it says nothing of them.
    """

    step: str
    why: str
    contradicts: bool = False


class StackRun(Row, frozen=True, kw_only=True):
    """One run of a stack, from its setup to its proof, on ``date`` (ISO 8601).

    ``checkouts`` are commits, ``wheels`` versions of components; or, if the stack was put in use,
    versions and SHA-256 of all wheels, or file and SHA-256 of the source that one is built from.
    ``additions``: names of --with. ``differs``: where the run departs from the row.
    ``published``: wheels that ran as others, with the SHA-256 of the index.
    ``probes`` and ``imports`` passed, ``failed`` did not, ``unknown`` could not be determined.
    ``losses``: by layout. ``stop`` is None if it ran.
    """

    date: str
    tool_version: str
    python: str
    arch: str
    framework: str = ""
    additions: tuple[str, ...] = ()
    level: int
    simulated: bool
    differs: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    checkouts: dict[str, str] = msgspec.field(default_factory=dict)
    wheels: dict[_Name, _Wheel] = msgspec.field(default_factory=dict)
    probes: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    losses: dict[str, tuple[float, ...]] = msgspec.field(default_factory=dict)
    failed: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    stop: Stop | None = None

    @property
    def standing(self) -> Standing:
        """What the run says of the row; without a result it stays documented."""
        if self.failed or (self.stop and self.stop.contradicts):
            return "contradicted"
        return "documented" if self.stop or self.unknown else "executed"

    @property
    def pins(self) -> dict[str, tuple[str, str, str]]:
        """Of each wheel version, source file or "", and SHA-256, if the run has all."""
        parts = {name: wheel.split() for name, wheel in self.wheels.items() if " " in wheel}
        return {name: (part[0], "".join(part[1:-1]), part[-1]) for name, part in parts.items()}

    @property
    def summary(self) -> str:
        where = "on a simulated NPU" if self.simulated else "on an NPU"
        host = f"{self.arch}, Python {self.python}"
        ran = f"level {self.level} {where} ({host}) on {self.date[:10]}"
        more = " and ".join(filter(None, (self.framework, *self.additions)))
        text = f"with {more}, {ran}" if more else ran
        if self.stop:
            return f"{text}: stopped at {self.stop.step}: {self.stop.why}"
        counts = f"{len(self.probes)} probes, {len(self.losses)} trainings"
        return f"{text}: {'; '.join((counts, *self.failed, *self.unknown))}"

    @property
    def subject(self) -> tuple[object, ...]:
        """What a newer run has to share to stand in its place."""
        return (self.framework, self.additions, self.python, self.arch, self.simulated)


class StackEvidence(Row, frozen=True, kw_only=True):
    """All evidence of one stack, newest first."""

    schema: int
    id: str
    runs: tuple[StackRun, ...] = ()

    @property
    def standing(self) -> Standing:
        """Contradicted if any run says so, executed if one does."""
        standings = {run.standing for run in self.runs}
        if "contradicted" in standings:
            return "contradicted"
        return "executed" if "executed" in standings else "documented"

    def add(self, run: StackRun) -> "StackEvidence":
        """With a run that replaces the one of the same subject.

        A run without a result, as without a network, replaces none that has one.
        """
        tells = run.standing != "documented"
        if not tells and any(
            old.subject == run.subject and old.standing != "documented" for old in self.runs
        ):
            return self
        others = (old for old in self.runs if old.subject != run.subject)
        return msgspec.structs.replace(self, runs=(run, *others))

    @property
    def verified(self) -> bool:
        """Whether it ran on an NPU without contradiction."""
        ran = any(run.standing == "executed" and not run.simulated for run in self.runs)
        return ran and self.standing != "contradicted"
