"""Facts, findings and reports with a text planted wherever a report has room for one."""

from collections.abc import Sequence

from ascend_doctor.facts import Distribution, Environment, Gap, Host, Interface, Python, Snapshot
from ascend_doctor.findings import Finding, Level, Place, Remedy
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from ascend_doctor.report import LEVELS, LevelRun, Report, verdict
from tests.redaction.corpus import HOME, HOST

LEVEL = (Level.ERROR, Level.WARNING, Level.UNKNOWN, Level.OK, Level.SKIPPED)


def facts(lines: Sequence[str]) -> Snapshot:
    """In values, keys, names and the output of probes."""
    return Snapshot(
        tool_version="0",
        taken_at="2026-11-22T08:47:27+00:00",
        host=Host(name=HOST, arch="aarch64", os_id="openEuler", kernel=lines[0]),
        python=Python(
            executable=f"{HOME}/venv/bin/python",
            version="3.11.13",
            distributions=tuple(
                Distribution(name=f"package-{number}", version="1", location=line)
                for number, line in enumerate(lines)
            ),
        ),
        environment=Environment(
            variables={f"VARIABLE_{number}": line for number, line in enumerate(lines)},
            interfaces=(Interface(name="eth0", addresses=("51.7.88.9",), up=True),),
        ),
        gaps=tuple(Gap(section="npus", reason=line) for line in lines),
        probes=tuple(_run(number, line) for number, line in enumerate(lines)),
    )


def _run(number: int, line: str) -> ProbeRun:
    result = ProbeResult(
        probe="smoke-train",
        rank=number,
        world_size=1,
        stage=line,
        stages={line: 1.0},
        ok=False,
        values={line: {"deep": [line, {line: line}]}},
        error=line,
    )
    return ProbeRun(
        probe="smoke-train",
        argv=("python", "train.py", *line.split()),
        exit_code=1,
        output=line,
        ranks=(result,),
        not_started=line,
    )


def findings(lines: Sequence[str]) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            check=f"check-{number}",
            level=LEVEL[number % len(LEVEL)],
            title=line,
            observed=line,
            required=line,
            because=line,
            remedy=Remedy(summary=line, commands=(line,)),
            refs=(line,),
            location=Place(file=line.split()[0], line=1) if number % 7 == 0 else None,
        )
        for number, line in enumerate(lines)
    )


def report(lines: Sequence[str]) -> Report:
    seen = facts(lines)
    judged = findings(lines)
    return Report(
        tool_version="0",
        taken_at=seen.taken_at,
        host=HOST,
        python=f"{HOME}/venv/bin/python",
        device="npu",
        simulated=False,
        redacted=False,
        levels=(LevelRun(level=0, adds=LEVELS[0], ran=False, reason=lines[0]),),
        verdict=verdict(judged, fail_on=Level.ERROR),
        findings=judged,
        snapshot=seen,
        seconds=1.0,
    )
