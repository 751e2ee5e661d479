"""What each launcher tells a node about the launch: how many nodes, which one, where they meet."""

import re
from collections.abc import Callable, Mapping

from ascend_doctor.errors import DataError
from ascend_doctor.fleet.gang import Gang, GangVariables, check_gang
from ascend_doctor.fleet.hostlist import parse_hosts

# DefaultPort of Volcano's plugin pytorch, see below.
_VOLCANO_PORT = 23456
# Job numbers separate jobs on one node; the ports are below the kernel's ephemeral ones.
_SLURM_PORTS = range(20000, 30000)


def gang(env: Mapping[str, str]) -> Gang:
    """What the closest launcher says. Raises DataError: none, incomplete or contradictory."""
    here = GangVariables(env)
    gangs = [gang_ for launcher in _LAUNCHERS if (gang_ := launcher(here)) is not None]
    if not gangs:
        raise DataError(
            "--gang: no launcher's variables are here: PET_NNODES or GROUP_RANK of torchrun,"
            " SLURM_STEP_NODELIST of srun, VC_TASK_INDEX of Volcano, RANK with LOCAL_WORLD_SIZE of"
            " an AscendJob, NODE_RANK of Ray Train; give --nnodes, --node-rank, --rdzv-endpoint"
        )
    first = gangs[0]
    # Nested launchers count the same nodes, or one belongs to another launch.
    for other in gangs[1:]:
        if other.count != first.count:
            raise DataError(
                f"--gang: {first.count} nodes by {' and '.join(first.names)}, but {other.count} by"
                f" {' and '.join(other.names)}; give --nnodes, --node-rank, --rdzv-endpoint"
            )
    return first


def _torchrun_options(here: GangVariables) -> Gang | None:
    """What torchrun itself takes in place of its options.

    pytorch/pytorch@v2.13.0: torch/distributed/argparse_util.py, class env, and run.py.
    """
    names = ("PET_NNODES", "PET_NODE_RANK")
    if not here.any(*names):
        return None
    here.need(*names)
    meeting = _endpoint(here.env.get("PET_RDZV_ENDPOINT", "")) or here.meeting(
        "PET_MASTER_ADDR", "PET_MASTER_PORT"
    )
    return check_gang(names, here.number("PET_NNODES"), here.number("PET_NODE_RANK"), meeting)


def _endpoint(text: str) -> tuple[str, int] | None:
    if not text:
        return None
    match = re.fullmatch(r"\[?(?P<host>[^\s\[\]]+?)\]?:(?P<port>\d{1,5})", text)
    if match is None:
        raise DataError(f"--gang: PET_RDZV_ENDPOINT={text!r} is no HOST:PORT")
    return GangVariables({"PET_RDZV_ENDPOINT": match["port"]}).meeting(
        "", "PET_RDZV_ENDPOINT", default=(match["host"], 0)
    )


def _worker(here: GangVariables) -> Gang | None:
    """What torchrun and Ray Train give their workers, whose port is in use: the next is taken.

    pytorch/pytorch@v2.13.0: torch/distributed/run.py, Environment Variables;
    ray-project/ray@ray-2.60.0: python/ray/train/torch/config.py,
    _set_torch_distributed_env_vars.
    """
    if here.any("GROUP_WORLD_SIZE", "GROUP_RANK"):
        names, how = ("GROUP_WORLD_SIZE", "GROUP_RANK"), "torchrun --nproc-per-node 1"
        here.need(*names)
    elif here.any("NODE_RANK"):
        names, how = ("WORLD_SIZE", "NODE_RANK"), "one worker a node"
        here.need(*names, "LOCAL_WORLD_SIZE")
    else:
        return None
    here.once("LOCAL_WORLD_SIZE", how)
    meeting = here.meeting("MASTER_ADDR", "MASTER_PORT", plus=1)
    return check_gang(names, here.number(names[0]), here.number(names[1]), meeting)


