"""Ranks that did not end well, and values that are wrong, as findings of any probe."""

import shlex
from collections.abc import Iterable

from ascend_doctor.checks.probes.known_failures import find_failure
from ascend_doctor.checks.probes.known_warnings import fold_known
from ascend_doctor.checks.probes.probe_culprit import (
    Blame,
    blame,
    by_torchrun,
    frames,
    gives_up,
    signal_name,
)
from ascend_doctor.judging import Finding, Findings, NotApplicable, Remedy, Unknown
from ascend_doctor.judging.judge import Case, ConcludedError, error, unknown, warning
from ascend_doctor.probe_records.common import ChildOutcome, ProbeRecord
from ascend_doctor.probe_results import ProbeResult, ProbeRun

_LINES = 6
# A run that --timeout cut short may only have been slow, unless it did nothing for this long.
_STANDSTILL = 5.0
_STANDSTILL_SHARE = 0.25
# The package that a probe of the stack needs as its subject.
_ABOUT = {
    "megatron-tree": "megatron",
    "megatron-calls": "megatron",
    "entry-points": "megatron",
    "mindspeed-patches": "mindspeed",
    "mindspeed-forward": "mindspeed",
}


def ran(case: Case, name: str) -> ProbeRun:
    """Raises Unknown if the run could not start, NotApplicable if skipped or without subject."""
    try:
        run = case.probe(name)
    except Unknown:
        _is_there(case, _ABOUT.get(name, ""))
        raise
    if by_torchrun(run):
        _judge_launch(run)
    if run.load and run.has_late_part:
        raise Unknown(f"{busy(run)}{_describe_first_try(run)}")
    reasons = {rank.skipped for rank in run.ranks if rank.skipped}
    if reasons and not run.missing and all(rank.skipped for rank in run.ranks):
        raise NotApplicable("; ".join(sorted(reasons)))
    return run


def ran_well(case: Case, name: str) -> ProbeRun:
    """A probe's run. Raises ConcludedError with ``failures``, and what they and ``ran`` raise."""
    run = ran(case, name)
    if findings := [*failures(run)]:
        raise ConcludedError(findings)
    return run


def _is_there(case: Case, package: str) -> None:
    path = case.facts.import_path
    if package and path is not None:
        copies = [name.copies for name in path.names if name.name == package]
        if not any(copies):
            raise NotApplicable(f"{package} is not on the import path")


def _judge_launch(run: ProbeRun) -> None:
    """Raises Unknown if torchrun itself failed: not a fault of a device."""
    if run.exit_code is not None and run.exit_code < 0:
        raise Unknown(f"torchrun was ended by {signal_name(run.exit_code)}")
    if not run.ranks:
        how = f"within {run.deadline:.0f} s" if run.timed_out else "before torchrun ended"
        raise Unknown(f"no rank started {how}: {_last(run.output)}")


def failures(run: ProbeRun) -> Findings:
    """Failed ranks, wrong values. Raises Unknown if infrastructure failed or may have been slow."""
    cause = blame(run)
    if cause is not None:
        yield _accuse(run, cause)
    wrong = [rank for rank in run.ranks if rank.wrong]
    if wrong:
        yield _wrong(run, wrong)
    if cause is None and run.timed_out and run.load:
        raise Unknown(busy(run))
    if cause is None and run.timed_out:
        yield warning(
            f"{run.probe}: hangs when it ends, after good results",
            observed=_places(run),
            because="Jobs then hold their devices until they are killed.",
        )
    if cause is None and not run.timed_out:
        yield from _take_down(run)
    if run.failed_after:
        yield warning(
            f"{run.probe}: fails in processes that it does not have for itself",
            observed=run.failed_after,
            required="the same as in processes of its own, where it does well",
            because="What ran before leaves a state behind, as it does in a training job; and data "
            "loaders fork behind the import of torch, too.",
        )
    if run.left_behind:
        pids = ", ".join(str(pid) for pid in run.left_behind)
        yield warning(
            f"{run.probe}: processes that cannot be killed",
            observed=f"process {pids} survived SIGKILL",
            because="They stand in the kernel, usually in the driver, and hold their device.",
        )


