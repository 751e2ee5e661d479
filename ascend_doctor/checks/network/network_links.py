"""The network ports inside the NPUs: links, what they reach, and their TLS switch."""

from ascend_doctor.checks.network.network import (
    HCCN_SOURCE,
    VERIFY,
    answers,
    each,
    needs_addresses,
    report_odd,
    untold,
)
from ascend_doctor.facts import HccnDevice
from ascend_doctor.judging import Case, Findings, Texts, error, spans, warning

TEXTS = Texts("network-links")

_DOWN = "https://github.com/vllm-project/vllm-ascend/issues/1815"
# Init: no address to probe is set, or no probe was made yet.
_FINE = frozenset({"Success", "Init", "Detect ip set"})
# Words of dcmi_get_device_network_health, as old and new tools spell them.
_FAILED = {
    *("Socket fail", "Socket failed", "Receive timeout", "Unreachable"),
    *("Time exceeded", "Fault", "Thread error"),
}


@TEXTS.check("hccn-link")
def _hccn_link(case: Case) -> Findings:
    devices = answers(case)
    states = {hccn_device.device: hccn_device.state for hccn_device in devices}
    down = tuple(device for device, state in states.items() if state == "DOWN")
    if down:
        wired = "UP" in states.values() and needs_addresses(case)
        optics = "; ".join(
            f"device {hccn_device.device}: "
            + ", ".join(f"{k} {v}" for k, v in hccn_device.optical.items())
            for hccn_device in devices
            if hccn_device.device in down and hccn_device.optical
        )
        yield (error if wired else warning)(
            f"The network link of devices {spans(down)} is down",
            observed="link status: DOWN" + (f"; {optics}" if optics else ""),
            required="link status: UP",
            because="Jobs of several servers cannot use these devices; the others are wired."
            if wired
            else "Jobs of several servers cannot use these devices.",
            remedy="Check cable, optical module and switch port",
            commands=(each("-link -g", down), each("-optical -g", down)),
            refs=(_DOWN, HCCN_SOURCE),
            devices=down,
        )
    for hccn_device in devices:
        yield from _histories(hccn_device)
    for device, state in states.items():
        if state not in {None, "UP", "DOWN"}:
            yield TEXTS.finding("odd-state", device=device, state=state)
    yield from untold(case, "state")


def _histories(hccn_device: HccnDevice) -> Findings:
    ports = [f"{p.udie}/{p.port} {p.link}" for p in hccn_device.ports if p.link and p.link != "UP"]
    if ports and len(ports) < len(hccn_device.ports):
        yield TEXTS.finding(
            "ports-down",
            observed=f"die/port: {', '.join(ports)}",
            refs=(HCCN_SOURCE,),
            hccn_device=hccn_device,
        )
    if hccn_device.link == "UP" and "DOWN" in hccn_device.link_changes:
        yield TEXTS.finding(
            "was-down",
            observed=f"it came up {hccn_device.link_ups or 'several'} times since the start",
            refs=(HCCN_SOURCE,),
            hccn_device=hccn_device,
        )


@TEXTS.check("hccn-health")
def _hccn_health(case: Case) -> Findings:
    groups: dict[str, list[int]] = {}
    for answer in answers(case):
        if answer.health and answer.health not in _FINE:
            groups.setdefault(answer.health, []).append(answer.device)
    for state, of in groups.items():
        if state not in _FAILED:
            yield TEXTS.finding("untold-health", of=spans(of), state=state)
            continue
        yield TEXTS.finding(
            "bad-health",
            commands=(each("-netdetect -g", tuple(of)), each("-link -g", tuple(of))),
            devices=tuple(of),
            of=spans(of),
            state=state,
        )
    fine = [device for device in answers(case) if device.health in {"Success", "Init"}]
    yield from report_odd(fine, "health")
    yield from untold(case, "health")


@TEXTS.check("hccn-tls")
def _hccn_tls(case: Case) -> Findings:
    devices = answers(case)
    on = [device.device for device in devices if device.tls is True]
    off = [device.device for device in devices if device.tls is False]
    if on and off:
        yield TEXTS.finding(
            "mixed",
            observed=f"on: {spans(on)}; off: {spans(off)}",
            commands=(each("-tls -s enable 0", tuple(on)),),
            refs=(VERIFY,),
            devices=tuple(on),
        )
    yield from untold(case, "tls")
