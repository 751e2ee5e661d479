"""Scripts that give a size in odd ways: none is green, for TP3 divides neither ranks nor heads.

Where its value cannot be told, the run says so. @RUN is a launch of 8 ranks, @TP its option.
"""

import pytest

from ascend_doctor.findings import Level
from tests.linting.judged import judge_text

SIZES = (
    "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 "
    "--max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --bf16"
)
RUN = f"torchrun --nproc_per_node 8 pretrain_gpt.py {SIZES}"
SCRIPTS = {
    "heredoc args": ("cat > args.txt <<EOF\n@TP 3\nEOF\n@RUN $(cat args.txt)\n"),
    "backtick": "@RUN @TP `cat tp`",
    "printf v": ("printf -v TP %d 3\n@RUN @TP $TP\n"),
    "printf v after": ("TP=2\nprintf -v TP %d 3\n@RUN @TP $TP\n"),
    "let": ("TP=2\nlet TP=TP+1\n@RUN @TP $TP\n"),
    "arith cmd": ("TP=2\n((TP+=1))\n@RUN @TP $TP\n"),
    "arith incr": ("TP=2\n((TP++))\n@RUN @TP $TP\n"),
    "declare i": ("declare -i TP=1+2\n@RUN @TP $TP\n"),
    "nameref": ("TP=2\ndeclare -n ref=TP\nref=3\n@RUN @TP $TP\n"),
    "func at": ('go() { @RUN "$@"; }\ngo @TP 3\n'),
    "func shift": ('go() { x=$1; shift; @RUN "$@"; }\ngo a @TP 3\n'),
    "set dashdash": ('set -- @TP 3\n@RUN "$@"\n'),
    "eval str": ('CMD="@RUN @TP 3"\neval $CMD\n'),
    "bash c": 'bash -c "@RUN @TP 3"',
    "ssh": 'ssh node1 "@RUN @TP 3"',
    "xargs": "echo @TP 3 | xargs @RUN",
    "heredoc bash": ("bash <<EOF\n@RUN @TP 3\nEOF\n"),
    "envsubst": ("envsubst < tmpl > args\nARGS=$(<args)\n@RUN $ARGS\n"),
    "plus": "@RUN ${TP:+@TP $TP}",
    "for tp": "for TP in 1 2 3; do @RUN @TP $TP; done",
    "for cfg": "for cfg in *.cfg; do source $cfg; @RUN @TP $TP; done",
    "while read": "while read tp; do @RUN @TP $tp; done < sizes",
    "while shift": (
        "TP=2\n"
        "while [[ $# -gt 0 ]]; do case $1 in --tp) TP=$2; shift 2;; esac; done\n"
        "@RUN @TP $TP\n"
    ),
    "getopts": ("TP=2\nwhile getopts t: o; do TP=$OPTARG; done\n@RUN @TP $TP\n"),
    "assoc": ("declare -A C=([tp]=3)\n@RUN @TP ${C[tp]}\n"),
    "arr idx": ("S=(2 3)\n@RUN @TP ${S[1]}\n"),
    "arr slice": ('A=(x @TP 3)\n@RUN "${A[@]:1}"\n'),
    "indirect": ("N=TP\nTP=3\n@RUN @TP ${!N}\n"),
    "subst": ("C=tp3\n@RUN @TP ${C#tp}\n"),
    "nested srun": "srun -N 2 bash -c '@RUN @TP 3'",
    "docker": 'docker run img bash -lc "@RUN @TP 3"',
    "yaml arg": "@RUN --yaml-cfg c.yaml",
    "arguments of a file": "@RUN @args.txt",
    "configuration of swift": "NPROC_PER_NODE=8 megatron sft train.yaml",
    "variable cmd": ("L=torchrun\n$L --nproc_per_node 8 pretrain_gpt.py @SIZES @TP 3\n"),
    "unknown cmd": "$LAUNCHER --nproc_per_node 8 pretrain_gpt.py @SIZES @TP 3",
    "python var": "torchrun --nproc_per_node 8 $SCRIPT @SIZES @TP 3",
    "nproc auto": "torchrun --nproc_per_node auto pretrain_gpt.py @SIZES @TP 3",
    "nproc gpu": "torchrun --nproc_per_node $(nproc) pretrain_gpt.py @SIZES @TP 2",
    "mapfile": ('mapfile -t A < args\n@RUN "${A[@]}"\n'),
    "ifs read": ('IFS=, read -r TP PP <<< "3,2"\n@RUN @TP $TP\n'),
    "trap late": ("TP=2\n[ -f x ] && . ./x\n@RUN @TP $TP\n"),
    "export at": ('TP=2\nfor kv in "$@"; do export "$kv"; done\n@RUN @TP $TP\n'),
    "eval kv": ('TP=2\neval "$1=$2"\n@RUN @TP $TP\n'),
    "eval out": ("TP=2\neval $(python conf.py)\n@RUN @TP $TP\n"),
    "declare kv": ('TP=2\ndeclare "$1"\n@RUN @TP $TP\n'),
    "source proc": ("TP=2\nsource <(python conf.py)\n@RUN @TP $TP\n"),
    "func sets": ("TP=2\nload() { TP=$1; }\nload 3\n@RUN @TP $TP\n"),
    "group redirect": "{ @RUN @TP 3; } 2>&1 | tee log",
    "subshell cd": "(cd x && TP=3 && @RUN @TP $TP)",
    "cmd in array": ('CMD=(@RUN @TP 3)\n"${CMD[@]}"\n'),
    "cmd in sub": "OUT=$(@RUN @TP 3)",
    "cmd in if": "if @RUN @TP 3; then echo ok; fi",
    "neg": "! @RUN @TP 3",
    "timeoutcmd": "timeout 100 nohup @RUN @TP 3 &",
    "case cmd": ("case $1 in a) TP=3;; *) TP=2;; esac\n@RUN @TP $TP\n"),
    "default empty": "@RUN @TP ${TP:-}",
}
CONFIGURATIONS = {
    "anchor": "tp: &tp 3\ntrainer: {n_gpus_per_node: 8, nnodes: 1}\nactor_rollout_ref: "
    "{actor: {megatron: {tensor_model_parallel_size: *tp}}}\n",
    "merged": "b: &b {tensor_model_parallel_size: 3}\ntrainer: {n_gpus_per_node: 8, nnodes: 1}\n"
    "actor_rollout_ref: {actor: {megatron: {<<: *b}}}\n",
    "interpolated": "trainer: {n_gpus_per_node: 8, nnodes: 1}\nactor_rollout_ref: "
    "{actor: {megatron: {tensor_model_parallel_size: '${oc.env:TP}'}}}\n",
}


