"""Settings of HCCL that go together or exclude each other."""

from ascend_doctor.checks.launch.torch_npu_settings import HCCL_VARIABLES
from ascend_doctor.checks.npu.npus import visible_npus
from ascend_doctor.facts import Environment
from ascend_doctor.judging import Case, Findings, Texts
from ascend_doctor.judging.chip import family_or_none, require_answers
from ascend_doctor.judging.env_values import number, settings, show_values, unset
from ascend_doctor.judging.value_bounds import ports

TEXTS = Texts("hccl-settings")

# Seconds, if the variable is unset (matrices/environment.yaml).
_EXEC_DEFAULT = 1836
# Megatron's --distributed-timeout-minutes, and what HCCL adds to its own time-out.
_GROUP_SECONDS, _HCCL_ADDS = 600, 20
# Megatron makes about a dozen groups, each with a send and a receive buffer.
_GROUPS, _BUFFERS = 12, 2
_SIZES = ("HCCL_BUFFSIZE", "P2P_HCCL_BUFFSIZE")


@TEXTS.check("variables-links")
def _variables_links(case: Case) -> Findings:
    values = settings(case)
    names = ("HCCL_INTRA_PCIE_ENABLE", "HCCL_INTRA_ROCE_ENABLE")
    pair = (values.get(names[0]), values.get(names[1]))
    if pair in {("1", "1"), ("0", None), (None, "0")}:
        yield TEXTS.finding(
            "refused-links", remedy=unset(*names), shown=show_values(values, *names)
        )
    elif pair[1] == "1":
        family = family_or_none(case)
        if family is not None and family.topology:
            yield TEXTS.finding(
                "slow-links",
                remedy=unset(*names),
                shown=show_values(values, *names),
                chip=family.title,
            )


@TEXTS.check("variables-timeouts")
def _variables_timeouts(case: Case) -> Findings:
    values = settings(case)
    execute = number(values.get("HCCL_EXEC_TIMEOUT"), _EXEC_DEFAULT)
    # Unset, it is the other plus 30 s (Ascend/pytorch:torch_npu/csrc/distributed/
    # ProcessGroupHCCL.cpp:1174, kOpWaitTimeoutOffset).
    event = number(values.get("HCCL_EVENT_TIMEOUT"), 0)
    if execute and event and event <= execute:
        yield TEXTS.finding(
            "early-event",
            event=event,
            execute=execute,
            shown=show_values(values, "HCCL_EVENT_TIMEOUT", "HCCL_EXEC_TIMEOUT"),
            above=int(execute) + 32,
        )
    connect = number(values.get("HCCL_CONNECT_TIMEOUT"), 0)
    if connect and connect + _HCCL_ADDS > _GROUP_SECONDS:
        yield TEXTS.finding(
            "late-connect",
            seconds=connect + _HCCL_ADDS,
            observed=show_values(values, "HCCL_CONNECT_TIMEOUT"),
        )


@TEXTS.check("variables-whitelist")
def _variables_whitelist(case: Case) -> Findings:
    values = settings(case)
    present = {*values, *case.need(Environment).withheld}
    if values.get("HCCL_WHITELIST_DISABLE") == "0" and "HCCL_WHITELIST_FILE" not in present:
        yield TEXTS.finding(
            "no-whitelist",
            remedy=unset("HCCL_WHITELIST_DISABLE"),
            observed=show_values(values, "HCCL_WHITELIST_DISABLE"),
        )


@TEXTS.check("port-ranges")
def _port_ranges(case: Case) -> Findings:
    values = settings(case)
    names = ("HCCL_HOST_SOCKET_PORT_RANGE", "HCCL_NPU_SOCKET_PORT_RANGE")
    refs = tuple(f"{HCCL_VARIABLES}/{name}.md" for name in names)
    if names[0] in values and names[1] not in values:
        yield TEXTS.finding("one-range", refs=refs, names=names, shown=show_values(values, *names))
    host, npu = (ports(values.get(name, "")) or [] for name in names)
    if any(set(span) & set(two) for span in host for two in npu):
        yield TEXTS.finding("overlap", refs=refs, shown=show_values(values, *names), names=names)


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


@TEXTS.check("variables-memory")
def _variables_memory(case: Case) -> Findings:
    values = settings(case)
    size = number(values.get("HCCL_BUFFSIZE"), 0)
    if larger := [
        name for name in _SIZES if _exceeds_device(case, number(values.get(name), 0) or 0)
    ]:
        yield TEXTS.finding(
            "above-device",
            remedy=unset(larger[0]),
            name=larger[0],
            shown=show_values(values, larger[0]),
        )
    if larger or not size or case.facts.npus is None:
        return
    devices = visible_npus(case).devices
    require_answers(devices, "the memory", lambda npu: npu.hbm)
    totals = [npu.hbm.total for npu in devices if npu.hbm and npu.hbm.total]
    taken = size * _BUFFERS * _GROUPS
    if totals and taken > min(totals) / 4:
        yield TEXTS.finding(
            "much-memory",
            taken=taken / 1024,
            shown=show_values(values, "HCCL_BUFFSIZE"),
            size=size,
            total=min(totals),
        )
