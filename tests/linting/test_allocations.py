"""Allocations and launches as one: what is reported, and what nothing in a file says."""

import pytest

from tests.linting.judged import judge_text

HEAD = "#!/bin/bash\n#SBATCH --nodes=4\n#SBATCH --ntasks-per-node=1\n#SBATCH --gpus-per-node=8\n"
RUN = "torchrun --nnodes $SLURM_NNODES --nproc_per_node 8 --node_rank {} train.py"
QUOTED = f'srun bash -c "{RUN}"'
OF_NODE = QUOTED.format("$SLURM_NODEID")
JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {labels: {app: "1"}}
spec:
  minAvailable: 2
  tasks:
    - replicas: 2
      template:
        spec:
          restartPolicy: Never
          containers:
            - name: train
              env: [{name: A, value: "1"}]
              command: [bash, -c, "torchrun --nnodes 2 --nproc_per_node 8 train.py --lr 1"]
              resources: {limits: {huawei.com/Ascend910: 8}}
              volumeMounts: [{name: dshm, mountPath: /dev/shm}]
          volumes: [{name: dshm, emptyDir: {medium: Memory}}]
"""
COMPOSE = (
    "services: {a: {image: a, devices: [/dev/hisi_hdc], volumes: ['/usr/local/Ascend/driver:{}']}}"
)
RAY = "ray start --head --port 6766 --resources='{{\"NPU\": '$N'}}'\nray start --address=$HEAD:{}"
NEW = {"run-allocation", "pod-fields", "pod-devices", "pod-driver", "shell-directives", "shell-ray"}


def reports(path: str, text: str) -> dict[str, int]:
    judged = judge_text(path, text, shellcheck=lambda *_: ())
    return {
        each.check: each.location.line for each in judged if each.check in NEW and each.location
    }


@pytest.mark.parametrize(
    "text",
    [
        HEAD + QUOTED.format("\\$SLURM_NODEID"),
        HEAD + f"srun bash -c '{RUN.format('$SLURM_NODEID')}'",
        HEAD + f"run() {{\n  {RUN.format('$SLURM_PROCID')}\n}}\nsrun bash -c run",
        HEAD.replace("--nodes=4", "--nodes=2-4") + OF_NODE,
        HEAD.replace("#SBATCH --nodes=4\n", "") + OF_NODE,
        HEAD + "srun --nodes=1 --ntasks=1 torchrun --nproc_per_node 8 train.py",
        HEAD + 'srun $STEP bash -c "torchrun --nproc_per_node 8 train.py"',
        HEAD + "ssh $h torchrun --nnodes 2 --nproc_per_node 8 train.py",
        HEAD + "sbatch <<EOF\n#SBATCH --nodes=2\nEOF",
        RAY.format(6766),
    ],
)
def test_what_fits_or_is_not_known_gets_no_report(text: str) -> None:
    assert reports("a.sh", text) == {}


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("\\$SLURM", "$SLURM", 5),
        ("node=1", "node=8", 3),
        ("node=8", "node=4", 4),
        ("$SLURM_NNODES", "2", 5),
        ("--nodes=4", "--node-s=4", 2),
        ("--nodes=4", "--nodes=$N", 2),
        ("#!/bin/bash", "ulimit -n 9", 2),
    ],
)
def test_a_mistake_of_slurm_is_found(before: str, after: str, line: int) -> None:
    text = HEAD + QUOTED.format("\\$SLURM_NODEID")
    assert line in reports("a.sh", text.replace(before, after, 1)).values()


def test_directives_give_the_variables_of_slurm() -> None:
    verl = "python -m verl.trainer.main_ppo trainer.nnodes=$SLURM_NNODES trainer.n_gpus_per_node={}"
    assert reports("a.sh", HEAD + verl.format("$SLURM_GPUS_ON_NODE")) == {}
    assert reports("a.sh", HEAD + verl.format(16)) == {"run-allocation": 4}


@pytest.mark.parametrize(
    ("before", "after", "check"),
    [
        ("minAvailable: 2", "minAvailable: 3", "pod-fields"),
        ('value: "1"', "value: 1", "pod-fields"),
        ('app: "1"', "app: 1", "pod-fields"),
        ("restartPolicy: Never", "restartPolicy: never", "pod-fields"),
        ("volumeMounts:", "volumeMount:", "pod-fields"),
        ("Ascend910", "ascend910", "pod-devices"),
        ("huawei.com/Ascend910", "nvidia.com/gpu", "pod-devices"),
        ("nnodes 2", "nnodes 4", "run-allocation"),
        ("Ascend910: 8", "Ascend910: 4", "run-allocation"),
    ],
)
def test_a_mistake_of_a_workload_is_found(before: str, after: str, check: str) -> None:
    assert reports("a.yaml", JOB) == {}
    assert check in reports("a.yaml", JOB.replace(before, after))


def test_mistakes_of_containers_are_found() -> None:
    compose = COMPOSE.replace("{}", "/usr/local/Ascend/driver")
    assert reports("a.yaml", compose) == {}
    assert {*reports("a.yaml", compose.replace("hdc", "hcd"))} == {"pod-fields"}
    assert {*reports("a.yaml", COMPOSE.replace("{}", "/opt/driver"))} == {"pod-driver"}
    assert {*reports("a.sh", RAY.format(6379))} == {"shell-ray"}
    assert {*reports("a.sh", "docker run --device /dev/hisi_hcd image")} == {"pod-fields"}
