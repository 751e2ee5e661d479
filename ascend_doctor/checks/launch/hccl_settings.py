"""Settings of HCCL that go together or exclude each other."""

from collections.abc import Iterator

from ascend_doctor.checks.launch.torch_npu_settings import (
    HCCL_VARIABLES,
    MEGATRON_OPTIONS,
    TORCH_NPU_VARIABLES,
)
from ascend_doctor.checks.npu.npus import visible_npus
from ascend_doctor.facts import Environment
from ascend_doctor.findings import Finding, Remedy
from ascend_doctor.judging.chip import family_or_none, require_answers
from ascend_doctor.judging.env_values import number, settings, show_values, unset
from ascend_doctor.judging.judge import Case, check, error, note, warning
from ascend_doctor.judging.value_bounds import ports

# Seconds, if the variable is unset (matrices/environment.yaml).
_EXEC_DEFAULT = 1836
# Megatron's --distributed-timeout-minutes, and what HCCL adds to its own time-out.
_GROUP_SECONDS, _HCCL_ADDS = 600, 20
# Megatron makes about a dozen groups, each with a send and a receive buffer.
_GROUPS, _BUFFERS = 12, 2
_SIZES = ("HCCL_BUFFSIZE", "P2P_HCCL_BUFFSIZE")


@check(
    "variables-links",
    "Settings for links inside a server can be combined",
    scope="launch",
)
def variables_links(case: Case) -> Iterator[Finding]:
    """HCCL_INTRA_PCIE_ENABLE and HCCL_INTRA_ROCE_ENABLE choose the link between NPUs of one server.

    They matter on servers without HCCS between all NPUs only (Atlas 200T A2 Box16, 300T Pro) and
    are often copied from guides for those. HCCL refuses both on, and either of them alone at 0.
    On 8-card A2 servers and on A3 leave both unset.
    """
    values = settings(case)
    names = ("HCCL_INTRA_PCIE_ENABLE", "HCCL_INTRA_ROCE_ENABLE")
    pair = (values.get(names[0]), values.get(names[1]))
    if pair in {("1", "1"), ("0", None), (None, "0")}:
        yield error(
            "HCCL refuses this pair of link settings",
            observed=show_values(values, *names),
            required="both unset, or exactly one of them on",
            because="Creating a process group fails.",
            remedy=unset(*names),
            refs=(
                f"{HCCL_VARIABLES}/HCCL_INTRA_ROCE_ENABLE.md",
                "hicann/hccl@09300b70:src/common/alg_env_config.cc",
            ),
        )
    elif pair[1] == "1":
        family = family_or_none(case)
        if family is not None and family.topology:
            yield warning(
                "HCCL_INTRA_ROCE_ENABLE=1 sends traffic inside a server over the network ports",
                observed=f"{show_values(values, *names)} on {family.title}",
                required="unset, unless this is an Atlas 200T A2 Box16",
                because="Where the NPUs have HCCS between them, RoCE is slower, and a port that is "
                "down then stops jobs of one server too.",
                remedy=unset(*names),
                refs=(f"{HCCL_VARIABLES}/HCCL_INTRA_ROCE_ENABLE.md",),
            )


@check("variables-timeouts", "HCCL and torch_npu timeouts are in a useful order", scope="launch")
def variables_timeouts(case: Case) -> Iterator[Finding]:
    """The layer that knows most should give up first, so that its message is the one you read.

    HCCL_EVENT_TIMEOUT of torch_npu must be above HCCL_EXEC_TIMEOUT of HCCL (1836 s where unset).
    Left unset it is 30 s above. HCCL_CONNECT_TIMEOUT, to which HCCL adds 20 s, should be below the
    time-out of the process group; Megatron sets that with --distributed-timeout-minutes (10 where
    not given).
    """
    values = settings(case)
    execute = number(values.get("HCCL_EXEC_TIMEOUT"), _EXEC_DEFAULT)
    # Unset, it is the other plus 30 s (Ascend/pytorch:torch_npu/csrc/distributed/
    # ProcessGroupHCCL.cpp:1174, kOpWaitTimeoutOffset).
    event = number(values.get("HCCL_EVENT_TIMEOUT"), 0)
    if execute and event and event <= execute:
        yield warning(
            "HCCL_EVENT_TIMEOUT is not above HCCL_EXEC_TIMEOUT",
            observed=f"event {event:g} s, execution {execute:g} s "
            f"({show_values(values, 'HCCL_EVENT_TIMEOUT', 'HCCL_EXEC_TIMEOUT')})",
            required=f"HCCL_EVENT_TIMEOUT above {execute:g}",
            because="torch_npu gives up first, and the message of HCCL that names ranks is lost.",
            remedy=Remedy(
                summary="Raise it above the other",
                commands=(f"export HCCL_EVENT_TIMEOUT={int(execute) + 32}",),
            ),
            refs=(f"{TORCH_NPU_VARIABLES}/collective_communication/HCCL_EVENT_TIMEOUT.md",),
        )
    connect = number(values.get("HCCL_CONNECT_TIMEOUT"), 0)
    if connect and connect + _HCCL_ADDS > _GROUP_SECONDS:
        yield note(
            f"HCCL waits up to {connect + _HCCL_ADDS:g} s for other ranks to connect",
            observed=show_values(values, "HCCL_CONNECT_TIMEOUT"),
            because="A Megatron job whose --distributed-timeout-minutes is below that (10 minutes "
            "where not given) ends before HCCL says which rank is missing.",
            refs=(f"{HCCL_VARIABLES}/HCCL_CONNECT_TIMEOUT.md", MEGATRON_OPTIONS),
        )