def worst(path: str, content: str) -> Level:
    judged = judge_text(path, content, "0.12.1")
    return max((finding.level for finding in judged), default=Level.OK)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_odd_script_is_green(name: str) -> None:
    script = SCRIPTS[name].replace("@RUN", RUN).replace("@SIZES", SIZES)
    script = script.replace("@TP", "--tensor-model-parallel-size")
    assert worst("train.sh", f"#!/bin/bash\n{script}\n") >= Level.UNKNOWN


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_no_odd_configuration_is_green(name: str) -> None:
    assert worst("ppo.yaml", CONFIGURATIONS[name]) >= Level.UNKNOWN


def test_a_mapping_of_another_program_around_verls_keys_is_no_mistake() -> None:
    own = "actor_rollout_ref: {rollout: {name: vllm}}\n"
    handed_on = f"{own}appended: {{actor_rollout_ref: {{rollout: {{trust_remote_code: true}}}}}}\n"
    assert worst("ppo.yaml", handed_on) is Level.UNKNOWN
    misspelt = own.replace("name:", "gpu_memory_utilisation:")
    assert worst("ppo.yaml", misspelt) is Level.ERROR


@pytest.mark.parametrize("text", ["'$L $O'", '"$L $O"', '"\\$L $O"'])
def test_a_mistake_in_what_another_shell_expands_has_its_line(text: str) -> None:
    script = (
        "export L='torchrun --nproc_per_node 8 pretrain_gpt.py'\n"
        'export O=" \\\n --num-layers 8 \\\n --bf16 \\\n --seq-length 4x \\\n"\n'
        f"srun bash -c {text}\n"
    )
    judged = judge_text("train.sh", script, "0.12.1")
    lines = [each.location and each.location.line for each in judged if each.level is Level.ERROR]
    assert lines == [5]


def test_a_plain_script_is_green() -> None:
    assert worst("train.sh", f"{RUN} --tensor-model-parallel-size 2\n") < Level.UNKNOWN