def _ascend_job(here: GangVariables) -> Gang | None:
    """An AscendJob of PyTorch: WORLD_SIZE counts NPUs, RANK counts pods.

    Ascend/mind-cluster@22bb3d98: component/ascend-operator/pkg/controllers/v1/env.go,
    setPytorchEnv. Workers of torchrun and Ray Train have these names too, and one of their own.
    """
    names = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "RANK")
    if not here.any("LOCAL_WORLD_SIZE") or here.any("GROUP_RANK", "NODE_RANK"):
        return None
    here.need(*names)
    ranks, local = here.number("WORLD_SIZE"), here.number("LOCAL_WORLD_SIZE")
    if not local or ranks % local:
        raise DataError(f"--gang: WORLD_SIZE={ranks} is no multiple of LOCAL_WORLD_SIZE={local}")
    meeting = here.meeting("MASTER_ADDR", "MASTER_PORT")
    return check_gang(names, ranks // local, here.number("RANK"), meeting)


def _volcano(here: GangVariables) -> Gang | None:
    """A Volcano job with the plugins svc and env, or with pytorch, which counts pods in RANK.

    volcano-sh/volcano@ed72c7c8: pkg/controllers/job/plugins/env/const.go, svc/svc.go
    (GenerateHosts) and distributed-framework/pytorch/pytorch.go.
    """
    tasks = {
        match[1]: here.env[name].split(",")
        for name in sorted(here.env)
        if (match := re.fullmatch(r"VC_(\w+)_HOSTS", name)) and here.env[name]
    }
    indexed = [name for name in ("VC_TASK_INDEX", "VK_TASK_INDEX") if here.any(name)]
    if not tasks and not indexed:
        return None
    if not tasks:
        raise DataError(
            f"--gang: {indexed[0]} is set and no VC_..._HOSTS: the job needs plugin svc"
        )
    for task, hosts in tasks.items():
        if here.any(f"VC_{task}_NUM") and here.number(f"VC_{task}_NUM") != len(hosts):
            raise DataError(f"--gang: VC_{task}_NUM and VC_{task}_HOSTS contradict each other")
    every = [host for hosts in tasks.values() for host in hosts]
    meeting = here.meeting("MASTER_ADDR", "MASTER_PORT", default=(every[0], _VOLCANO_PORT))
    if here.any("RANK", "WORLD_SIZE") and not here.any("LOCAL_WORLD_SIZE"):
        here.need("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
        names: tuple[str, ...] = ("WORLD_SIZE", "RANK")
        return check_gang(names, here.number("WORLD_SIZE"), here.number("RANK"), meeting)
    names = tuple(f"VC_{task}_HOSTS" for task in tasks)
    if not indexed:
        raise DataError(f"--gang: {names[0]} is set and no VC_TASK_INDEX: the job needs plugin env")
    index = here.number(indexed[0])
    if index != here.number(indexed[-1]):
        raise DataError(f"--gang: {' and '.join(indexed)} contradict each other")
    rank = _rank_of_pod(tasks, index, here.env.get("HOSTNAME", ""))
    return check_gang((*names, indexed[0]), len(every), rank, meeting)


def _rank_of_pod(tasks: Mapping[str, list[str]], index: int, name: str) -> int:
    if len(tasks) == 1:
        return index
    before = 0
    for hosts in tasks.values():
        if index < len(hosts) and hosts[index].partition(".")[0] == name.partition(".")[0]:
            return before + index
        before += len(hosts)
    names = " or ".join(f"VC_{task}_HOSTS" for task in tasks)
    raise DataError(f"--gang: HOSTNAME={name!r} is not at VC_TASK_INDEX={index} of {names}")


def _slurm(here: GangVariables) -> Gang | None:
    """One task of a step on each of its nodes; MASTER_ADDR and MASTER_PORT count if set.

    man srun, OUTPUT ENVIRONMENT VARIABLES; with Slurm 22.05 SLURM_NODEID counts the nodes of
    the step, and SLURM_JOB_NODELIST has all of the job.
    """
    names = ("SLURM_STEP_NUM_NODES", "SLURM_NODEID")
    if not here.any("SLURM_JOB_ID"):
        return None
    every = (*names, "SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS")
    here.need(*every, hint="start it by srun --ntasks-per-node=1")
    nodes = parse_hosts(here.env["SLURM_STEP_NODELIST"], name="SLURM_STEP_NODELIST")
    count, rank = here.number("SLURM_STEP_NUM_NODES"), here.number("SLURM_NODEID")
    if len(nodes) != count:
        raise DataError(f"--gang: SLURM_STEP_NODELIST and SLURM_STEP_NUM_NODES={count} contradict")
    if (tasks := here.number("SLURM_STEP_NUM_TASKS")) != count:
        raise DataError(
            f"--gang: SLURM_STEP_NUM_TASKS={tasks}, SLURM_STEP_NUM_NODES={count}; a node checks"
            " itself once: srun --ntasks-per-node=1"
        )
    own = here.env.get("SLURMD_NODENAME", "")
    if own and rank < count and nodes[rank] != own:
        raise DataError(f"--gang: SLURM_NODEID={rank} and SLURMD_NODENAME={own} contradict")
    step = here.number("SLURM_STEP_ID") if here.any("SLURM_STEP_ID") else 0
    port = _SLURM_PORTS[(here.number("SLURM_JOB_ID") + step) % len(_SLURM_PORTS)]
    meeting = here.meeting("MASTER_ADDR", "MASTER_PORT", default=(nodes[0], port))
    return check_gang(names, count, rank, meeting)


# The closest to the process first: torchrun runs inside Slurm, not vice versa.
_LAUNCHERS: tuple[Callable[[GangVariables], Gang | None], ...] = (
    _worker,
    _torchrun_options,
    _ascend_job,
    _volcano,
    _slurm,
)
