"""Logs in the forms that the field writes them: `python -m tests.diagnosis.forms`.

Every form has one rank that runs out of memory while the others wait for it. What is right was
written down before the first run: the cause, the global and local rank, the node and the card; None
is what the logs do not say and must not be told.
"""

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from ascend_doctor.diagnosis.result import Diagnosis, Guilt
from ascend_doctor.errors import DataError
from tests.diagnosis.logs import answer, of_paths

OOM = (
    "RuntimeError: NPU out of memory. Tried to allocate 3.47 GiB (NPU {npu}; 60.97 GiB total "
    "capacity; 55.02 GiB already allocated)"
)
WAITED = (
    "EI0006: 2026-03-01-10:02:05.000.000 Getting socket times out. Reason: Remote Rank did"
    " not send the data in time. Please check the reason for the rank being stuck"
)
STEP = " iteration       10/     100 | lm loss: 2.318E+00 |"
ROOT = "npu-oom-torch"
UTC = "2026-03-01T10:02:07.123456789Z"


@dataclass(frozen=True, kw_only=True)
class Form:
    """``node_rank``: the user's answer where logs lack it."""

    name: str
    files: Mapping[str, str | bytes]
    rank: int | None
    local: int | None = None
    node: str = ""
    device: int | None = None
    node_rank: int | None = None
    root: str = ROOT


@dataclass(frozen=True, kw_only=True)
class FormVerdict:
    form: Form
    root: str
    rank: int | None
    local: int | None
    node: str
    device: int | None

    @property
    def missed(self) -> list[str]:
        """In the logs, not in the answer."""
        names = ("rank", "local", "node", "device")
        lacks = [name for name in names if getattr(self.form, name) not in {None, ""}
                 and getattr(self, name) in {None, ""}]  # fmt: skip
        return lacks + (["root"] if self.root != self.form.root else [])

    @property
    def wrong(self) -> list[str]:
        """In the answer, not in the logs."""
        names = ("rank", "local", "node", "device")
        return [
            name
            for name in names
            if getattr(self, name) not in {None, ""}
            and getattr(self, name) != getattr(self.form, name)
        ]


def says(rank: int, guilty: int, npu: int | None = None) -> str:
    return OOM.format(npu=rank if npu is None else npu) if rank == guilty else WAITED


def lines(
    ranks: int, guilty: int, prefix: Callable[[int], str], npu: Callable[[int], int] | None = None
) -> str:
    rows = [f"{prefix(rank)}{STEP}" for rank in range(ranks)]
    rows += [
        f"{prefix(rank)}{says(rank, guilty, npu(rank) if npu else None)}" for rank in range(ranks)
    ]
    return "\n".join(rows) + "\n"


def in_json(ranks: int, guilty: int, row: Callable[[int, str], dict[str, Any]]) -> str:
    rows = [row(rank, STEP) for rank in range(ranks)]
    rows += [row(rank, says(rank, guilty)) for rank in range(ranks)]
    return "\n".join(json.dumps(row) for row in rows) + "\n"


def torchrun(nodes: Mapping[str, int], guilty: int, *, each: int = 4) -> dict[str, str]:
    """torchrun's folders: by node its number; ranks count through, folders on each node."""
    return {
        f"{node}/job_x7/attempt_0/{local}/stderr.log": (
            f"{STEP}\n{says(number * each + local, guilty, local)}\n"
        )
        for node, number in nodes.items()
        for local in range(each)
    }


def tar(files: Mapping[str, str | bytes], mode: str = "w") -> bytes:
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode=mode) as archive:  # type: ignore[call-overload]
        for name, text in files.items():
            data = text.encode() if isinstance(text, str) else text
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return whole.getvalue()


def zip_files(files: Mapping[str, str | bytes]) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return whole.getvalue()


