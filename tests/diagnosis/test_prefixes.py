"""The same failed run, as every launcher, collector and packer writes it, has the same answer.

Eight ranks on two nodes; rank 5, the second on the second node, fails, and the others wait for it.
"""

import bz2
import gzip
import itertools
import json
import lzma
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from ascend_doctor.diagnosis.result import Diagnosis
from tests.diagnosis.forms import OOM, WAITED, tar, zip_files
from tests.diagnosis.logs import answer, guilty_of, of_paths

EACH, GUILTY = 4, 5
STAMP = "2026-03-01T10:02:07.123456789Z"
Run = Mapping[int, list[str]]
Files = dict[str, str | bytes]


FAILURES: dict[str, list[str]] = {
    "npu-oom-torch": ["Traceback (most recent call last):", '  File "t.py", line 3', OOM],
    "aicore-exception-507015": [
        "EZ9999: Inner Error!",
        "EZ9999  Kernel task happen error, retCode=0x26, [aicore exception].",
        "        The error from device(1), there is an aicore error, error code = 0x10",
    ],
    # Its own error, which the catalogue lacks.
    "hccl-connect-timeout-ei0006": [
        "Traceback (most recent call last):",
        '  File "t.py", line 3, in <module>',
        "ValueError: sample 7 has no label",
    ],
}


def fail_run(name: str) -> Run:
    head = ["using world size: 8, data-parallel size: 4", " iteration       10/     100 |"]
    return {rank: head + (FAILURES[name] if rank == GUILTY else [WAITED]) for rank in range(8)}


def row_by_row(run: Run, show: Callable[[int, str], str]) -> str:
    longest = max(map(len, run.values()))
    return "".join(
        show(rank, lines[number])
        for number in range(longest)
        for rank, lines in run.items()
        if number < len(lines)
    )


def prefix_lines(prefix: Callable[[int], str]) -> Callable[[Run], Files]:
    return lambda run: {"train.log": row_by_row(run, lambda n, text: f"{prefix(n)}{text}\n")}


