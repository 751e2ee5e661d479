"""Every fault of the simulated NPU: who must notice it, as what, and nobody else.

Each row is a rehearsal on two simulated NPUs. Against one without a fault nothing may change but
what the row names, and what needs a probe that failed. Faults of different probes share one.
"""

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.probing.schedule import plan
from ascend_doctor.simulator import FAULTS, parse
from tests.conftest import Command
from tests.knobs import draw

MARK = "ASCEND_DOCTOR_TEST_MARK"
DEADLINE = 1200
# What fails in a probe on a sound machine, too: objects without set_device, writing in place.
PROVOKED = {"unset", "in_place"}

Report = dict[str, Any]
Rehearse = Callable[..., Report]


class Row(NamedTuple):
    """``finds``: check -> guilty ranks. ``linked``: leave out the probes of a single process.

    ``level``: as for rehearse; nothing that trains can pass without matrix products. An
    ordinary run has the ``quick`` rows.
    ``only``: these probes, beside those that they need.
    """

    faults: tuple[str, ...]
    finds: Mapping[str, tuple[int, ...]]
    linked: bool = False
    level: int = 3
    quick: bool = False
    only: tuple[str, ...] = ()


class Choice(NamedTuple):
    """What a rehearsal runs."""

    linked: bool
    level: int
    only: tuple[str, ...]


ROWS = (
    Row(
        ("cann-old",),
        {
            "torch-npu-cann-symbols": (),
            "cann-hdk": (),
            "torch-autoload": (),
            "torch-pair": (),
            "inspect-env": (),
        },
    ),
    Row(("acl-init",), {"device": (0,)}, level=2, quick=True),
    Row(("compiler-init",), {"device": (0,)}, level=2, quick=True),
    Row(("ops-other-soc",), {"device": (0,)}),
    Row(("hbm-oom:device=0",), {"device": (0,)}),
    *(
        Row((f"{fault}:device=1",), {"device-per-rank": (1,), "allreduce": (1,)}, linked=True)
        for fault in ("hbm-ecc", "device-lost", "device-busy")
    ),
    *(
        Row((f"rank-{fault}:rank=1",), {"allreduce": (1,)}, linked=True)
        for fault in ("absent", "hangs-first", "hangs", "dies", "wrong")
    ),
    Row(
        ("int64-narrow", "nan-lost", "bf16-cut"),
        {"collectives": (0, 1)},
        only=("allreduce", "collectives"),
    ),
    Row(("hccl-port:rank=0",), {"allreduce": (0,)}, linked=True),
    Row(("kernel-missing",), {"device": (), "bool-index": (), "dtype": ()}, level=2),
    # Whatever takes elements by a mask dies of it, and experts are chosen by masks.
    Row(
        ("nonzero-crash",),
        {
            "bool-index": (),
            "checkpoint": (),
            "vocab-parallel-logprob": (0, 1),
            "lora-sequence-parallel": (0, 1),
            "lora-experts": (0, 1),
            "lora-tied-embeddings": (0, 1),
            "smoke-train": (0, 1),
        },
    ),
    Row(("rank-slow:rank=1", "double-unsupported"), {"allreduce": ()}),
    # Steps are counted in each process, so that it has to be the first one that trains. Tensor
    # parallelism spreads a NaN within the step.
    Row(("nan:device=1,step=2",), {"smoke-train": (1,)}, only=("allreduce", "smoke-train")),
    Row(("fused-softmax-missing",), {"fused-softmax": ()}),
    # Megatron's optimizer gathers objects so, too: what trains cannot start.
    Row(("gather-object-hangs:rank=1",), {"object-collectives": (1,)}, linked=True),
)


@pytest.fixture(scope="module")
def measure() -> dict[Choice, set[tuple[str, str]]]:
    """Check and level of what rehearsals without a fault say, for each choice of probes."""
    return {}


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder with room for sockets below it."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        yield Path(folder)