FOLDERS = torchrun({"node-0": 0, "node-1": 1}, 6)
PODS = lines(8, 6, lambda n: f"[pod/job-worker-{n // 4}/trainer] [default{n % 4}]:")
GLOBAL = {"train.log": lines(4, 2, lambda rank: f"[rank{rank}]: ")}
AGENT = (
    "[INFO] HCCL({pid},python3):2026-03-01-10:00:00.000.000 [topoinfo_detect.cc:506] [{pid}]"
    "SetupAgent rankNum[4], rank[{rank}], server[192.0.2.7], logicDevId[{rank}], phydevId[{card}]\n"
)
SUMMARY = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-03-01_10:11:12
  host      : atlas-17
  rank      : 11 (local_rank: 3)
  exitcode  : 1 (pid: 4242)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""
RENDEZVOUS = """I0301 10:00:00.000000 77 torch/distributed/elastic/agent/server/api.py:525] [default] Rendezvous complete for workers. Result:
  restart_count=0
  master_addr=192.0.2.1
  master_port=29500
  group_rank=1
  group_world_size=2
  local_ranks=[0, 1, 2, 3]
  role_ranks=[4, 5, 6, 7]
  global_ranks=[4, 5, 6, 7]
  role_world_sizes=[8, 8, 8, 8]
  global_world_sizes=[8, 8, 8, 8]
"""  # noqa: E501


def plogs() -> dict[str, str]:
    """~/ascend/log of four processes; the third one's card is 6."""
    plogs = {}
    for rank in range(4):
        pid, card = 70 + rank, rank + 4
        plogs[f"ascend/log/run/plog/plog-{pid}_20260301100000000.log"] = AGENT.format(
            pid=pid, rank=rank, card=card
        )
        plogs[f"ascend/log/debug/plog/plog-{pid}_20260301100000000.log"] = (
            f"[ERROR] HCCL({pid},python3):2026-03-01-10:02:05.000.000 [x.cc:1] [{pid}]{WAITED}\n"
            if rank != 2
            else f"[ERROR] RUNTIME({pid},python3):2026-03-01-10:02:01.000.000 [task_info.cc:1] "
            "[PrintErrorInfo]Aicore kernel execute failed, device_id=6, stream_id=3, "
            "report_stream_id=3, task_id=5\n"
        )
    return plogs


def device_logs() -> dict[str, str]:
    files = plogs()
    for card in (4, 5, 6, 7):
        files[f"ascend/log/debug/device-{card}/device-{66 + card}_20260301100000000.log"] = (
            "[INFO] TSCH(-1,null):2026-03-01-10:02:01.1 start\n"
        )
    return files


