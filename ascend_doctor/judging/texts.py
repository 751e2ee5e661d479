"""Checks whose texts are data: the code finds, ``matrices/checks`` has the words."""

from collections.abc import Callable
from functools import cached_property

from ascend_doctor.findings import Finding, Level, Place, Remedy
from ascend_doctor.judging.judge import Judgement, check
from ascend_doctor.matrix.check_texts import FindingText, read_texts


class Texts:
    """The texts of the checks of a module."""

    def __init__(self, file: str) -> None:
        self._texts = read_texts(file)

    @cached_property
    def rows(self) -> dict[str, FindingText]:
        checks = self._texts.checks.values()
        return {name: row for each in checks for name, row in each.by_name.items()}

    @property
    def names(self) -> dict[str, str]:
        return self._texts.names

    @property
    def checks(self) -> tuple[str, ...]:
        return tuple(self._texts.checks)

    def of_check(self, identity: str) -> dict[str, FindingText]:
        """What a check may find."""
        return self._texts.checks[identity].by_name

    def check(
        self, identity: str, *, level: int = 0, probe: str = "", caused_by: tuple[str, ...] = ()
    ) -> Callable[[Judgement], Judgement]:
        """Register a function as this check; one of a probe judges the machine."""
        text = self._texts.checks[identity]
        scope = self._texts.scope if text.scope is None else text.scope
        return check(
            identity,
            text.title,
            explain=text.explain,
            level=level,
            probe=probe,
            scope=scope,
            caused_by=caused_by,
        )

    def finding(  # noqa: PLR0913 - the fields of a finding
        self,
        name: str,
        location: Place | None = None,
        /,
        *,
        level: Level | None = None,
        remedy: Remedy | None = None,
        refs: tuple[str, ...] = (),
        commands: tuple[str, ...] = (),
        devices: tuple[int, ...] = (),
        on_ranks: tuple[int, ...] = (),
        **values: object,
    ) -> Finding:
        """A finding with these values in its text; what is given beside them goes first."""
        text, known = self.rows[name], {**self._texts.names, **values}
        title, observed, required, because, summary = (
            part.format_map(known)
            for part in (text.title, text.observed, text.required, text.because, text.remedy)
        )
        commands = commands or tuple(command.format_map(known) for command in text.commands)
        return Finding(
            level=level or text.level,
            title=title,
            observed=observed,
            required=required,
            because=because,
            remedy=remedy or (Remedy(summary=summary, commands=commands) if summary else None),
            refs=(*refs, *(ref.format_map(known) for ref in text.refs)),
            location=location,
            devices=devices,
            ranks=on_ranks,
        )