@pytest.fixture
def rehearse(
    installed: Command, examined_python: Path, temporary: Path, tmp_path: Path
) -> Rehearse:
    def run(*faults: str, linked: bool, level: int, only: tuple[str, ...]) -> Report:
        requests = plan(3, device="npu", nproc=2, python=str(examined_python))
        single = {request.probe for request in requests if not request.torchrun} - {"device"}
        alone = [check.id for check in all_checks() if check.probe in single]
        done = installed(
            *("rehearse", "--python", str(examined_python), "--nproc", "2", "-l", str(level), "-q"),
            *("--format", "json", "--no-redact", "--timeout", str(DEADLINE - 60)),
            *(f"--inject={fault}" for fault in faults),
            *(f"--skip={check}" for check in alone if linked),
            *(f"--only={check}" for check in ("inspect-env", "device", *only) if only),
            env={**os.environ, "TMPDIR": str(temporary), MARK: str(tmp_path)},
            deadline=DEADLINE,
        )
        assert done.stdout, done.stderr
        report: Report = json.loads(done.stdout)
        assert report["simulated"]
        return report

    return run


def findings(report: Report) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Check, level and ranks of what is wrong; what only could not run is left out."""
    runs = report["snapshot"]["probes"]
    waiting = {run["not_started"] for run in runs if run["not_started"]}
    for finding in report["findings"]:
        blocked = finding["level"] == "unknown" and any(
            text in finding["title"] for text in waiting
        )
        if finding["level"] in {"warning", "unknown", "error"} and not blocked:
            yield finding["check"], finding["level"], tuple(finding["ranks"])


def logs(report: Report, folder: Path) -> Iterator[Path]:
    """What every rank printed, raised and recorded, a file each as a launcher keeps them."""
    for run in report["snapshot"]["probes"]:
        for rank in run["ranks"]:
            texts = [rank["output"], rank["traceback"], rank["error"], *_errors(rank["values"])]
            path = folder / f"{run['probe']}-rank-{rank['rank']}.log"
            path.write_text("\n".join(text for text in texts if text) + "\n", encoding="utf-8")
            yield path


def _errors(values: Any) -> Iterator[str]:
    if isinstance(values, dict):
        for key, value in values.items():
            if key in {"error", "output"} and isinstance(value, str):
                yield value
            elif key not in PROVOKED:
                yield from _errors(value)


def list_opened() -> Iterator[str]:
    """The memory maps of every process: what is in use is not left behind."""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            yield maps.read_text(encoding="utf-8", errors="replace")


def of_ours(process: psutil.Process, mark: str) -> bool:
    try:
        return bool(process.environ().get(MARK) == mark)
    except psutil.Error:
        return False


@pytest.mark.parametrize(
    "row", draw(ROWS, [row for row in ROWS if row.quick], 2), ids=lambda row: "+".join(row.faults)
)
def test_the_right_probe_fails_and_no_other(
    row: Row,
    rehearse: Rehearse,
    installed: Command,
    measure: dict[Choice, set[tuple[str, str]]],
    temporary: Path,
    tmp_path: Path,
) -> None:
    chosen = Choice(row.linked, row.level, row.only)
    if chosen not in measure:
        report = rehearse(**chosen._asdict())
        measure[chosen] = {(check, level) for check, level, _ in findings(report)}
        assert "error" not in {level for _, level in measure[chosen]}, report["findings"]
    before = set(os.listdir("/dev/shm"))
    report = rehearse(*row.faults, **chosen._asdict())

    ranks_by_check: dict[str, set[int]] = {}
    for check, level, ranks in findings(report):
        if (check, level) not in measure[chosen]:
            ranks_by_check.setdefault(check, set()).update(ranks)
            assert level == "error" or not row.linked, (check, level)
    assert ranks_by_check == {check: set(ranks) for check, ranks in row.finds.items()}
    assert not [run["probe"] for run in report["snapshot"]["probes"] if run["timed_out"]]

    ids = {parse(fault).fault.failure for fault in row.faults} - {""}
    if ids:
        completed = installed(
            "diagnose", *map(str, logs(report, tmp_path)), "--format", "json", "-q"
        )
        causes = json.loads(completed.stdout)["causes"]
        assert ids <= {cause["id"] for cause in causes}

    assert not [process for process in psutil.process_iter() if of_ours(process, str(tmp_path))]
    left = [
        name for name in set(os.listdir("/dev/shm")) - before if name not in "".join(list_opened())
    ]
    assert not left
    assert not list(temporary.rglob("*.ledger"))


def test_every_fault_has_its_row() -> None:
    assert sorted(parse(fault).fault.id for row in ROWS for fault in row.faults) == sorted(
        fault.id for fault in FAULTS
    )
