"""Starts a shipped probe as the doctor does, with a mutation in every process of its."""

import os
from pathlib import Path

from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.probing.launching import launch_together
from ascend_doctor.probing.request import ProbeRequest, ProbeWatch
from ascend_doctor.probing.schedule import Extent, plan


def launch(request: ProbeRequest, *, watch: ProbeWatch | None = None) -> ProbeRun:
    (run,) = launch_together((request,), watch=watch)
    return run


def start_probe(  # noqa: PLR0913 - what a test may want otherwise
    python: Path,
    probe: str,
    *,
    ranks: int = 1,
    fault: str = "",
    mutation: str = "",
    folder: Path | None = None,
    sizes: tuple[tuple[str, int], ...] = (),
    minutes: float = 1.0,
) -> ProbeRun:
    """Run a probe on the CPU, after the code ``mutation`` in ``folder``."""
    env = {**os.environ, "ASCEND_DOCTOR_PROBE_FAULT": fault}
    if mutation:
        assert folder is not None
        (folder / "sitecustomize.py").write_text(mutation, "utf-8")
        python_path = os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
        env |= {"PYTHONPATH": python_path, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    extent = Extent(sizes=sizes, minutes=minutes)
    requests = plan(4, device="cpu", nproc=ranks, python=str(python), env=env, extent=extent)
    return launch(next(request for request in requests if request.probe == probe))