def _take_down(run: ProbeRun) -> Findings:
    failed = {
        probe_result.rank: text
        for probe_result in run.ranks
        if (record := probe_result.record_or_none(ProbeRecord)) and (text := record.teardown_error)
    }
    if failed:
        rank, text = next(iter(failed.items()))
        yield warning(
            f"{run.probe}: {ranks_text(failed)} cannot leave the group, after good results",
            observed=f"rank {rank}: {text}",
            because="Usually a peer left first. Jobs may end with an error although all went well.",
            ranks=tuple(failed),
        )


def _accuse(run: ProbeRun, cause: Blame) -> Finding:
    guilty = [rank for rank in run.ranks if rank.rank in cause.ranks]
    who = ranks_text(cause.ranks)
    if cause.kind == "missing" and run.timed_out and run.load:
        raise Unknown(busy(run))
    stage = f" in stage {cause.stage}" if cause.stage else ""
    if cause.kind == "lost" and cause.stage == "rendezvous":
        raise Unknown(f"the ranks did not find each other: {cause.text}")
    if cause.kind == "hang":
        return _hang(run, cause, guilty)
    if cause.kind == "missing" and not by_torchrun(run):
        who = f"the interpreter {_ending(run)} and"
    verb = {
        "crash": f"{who} crashed with {cause.text}{stage}",
        "exit": f"{who} ended with {cause.text}{stage}",
        "missing": f"{who} never started" if by_torchrun(run) else f"{who} the probe never started",
        "exception": f"{who} failed{stage}",
        "lost": f"all ranks lost each other{stage}"
        if run.world_size > 1
        else f"{ranks_text([0])} lost its connection{stage}",
    }[cause.kind]
    known = find_failure(cause.text) if cause.kind == "exception" else None
    return error(
        f"{run.probe}: {verb}",
        observed=_describe(run, guilty, cause.text if cause.kind in {"exception", "lost"} else ""),
        required="every rank ends with a result",
        because=known.cause if known else _BECAUSE.get(cause.text, ""),
        remedy=Remedy(summary=known.fix) if known else _again(run),
        ranks=cause.ranks,
    )


def _ending(run: ProbeRun) -> str:
    if run.exit_code is None:
        return f"did nothing for {run.deadline:.0f} s"
    if run.exit_code < 0:
        return f"crashed with {signal_name(run.exit_code)}"
    return f"ended with exit code {run.exit_code}"


def busy(run: ProbeRun) -> str:
    """That the machine had no processor free for it, else ""."""
    waited = f"waited {run.delayed:.0f} of {run.seconds:.0f} s for a processor"
    return f"machine busy, {run.load}: {run.probe} {waited}" if run.load else ""


_BECAUSE = {
    "SIGKILL": "Nothing in the program does that; most often it is the kernel, out of memory.",
    "SIGBUS": "Often /dev/shm or the disk is full.",
}


def _hang(run: ProbeRun, cause: Blame, guilty: list[ProbeResult]) -> Finding:
    stood = [
        probe_result.stages.get(probe_result.stage, 0.0) for probe_result in guilty or run.ranks
    ]
    waited = 0.0 if run.timed_out else _longest_wait(run)
    still = max(_STANDSTILL, waited / 2 or _STANDSTILL_SHARE * run.deadline)
    shortened = run.shortened and run.timed_out
    who = ranks_text(cause.ranks or [0]) if run.world_size == 1 or cause.ranks else "every rank"
    advancing = min(stood) < still
    works = any(rank.idle is not None and rank.idle < still for rank in guilty or run.ranks)
    cut = shortened and (not cause.ranks or works)
    if advancing or cut or (run.load and works):
        after = run.deadline if run.timed_out else run.seconds
        why = busy(run) or (
            f"--timeout left it {run.deadline:.0f} s, and it was not done"
            if shortened
            else f"not done after {after:.0f} s, and still advancing; --patience gives it more"
        )
        raise Unknown(f"{why}: {who} in stage {cause.stage}{_describe_first_try(run)}")
    several = len(cause.ranks) > 1
    title = f"{run.probe}: {who} {'hang' if several else 'hangs'} in stage {cause.stage}"
    if works:
        does = "compute" if several else "computes"
        title = f"{run.probe}: {who} {does} without an end in stage {cause.stage}"
    return error(
        title,
        observed=_describe(run, guilty, _places(run) + _describe_first_try(run)),
        required=f"in the collective within the {waited:.0f} s that the others waited"
        if waited
        else f"an end within {run.deadline:.0f} s",
        because="The other ranks wait for it in a collective; a time-out there names only them."
        if cause.ranks
        else "All ranks wait at the same place, for each other or for the link between them."
        if run.world_size > 1
        else "",
        remedy=_again(run),
        ranks=cause.ranks,
    )