FORMS = [
    # Ranks before the line.
    Form(name="torch excepthook", files=GLOBAL, rank=2),
    Form(
        name="torchrun --tee, one node",
        files={"train.log": "using world size: 4\n" + lines(4, 2, lambda n: f"[default{n}]:")},
        rank=2,
        local=2,
    ),
    Form(
        name="torchrun --tee, second node of two, no word of its number",
        files={
            "train.log": "using world size: 8\n"
            + lines(4, 2, lambda n: f"[default{n}]:", lambda n: n)
        },
        rank=None,
        local=2,
    ),
    Form(
        name="torchrun --tee, second node, the user says so",
        files={"train.log": "using world size: 8\n" + lines(4, 2, lambda n: f"[default{n}]:")},
        node_rank=1,
        rank=6,
        local=2,
    ),
    Form(
        name="torchrun --tee, second node, [rank] inside",
        files={"train.log": lines(4, 2, lambda n: f"[default{n}]:[rank{n + 4}]: ")},
        rank=6,
        local=2,
    ),
    Form(
        name="torchrun --tee, second node, its summary tells",
        files={"train.log": lines(4, 3, lambda n: f"[default{n}]:") + SUMMARY},
        rank=11,
        local=3,
        node="atlas-17",
    ),
    Form(
        name="torchrun --tee, second node, its agent tells",
        files={"train.log": RENDEZVOUS + lines(4, 2, lambda n: f"[default{n}]:")},
        rank=6,
        local=2,
    ),
    Form(name="torchrun --log-dir, two nodes", files=FOLDERS, rank=6, local=2, node="node-1"),
    Form(
        name="torchrun --log-dir, one node",
        files=torchrun({"logs": 0}, 2),
        rank=2,
        local=2,
    ),
    Form(
        name="torchrun, a file for each node",
        files={
            f"node{node}.log": lines(4, 2 if node else -1, lambda n: f"[default{n}]:")
            for node in range(2)
        },
        rank=6,
        local=2,
        node="node1",
    ),
    Form(
        name="a file for each node, named by node_rank",
        files={
            f"log_node_rank_{node}.txt": lines(4, 2 if node else -1, lambda n: f"[default{n}]:")
            for node in range(2)
        },
        rank=6,
        local=2,
    ),
    Form(
        name="msrun",
        files={f"msrun_log/worker_{n}.log": f"{STEP}\n{says(n, 3)}\n" for n in range(4)},
        rank=3,
    ),
    Form(
        name="srun -l, a task a rank",
        files={"slurm-4711.out": lines(12, 11, lambda n: f"{n:2}: ")},
        rank=11,
    ),
    Form(
        name="srun -l, a torchrun a task",
        files={
            "slurm-4711.out": lines(8, 6, lambda n: f"{n // 4}: [default{n % 4}]:", lambda n: n % 4)
        },
        rank=6,
        local=2,
    ),
    Form(
        name="mpirun --tag-output",
        files={"mpi.log": lines(4, 3, lambda n: f"[1,{n}]<stdout>:")},
        rank=3,
    ),
    Form(
        name="mpirun --tag-output, later job",
        files={"mpi.log": lines(4, 3, lambda n: f"[2,{n}]<stderr>:")},
        rank=3,
    ),
    Form(
        name="mpirun 5 --output tag",
        files={"mpi.log": lines(4, 3, lambda n: f"[prterun-atlas-17-4242@1,{n}]<stderr>: ")},
        rank=3,
    ),
    Form(
        name="vLLM's workers",
        files={"vllm.log": lines(8, 7, lambda n: f"(Worker_TP{n} pid={900 + n}) ")},
        rank=7,
    ),
    Form(
        name="Ray, ranks in the lines",
        files={
            "ray.log": lines(
                4, 2, lambda n: f"(WorkerDict pid={900 + n}, ip=192.0.2.{n}) [rank{n}]: "
            )
        },
        rank=2,
        node="192.0.2.2",
    ),
    Form(
        name="Ray, ranks in other lines",
        files={
            "ray.log": "".join(
                f"(WorkerDict pid={900 + n}, ip=192.0.2.9) [ERROR] 2026-03-01-10:02:0{n} "
                f"(PID:{900 + n}, Device:{n}, RankID:{n}) ERR02200 DIST call hccl api failed.\n"
                for n in range(4)
            )
            + lines(4, 2, lambda n: f"(WorkerDict pid={900 + n}, ip=192.0.2.9) ")
        },
        rank=2,
        node="192.0.2.9",
        device=2,
    ),
    Form(
        name="Ray, no rank anywhere",
        files={"ray.log": lines(4, 2, lambda n: f"(WorkerDict pid={900 + n}, ip=192.0.2.{n}) ")},
        rank=None,
        node="192.0.2.2",
    ),
    Form(
        name="torch_npu names device and rank",
        files={
            "train.log": "[ERROR] 2026-03-01-10:02:01 (PID:77, Device:5, RankID:13) ERR00100 PTA "
            "call acl api failed.\n" + OOM.format(npu=5).replace("RuntimeError", "[rank13]: Error")
        },
        rank=13,
        device=5,
        root=ROOT,
    ),
    # Prefixes before those.
    Form(
        name="docker logs --timestamps",
        files={"docker.log": lines(4, 2, lambda n: f"{UTC} [rank{n}]: ")},
        rank=2,
    ),
    Form(
        name="docker compose",
        files={"compose.log": lines(4, 2, lambda n: f"trainer-{n // 2}  | [rank{n}]: ")},
        rank=2,
        node="trainer-1",
    ),
    Form(
        name="docker's json-file",
        files={
            "container-json.log": in_json(
                4,
                2,
                lambda n, text: {"log": f"[rank{n}]: {text}\n", "stream": "stderr", "time": UTC},
            )
        },
        rank=2,
    ),
    # Labelled as rank 6 before the first run. Kubeflow counts a master before its workers: only the
    # world size shows that none exists.
    Form(
        name="kubectl --prefix",
        files={"k.log": PODS},
        rank=None,
        local=2,
        node="job-worker-1",
    ),
    Form(
        name="kubectl --prefix, of all nodes",
        files={"k.log": "[pod/job-worker-0/trainer] using world size: 8\n" + PODS},
        rank=6,
        local=2,
        node="job-worker-1",
    ),
    Form(
        name="kubectl --prefix --timestamps",
        files={"k.log": lines(4, 2, lambda n: f"[pod/job-worker-{n}/trainer] {UTC} [rank{n}]: ")},
        rank=2,
        node="job-worker-2",
    ),
    Form(
        name="the container runtime's files",
        files={
            "pods/ml_job-worker-1_0a-1b/trainer/0.log": lines(
                4, 2, lambda n: f"{UTC} stderr F [rank{n}]: "
            )
        },
        rank=2,
        node="job-worker-1",
    ),
    Form(
        name="journald, short",
        files={
            "journal.log": lines(
                4, 2, lambda n: f"Mar 01 10:02:05 atlas-17 torchrun[4242]: [rank{n}]: "
            )
        },
        rank=2,
        node="atlas-17",
    ),
    Form(
        name="journald, short-iso",
        files={
            "journal.log": lines(
                4, 2, lambda n: f"2026-03-01T10:02:05+0800 atlas-17 train[42]: [default{n}]:"
            )
        },
        rank=2,
        local=2,
        node="atlas-17",
    ),
    Form(
        name="journald, json",
        files={
            "journal.log": in_json(
                4,
                2,
                lambda n, text: {
                    "__REALTIME_TIMESTAMP": "1772330525000000",
                    "_HOSTNAME": "atlas-17",
                    "_PID": "4242",
                    "MESSAGE": f"[rank{n}]: {text}",
                },
            )
        },
        rank=2,
        node="atlas-17",
    ),
    Form(
        name="journald, json, a message with colours is an array of bytes",
        files={
            "journal.log": in_json(
                4,
                2,
                lambda n, text: {
                    "_HOSTNAME": "atlas-17",
                    "_PID": "4242",
                    "MESSAGE": list(f"\x1b[31m[rank{n}]: {text}\x1b[0m".encode()),
                },
            )
        },
        rank=2,
        node="atlas-17",
    ),
    Form(
        name="JSON lines with fields",
        files={
            "train.jsonl.log": in_json(
                4,
                2,
                lambda n, text: {
                    "timestamp": "2026-03-01T10:02:05Z",
                    "level": "ERROR",
                    "hostname": "atlas-17",
                    "rank": n + 8,
                    "local_rank": n,
                    "message": text,
                },
            )
        },
        rank=10,
        local=2,
        node="atlas-17",
    ),
    Form(
        name="JSON lines with the traceback in one string",
        files={
            "train.log": in_json(
                4,
                2,
                lambda n, text: {
                    "level": "error",
                    "rank": n,
                    "msg": "step failed",
                    "exc_info": f'Traceback (most recent call last):\n  File "t.py"\n{text}',
                },
            )
        },
        rank=2,
    ),
    Form(
        name="plogs of CANN",
        files=plogs(),
        rank=2,
        device=6,
        root="aicore-exception-507015",
    ),
    Form(
        name="plogs of CANN with logs of devices",
        files=device_logs(),
        rank=2,
        device=6,
        root="aicore-exception-507015",
    ),
    Form(name="tar", files={"logs.tar": tar(FOLDERS)}, rank=6, local=2, node="node-1"),
    Form(name="tgz", files={"l.tgz": tar(FOLDERS, "w:gz")}, rank=6, local=2, node="node-1"),
    Form(name="tar.xz", files={"l.tar.xz": tar(FOLDERS, "w:xz")}, rank=6, local=2, node="node-1"),
    Form(name="zip", files={"logs.zip": zip_files(FOLDERS)}, rank=6, local=2, node="node-1"),
    Form(
        name="a tar of each node in a zip",
        files={
            "all.zip": zip_files(
                {
                    f"{node}.tar.gz": tar(
                        {
                            name.removeprefix(f"{node}/"): text
                            for name, text in FOLDERS.items()
                            if name.startswith(node)
                        },
                        "w:gz",
                    )
                    for node in ("node-0", "node-1")
                }
            )
        },
        rank=6,
        local=2,
        node="node-1",
    ),
    Form(
        name="a folder with an archive and files",
        files={
            **{name: text for name, text in FOLDERS.items() if name.startswith("node-0")},
            "node-1.tgz": tar(
                {name: text for name, text in FOLDERS.items() if name.startswith("node-1")}, "w:gz"
            ),
        },
        rank=6,
        local=2,
        node="node-1",
    ),
    Form(
        name="packed logs in a zip",
        files={
            "logs.zip": zip_files(
                {name: gzip.compress(str(text).encode()) for name, text in GLOBAL.items()}
            )
        },
        rank=2,
    ),
    Form(
        name="UTF-16 without a mark, little-endian",
        files={"train.log": GLOBAL["train.log"].encode("utf-16-le")},
        rank=2,
    ),
    Form(
        name="UTF-16 without a mark, big-endian",
        files={"train.log": GLOBAL["train.log"].encode("utf-16-be")},
        rank=2,
    ),
    Form(
        name="UTF-16 without a mark, in Chinese",
        files={
            "train.log": ("训练开始 正在加载数据集\n" * 9 + GLOBAL["train.log"]).encode("utf-16-le")
        },
        rank=2,
    ),
]


