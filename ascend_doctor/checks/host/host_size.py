"""What the host has for the ranks: memory, CPUs, and a C and C++ library that is new enough."""

from ascend_doctor.checks.host.left_behind import LOADER
from ascend_doctor.checks.npu.npus import visible_npus as seen
from ascend_doctor.checks.python.torch_import import native_of
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Host, require_known
from ascend_doctor.judging import Case, Findings, Remedy, Texts, quantity, warning
from ascend_doctor.judging.chip import ascend, container, device_count
from ascend_doctor.judging.packages import distribution
from ascend_doctor.judging.version_compare import leading

TEXTS = Texts("host-size")

_GIB = 1 << 30
_MIB = 1 << 20


@TEXTS.check("host-memory")
def _host_memory(case: Case) -> Findings:
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
        observed=f"{inside} {limit / _GIB:.0f} GB, {free / _GIB:.0f} GB are available to commit"
        + "".join(f", {what} hold {size / _GIB:.0f} GB" for what, size in host.memory_held.items()),
        required="as much as one NPU has, better as much as all of them",
        because="Ranks are killed while they load weights or write a checkpoint.",
        remedy="Start the container again with more memory (--memory, resources.limits.memory)"
        if container(case)
        else "See what takes the memory",
        commands=()
        if container(case)
        else ("ps aux --sort=-rss | head -n 15", "sysctl vm.nr_hugepages vm.overcommit_memory"),
    )


def _real(case: Case) -> None:
    """Raises NotApplicable for simulated NPUs: the machine may be small."""
    if case.facts.simulated:
        raise NotApplicable("the NPUs are simulated")


@TEXTS.check("host-cpus")
def _host_cpus(case: Case) -> Findings:
    ascend(case)
    _real(case)
    host = case.need(Host)
    if host.cpu_governors == ("powersave",) and host.arch == "aarch64":
        yield TEXTS.finding("powersave")
    usable = require_known(host.cpus_usable, "how many CPUs this process may use")
    count = device_count(case)
    if count is None:
        raise NotApplicable("there is no device that is seen (see npu-smi and device-files)")
    if usable < count:
        cpus, every = quantity(usable, "CPU"), host.cpus or "an unknown number of"
        yield TEXTS.finding("few-cpus", cpus=cpus, count=count, usable=usable, every=every)


@TEXTS.check("system-libraries")
def _system_libraries(case: Case) -> Findings:
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
            yield TEXTS.finding(
                "import-ends",
                title=f"{'glibc' if name == 'GLIBC' else 'libstdc++'} is too old for torch_npu: "
                f"{name}_{version} instead of {name}_{least}",
                remedy=_newer(name),
                refs=(LOADER,),
                least=least,
                name=name,
                version=version,
                what=what,
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
