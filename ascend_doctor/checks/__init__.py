"""The checks: a folder a subject. They see a Case and nothing else."""

from ascend_doctor.judging.judge import Check, import_below, list_registered

# A subject, and a folder in others: checks of level 1 and above.
PROBES = "probes"


def all_checks() -> tuple[Check, ...]:
    """All checks, by level, then in order of file and line."""
    import_below(__name__, __path__[0])
    return _sort()


def static_checks() -> tuple[Check, ...]:
    """Checks of level 0, without importing those that read probes."""
    import_below(__name__, __path__[0], without=PROBES)
    return tuple(check for check in _sort() if not check.level)


def _sort() -> tuple[Check, ...]:
    return tuple(
        sorted(
            list_registered(),
            key=lambda check: (check.level, check.run.__module__.rpartition(".")[2]),
        )
    )
