"""The vendor's own log analyser as a yardstick.

`faultdiag.yaml` has the labels. The fixtures are read from a clone of Ascend/mind-cluster.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ascend_doctor.diagnosis.result import Diagnosis
from ascend_doctor.machine.parsing import read_yaml
from tests.acceptance import clones
from tests.diagnosis.logs import answer, of_files

REPOSITORY = "Ascend/mind-cluster"
TESTS = "component/ascend-faultdiag/test/"
_AGENT = (
    "[INFO] HCCL({pid},python):{time} [topoinfo_detect.cc:208][{pid}][HCCL_TRACE]SetupAgent "
    "rankNum[{size}], rank[{rank}], rootInfo identifier[{group}], server[{server}%eth0], "
    "logicDevId[{logic}], phydevId[{physical}], deviceIp[{address}]\n"
)
_BEFORE = "2023-01-01-00:00:00.000.000"


@dataclass(frozen=True, kw_only=True)
class Label:
    """``devices`` (or ``ranks``) of None are not judged."""

    fixture: str
    parts: tuple[str, ...]
    rebuilt: bool
    root: str
    asserted: tuple[str, ...] | None
    devices: tuple[str, ...] | None
    ranks: tuple[int, ...] | None

    @property
    def name(self) -> str:
        return "+".join([self.fixture, *self.parts])


def labels() -> Iterator[Label]:
    for row in read_yaml(Path(__file__).with_suffix(".yaml")):
        asserted = tuple(row["devices"]) if "devices" in row else None
        yield Label(
            fixture=row["fixture"],
            parts=tuple(row.get("parts", ())),
            rebuilt=row.get("rebuilt", False),
            root=row["root"],
            asserted=asserted,
            devices=tuple(row["ours"]) if "ours" in row else asserted,
            ranks=tuple(row["ranks"]) if "ranks" in row else None,
        )


def _git(*arguments: str) -> bytes:
    return clones.git(clones.clone(REPOSITORY), *arguments)


def logs(label: Label) -> dict[str, str | bytes]:
    folder = f"{TESTS}{label.fixture}/"
    names = _git("ls-tree", "-r", "--name-only", "HEAD", folder).decode().splitlines()
    chosen = [name for name in names if not label.parts
              or name.removeprefix(folder).split("/")[0] in label.parts]  # fmt: skip
    if label.rebuilt:
        return dict(
            _plog(name.removeprefix(folder), pid, process)
            for name in chosen
            if name.endswith("rc-parser.json")
            for pid, process in json.loads(_git("show", f"HEAD:{name}")).items()
        )
    return {name.removeprefix(folder): _git("show", f"HEAD:{name}") for name in chosen}


def _plog(parsed: str, pid: str, process: Mapping[str, Any]) -> tuple[str, str]:
    """A parsed process as a plog of the lines it quotes."""
    base, error = process["base"], process.get("error") or {}
    shown = process.get("show_logs") or {}
    own = [
        _AGENT.format(
            pid=pid, time=_BEFORE, size=rank["rank_num"], rank=rank["rank_id"], group=group,
            server=base["server_id"], logic=base["logic_device_id"],
            physical=base["phy_device_id"] or base["logic_device_id"], address=base["device_ip"],
        )
        for group, rank in base["rank_map"].items()
        if rank["rank_num"]
    ]  # fmt: skip
    quoted = [*shown.get("normal", ()), *shown.get("error", ())]
    for event in error.get("timeout_error_events_list") or ():
        quoted += event["key_info"].splitlines(keepends=True)
    lines = own + [line if line.endswith("\n") else f"{line}\n" for line in quoted]
    return f"{os.path.dirname(parsed)}/plog-parser-{pid}-1.log", "".join(dict.fromkeys(lines))


@dataclass(frozen=True, kw_only=True)
class Answer:
    label: Label
    root: str
    diagnosis: Diagnosis

    @property
    def devices(self) -> tuple[str, ...]:
        guilty = self.diagnosis.guilty
        if guilty is None:
            return ()
        nodes = guilty.nodes * len(guilty.devices) if len(guilty.nodes) == 1 else guilty.nodes
        return tuple(
            sorted(f"{node}/{device}" for node, device in zip(nodes, guilty.devices, strict=False))
        )

    @property
    def accuses(self) -> bool:
        return self.diagnosis.guilty is not None

    def named(self, devices: tuple[str, ...] | None) -> str:
        if self.label.ranks is not None:
            ranks = self.diagnosis.guilty.ranks if self.diagnosis.guilty else ()
            return "right" if ranks == self.label.ranks else "wrong" if ranks else "could not tell"
        if devices is None:
            return "not judged"
        if self.devices == devices and self.accuses == bool(devices):
            return "right"
        return "wrong" if self.accuses else "could not tell"


def diagnose_label(label: Label) -> Answer:
    diagnosis = of_files(logs(label))
    return Answer(label=label, root=answer(diagnosis), diagnosis=diagnosis)