def _describe_first_try(run: ProbeRun) -> str:
    return f"; the second try, after {run.first_try}" if run.first_try else ""


def _longest_wait(run: ProbeRun) -> float:
    return max(
        (rank.stages.get(rank.stage, 0.0) for rank in run.ranks if gives_up(rank.error)),
        default=0.0,
    )


def _wrong(run: ProbeRun, wrong: list[ProbeResult]) -> Finding:
    first = wrong[0].wrong[0]
    ranks = tuple(probe_result.rank for probe_result in wrong)
    return error(
        f"{run.probe}: wrong values on {ranks_text(ranks)}",
        observed=f"rank {ranks[0]}: {first.what}: {first.got}",
        required=first.expected,
        because="Training runs on with wrong numbers, and nothing says so.",
        remedy=_again(run),
        ranks=ranks,
    )


def ranks_text(ranks: Iterable[int]) -> str:
    """One rank, or several: ranks 1, 2."""
    numbers = [str(rank) for rank in ranks]
    return f"{'rank' if len(numbers) == 1 else 'ranks'} {', '.join(numbers)}"


def _places(run: ProbeRun) -> str:
    stages: dict[str, list[int]] = {}
    for rank in run.ranks:
        stages.setdefault(rank.stage or "the start", []).append(rank.rank)
    texts = [f"{ranks_text(ranks)} in {stage}" for stage, ranks in stages.items()]
    texts += [f"{ranks_text(run.missing)} without a record"] if run.missing else []
    return "; ".join(texts)


def _describe(run: ProbeRun, guilty: list[ProbeResult], text: str) -> str:
    parts = [text] if text else []
    for probe_result in guilty[:1]:
        if probe_result.silent is not None and probe_result.silent > _STANDSTILL:
            parts.append(
                f"rank {probe_result.rank} gave no sign of life for {probe_result.silent:.0f} s"
            )
        if probe_result.stack and not probe_result.error:
            parts += [
                f"rank {probe_result.rank} stood at {frame}"
                for frame in frames(probe_result.stack)[:1]
            ]
        if probe_result.output:
            parts.append(f"rank {probe_result.rank} printed last: {_last(probe_result.output)}")
    if not guilty and run.output:
        parts.append(_last(run.output))
    return "\n".join(parts)


def story(outcome: ChildOutcome) -> str:
    """The error and last output of a probe's child process."""
    printed = [line for line in outcome.output.splitlines() if line.strip()]
    return "\n".join([outcome.error, *printed[-4:]])


def _last(output: str) -> str:
    lines = fold_known([line for line in output.splitlines() if line.strip()])
    return "\n".join(lines[-_LINES:])


def _again(run: ProbeRun) -> Remedy | None:
    if not run.argv:
        return None
    prefix = "TORCH_DEVICE_BACKEND_AUTOLOAD=0 " if run.device == "cpu" else ""
    return Remedy(
        summary="Run this probe by itself to see all that it prints",
        commands=(prefix + shlex.join(run.argv),),
    )


def refuse_late(outcome: ChildOutcome, name: str, probe: str) -> None:
    """Raises Unknown for a late import: slow imports are not a fault of the stack."""
    if outcome.is_late:
        raise Unknown(f"the case {name} of {probe}: {outcome.error}")


def report_late(what: str, text: str, *commands: str) -> Finding:
    """An import that did not end in time, which shows no fault."""
    again = Remedy(
        summary="Try again with longer deadlines; if it hangs still, see where",
        commands=("ascend-doctor check -l 1 --patience 4", *commands),
    )
    return unknown(
        f"Could not tell whether {what}: it did not end in time",
        observed=text,
        because="A slow file system and a hanging import look alike.",
        remedy=again,
    )
