"""Mistakes that frameworks refuse or silently take, for launch files of their own repositories.

    python -m tests.acceptance.linting.exact_seeding FOLDER >> tests/acceptance/linting/exact.yaml

FOLDER has the sources of each stack by its name. The kinds are from the sources of the frameworks:
argparse, validate_args, TransformerConfig, feature classes, torch.distributed.run, verl's
configuration classes, ms-swift's argument classes.
"""

import random
import re
import sys
from pathlib import Path

SEED = 20261128
HERE = Path(__file__).parent
# The first group is replaced. Stacks whose files a kind is for, by what their names have.
LAUNCHER = {
    "nnodes word": (r"--nnodes[ =](\S+)", "two"),
    "nproc word": (r"--nproc_per_node[ =](\S+)", "eight"),
    "nnodes backwards": (r"--nnodes[ =](\S+)", "4:2"),
    "node rank word": (r"--node_rank[ =](\S+)", "first"),
    "port word": (r"--master_port[ =](\S+)", "29500a"),
    "restarts fraction": (r"--nnodes[ =]\S+( )", " --max_restarts 1.5 "),
    "start method": (r"--nnodes[ =]\S+( )", " --start_method thread "),
    "ranks filter": (r"--nnodes[ =]\S+( )", " --local_ranks_filter all "),
    "no script": (r"torchrun .*?(\S+_gpt\.py) ", ""),
}
MEGATRON = {
    "granularity": (r"--recompute-granularity (\w+)", "layer"),
    "recompute method": (r"--recompute-method (\w+)", "balanced"),
    "position embedding": (r"--position-embedding-type (\w+)", "rotary"),
    "normalization": (r"--normalization (\w+)", "RMSnorm"),
    "decay style": (r"--lr-decay-style (\w+)", "cosine_annealing"),
    "dispatcher": (r"--moe-token-dispatcher-type (\w+)", "all2all"),
    "balancing": (r"--moe-router-load-balancing-type (\w+)", "auxloss"),
    "transformer": (r"--transformer-impl (\w+)", "te"),
    "tokenizer": (r"--tokenizer-type (\w+)", "HuggingFace"),
    "fraction of samples": (r"--global-batch-size (\d+)\s*\\", "12.5"),
    "iterations as float": (r"--train-iters (\d+)", "1e4"),
    "removed option": (r"(--micro-batch-size) \d", "--batch-size"),
    "ambiguous option": (r"(--lr-warmup-\w+) ", "--lr-warmup"),
    "switch with a value": (r"--(?:sequence-parallel|bf16|swiglu)(\s+)\\", " true "),
    "two values": (r"--num-layers (\d+)", "32 8"),
    "tensor parallel": (r"^\s*TP=(\d+)", "3"),
    "pipeline parallel": (r"^\s*PP=(\d+)", "5"),
    "context parallel": (r"^\s*CP=(\d+)", "16"),
    "experts": (r"^\s*EP=([2-9]\d*)", "7"),
    "heads": (r"--num-attention-heads (\d+)", "30"),
    "query groups": (r"--num-query-groups ([4-9])", "3"),
    "batch": (r"^\s*GBS=(\d+)", "13"),
    "positions": (r"--max-position-embeddings (\d+|\$\{\w+\})", "128"),
    "least rate": (r"--min-lr (\S+)", "1.0e-1"),
    "two warm-ups": (r"--lr-warmup-fraction \S+( )", " --lr-warmup-iters 200 "),
    "two precisions": (r"--bf16( )", " --fp16 "),
    "selective with a method": (r"--recompute-granularity (full)", "selective"),
    "gather alone": (r"(--overlap-grad-reduce)\s*\\", "--overlap-param-gather"),
    "gather without optimizer": (r"(--use-distributed-optimizer)\s*\\", "--overlap-param-gather"),
    "virtual stages": (r"--num-layers-per-virtual-pipeline-stage (\w+)", "3"),
    "samples and iterations": (r"--train-iters \S+( )", " --train-samples 1000 "),
    "decay increase": (r"--weight-decay \S+( )", " --weight-decay-incr-style linear "),
    "two activations": (r"--swiglu( )", " --squared-relu "),
    "overlapped matrices": (r"--bf16( )", " --tp-comm-overlap "),
    "epsilon": (r"--norm-epsilon (\S+)", "1e-6,"),
    "save in the background": (r"--save-interval \S+( )", " --async-save "),
    "first stage": (r"--num-layers \d+( )", " --decoder-first-pipeline-num-layers 40 "),
    "capacity": (r"--moe-router-topk \S+( )", " --moe-pad-expert-input-to-capacity "),
    "data twice": (r"--data-path \S+( )", " --mock-data "),
    "sequence parallel of one": (
        r"--swiglu( )",
        " --tensor-model-parallel-size 1 --sequence-parallel ",
    ),
}
MINDSPEED = {
    "context algorithm": (r"--context-parallel-algo (\w+)", "ring_cp_algo"),
    "ulysses degree": (r"--ulysses-degree-in-cp (\S+)", "3"),
    "two overlaps": (r"--use-ascend-coc( )", " --use-ascend-mc2 "),
    "noop layers": (r"--noop-layers (\S+)", "a,b"),
    "layer list": (r"--num-layer-list (\S+)", "1,2,3"),
    "dense layers": (r"--first-k-dense-replace (\d+)", "400"),
    "packing": (r"(--reset-attention-mask)\s*\\", "--neat-pack"),
    "padded length": (r"--padded-base-length (\d+)", "0"),
    "prompt": (r"--prompt-type (\S+)", "qwen_3"),
    "rank of LoRA": (r"--lora-r (\S+)", "8.5"),
    "stage": (r"--stage (\w+)", "dppo"),
    "rope scaling": (r"--rope-scaling-type (\w+)", "yarn2"),
    "buckets": (r"(--overlap-param-gather)\s*\\", "--reset-bucket-group-order"),
    "swap and recompute": (r"--recompute-granularity \w+( )", " --swap-attention "),
    "head dimension": (r"(--qk-pos-emb-head-dim|--qk-rope-head-dim) ", "--qk-rope-dim"),
}
VERL = {
    "estimator": (r"algorithm\.adv_estimator=(\w+)", "gpro"),
    "train batch": (r"data\.train_batch_size=(\d+)", "1001"),
    "mini batch": (r"actor\.ppo_mini_batch_size=(\d+)", "4096"),
    "nodes": (r"trainer\.nnodes=(\d+)", "one"),
    "aggregation": (r"actor\.kl_loss_type=(\S+)", "lowvar"),
    "unknown key": (r"(actor_rollout_ref\.actor\.use_kl_loss)=", "actor_rollout_ref.actor.use_kl"),
    "both micro batches": (
        r"rollout\.log_prob_micro_batch_size_per_gpu=\d+( )",
        " actor_rollout_ref.rollout.log_prob_micro_batch_size=4 ",
    ),
    "utilization": (r"rollout\.gpu_memory_utilization=(\S+)", "0.6GB"),
    "strategy": (r"(actor_rollout)_ref\.actor\.fsdp_config\.param_offload=", "+actor_rollout"),
    "open list": (r"trainer\.logger=(\S+)", "'[\"console\"'"),
    "rollout of none": (r"rollout\.n=(\d+)", "0.5"),
    "clip": (
        r"actor\.ppo_mini_batch_size=\d+( )",
        " actor_rollout_ref.actor.loss_agg_mode=token_mean ",
    ),
}
SWIFT = {
    "type": (r"--torch_dtype (\w+)", "bf16"),
    "tuner": (r"--(?:tuner_type|train_type) (\w+)", "qlora"),
    "epochs": (r"--num_train_epochs (\S+)", "two"),
    "zero": (r"--deepspeed (\w+)", "zero4"),
    "algorithm": (r"--rlhf_type (\w+)", "dppo"),
    "rank": (r"--lora_rank (\S+)", "8.5"),
    "unknown": (r"(--gradient_accumulation_steps) ", "--grad_accumulation_steps"),
    "batch": (r"--per_device_train_batch_size (\S+)", "1.5"),
}
# Each stack with its kinds, how many mistakes, and what starts its trainings.
STACKS = {
    "mindspeed-llm": (LAUNCHER | MEGATRON | MINDSPEED, 32, r"\w+_gpt\.py"),
    "mindspeed-0.12.1": (LAUNCHER | MEGATRON | MINDSPEED, 18, r"pretrain_gpt\.py"),
    "megatron-0.15.3": (LAUNCHER | MEGATRON, 4, r"pretrain_gpt\.py"),
    "verl": (VERL, 12, r"verl\.trainer\.main_ppo"),
    "ms-swift": (SWIFT, 8, r"(?:swift|megatron) (?:sft|rlhf|pt)\b"),
}


