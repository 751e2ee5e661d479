"""Allocations and launches as one: what is reported, and what nothing in a file says."""

import pytest

from ascend_doctor.findings import Level
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
        HEAD.replace("--nodes=4", "-N 4 -t1-12:00:00 --mem=8G --excl --comm='a b'")
        + QUOTED.format("\\$SLURM_NODEID"),
        HEAD.replace("--nodes=4", "-N4 --site-option x --time={{ hours }}") + OF_NODE,
        HEAD + "srun -l --container-image $I --nodes 1 -n1 torchrun --nproc_per_node 8 train.py",
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
        ("--nodes=4", "--nodes=4 8", 2),
        ("--nodes=4", "-nodes=4", 2),
        ("--nodes=4", "--nodes=4nodes", 2),
        ("--nodes=4", "-N4 --time=24h", 2),
        ("--nodes=4", "-N4 --mem 64GiB", 2),
        ("srun", "srun --ntasks-per-node=auto", 5),
        ("srun", "srun --gpu-per-node=8", 5),
        ("#!/bin/bash", "ulimit -n 9", 2),
    ],
)
def test_a_mistake_of_slurm_is_found(before: str, after: str, line: int) -> None:
    text = HEAD + QUOTED.format("\\$SLURM_NODEID")
    assert line in reports("a.sh", text.replace(before, after, 1)).values()


def test_srun_starts_the_ranks() -> None:
    gpt = HEAD.replace("node=1", "node=8") + "srun python pretrain_gpt.py --num-layers 8 --bf16 "
    tensor = "--tensor-model-parallel-size {} --hidden-size 64 --num-attention-heads 96 --lr 1"
    judged = {size: judge_text("a.sh", gpt + tensor.format(size)) for size in (8, 48)}
    wrong = {
        size: any(each.check == "run-world-size" and each.level is Level.ERROR for each in several)
        for size, several in judged.items()
    }
    assert wrong == {8: False, 48: True}


def test_directives_give_the_variables_of_slurm() -> None:
    verl = "python -m verl.trainer.main_ppo trainer.nnodes=$SLURM_NNODES trainer.n_gpus_per_node={}"
    assert reports("a.sh", HEAD + verl.format("$SLURM_GPUS_ON_NODE")) == {}
    assert reports("a.sh", HEAD + verl.format(16)) == {"run-allocation": 4}


@pytest.mark.parametrize(
    ("before", "after", "check"),
    [
        ("minAvailable: 2", "minAvailable: 3", "pod-fields"),
        ("Ascend910: 8", "Ascend910: 8x", "pod-fields"),
        ("metadata: {labels", "metadata: {name: My_Job, labels", "pod-fields"),
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
