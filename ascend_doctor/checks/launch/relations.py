"""Options of a launch that need, exclude or divide each other: the checks of the rules."""

from collections.abc import Iterator

from ascend_doctor.checks.launch.option_names import is_of_fork
from ascend_doctor.checks.launch.options import options
from ascend_doctor.checks.launch.rules import judge_rules
from ascend_doctor.errors import NotApplicable
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, check


@check("run-experts-divide", "Expert parallelism fits the experts", scope="launch")
def run_experts_divide(case: Case) -> Iterator[Finding]:
    """The expert parallel size divides the experts, and there are experts to split.

    Megatron-LM's scripts need --num-experts for an expert parallel size above 1, and a router that
    chooses at most as many experts as there are.
    """
    yield from judge_rules(case, "run-experts-divide")


@check("run-heads-divide", "Tensor parallelism divides the attention heads", scope="launch")
def run_heads_divide(case: Case) -> Iterator[Finding]:
    """TP divides the attention heads and the key and value heads.

    From megatron-core 0.16 the key and value heads may divide TP instead. Without --kv-channels the
    heads must divide the hidden size. MindSpeed's --unaligned-linear splits what does not divide.
    """
    yield from judge_rules(case, "run-heads-divide")


@check("run-layers-divide", "Pipeline parallelism divides the layers", scope="launch")
def run_layers_divide(case: Case) -> Iterator[Finding]:
    """The pipeline parallel size divides the layers, unless a layout of stages is given.

    --decoder-first-pipeline-num-layers, --decoder-last-pipeline-num-layers and
    --pipeline-model-parallel-layout give stages different numbers of layers; virtual stages need a
    pipeline of at least two.
    """
    yield from judge_rules(case, "run-layers-divide")


@check(
    "run-sequence-divides", "Context and tensor parallelism divide the sequences", scope="launch"
)
def run_sequence_divides(case: Case) -> Iterator[Finding]:
    """Twice CP divides the sequence length, TP the part of a rank under sequence parallelism.

    The position embeddings of a Megatron-LM script must reach as far as its sequences.
    """
    yield from judge_rules(case, "run-sequence-divides")


@check("run-batch-divides", "The global batch divides into micro-batches", scope="launch")
def run_batch_divides(case: Case) -> Iterator[Finding]:
    """The global batch size is a multiple of the micro-batch size times the data parallel size."""
    yield from judge_rules(case, "run-batch-divides")


@check(
    "run-moe-needs-sp",
    "Experts with tensor parallelism train with sequence parallelism",
    scope="launch",
)
def run_moe_needs_sp(case: Case) -> Iterator[Finding]:
    """Megatron-core 0.12 to 0.16 refuse to train experts with TP above 1 without it.

    The layer of experts raises ValueError in its first forward pass.
    """
    yield from judge_rules(case, "run-moe-needs-sp")


@check("run-recompute", "Recomputation options fit together", scope="launch")
def run_recompute(case: Case) -> Iterator[Finding]:
    """Full recomputation needs a method and a number of layers.

    Selective recomputation takes neither.
    """
    yield from judge_rules(case, "run-recompute")


@check("run-arguments", "Megatron-LM and MindSpeed accept the options together", scope="launch")
def run_arguments(case: Case) -> Iterator[Finding]:
    """Their validation stops at options that need or exclude each other, before any training.

    The rules are data, each with the line of the validation that it follows. `lint --exact` asks
    the validation of the installed release itself. Programs with several other options are not
    judged: they are forks, whose validation may differ.
    """
    options(case)
    if is_of_fork(case):
        raise NotApplicable("several options are unknown, as in forks of Megatron-LM")
    yield from judge_rules(case, "run-arguments")


@check("verl-on-npu", "verl's configuration suits NPUs", scope="launch")
def verl_on_npu(case: Case) -> Iterator[Finding]:
    """Verl's device, checkpoint engine and router replay on NPUs.

    The HCCL checkpoint engine is registered as nccl. Router replay needs symbols that megatron-core
    has from 0.14 on. Newer releases alone overrule a device other than npu, with a warning.
    """
    yield from judge_rules(case, "verl-on-npu")


@check("run-verl-sizes", "verl's batches and rollout fit its devices", scope="launch")
def run_verl_sizes(case: Case) -> Iterator[Finding]:
    """Verl checks its sizes when the workers start, minutes after the launch.

    Tensor, data and pipeline parallelism of the rollout divide the devices, the mini batch is no
    larger than the batch, the batch times the samples of a prompt divides over the devices, and
    what a device has of a mini batch is made of whole micro batches.
    """
    yield from judge_rules(case, "run-verl-sizes")


@check("run-verl-values", "verl accepts the values of its keys", scope="launch")
def run_verl_values(case: Case) -> Iterator[Finding]:
    """Verl's configuration classes and registries refuse other words, and keys that exclude others.

    They do so when the trainer or a worker starts. The rules are data, each with its source.
    """
    yield from judge_rules(case, "run-verl-values")


@check("run-swift-values", "ms-swift accepts the options together", scope="launch")
def run_swift_values(case: Case) -> Iterator[Finding]:
    """ms-swift's argument classes raise for options that need or exclude each other.

    The rules are data, each with its source.
    """
    yield from judge_rules(case, "run-swift-values")