def mistake(stack: str, kind: str, line: str) -> str:
    """The line with a mistake of a kind."""
    pattern, new = STACKS[stack][0][kind]
    match = re.search(pattern, line)
    assert match
    return line[: match.start(1)] + new + line[match.end(1) :]


def main() -> None:
    """Print the mistakes of each stack, a file each, as YAML."""
    dice = random.Random(SEED)
    used = "".join(p.read_text() for p in sorted(HERE.parent.parent.rglob("*.yaml")))
    seen: set[str] = set()
    for stack, (kinds, count, starts) in STACKS.items():
        root = Path(sys.argv[1], stack)
        files = sorted(
            path
            for path in root.rglob("*.sh")
            if re.search(starts, text := path.read_text("utf-8", "replace"))
            and "mindspore" not in str(path)
            and "torchrun" in text + "torchrun" * (count in {8, 12})
            and str(path.relative_to(root)) not in used
        )
        dice.shuffle(files)
        sys.stdout.write(f"  - stack: {stack}\n    files:\n")
        left = [kind for kind in kinds if kind not in seen] or [*kinds]
        dice.shuffle(left)
        made = 0
        for path in files:
            lines = path.read_text("utf-8", "replace").split("\n")
            row = ""
            for kind in left:
                pattern, _ = kinds[kind]
                spots = [
                    n
                    for n, line in enumerate(lines)
                    if re.search(pattern, line) and line.lstrip()[:1] != "#"
                ]
                if spots and made < count:
                    at = dice.choice(spots)
                    row = f", line: {at + 1}, kind: {kind}"
                    left.remove(kind)
                    seen.add(kind)
                    made += 1
                    break
            if row:
                sys.stdout.write(f"      - {{path: {path.relative_to(root)}{row}}}\n")


if __name__ == "__main__":
    main()
