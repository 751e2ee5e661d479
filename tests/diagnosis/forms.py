"""Logs in the forms that the field writes them, beside those of test_prefixes.py.

Every form has one rank that runs out of memory while the others wait for it. What is right was
written down before the first run: the cause, the global and local rank, the node and the card; None
is what the logs do not say and must not be told.
"""

import io
import json
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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


class Form(NamedTuple):
    """The files, or the text of one, and whom they accuse; None is what they do not say."""

    name: str
    files: Mapping[str, str | bytes] | str | bytes
    rank: int | None
    local: int | None = None
    node: str | None = None
    device: int | None = None
    root: str = ROOT


def says(rank: int, guilty: int) -> str:
    return OOM.format(npu=rank) if rank == guilty else WAITED


def lines(ranks: int, guilty: int, prefix: Callable[[int], str]) -> str:
    rows = [f"{prefix(rank)}{STEP}" for rank in range(ranks)]
    rows += [f"{prefix(rank)}{says(rank, guilty)}" for rank in range(ranks)]
    return "\n".join(rows) + "\n"


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


RANK, LOCAL = "[rank{n}]: ", "[default{n}]:"
PODS = lines(8, 6, lambda n: f"[pod/job-worker-{n // 4}/trainer] [default{n % 4}]:")
GLOBAL = lines(4, 2, lambda rank: f"[rank{rank}]: ")
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


def log(prefix: str, before: str = "", *, guilty: int = 2) -> str:
    """Of four ranks; ``prefix`` has {n}, the rank, and {other} of the second node."""
    return before + lines(4, guilty, lambda rank: prefix.format(n=rank, other=rank + 4))


def in_json(row: Callable[[int, str], dict[str, Any]]) -> str:
    rows = [row(rank, STEP) for rank in range(4)]
    rows += [row(rank, says(rank, 2)) for rank in range(4)]
    return "\n".join(json.dumps(row) for row in rows) + "\n"


PTA = (
    "[ERROR] 2026-03-01-10:02:01 (PID:77, Device:5, RankID:13) ERR00100 PTA call acl api failed.\n"
)
JOURNAL = {"_HOSTNAME": "atlas-17", "_PID": "4242"}
AICORE = "aicore-exception-507015"
FORMS = [
    # Ranks before the line.
    Form("torchrun --tee, one node", log(LOCAL, "using world size: 4\n"), rank=2, local=2),
    Form(
        "torchrun --tee, second node, [rank] inside",
        log("[default{n}]:[rank{other}]: "),
        rank=6,
        local=2,
    ),
    Form(
        "torchrun --tee, second node, its summary tells",
        log(LOCAL, guilty=3) + SUMMARY,
        rank=11,
        local=3,
        node="atlas-17",
    ),
    Form("torchrun --tee, second node, its agent tells", log(LOCAL, RENDEZVOUS), rank=6, local=2),
    Form(
        "torchrun --log-dir, one node",
        {f"logs/job_x7/attempt_0/{n}/stderr.log": f"{STEP}\n{says(n, 2)}\n" for n in range(4)},
        rank=2,
        local=2,
    ),
    Form("mpirun --tag-output, later job", {"mpi.log": log("[2,{n}]<stderr>:", guilty=3)}, rank=3),
    Form(
        "torch_npu names device and rank",
        PTA + OOM.format(npu=5).replace("RuntimeError", "[rank13]: Error"),
        rank=13,
        device=5,
    ),
    # Prefixes before those.
    # Labelled as rank 6 before the first run. Kubeflow counts a master before its workers: only the
    # world size shows that none exists.
    Form("kubectl --prefix", {"k.log": PODS}, rank=None, local=2, node="job-worker-1"),
    Form(
        "journald, json, a message with colours is an array of bytes",
        {
            "journal.log": in_json(
                lambda n, text: (
                    JOURNAL | {"MESSAGE": list(f"\x1b[31m[rank{n}]: {text}\x1b[0m".encode())}
                )
            )
        },
        rank=2,
        node="atlas-17",
    ),
    Form(
        "JSON lines with fields",
        {
            "train.jsonl.log": in_json(
                lambda n, text: {
                    "timestamp": "2026-03-01T10:02:05Z",
                    "level": "ERROR",
                    "hostname": "atlas-17",
                    "rank": n + 8,
                    "local_rank": n,
                    "message": text,
                }
            )
        },
        rank=10,
        local=2,
        node="atlas-17",
    ),
    Form(
        "JSON lines with the traceback in one string",
        in_json(
            lambda n, text: {
                "level": "error",
                "rank": n,
                "msg": "step failed",
                "exc_info": f'Traceback (most recent call last):\n  File "t.py"\n{text}',
            }
        ),
        rank=2,
    ),
    Form("plogs of CANN", plogs(), rank=2, device=6, root=AICORE),
    Form("plogs of CANN with logs of devices", device_logs(), rank=2, device=6, root=AICORE),
    Form(
        "UTF-16 without a mark, in Chinese",
        ("训练开始 正在加载数据集\n" * 9 + GLOBAL).encode("utf-16-le"),
        rank=2,
    ),
]
