"""Values of Hydra's overrides, sizes of verl, ports, and the resources of pods."""

import pytest

from ascend_doctor.collect.launch import program
from ascend_doctor.findings import Finding, Level
from tests.linting.judged import judge_text, mistakes

VERL = """\
BATCH=64
python3 -m verl.trainer.main_ppo \\
    data.train_batch_size=$BATCH \\
    actor_rollout_ref.actor.ppo_mini_batch_size=32 \\
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=2 \\
    actor_rollout_ref.actor.optim.lr=1e-6 algorithm.adv_estimator=grpo \\
    actor_rollout_ref.model.use_remove_padding=True \\
    actor_rollout_ref.rollout.tensor_model_parallel_size=2 \\
    actor_rollout_ref.rollout.gpu_memory_utilization=0.8 \\
    actor_rollout_ref.rollout.n=8 \\
    trainer.n_gpus_per_node=8 \\
    trainer.nnodes=1 actor_rollout_ref.rollout.log_prob_micro_batch_size=16
"""
OTHER = """\
uv run -m skyrl.train.entrypoints.main_base \\
    trainer.policy.optimizer_config.lr=1.0e-6 \\
    trainer.micro_train_batch_size_per_gpu=1 \\
    trainer.flash_attn=true \\
    generator.inference_engine.gpu_memory_utilization=0.8
"""
POD = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
spec:
  template:
    spec:
      containers:
        - name: train
          image: ascend-pytorch:8.5.0
          command: ["torchrun", "--nproc_per_node", "8", "train.py"]
          resources:
            limits:
              huawei.com/Ascend910: 8
            requests:
              huawei.com/Ascend910: 8
          volumeMounts:
            - name: dshm
              mountPath: /dev/shm
      volumes:
        - name: dshm
          emptyDir: {medium: Memory}
"""
MEGATRON = """\
MASTER_PORT=6000
torchrun --nproc_per_node 8 --master_port $MASTER_PORT pretrain_gpt.py \\
    --num-layers 8 --hidden-size 1024 --num-attention-heads 16 \\
    --group-query-attention --num-query-groups 4 \\
    --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 1 \\
    --global-batch-size 64 --bf16
"""


def reports(path: str, text: str) -> list[Finding]:
    return mistakes(judge_text(path, text, "0.15.3"))


@pytest.mark.parametrize(
    ("path", "text"),
    [("a.sh", VERL), ("b.sh", OTHER), ("pod.yaml", POD), ("c.sh", MEGATRON)],
)
def test_correct_files_have_no_findings(path: str, text: str) -> None:
    assert reports(path, text) == []


@pytest.mark.parametrize(
    ("path", "text", "before", "after", "check"),
    [
        ("a.sh", VERL, "padding=True", "padding=Ture", "run-override-values"),
        ("a.sh", VERL, "padding=True", "padding=on", "run-override-values"),
        ("a.sh", VERL, "lr=1e-6", "lr=1e-6x", "run-override-values"),
        ("a.sh", VERL, "utilization=0.8", "utilization=80", "run-override-values"),
        ("a.sh", VERL, "per_gpu=2", "per_gpu=0", "run-override-values"),
        ("a.sh", VERL, "BATCH=64", "BATCH=0", "run-override-values"),
        ("a.sh", VERL, "batch_size=32", "batch_size=128", "run-verl-sizes"),
        ("a.sh", VERL, "parallel_size=2", "parallel_size=3", "run-verl-sizes"),
        ("a.sh", VERL, "per_node=8", "per_node=3", "run-verl-sizes"),
        ("a.sh", VERL, "per_gpu=2", "per_gpu=3", "run-verl-sizes"),
        ("a.sh", VERL, "rollout.n=8", "rollout.name=vlm", "run-verl-values"),
        ("b.sh", OTHER, "attn=true", "attn=flase", "run-override-values"),
        ("b.sh", OTHER, "utilization=0.8", "utilization=1.5", "run-override-values"),
        ("b.sh", OTHER, "lr=1.0e-6", "lr=1.0e-6o", "run-override-values"),
        ("b.sh", OTHER, "per_gpu=1", "per_gpu=0", "run-override-values"),
        (
            "pod.yaml",
            POD,
            "- name: dshm\n              mount",
            "- name: shm\n              mount",
            "pod-volumes",
        ),
        ("pod.yaml", POD, "image: ascend-pytorch:", "image: ascend-pytorch\uff1a", "pod-image"),
        ("pod.yaml", POD, "910: 8\n          vol", "910: 4\n          vol", "pod-devices"),
        ("c.sh", MEGATRON, "PORT=6000", "PORT=66000", "run-master-port"),
        ("c.sh", MEGATRON, "groups 4", "groups 5", "run-heads-divide"),
        ("c.sh", MEGATRON, "micro-batch-size 1", "micro-batch-size 0", "run-option-values"),
    ],
)
def test_a_wrong_value_is_found_at_its_line(
    path: str, text: str, before: str, after: str, check: str
) -> None:
    line = text[: text.index(before)].count("\n") + 1
    changed = text.replace(before, after, 1)
    findings = [each for each in reports(path, changed) if each.check == check]
    assert [each.location and each.location.line for each in findings] == [line]


def test_a_pod_with_the_memory_of_its_host_needs_no_volume() -> None:
    text = POD.replace("/dev/shm", "/data").replace(
        "      containers:", "      hostIPC: true\n      containers:"
    )
    assert reports("pod.yaml", text) == []
    alone = reports("pod.yaml", text.replace("hostIPC: true", "hostIPC: false"))
    assert [each.check for each in alone] == ["pod-shared-memory"]


def test_an_asynchronous_trainer_takes_no_batch() -> None:
    script = VERL.replace("BATCH=64", "BATCH=0").replace(
        "verl.trainer.main_ppo", "verl.experimental.fully_async_policy.fully_async_main"
    )
    assert reports("a.sh", script) == []


def test_what_extends_main_ppo_is_judged_as_it() -> None:
    script = VERL.replace("parallel_size=2", "parallel_size=3")
    ids = [each.check for each in reports("a.sh", script.replace("main_ppo", "main_ppo_format"))]
    assert ids == ["run-verl-sizes"]
    assert reports("a.sh", script.replace("main_ppo", "main_ppo_split")) == []


@pytest.mark.parametrize(
    ("trainer", "worst"),
    [
        ("python3 verl/trainer/main_ppo.py", Level.ERROR),
        ("python3 -m mine.train_agent", Level.UNKNOWN),
        ("python3 train_agent.py", Level.UNKNOWN),
        ("python3 -m recipe.fully_async_policy.fully_async_main", Level.SKIPPED),
    ],
)
def test_a_trainer_that_is_not_known_is_not_judged(trainer: str, worst: Level) -> None:
    script = VERL.replace("parallel_size=2", "parallel_size=3")
    script = script.replace("python3 -m verl.trainer.main_ppo", trainer)
    judged = judge_text("a.sh", script, "0.15.3")
    assert max(each.level for each in judged) == worst
    unresolved = [each for each in judged if each.check == "launch-resolved"]
    assert ("run-verl-sizes" in unresolved[0].because) == (worst is Level.UNKNOWN)


def test_a_configuration_of_verl_is_judged_by_its_sizes() -> None:
    config = """\
