"""What the host has for the ranks: memory, CPUs, and a C and C++ library that is new enough."""

from collections.abc import Iterator

from ascend_doctor.checks.host.left_behind import LOADER
from ascend_doctor.checks.npu.npus import visible_npus as seen
from ascend_doctor.checks.python.torch_import import native_of
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Host, require_known
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.chip import ascend, container, device_count
from ascend_doctor.judging.judge import Case, check, error, warning
from ascend_doctor.judging.packages import distribution
from ascend_doctor.judging.version_compare import leading

_GIB = 1 << 30
_MIB = 1 << 20


@check("host-memory", "The host has enough memory for the ranks")
def host_memory(case: Case) -> Iterator[Finding]:
    """Weights, optimizer state and batches pass through the host's memory.

    No document says how much a job needs. A host, or the control group of a container, that has
    less memory than one of its NPUs cannot hold what that NPU is to get. Its ranks are killed
    (exit code -9, "oom-kill" in dmesg) while weights are loaded or a checkpoint is written.
    """
    ascend(case)
    _real(case)
    host = case.need(Host)
    total = require_known(host.memory, "how much memory the host has")
    memory_bytes = max((npu.hbm.total for npu in seen(case).devices if npu.hbm), default=0) * _MIB
    if not memory_bytes:
        raise Unknown("how much memory an NPU has could not be told")
    limit = min(total, host.memory_limit or total)
    free = min(limit, limit if host.memory_available is None else host.memory_available)
    if free >= memory_bytes:
        require_known(host.memory_available, "how much memory is available")
        return
    inside = "the control group allows" if host.memory_limit and limit < total else "the host has"
    yield warning(
        f"Only {free / _GIB:.0f} GB of the host's memory can be used, and an NPU has "
        f"{memory_bytes / _GIB:.0f} GB",
        observed=f"{inside} {limit / _GIB:.0f} GB, {free / _GIB:.0f} GB are available",
        required="as much as one NPU has, better as much as all of them",
        because="Ranks are killed while they load weights or write a checkpoint.",
        remedy="Start the container again with more memory (--memory, resources.limits.memory)"
        if container(case)
        else "See what takes the memory",
        commands=() if container(case) else ("ps aux --sort=-rss | head -n 15",),
    )


def _real(case: Case) -> None:
    """Raises NotApplicable for simulated NPUs: the machine may be small."""
    if case.facts.simulated:
        raise NotApplicable("the NPUs are simulated")


@check("host-cpus", "There are enough CPUs for the ranks")
def host_cpus(case: Case) -> Iterator[Finding]:
    """Every rank is a process that keeps a CPU busy, and its data loaders need more of them.

    Fewer CPUs than NPUs make ranks take turns, so all of them wait. Usually a job of the scheduler
    asked for one CPU, or a container was started with --cpus or --cpuset-cpus.
    """
    ascend(case)
    _real(case)
    host = case.need(Host)
    usable = require_known(host.cpus_usable, "how many CPUs this process may use")
    count = device_count(case)
    if count is None:
        raise NotApplicable("there is no device that is seen (see npu-smi and device-files)")
    if usable < count:
        yield warning(
            f"{usable} CPU{'s' if usable > 1 else ''} for {count} NPUs",
            observed=f"{usable} of {host.cpus or 'an unknown number of'} CPUs may be used here",
            required=f"at least {count}, several for each NPU",
            because="Ranks take turns on a CPU, and every collective waits for the slowest.",
            remedy="Ask the scheduler for more CPUs (--cpus-per-task, resources.requests.cpu),"
            " or start the container without --cpuset-cpus",
            commands=("taskset -cp $$",),
        )


@check("system-libraries", "The C and C++ libraries are new enough for torch and torch_npu")
def system_libraries(case: Case) -> Iterator[Finding]:
    """The files of torch and torch_npu need a minimum of glibc and libstdc++.

    Their headers say which; an older library ends the import with "version `GLIBCXX_3.4.29' not
    found". Old systems, and conda environments whose own libstdc++ is older than that of the
    system, are the usual reasons. The check reads the headers of the files and loads nothing.
    """
    native = native_of(case)
    distribution(case, "torch")
    host = case.need(Host)
    newest_known = dict(pair.split("_", 1) for pair in native.versions if "_" in pair)
    if not newest_known:
        raise Unknown("what torch and torch_npu need of the C library could not be read")
    path = native.libstdcxx or host.libstdcxx
    glibcxx = native.glibcxx or host.glibcxx
    have = {"GLIBC": host.glibc, "GLIBCXX": glibcxx and glibcxx.partition("_")[2]}
    for name, least in newest_known.items():
        if name not in have:
            continue
        what = "glibc" if name == "GLIBC" else f"libstdc++ ({path or 'not found'})"
        version = have[name]
        if version is None:
            raise Unknown(f"the version of {what} could not be told")
        if leading(version, 3) < leading(least, 3):
            yield error(
                f"{'glibc' if name == 'GLIBC' else 'libstdc++'} is too old for torch_npu: "
                f"{name}_{version} instead of {name}_{least}",
                observed=f"{what} has {name}_{version} at most",
                required=f"{name}_{least} or newer",
                because=f"The import ends with: version `{name}_{least}' not found.",
                remedy=_newer(name),
                refs=(LOADER,),
            )


def _newer(name: str) -> Remedy:
    if name == "GLIBC":
        return Remedy(
            summary="glibc belongs to the system: use an image or a system that is new enough"
        )
    return Remedy(
        summary="Put a newer libstdc++ in front, in conda environments with: "
        "conda install -c conda-forge libstdcxx-ng",
        commands=("ldconfig -p | grep libstdc++",),
    )