@check("variables-whitelist", "HCCL's whitelist check has a whitelist", scope="launch")
def variables_whitelist(case: Case) -> Iterator[Finding]:
    """HCCL_WHITELIST_DISABLE=0 lets only addresses of HCCL_WHITELIST_FILE take part.

    Without that file no rank can connect. Leave both unset unless your site demands a white list.
    """
    values = settings(case)
    present = {*values, *case.need(Environment).withheld}
    if values.get("HCCL_WHITELIST_DISABLE") == "0" and "HCCL_WHITELIST_FILE" not in present:
        yield error(
            "HCCL_WHITELIST_DISABLE=0 without HCCL_WHITELIST_FILE",
            observed=show_values(values, "HCCL_WHITELIST_DISABLE"),
            required="unset, or a white list",
            because="HCCL lets no address of another rank in.",
            remedy=unset("HCCL_WHITELIST_DISABLE"),
            refs=(f"{HCCL_VARIABLES}/HCCL_WHITELIST_DISABLE.md",),
        )


@check("port-ranges", "HCCL's port ranges do not overlap", scope="launch")
def port_ranges(case: Case) -> Iterator[Finding]:
    """HCCL_HOST_SOCKET_PORT_RANGE and HCCL_NPU_SOCKET_PORT_RANGE are for several jobs on one NPU.

    Training and rollout on one card need both, on all ranks, and the ranges must not overlap.
    """
    values = settings(case)
    names = ("HCCL_HOST_SOCKET_PORT_RANGE", "HCCL_NPU_SOCKET_PORT_RANGE")
    refs = tuple(f"{HCCL_VARIABLES}/{name}.md" for name in names)
    if names[0] in values and names[1] not in values:
        yield note(
            f"{names[0]} is set without {names[1]}",
            observed=show_values(values, *names),
            because="Several processes on one NPU need both.",
            refs=refs,
        )
    host, npu = (ports(values.get(name, "")) or [] for name in names)
    if any(set(span) & set(two) for span in host for two in npu):
        yield warning(
            "The port ranges of host and NPU overlap",
            observed=show_values(values, *names),
            required="ranges apart, for example 60000-60050 and 61000-61050",
            because="The two are meant to be planned apart.",
            remedy=Remedy(
                summary="Set ranges apart, the same on all ranks",
                commands=(
                    f"export {names[0]}=60000-60050",
                    f"export {names[1]}=61000-61050",
                ),
            ),
            refs=refs,
        )


def _exceeds_device(case: Case, size: float) -> bool:
    """Whether two buffers of this many MB exceed a device here, or the largest known."""
    if not size:
        return False
    devices = case.facts.npus.devices if case.facts.npus else ()
    here = [npu.hbm.total for npu in devices if npu.hbm and npu.hbm.total]
    chips = [soc for row in case.catalog.families for soc in row.socs]
    named = {npu.name for npu in devices}
    known = [soc.memory_gib << 10 for soc in chips if soc.memory_gib and soc.soc in named]
    known = known or [soc.memory_gib << 10 for soc in chips if soc.memory_gib]
    return size * _BUFFERS > (min(here) if here else max(known))


@check("variables-memory", "HCCL's buffers leave room for the model", scope="launch")
def variables_memory(case: Case) -> Iterator[Finding]:
    """Every communicator takes twice HCCL_BUFFSIZE (in MB, 200 where unset) on the device.

    Megatron makes about a dozen groups, so the default costs about 5 GB. A large value set for
    one big all-to-all is paid by each of them and can end in out of memory before the first step.
    """
    values = settings(case)
    size = number(values.get("HCCL_BUFFSIZE"), 0)
    if larger := [
        name for name in _SIZES if _exceeds_device(case, number(values.get(name), 0) or 0)
    ]:
        yield error(
            f"{larger[0]} is more than the memory of a device",
            observed=f"{show_values(values, larger[0])}, in MB, twice for each communicator",
            required="for example 200, the default of HCCL_BUFFSIZE",
            because="The first communicator cannot be made.",
            remedy=unset(larger[0]),
            refs=(f"{HCCL_VARIABLES}/{larger[0]}.md",),
        )
    if larger or not size or case.facts.npus is None:
        return
    devices = visible_npus(case).devices
    require_answers(devices, "the memory", lambda npu: npu.hbm)
    totals = [npu.hbm.total for npu in devices if npu.hbm and npu.hbm.total]
    taken = size * _BUFFERS * _GROUPS
    if totals and taken > min(totals) / 4:
        yield note(
            f"About {taken / 1024:.0f} GB of each device go to buffers of HCCL",
            observed=f"{show_values(values, 'HCCL_BUFFSIZE')}: "
            f"{size:g} MB x {_BUFFERS} x about {_GROUPS} "
            f"groups of {min(totals)} MB",
            refs=(f"{HCCL_VARIABLES}/HCCL_BUFFSIZE.md",),
        )
