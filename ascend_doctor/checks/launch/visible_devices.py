"""Which devices a process may use: ASCEND_RT_VISIBLE_DEVICES and the variables around it."""

import re
from collections.abc import Iterator

from ascend_doctor.errors import NotApplicable
from ascend_doctor.facts import Environment, require_known
from ascend_doctor.findings import Finding, Remedy, quantity
from ascend_doctor.judging.chip import MOST_DEVICES, ascend, container, device_count
from ascend_doctor.judging.env_values import settings, show_values, unset
from ascend_doctor.judging.judge import Case, check, error, note, warning

_NAME = "ASCEND_RT_VISIBLE_DEVICES"
_REF = "hicann/runtime@681ef761:docs/zh/env_vars"
_RUNTIME = "Ascend/mind-cluster@22bb3d98:docs/en/scheduling"
_NOT_ASCENDING = "https://github.com/gpustack/gpustack/issues/2527"
_OUT_OF_RANGE = "https://github.com/gpustack/gpustack/issues/3352"
_LONGEST_ID = 4


def visible(value: str, count: int) -> tuple[int, ...]:
    """The ids that the runtime takes: it silently stops at the first bad entry."""
    ids: list[int] = []
    for entry in value.split(","):
        if re.fullmatch(rf"[0-9]{{1,{_LONGEST_ID}}}", entry) is None or int(entry) >= count:
            break
        ids.append(int(entry))
    return tuple(ids)


def _numbers(value: str, count: int) -> list[int]:
    numbers: set[int] = set()
    for low, high in re.findall(r"([0-9]{1,4})(?:\s*-\s*([0-9]{1,4}))?", value):
        numbers.update(range(int(low), min(int(high or low), MOST_DEVICES) + 1))
    return sorted(number for number in numbers if number < count)


def _set_to(ids: list[int]) -> Remedy:
    if not ids:
        return Remedy(summary="Unset it to use all devices", commands=(f"unset {_NAME}",))
    return Remedy(
        summary="List the ids in rising order, without blanks; or unset it to use all devices",
        commands=(f"export {_NAME}={','.join(map(str, ids))}",),
    )


@check(
    "visible-devices",
    "ASCEND_RT_VISIBLE_DEVICES is a valid list",
    scope="launch",
)
def visible_devices(case: Case) -> Iterator[Finding]:
    """ASCEND_RT_VISIBLE_DEVICES limits a process to some devices, by ids that count from 0.

    The runtime is strict and silent. It stops reading at the first blank, range or id that does
    not exist ("0, 1" gives device 0). A duplicate is an error (EE2002). torch_npu sees no
    device at all in a list that does not rise. An empty value hides every device. The ids are
    those of this container, not of the host, and on A3 they are device numbers (0 to 15), not
    the ids of cards. Ranges belong to ASCEND_VISIBLE_DEVICES only.
    """
    ascend(case)
    environment = case.need(Environment)
    value = environment.variables.get(_NAME)
    if value is None:
        raise NotApplicable(f"{_NAME} is not set")
    count = device_count(case)
    if value == "":
        yield error(
            f"{_NAME} is empty, which hides every device",
            observed=f"{_NAME}=''",
            required="unset, or a list of ids",
            because="torch_npu counts 0 devices.",
            remedy=unset(_NAME),
            refs=(_REF,),
        )
        return
    yield from _grammar(value, MOST_DEVICES if count is None else count)
    require_known(count, f"how many devices there are, which {_NAME} depends on")


def _grammar(value: str, count: int) -> Iterator[Finding]:
    seen = visible(value, count)
    meant = _numbers(value, count)
    if len(seen) < value.count(",") + 1:
        entry = value.split(",")[len(seen)]
        yield error(
            f"{_NAME} is cut at the entry {entry!r}",
            observed=f"{_NAME}={value!r}: the runtime takes {list(seen) or 'no device'}",
            required=f"ids from 0 to {count - 1}" if count else "no list: there is no device here",
            because=_reason(entry, count),
            remedy=_set_to(meant),
            refs=(_REF, _OUT_OF_RANGE),
        )
    elif len(set(seen)) < len(seen):
        yield error(
            f"{_NAME} names a device twice",
            observed=f"{_NAME}={value!r}",
            required="every id once",
            because="The runtime refuses the list (EE2002).",
            remedy=_set_to(meant),
            refs=(_REF,),
        )
    elif list(seen) != sorted(seen):
        yield error(
            f"{_NAME} does not rise",
            observed=f"{_NAME}={value!r}",
            required="ids in rising order",
            because="torch_npu counts 0 devices; choose the order of ranks in the launcher.",
            remedy=_set_to(meant),
            refs=(_REF, _NOT_ASCENDING),
        )


