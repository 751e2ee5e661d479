import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.errors import DataError
from ascend_doctor.fleet.launchers import gang
from tests.conftest import Command

MASTER = {"MASTER_ADDR": "node1", "MASTER_PORT": "29500"}
STEP = {
    "SLURM_JOB_ID": "123456",
    "SLURM_JOB_NODELIST": "node[1-8]",
    "SLURM_NNODES": "2",
    "SLURM_NODEID": "1",
    "SLURM_STEP_ID": "2",
    "SLURM_STEP_NODELIST": "node[3-4]",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURMD_NODENAME": "node4",
}
ASCEND_JOB = {
    **MASTER,
    "WORLD_SIZE": "16",
    "LOCAL_WORLD_SIZE": "8",
    "LOCAL_RANK": "0,1,2,3,4,5,6,7",
    "RANK": "1",
}
VOLCANO = {
    "VC_TASK_INDEX": "1",
    "VK_TASK_INDEX": "1",
    "VC_NODES_HOSTS": "doctor-nodes-0.doctor,doctor-nodes-1.doctor",
    "VC_NODES_NUM": "2",
}
TWO_TASKS = {
    "VC_TASK_INDEX": "0",
    "VC_MASTER_HOSTS": "job-master-0.job",
    "VC_MASTER_NUM": "1",
    "VC_WORKER_HOSTS": "job-worker-0.job,job-worker-1.job",
    "VC_WORKER_NUM": "2",
}
WORKER = {**MASTER, "GROUP_RANK": "1", "GROUP_WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1"}
TORCHRUN = {"PET_NNODES": "4", "PET_NODE_RANK": "3"}
RAY = {**MASTER, "NODE_RANK": "2", "WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "1", "RANK": "2"}


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (STEP, (2, 1, "node3:23458")),
        ({**STEP, **MASTER}, (2, 1, "node1:29500")),
        (ASCEND_JOB, (2, 1, "node1:29500")),
        (VOLCANO, (2, 1, "doctor-nodes-0.doctor:23456")),
        ({**VOLCANO, "MASTER_PORT": "1"}, (2, 1, "doctor-nodes-0.doctor:1")),
        ({**TWO_TASKS, "HOSTNAME": "job-master-0"}, (3, 0, "job-master-0.job:23456")),
        ({**TWO_TASKS, "HOSTNAME": "job-worker-0"}, (3, 1, "job-master-0.job:23456")),
        ({**TWO_TASKS, **MASTER, "RANK": "2", "WORLD_SIZE": "3"}, (3, 2, "node1:29500")),
        (WORKER, (2, 1, "node1:29501")),
        ({**WORKER, **STEP}, (2, 1, "node1:29501")),
        ({**TORCHRUN, "PET_RDZV_ENDPOINT": "[fd00::1]:7"}, (4, 3, "[fd00::1]:7")),
        ({**TORCHRUN, "PET_MASTER_ADDR": "a", "PET_MASTER_PORT": "8"}, (4, 3, "a:8")),
        (RAY, (3, 2, "node1:29501")),
    ],
)
def test_what_launchers_say(env: dict[str, str], expected: tuple[int, int, str]) -> None:
    launcher = gang(env)
    assert (launcher.count, launcher.rank, launcher.endpoint) == expected