def each_node(prefix: Callable[[int], str], name: str) -> Callable[[Run], Files]:
    def files(run: Run) -> Files:
        return {
            name.format(node): row_by_row(
                {rank: lines for rank, lines in run.items() if rank // EACH == node},
                lambda n, text: f"{prefix(n)}{text}\n",
            )
            for node in range(2)
        }

    return files


def each_rank(name: Callable[[int], str]) -> Callable[[Run], Files]:
    return lambda run: {name(rank): "\n".join(lines) + "\n" for rank, lines in run.items()}


def in_json(fields: Callable[[int, str], Mapping[str, object]]) -> Callable[[Run], Files]:
    return lambda run: {
        "train.log": row_by_row(run, lambda n, text: json.dumps(fields(n, text)) + "\n")
    }


def name_elsewhere(run: Run) -> Files:
    """Ray names the process, torch_npu that process's rank."""

    def show(rank: int, text: str) -> str:
        return f"(WorkerDict pid={900 + rank}, ip=192.0.2.{rank // EACH}) {text}\n"

    tail = "".join(
        show(rank, f"[ERROR] 2026-03-01-10:02:09 (PID:{900 + rank}, Device:{rank % EACH}, "
             f"RankID:{rank}) ERR02200 DIST call hccl api failed.")
        for rank in run
    )  # fmt: skip
    return {"train.log": row_by_row(run, show) + tail}


def cri(run: Run) -> Files:
    """Kubelet files of two pods."""
    return each_node(
        lambda n: f"{STAMP} stderr F [rank{n}]: ", "pods/ml_job-worker-{}_0a-1b/trainer/0.log"
    )(run)


WRITERS: dict[str, Callable[[Run], Files]] = {
    "torch's excepthook": prefix_lines(lambda n: f"[rank{n}]: "),
    "DeepSpeed's pdsh, addresses": prefix_lines(lambda n: f"192.0.2.{n // EACH}: [rank{n}]: "),
    "DeepSpeed's pdsh, names": prefix_lines(lambda n: f"v100x16-{n // EACH}: [rank{n}]: "),
    "torchrun --tee, of all nodes": each_node(lambda n: f"[default{n % EACH}]:", "node-{}.log"),
    "torchrun --tee, a folder a node": each_node(
        lambda n: f"[default{n % EACH}]:", "node{}/train.log"
    ),
    "torchrun --tee, node_rank": each_node(
        lambda n: f"[default{n % EACH}]:", "train_node_rank_{}.log"
    ),
    "torchrun --tee, with [rank]": prefix_lines(lambda n: f"[default{n % EACH}]:[rank{n}]: "),
    "torchrun --log-dir": each_rank(
        lambda n: f"host-{n // EACH}/none_x1/attempt_0/{n % EACH}/stderr.log"
    ),
    "torchrun --log-dir, node_rank": each_rank(
        lambda n: f"logs/node_rank_{n // EACH}/none_x1/attempt_0/{n % EACH}/stderr.log"
    ),
    "a file a rank": each_rank(lambda n: f"logs/rank_{n}.log"),
    "msrun": each_rank(lambda n: f"msrun_log/worker_{n}.log"),
    "Ray, with [rank]": prefix_lines(
        lambda n: f"(WorkerDict pid={900 + n}, ip=192.0.2.{n // EACH}) [rank{n}]: "
    ),
    "Ray, ranks in other lines": name_elsewhere,
    "JSON lines": in_json(
        lambda n, text: {"level": "INFO", "host": f"h{n // EACH}", "rank": n, "message": text}
    ),
    "JSON lines, local ranks": in_json(
        lambda n, text: {"hostname": f"h{n // EACH}", "local_rank": n % EACH, "message": text}
    ),
    "journald, short": prefix_lines(
        lambda n: f"Mar 01 10:02:05 atlas-{n // EACH} torchrun[4242]: [rank{n}]: "
    ),
    "journald, json": in_json(
        lambda n, text: {
            "_HOSTNAME": f"h{n // EACH}",
            "_PID": "42",
            "MESSAGE": f"[rank{n}]: {text}",
        }
    ),
    "docker's json-file": in_json(
        lambda n, text: {"log": f"[rank{n}]: {text}\n", "stream": "stderr", "time": STAMP}
    ),
    "docker compose": prefix_lines(lambda n: f"trainer-{n // EACH}  | [default{n % EACH}]:"),
    "kubectl --prefix": prefix_lines(
        lambda n: f"[pod/job-worker-{n // EACH}/t] [default{n % EACH}]:"
    ),
    "kubectl --prefix --timestamps": prefix_lines(
        lambda n: f"[pod/job-worker-{n // EACH}/t] {STAMP} [rank{n}]: "
    ),
    "stern": prefix_lines(lambda n: f"job-worker-{n // EACH} trainer [default{n % EACH}]:"),
    "stern --timestamps": prefix_lines(
        lambda n: f"job-worker-{n // EACH} trainer {STAMP} [rank{n}]: "
    ),
    "docker logs --timestamps": prefix_lines(lambda n: f"{STAMP} [rank{n}]: "),
    "docker logs, a file a node": each_node(lambda n: f"[default{n % EACH}]:", "host-{}-json.log"),
    "the container runtime's files": cri,
    "journald, short-iso": prefix_lines(
        lambda n: f"2026-03-01T10:02:05+0800 atlas-{n // EACH} torchrun[4242]: [rank{n}]: "
    ),
    "journald, json, local ranks": in_json(
        lambda n, text: {
            "_HOSTNAME": f"node-{n // EACH}",
            "_PID": "42",
            "MESSAGE": f"[default{n % EACH}]:{text}",
        }
    ),
    "mpirun 5 --output tag": prefix_lines(lambda n: f"[prterun-atlas-0-4242@1,{n}]<stderr>: "),
    "mpirun --tag-output --timestamp-output": prefix_lines(
        lambda n: f"Sun Mar  1 10:02:05 2026[1,{n}]<stderr>:"
    ),
    "srun -l, more than ten tasks": prefix_lines(lambda n: f"{n:>2}: "),
    "Ray, the head without its address": prefix_lines(
        lambda n: (
            f"(WorkerDict pid={900 + n}) [rank{n}]: "
            if n < EACH
            else f"(WorkerDict pid={900 + n}, ip=192.0.2.2) [rank{n}]: "
        )
    ),
    "stern --all-namespaces": prefix_lines(
        lambda n: f"ml job-worker-{n // EACH} trainer [rank{n}]: "
    ),
    "srun -l": prefix_lines(lambda n: f"{n}: "),
    "srun -l, a torchrun a task": prefix_lines(lambda n: f"{n // EACH}: [default{n % EACH}]:"),
    "mpirun --tag-output": prefix_lines(lambda n: f"[1,{n}]<stderr>:"),
    "vLLM's workers": prefix_lines(lambda n: f"(Worker_TP{n} pid={900 + n}) "),
    "vLLM's workers with experts": prefix_lines(
        lambda n: f"(Worker_DP{n // EACH}_TP{n % EACH}_EP{n} pid={900 + n}) "
    ),
    "vLLM's workers of one engine each": prefix_lines(
        lambda n: f"(EngineCore_DP0 pid=7) (Worker_TP{n} pid={900 + n}) "
    ),
}


# The node and the device of the guilty, where a writer names them; and who names the rank on it.
NODES = {
    "DeepSpeed's pdsh, addresses": "192.0.2.1",
    "DeepSpeed's pdsh, names": "v100x16-1",
    "torchrun --tee, of all nodes": "node-1",
    "torchrun --tee, a folder a node": "node1",
    "torchrun --log-dir": "host-1",
    "torchrun --log-dir, node_rank": "node_rank_1",
    "Ray, with [rank]": "192.0.2.1",
    "Ray, ranks in other lines": "192.0.2.1",
    "JSON lines": "h1",
    "JSON lines, local ranks": "h1",
    "journald, short": "atlas-1",
    "journald, short-iso": "atlas-1",
    "journald, json": "h1",
    "journald, json, local ranks": "node-1",
    "docker compose": "trainer-1",
    "docker logs, a file a node": "host-1",
    "the container runtime's files": "job-worker-1",
    "Ray, the head without its address": "192.0.2.2",
    **dict.fromkeys(("kubectl --prefix", "kubectl --prefix --timestamps"), "job-worker-1"),
    **dict.fromkeys(("stern", "stern --timestamps", "stern --all-namespaces"), "job-worker-1"),
}
DEVICES = {"Ray, ranks in other lines": 1}
LOCAL = {
    *("torchrun --tee, of all nodes", "torchrun --tee, a folder a node", "kubectl --prefix"),
    *("torchrun --log-dir", "torchrun --log-dir, node_rank", "torchrun --tee, node_rank"),
    *("JSON lines, local ranks", "journald, json, local ranks", "docker compose", "stern"),
    *("docker logs, a file a node", "srun -l, a torchrun a task"),
}


def tree(files: Files) -> Files:
    return files


def nested(files: Files) -> Files:
    """An archive of each top folder or file, in one."""
    tops = sorted({name.split("/")[0] for name in files})
    inner: Files = {
        f"{top.removesuffix('.log').removesuffix('-json')}.tar.gz": tar(
            {name: text for name, text in files.items() if name.split("/")[0] == top}, "w:gz"
        )
        for top in tops
    }
    return {"all.zip": zip_files(inner)}


def half_packed(files: Files) -> Files:
    """Every other log in an archive beside the rest; a single log is packed."""
    names = sorted(files)
    packed = {name: files[name] for name in names[1::2]}
    beside = {name: files[name] for name in names[::2]}
    return {**beside, "rest.tar.gz": tar(packed, "w:gz")} if packed else zip_of_each(files)


def zip_of_each(files: Files) -> Files:
    return {
        "logs.zip": zip_files({f"{name}.gz": gzip.compress(raw(files[name])) for name in files})
    }


def raw(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


def each_packed(ending: str, pack: Callable[[bytes], bytes]) -> Callable[[Files], Files]:
    return lambda files: {f"{name}.{ending}": pack(raw(text)) for name, text in files.items()}


def chinese(files: Files) -> Files:
    return {name: ("训练开始 正在加载数据集\n" + str(text)).encode("gb18030")
            for name, text in files.items()}  # fmt: skip


def wide(encoding: str) -> Callable[[Files], Files]:
    return lambda files: {name: str(text).encode(encoding) for name, text in files.items()}


PACKERS: dict[str, Callable[[Files], Files]] = {
    "as they are": tree,
    "tar.gz": lambda files: {"logs.tar.gz": tar(files, "w:gz")},
    "zip": lambda files: {"logs.zip": zip_files(files)},
    "tar.gz in zip": nested,
    "UTF-16, little-endian": wide("utf-16-le"),
    "UTF-16, big-endian": wide("utf-16-be"),
    "UTF-16 with its mark": wide("utf-16"),
    "UTF-8 with a mark": wide("utf-8-sig"),
    "GB 18030": chinese,
    "tar": lambda files: {"logs.tar": tar(files)},
    "tar.bz2": lambda files: {"logs.tar.bz2": tar(files, "w:bz2")},
    "tar.xz": lambda files: {"logs.tar.xz": tar(files, "w:xz")},
    "gzip of each": each_packed("gz", gzip.compress),
    "xz of each": each_packed("xz", lzma.compress),
    "bzip2 of each": each_packed("bz2", bz2.compress),
    "packed logs in a zip": zip_of_each,
    "a folder with files and an archive": half_packed,
}


def diagnose_files(files: Files, folder: Path) -> Diagnosis:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return of_paths(folder)


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS)
def test_the_same_run_has_the_same_answer(writer: str, tmp_path: Path) -> None:
    for number, (failure, packer) in enumerate(itertools.product(FAILURES, PACKERS)):
        files = PACKERS[packer](WRITERS[writer](fail_run(failure)))
        diagnosis, run = diagnose_files(files, tmp_path / str(number)), (failure, packer)
        assert answer(diagnosis) == failure, run
        assert diagnosis.guilty, (run, diagnosis.undecided)
        assert diagnosis.guilty.ranks == (GUILTY,), run
        assert diagnosis.guilty.local_ranks == (GUILTY % EACH,) * (writer in LOCAL), run
        assert diagnosis.guilty.nodes == tuple(filter(None, (NODES.get(writer),))), run
        assert diagnosis.guilty.devices == tuple(filter(None, (DEVICES.get(writer),))), run
        if failure not in {cause.id for cause in diagnosis.causes[1:]}:
            assert set(diagnosis.causes[0].ranks) in ({GUILTY}, set(range(8)) - {GUILTY}), run


def test_ranks_that_only_the_user_can_tell(tmp_path: Path) -> None:
    """The second node's log alone."""
    run = {rank: lines for rank, lines in fail_run("npu-oom-torch").items() if rank >= EACH}
    path = tmp_path / "train.log"
    path.write_text(row_by_row(run, lambda n, text: f"[default{n % EACH}]:{text}\n"))
    untold, by_user = of_paths(path), of_paths(path, node_rank=1)
    assert (guilty_of(untold).ranks, guilty_of(untold).local_ranks) == ((), (GUILTY % EACH,))
    assert (guilty_of(untold).nodes, guilty_of(untold).devices) == ((), ())
    assert guilty_of(by_user).ranks == (GUILTY,)


def test_pids_of_ray_alone_are_no_ranks(tmp_path: Path) -> None:
    files = prefix_lines(lambda n: f"(WorkerDict pid={900 + n}, ip=192.0.2.{n // EACH}) ")(
        fail_run("npu-oom-torch")
    )
    diagnosis = diagnose_files(files, tmp_path / "given")
    assert (guilty_of(diagnosis).ranks, guilty_of(diagnosis).nodes) == ((), ("192.0.2.1",))