def _reason(entry: str, count: int) -> str:
    if entry.isascii() and entry.isdecimal():
        return (
            f"There are {count} devices here, so there is no device {entry}. Ids count from 0 in "
            "this container, whatever numbers the devices have on the host."
        )
    if re.fullmatch(r"\s*[0-9]+\s*-\s*[0-9]+\s*", entry):
        return "Ranges are for ASCEND_VISIBLE_DEVICES of Ascend Docker Runtime only."
    return "An entry may have digits only; everything from here on is dropped without a message."


@check("process-count", "There is a device for every process", scope="launch")
def process_count(case: Case) -> Iterator[Finding]:
    """Every rank of a node needs a device of its own.

    With more processes than visible devices the surplus ranks stop at set_device (107001). The
    check compares --nproc, and NPROC_PER_NODE and NPUS_PER_NODE of launch scripts, with the
    devices that are visible. On A3 one card has two devices, so a full node has 16.
    """
    ascend(case)
    values = settings(case)
    wishes = {"--nproc": case.nproc} if case.nproc is not None else {}
    for name in ("NPROC_PER_NODE", "NPUS_PER_NODE"):
        if re.fullmatch("[0-9]{1,6}", values.get(name, "")):
            wishes[name] = int(values[name])
    rank = values.get("LOCAL_RANK", "")
    if not wishes and not rank:
        raise NotApplicable("no number of processes is asked for")
    count = require_known(device_count(case), "how many devices there are")
    yield from _rank_without_device(rank, count)
    listed = case.need(Environment).variables.get(_NAME)
    usable = count if listed is None else len(visible(listed, count))
    for name, wish in wishes.items():
        if wish > usable:
            of = "" if listed is None else f" of {count}, by {_NAME}={listed!r}"
            yield error(
                f"{name} asks for {wish} processes, and {usable} devices are visible",
                observed=f"{usable} devices{of}",
                required=f"at most {usable} processes on this node",
                because="A rank without a device stops at set_device (107001).",
                remedy=_fewer(name, usable),
                refs=(_OUT_OF_RANGE,),
            )
        elif name != "--nproc" and wish < usable:
            yield note(
                f"{name}={wish} leaves {usable - wish} of {usable} devices idle",
                observed=show_values(values, name),
            )


def _rank_without_device(rank: str, count: int) -> Iterator[Finding]:
    if re.fullmatch("[0-9]{1,6}", rank) and int(rank) >= count > 0:
        yield error(
            f"LOCAL_RANK is {rank}, and this node has {quantity(count, 'device')}",
            observed=f"LOCAL_RANK={rank!r}",
            required=f"0 to {count - 1}",
            because="A rank without a device stops at set_device (107001).",
            remedy=Remedy(
                summary="Start fewer processes on this node; unset what a job left behind",
                commands=("unset LOCAL_RANK",),
            ),
            refs=(_OUT_OF_RANGE,),
        )


def _fewer(name: str, usable: int) -> Remedy:
    if name == "--nproc":
        return Remedy(
            summary="Ask for fewer processes, or make more devices visible",
            commands=(f"ascend-doctor check --nproc {usable}",) if usable else (),
        )
    return Remedy(
        summary="Start fewer processes, or make more devices visible",
        commands=(f"export {name}={usable}",) if usable else (f"unset {name}",),
    )


@check(
    "container-variable", "ASCEND_VISIBLE_DEVICES is left to the container runtime", scope="launch"
)
def container_variable(case: Case) -> Iterator[Finding]:
    """ASCEND_VISIBLE_DEVICES is read by Ascend Docker Runtime when a container is created.

    Inside a process it does nothing: on a host, or for choosing devices, you want
    ASCEND_RT_VISIBLE_DEVICES. In a container it tells which devices of the host were asked for;
    those numbers mean nothing inside.
    """
    ascend(case)
    values = settings(case)
    asked = values.get("ASCEND_VISIBLE_DEVICES")
    if asked is None:
        raise NotApplicable("ASCEND_VISIBLE_DEVICES is not set")
    if container(case) is None:
        yield warning(
            "ASCEND_VISIBLE_DEVICES is set, which a process does not read",
            observed=show_values(values, "ASCEND_VISIBLE_DEVICES", _NAME),
            required=f"{_NAME} to choose devices",
            because="All devices stay visible.",
            remedy=Remedy(
                summary=f"To choose devices for a process, set {_NAME} to ids without ranges",
                commands=("unset ASCEND_VISIBLE_DEVICES",),
            ),
            refs=(_RUNTIME,),
        )
    else:
        yield note(
            "ASCEND_VISIBLE_DEVICES says what the container was created with",
            observed=show_values(values, "ASCEND_VISIBLE_DEVICES"),
            because="Its numbers are those of the host.",
            refs=(_RUNTIME,),
        )