def diagnose_form(form: Form) -> Diagnosis:
    with TemporaryDirectory() as folder:
        for name, text in form.files.items():
            path = Path(folder, "given", name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.encode() if isinstance(text, str) else text)
        return of_paths(Path(folder, "given"), node_rank=form.node_rank)


def _numbers(guilty: Guilt | None, name: str) -> tuple[int, ...]:
    return tuple(getattr(guilty, name, ()))


def judge_form(form: Form) -> FormVerdict:
    try:
        diagnosis = diagnose_form(form)
    except DataError as error:
        return FormVerdict(form=form, root=str(error), rank=None, local=None, node="", device=None)
    guilty = diagnosis.guilty
    ranks, locals_, devices = (_numbers(guilty, n) for n in ("ranks", "local_ranks", "devices"))
    return FormVerdict(
        form=form,
        root=answer(diagnosis),
        rank=ranks[0] if len(ranks) == 1 else None,
        local=locals_[0] if len(locals_) == 1 else None,
        node=guilty.nodes[0] if guilty and len(guilty.nodes) == 1 else "",
        device=devices[0] if len(devices) == 1 else None,
    )


def main() -> None:
    every = [judge_form(form) for form in FORMS]
    for outcome in every:
        parts = [f"{word} {', '.join(what)}" for word, what in
                 (("lacks", outcome.missed), ("WRONG", outcome.wrong)) if what]  # fmt: skip
        click.echo(f"{'; '.join(parts) or 'right':40} {outcome.form.name}")
    right = sum(not outcome.missed and not outcome.wrong for outcome in every)
    wrong = sum("rank" in outcome.wrong for outcome in every)
    click.echo(f"{right} of {len(every)} right, the wrong rank in {wrong}")


if __name__ == "__main__":
    main()
