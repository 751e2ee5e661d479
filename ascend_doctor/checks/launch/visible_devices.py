"""Which devices a process may use: ASCEND_RT_VISIBLE_DEVICES and the variables around it."""

import re

from ascend_doctor.facts import Driver, Environment, require_known
from ascend_doctor.judging import Case, Findings, NotApplicable, Remedy, Texts, quantity, spans
from ascend_doctor.judging.chip import MOST_DEVICES, ascend, container, device_count
from ascend_doctor.judging.env_values import settings, show_values, unset

TEXTS = Texts("visible-devices")

_NAME = "ASCEND_RT_VISIBLE_DEVICES"
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


@TEXTS.check("visible-devices")
def _visible_devices(case: Case) -> Findings:
    ascend(case)
    environment = case.need(Environment)
    value = environment.variables.get(_NAME)
    if value is None:
        raise NotApplicable(f"{_NAME} is not set")
    count = device_count(case)
    if value == "":
        yield TEXTS.finding("hides-all", remedy=unset(_NAME))
        return
    yield from _grammar(value, MOST_DEVICES if count is None else count)
    require_known(count, f"how many devices there are, which {_NAME} depends on")


def _grammar(value: str, count: int) -> Findings:
    seen = visible(value, count)
    meant = _numbers(value, count)
    if len(seen) < value.count(",") + 1:
        entry = value.split(",")[len(seen)]
        ids = f"ids from 0 to {count - 1}" if count else "no list: there is no device here"
        taken, why = list(seen) or "no device", _reason(entry, count)
        yield TEXTS.finding(
            "cut", remedy=_set_to(meant), entry=entry, value=value, taken=taken, ids=ids, why=why
        )
    elif len(set(seen)) < len(seen):
        yield TEXTS.finding("twice", remedy=_set_to(meant), value=value)
    elif list(seen) != sorted(seen):
        yield TEXTS.finding("not-rising", remedy=_set_to(meant), value=value)


def _reason(entry: str, count: int) -> str:
    if entry.isascii() and entry.isdecimal():
        return (
            f"There are {count} devices here, so there is no device {entry}. Ids count from 0 in "
            "this container, whatever numbers the devices have on the host."
        )
    if re.fullmatch(r"\s*[0-9]+\s*-\s*[0-9]+\s*", entry):
        return "Ranges are for ASCEND_VISIBLE_DEVICES of Ascend Docker Runtime only."
    return "An entry may have digits only; everything from here on is dropped without a message."


@TEXTS.check("process-count")
def _process_count(case: Case) -> Findings:
    ascend(case)
    values = settings(case)
    wishes = {"--nproc": case.nproc} if case.nproc is not None else {}
    for name in ("NPROC_PER_NODE", "NPUS_PER_NODE", "GPUS_PER_NODE", "LOCAL_WORLD_SIZE"):
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
            yield TEXTS.finding(
                "too-many", remedy=_fewer(name, usable), name=name, wish=wish, usable=usable, of=of
            )
        elif name != "--nproc" and wish < usable:
            shown, idle = show_values(values, name), usable - wish
            yield TEXTS.finding("idle", name=name, wish=wish, idle=idle, usable=usable, shown=shown)


def _rank_without_device(rank: str, count: int) -> Findings:
    if re.fullmatch("[0-9]{1,6}", rank) and int(rank) >= count > 0:
        yield TEXTS.finding("no-device", rank=rank, there=quantity(count, "device"), last=count - 1)


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


@TEXTS.check("container-variable")
def _container_variable(case: Case) -> Findings:
    ascend(case)
    values = settings(case)
    asked = values.get("ASCEND_VISIBLE_DEVICES")
    if asked is None:
        raise NotApplicable("ASCEND_VISIBLE_DEVICES is not set")
    if container(case) is None:
        shown = show_values(values, "ASCEND_VISIBLE_DEVICES", _NAME)
        yield TEXTS.finding("not-read", observed=shown)
        return
    devices = [device.number for device in case.need(Driver).devices if device.number is not None]
    ids = re.sub(r"[A-Za-z]+[0-9]*-", "", asked)
    if devices and ids and _numbers(ids, MOST_DEVICES) != sorted(devices):
        yield TEXTS.finding("other-devices", asked=asked, there=spans(devices))
    else:
        yield TEXTS.finding("of-container", observed=show_values(values, "ASCEND_VISIBLE_DEVICES"))
