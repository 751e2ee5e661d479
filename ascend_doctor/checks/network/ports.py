"""The ports of HCCL and torchrun on the host: free, and kept from other programs."""

import shlex

from ascend_doctor.checks.network.sockets import address
from ascend_doctor.facts import Environment, require_known
from ascend_doctor.judging import Case, Findings, Texts
from ascend_doctor.judging.chip import ascend
from ascend_doctor.judging.env_values import settings, show_values
from ascend_doctor.judging.value_bounds import clean, ports

TEXTS = Texts("ports")

_BASE_PORT = TEXTS.names["base_port"]
# HCCL's ports without a base in HCCL_IF_BASE_PORT: 60000 to 60031 (_BASE_PORT).
_BASE, _COUNT = 60000, 32
_TORCHRUN = 29500
_DIGITS = 5


def _hccl_ports(values: dict[str, str]) -> list[range]:
    spec = clean(values.get("HCCL_HOST_SOCKET_PORT_RANGE", ""))
    if spec:
        return ports(spec) or []
    base = clean(values.get("HCCL_IF_BASE_PORT", ""))
    start = int(base) if base.isascii() and base.isdecimal() and len(base) <= _DIGITS else _BASE
    return [range(start, start + _COUNT)]


def _ranges(port_ranges: list[range]) -> str:
    return ",".join(str(r.start) if len(r) == 1 else f"{r.start}-{r.stop - 1}" for r in port_ranges)


@TEXTS.check("ports-free")
def _ports_free(case: Case) -> Findings:
    ascend(case)
    environment = case.need(Environment)
    listening = set(require_known(environment.listening, "which ports are in use"))
    values = settings(case)
    hccl_ports = _hccl_ports(values)
    taken = sorted(
        port for ports_of_hccl in hccl_ports for port in ports_of_hccl if port in listening
    )
    if taken:
        yield TEXTS.finding(
            "taken-ports",
            commands=(
                f"ss -ltnp 'sport >= :{taken[0]} and sport <= :{taken[-1]}'",
                f"export HCCL_IF_BASE_PORT={_free_base(listening, environment)}",
            ),
            first=", ".join(map(str, taken[:8])),
            taken=", ".join(map(str, taken)),
            ranges=_ranges(hccl_ports),
        )
    yield from _master(values, listening, environment, hccl_ports)


def _free_base(listening: set[int], environment: Environment) -> int:
    low, high = environment.local_port_range or (0, -1)
    # Linux's default range for outgoing ports ends at 60999.
    bases = range(61000, 65520 - _COUNT, 100)
    free = [b for b in bases if not listening & set(range(b, b + _COUNT))]
    apart = [b for b in free if b > high or b + _COUNT <= low]
    return next(iter((*apart, *free)), 61000)


def _master(
    values: dict[str, str], listening: set[int], environment: Environment, hccl_ranges: list[range]
) -> Findings:
    text = values.get("MASTER_PORT", str(_TORCHRUN))
    master = address(values.get("MASTER_ADDR", ""))
    own = {address(a) for interface in environment.interfaces or () for a in interface.addresses}
    elsewhere = master is not None and not master.is_loopback and own and master not in own
    port = int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None
    if port is None or elsewhere:
        return
    name = "MASTER_PORT" if "MASTER_PORT" in values else "torchrun's default"
    free = (f"export MASTER_PORT={port + 1}",) if "MASTER_PORT" in values else ()
    if port in listening:
        yield TEXTS.finding(
            "taken-port",
            commands=(f"ss -ltnp 'sport = :{port}'", *free),
            name=name,
            port=port,
            another=port + 1,
        )
    if any(port in hccl_range for hccl_range in hccl_ranges):
        yield TEXTS.finding(
            "among-hccl",
            port=port,
            shown=show_values(values, "MASTER_PORT"),
            ranges=_ranges(hccl_ranges),
            torchrun=_TORCHRUN,
        )


@TEXTS.check("ports-reserved")
def _ports_reserved(case: Case) -> Findings:
    ascend(case)
    environment = case.need(Environment)
    low, high = require_known(environment.local_port_range, "the range of local ports")
    reserved = require_known(environment.reserved_ports, "which ports are reserved")
    reserved_ports = {port for port_range in ports(reserved) or [] for port in port_range}
    hccl_ports = _hccl_ports(settings(case))
    loose = sorted(
        p
        for port_range in hccl_ports
        for p in port_range
        if low <= p <= high and p not in reserved_ports
    )
    if loose:
        value = ",".join(text for text in (reserved, _ranges(hccl_ports)) if text)
        yield TEXTS.finding(
            "another-program",
            title=f"{len(loose)} ports of HCCL are not reserved",
            observed=f"ip_local_port_range {low}-{high}, reserved: {reserved or 'none'}",
            required=f"{_ranges(hccl_ports)} in net.ipv4.ip_local_reserved_ports",
            commands=(f"sudo sysctl -w net.ipv4.ip_local_reserved_ports={shlex.quote(value)}",),
            refs=(_BASE_PORT,),
        )
