"""The network ports inside the NPUs: links, what they reach, and their TLS switch."""

import msgspec

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
from ascend_doctor.judging import Case, Findings, Level, Texts, spans

TEXTS = Texts("network-links")

# It comes up, goes down and comes up when a device starts (samples of hccn_tool's documents).
_DROPS_AT_START = 2
_UNWIRED = "Ports that your server does not wire are never up."
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
        yield TEXTS.finding(
            "wired-down" if wired else "all-down",
            commands=(each("-link -g", down), each("-optical -g", down)),
            refs=(_DOWN, HCCN_SOURCE),
            devices=down,
            of=spans(down),
            optics=f"; {optics}" if optics else "",
        )
    for hccn_device in devices:
        yield from _histories(hccn_device, devices)
    for device, state in states.items():
        if state not in {None, "UP", "DOWN"}:
            yield TEXTS.finding("odd-state", device=device, state=state)
    yield from untold(case, "state")


def _histories(hccn_device: HccnDevice, devices: tuple[HccnDevice, ...]) -> Findings:
    down = [port for port in hccn_device.ports if port.link and port.link != "UP"]
    if down and len(down) < len(hccn_device.ports):
        others = [device.ports for device in devices if device is not hccn_device]
        alone = len(others) > 1 and any(
            all(msgspec.structs.replace(port, link="UP") in ports for ports in others)
            for port in down
        )
        yield TEXTS.finding(
            "ports-down",
            level=Level.WARNING if alone else None,
            because="This port is up on all other devices." if alone else _UNWIRED,
            observed=f"die/port: {', '.join(f'{p.udie}/{p.port} {p.link}' for p in down)}",
            refs=(HCCN_SOURCE,),
            hccn_device=hccn_device,
        )
    if hccn_device.link == "UP" and "DOWN" in hccn_device.link_changes:
        yield TEXTS.finding(
            "was-down",
            level=Level.WARNING if hccn_device.link_drops > _DROPS_AT_START else None,
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