@pytest.mark.parametrize(
    ("env", "names"),
    [
        ({}, ("SLURM_STEP_NODELIST", "--nnodes")),
        (MASTER, ("no launcher's variables",)),
        ({**STEP, "SLURM_STEP_NODELIST": ""}, ("SLURM_STEP_NODELIST", "srun")),
        ({**STEP, "SLURM_STEP_NUM_TASKS": "16"}, ("SLURM_STEP_NUM_TASKS", "--ntasks-per-node=1")),
        ({**STEP, "SLURM_STEP_NUM_NODES": "3"}, ("SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES")),
        ({**STEP, "SLURM_NODEID": "2"}, ("SLURM_NODEID",)),
        ({**STEP, "SLURM_NODEID": "0"}, ("SLURM_NODEID", "SLURMD_NODENAME")),
        ({**STEP, "SLURM_NODEID": "one"}, ("SLURM_NODEID",)),
        ({**STEP, "MASTER_PORT": "99999"}, ("MASTER_PORT",)),
        ({"SLURM_JOB_ID": "1", "SLURM_NODEID": "0"}, ("SLURM_STEP_NODELIST", "srun")),
        ({**ASCEND_JOB, "RANK": "2"}, ("RANK", "WORLD_SIZE")),
        ({**ASCEND_JOB, "WORLD_SIZE": "12"}, ("WORLD_SIZE", "LOCAL_WORLD_SIZE")),
        ({**ASCEND_JOB, "LOCAL_WORLD_SIZE": "0"}, ("LOCAL_WORLD_SIZE",)),
        ({**ASCEND_JOB, "MASTER_ADDR": ""}, ("MASTER_ADDR",)),
        ({**VOLCANO, "VK_TASK_INDEX": "0"}, ("VC_TASK_INDEX", "VK_TASK_INDEX")),
        ({**VOLCANO, "VC_NODES_NUM": "3"}, ("VC_NODES_NUM", "VC_NODES_HOSTS")),
        ({"VC_TASK_INDEX": "0"}, ("VC_TASK_INDEX", "plugin svc")),
        ({"VC_NODES_HOSTS": "a.b"}, ("VC_NODES_HOSTS", "plugin env")),
        ({**TWO_TASKS, "HOSTNAME": "node7"}, ("HOSTNAME", "VC_MASTER_HOSTS", "VC_WORKER_HOSTS")),
        ({**TWO_TASKS, "RANK": "1"}, ("WORLD_SIZE", "RANK")),
        ({**WORKER, "LOCAL_WORLD_SIZE": "8"}, ("LOCAL_WORLD_SIZE", "--nproc-per-node 1")),
        ({**WORKER, "MASTER_PORT": "65535"}, ("MASTER_PORT",)),
        ({"GROUP_RANK": "0"}, ("GROUP_WORLD_SIZE", "GROUP_RANK")),
        (TORCHRUN, ("PET_MASTER_ADDR", "PET_MASTER_PORT")),
        ({**TORCHRUN, "PET_RDZV_ENDPOINT": "a b"}, ("PET_RDZV_ENDPOINT",)),
        ({"PET_NNODES": "2:4", "PET_NODE_RANK": "0", "PET_RDZV_ENDPOINT": "a:1"}, ("PET_NNODES",)),
        ({"PET_NNODES": "2"}, ("PET_NODE_RANK", "PET_NNODES")),
        ({**RAY, "MASTER_PORT": ""}, ("MASTER_PORT", "MASTER_ADDR")),
        ({**TORCHRUN, "PET_RDZV_ENDPOINT": "a:1", **STEP}, ("PET_NNODES", "SLURM_STEP_NUM_NODES")),
    ],
)
def test_half_filled_and_contradictory_variables_are_named(
    env: dict[str, str], names: tuple[str, ...]
) -> None:
    with pytest.raises(DataError) as raised:
        gang(env)
    for name in names:
        assert name in str(raised.value)


NAMES = sorted({*STEP, *ASCEND_JOB, *VOLCANO, *TWO_TASKS, *WORKER, *TORCHRUN, *RAY, "HOSTNAME"})
VALUES = st.one_of(
    st.sampled_from(["", "0", "1", "2", "8", "node[1-2]", "node1", "a.b,c.d", "65536", "node[1"]),
    st.text(max_size=4),
)


@given(st.dictionaries(st.sampled_from([*NAMES, "PET_RDZV_ENDPOINT"]), VALUES))
def test_any_environment_gives_a_node_of_the_launch_or_says_why(env: dict[str, str]) -> None:
    try:
        launcher = gang(env)
    except DataError:
        return
    assert 0 <= launcher.rank < launcher.count
    assert launcher.host
    assert 0 < launcher.port <= 65535


def test_nothing_is_taken_unasked(installed: Command) -> None:
    done = installed("check", "--gang", "--nnodes", "2", "--rdzv-endpoint", "a:1")
    assert (done.returncode, done.stdout) == (2, "")
    assert "exclude each other" in done.stderr
    done = installed("check", "-l", "0", "--gang", env={"PATH": "/usr/bin:/bin"})
    assert done.returncode == 2
    assert "no launcher's variables" in done.stderr
