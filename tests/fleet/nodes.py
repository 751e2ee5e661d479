"""Reports of made-up nodes, written as the command writes them."""

from pathlib import Path
from typing import Any

from ascend_doctor.facts import Distribution, Environment, Hccn, HccnDevice, Host, Python, Snapshot
from ascend_doctor.findings import Finding, Level
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from ascend_doctor.render.formats.json import render
from ascend_doctor.report import Report, verdict

FINE = Finding(check="host", level=Level.OK, title="all is well")


def node(  # noqa: PLR0913 - what a node may differ in
    name: str,
    *findings: Finding,
    torch: str = "2.7.1",
    variables: dict[str, str] | None = None,
    address: str | None = None,
    figure: float | None = None,
    taken_at: str = "2026-11-21T00:00:00+00:00",
    redacted: bool = False,
    extra: tuple[Distribution, ...] = (),
    **more: Any,
) -> Report:
    runs: tuple[ProbeRun, ...] = ()
    if figure is not None:
        result = ProbeResult(probe="bandwidth", ok=True, values={"busbw_gbps": figure})
        runs = (ProbeRun(probe="bandwidth", ranks=(result,)),)
    devices = (HccnDevice(device=0, address=address),) if address else ()
    return Report(
        **{
            "tool_version": "1",
            "taken_at": taken_at,
            "host": name,
            "python": "/p",
            "device": "npu",
            "simulated": False,
            "redacted": redacted,
            "levels": (),
            "verdict": verdict(findings or (FINE,), fail_on=Level.ERROR),
            "findings": findings or (FINE,),
            "seconds": 1.0,
            "snapshot": Snapshot(
                host=Host(name=name, os_id="debian", kernel="5.10"),
                python=Python(
                    version="3.11.7",
                    distributions=(Distribution(name="torch", version=torch), *extra),
                ),
                environment=Environment(variables=variables or {}),
                hccn=Hccn(devices=devices),
                probes=runs,
            ),
            **more,
        }
    )


def write(folder: Path, *reports: Report) -> None:
    for report in reports:
        (folder / f"{report.host}.json").write_text(render(report))