data: {train_batch_size: 256}
actor_rollout_ref:
  actor: {ppo_mini_batch_size: 64}
  rollout: {tensor_model_parallel_size: 3}
trainer: {n_gpus_per_node: 8, nnodes: 1}
"""
    assert ids("ppo.yaml", config) == [("run-verl-sizes", 4)]
    assert ids("ppo.yaml", f"{config}rollout: {{nnodes: 1, n_gpus_per_node: 3}}\n") == []


def test_a_stateful_set_makes_volumes() -> None:
    claims = "  volumeClaimTemplates:\n    - metadata:\n        name: dshm\n"
    pod = POD.replace(
        "        - name: dshm\n          emptyDir", "        - name: cache\n          emptyDir"
    )
    assert ids("pod.yaml", pod) == [("pod-volumes", 16)]
    assert ids("pod.yaml", pod + claims) == []


@pytest.mark.parametrize(
    ("path", "line"),
    [("/usr/local/Ascend/driver/", 0), ("/usr/local/driver", 19), ("/usr/local/Ascend", 19)],
)
def test_the_driver_keeps_its_path(path: str, line: int) -> None:
    mounts = f"            - name: driver\n              mountPath: {path}\n      volumes:\n"
    volume = "        - name: driver\n          hostPath: {path: /usr/local/Ascend/driver}\n"
    pod = POD.replace("      volumes:\n", mounts + volume)
    assert ids("pod.yaml", pod) == ([("pod-driver", line)] if line else [])


def test_a_part_of_a_pod_lists_no_volumes() -> None:
    pod = POD.replace(
        "      volumes:\n        - name: dshm\n          emptyDir: {medium: Memory}\n", ""
    )
    assert ids("pod.yaml", pod) == []


def test_the_value_of_an_option_is_no_program() -> None:
    words = ["python", "tools/embed.py", "--bert-embedder-type", "megatron", "--bf16"]
    assert program(words) == ""
    assert program(["uv", "run", "--active", "megatron", "sft", "--lr", "1"]) == "megatron-swift"
    assert program(["torchrun", "--standalone", "pretrain_gpt.py", "--bf16"]) == "megatron"


def ids(path: str, content: str) -> list[tuple[str, int]]:
    judged = mistakes(judge_text(path, content, shellcheck=lambda *_: ()))
    return [(each.check, each.location.line if each.location else 0) for each in judged]


def test_several_nodes_do_not_meet_at_localhost() -> None:
    script = "ADDR=localhost\ntorchrun --nproc_per_node 8 --nnodes {} --master_addr $ADDR x.py\n"
    assert ids("a.sh", script.format(2)) == [("run-master-address", 1)]
    assert ids("a.sh", script.format(1)) == []


def test_ms_swift_counts_nodes_and_has_their_master_in_variables() -> None:
    swift = (
        "export NNODES={}\nexport MASTER_ADDR={}\nNPROC_PER_NODE=8 megatron sft --model "
        "Qwen/Qwen3-8B --tensor_model_parallel_size 8 --pipeline_model_parallel_size 2\n"
    )
    assert ids("a.sh", swift.format(2, "10.0.0.1")) == []
    assert ids("a.sh", swift.format(2, "localhost")) == [("run-master-address", 2)]
    assert ids("a.sh", swift.format(1, "localhost")) == [("run-world-size", 3)]


@pytest.mark.parametrize(
    "value",
    ['"your data path"', "path/to/data", '"/path/to/data"', "YOUR_DATA_NAME", "'DATA PATH'"],
)
def test_values_are_left_to_be_filled_in(value: str) -> None:
    script = f"DATA_PATH={value}\ntorchrun --nproc_per_node 8 x.py --data $DATA_PATH\n"
    assert ids("a.sh", script) == [("shell-placeholders", 1)]


@pytest.mark.parametrize("value", ["${your_data}", "/data/paths/to", "yours", '"data path"'])
def test_other_values_are_filled_in(value: str) -> None:
    script = f"DATA={value}\ntorchrun --nproc_per_node 8 x.py --data $DATA\n"
    assert ("shell-placeholders", 1) not in ids("a.sh", script)


def test_sequence_parallelism_divides_the_devices() -> None:
    key = "actor_rollout_ref.ref.ulysses_sequence_parallel_size"
    script = VERL.replace("trainer.nnodes=1", f"trainer.nnodes=1 {key}=16")
    assert ids("a.sh", script) == [("run-verl-sizes", 12)]


def test_a_task_of_skypilot_is_judged_at_its_lines() -> None:
    run = "".join(f"  {line}\n" for line in VERL.replace("=32", "=3200").splitlines())
    assert ids("task.yaml", f"resources:\n  cpus: 8\nrun: |\n{run}") == [("run-verl-sizes", 7)]


def test_a_misspelt_key_is_found_at_the_key() -> None:
    script = VERL.replace("train_batch_size", "trin_batch_size")
    assert ids("a.sh", script) == [("run-verl-keys", 3)]


@pytest.mark.parametrize(
    "script",
    [
        "NNODES=2 NPROC_PER_NODE=8 megatron sft --model Qwen/Qwen3-8B\n",
        "torchrun --nnodes 2 --nproc_per_node 8 pretrain_gpt.py --bf16\n",
        VERL.replace("trainer.nnodes=1", "trainer.nnodes=2"),
    ],
)
def test_visible_devices_are_those_of_one_node(script: str) -> None:
    def judged(devices: str) -> list[str]:
        text = f"export ASCEND_RT_VISIBLE_DEVICES={devices}\n{script}"
        findings = judge_text("run.sh", text, "0.16.1")
        return [finding.check for finding in findings if finding.level is Level.ERROR]

    assert judged("0,1,2,3,4,5,6,7") == []
    assert judged("0,1,2,3") == ["run-visible-devices"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('os.environ["ASCEND_LAUNCH_BLOCKING"] = "1"\n', [("variables-harmful", 2)]),
        ('os.environ.setdefault("HCCL_CONECT_TIMEOUT", "9")\n', [("variables-misspelt", 2)]),
        ('def f():\n    os.putenv("HCCL_CONNECT_TIMEOUT", "9s")\n', [("variables-valid", 3)]),
        (
            'if device == "npu":\n    os.environ["TASK_QUEUE_ENABLE"] = "0"\n',
            [("variables-harmful", 3)],
        ),
        ('if torch.cuda.is_available():\n    os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n', []),
        (
            'if cuda:\n    pass\nelse:\n    os.environ["CUDA_VISIBLE_DEVICES"] = "0"\n',
            [("variables-misspelt", 5)],
        ),
        ('os.environ["PYTHONPATH"] = own + os.environ["PYTHONPATH"]\n', []),
        ('os.environ["ASCEND_LAUNCH_BLOCKING"] = str(blocking)\n', []),
    ],
)
def test_variables_that_python_sets_are_judged(text: str, expected: list[tuple[str, int]]) -> None:
    assert ids("entry.py", f"import os, torch_npu\n{text}") == expected


def test_a_file_for_other_devices_is_not_judged() -> None:
    text = 'import os  # ascending inputs\nos.environ["CUDA_VISIBLE_DEVICES"] = "0"\n'
    assert ids("entry.py", text) == []


def test_sizes_of_minus_one_come_from_a_checkpoint() -> None:
    """As Megatron-DeepSpeed's examples_deepspeed/MoE/ds_evalharness.sh starts its evaluation."""
    text = MEGATRON.replace("layers 8", "layers -1").replace("size 1024", "size -1")
    of_values = [
        (finding.level, finding.observed)
        for finding in judge_text("a.sh", text, "0.15.3")
        if finding.check == "run-option-values"
    ]
    assert of_values == [(Level.UNKNOWN, f"--{name} -1") for name in ("num-layers", "hidden-size")]
    (finding,) = reports("a.sh", MEGATRON.replace("layers 8", "layers 0"))
    assert finding.title == "--num-layers does not take '0'"
