"""Whole healthy logs of reinforcement learning: the run counts on to its last step.

Lines have the form in which the programs print them. verl: utils/logger/aggregate_logger.py,
trainer/ppo/ray_trainer.py, utils/dataset/rl_dataset.py, workers/reward_manager/prime.py,
utils/reward_score, experimental/fully_async_policy. OpenRLHF: utils/logging_utils.py,
trainer/ppo_trainer.py. MindSpeed-RL: utils/loggers.py. Ray: raylet/node_manager.cc.
"""

from collections.abc import Iterable

import pytest

from tests.diagnosis.logs import answer, of_text

STEPS = 59
DRIVER = "\x1b[36m(TaskRunner pid=4100)\x1b[0m "
WORKER = "\x1b[36m(WorkerDict pid=43{rank:02d})\x1b[0m "
RAY_CAUSES = (
    "(raylet) A worker died or was killed while executing a task by an unexpected system error."
    " To troubleshoot the problem, check the logs for the dead worker. RayTask ID: 16310a0f Worker"
    " PID: 4977 Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with"
    " a connection error code 2. End of file. There are some potential root causes. (1) The process"
    " is killed by SIGKILL by OOM killer due to high memory usage. (2) ray stop --force is called."
    " (3) The worker is crashed unexpectedly due to SIGSEGV or other unexpected errors."
)
CONFIG = """\
{'actor_rollout_ref': {'actor': {'checkpoint': {'load_contents': ['model', 'optimizer', 'extra']},
                                 'fsdp_config': {'forward_prefetch': False,
                                                 'wrap_policy': {'min_num_params': 0}},
                                 'ppo_mini_batch_size': 64},
                       'rollout': {'gpu_memory_utilization': 0.6,
                                   'log_level': 'error',
                                   'max_num_batched_tokens': 8192,
                                   'name': 'vllm'}},
 'data': {'filter_overlong_prompts': True,
          'filter_overlong_prompts_workers': 1,
          'return_raw_chat': True,
          'truncation': 'error'},
 'trainer': {'esi_redundant_time': 0,
             'nccl_timeout': 600,
             'on_failure': 'abort',
             'resume_mode': 'auto',
             'total_training_steps': 59}}
"""
SKIPPED = """\
Error processing one of the samples, skipping...
Traceback (most recent call last):
  File "/opt/verl/verl/utils/dataset/rl_dataset.py", line 259, in doc2len
    tokenized_prompt = tokenizer.apply_chat_template(
  File "/usr/lib/python3.11/site-packages/transformers/tokenization_utils_base.py", line 1640, in \
apply_chat_template
    rendered_chat, generation_indices = render_jinja_template(
  File "<template>", line 19, in top-level template code
jinja2.exceptions.UndefinedError: 'dict object' has no attribute 'content'
"""
QUERY = """\
Traceback (most recent call last):
  File "/opt/job/probe.py", line 31, in read_usage
    subprocess.check_output(["npu-smi", "info", "-t", "usages", "-i", "0"])
  File "/usr/lib/python3.11/subprocess.py", line 571, in run
    raise CalledProcessError(retcode, process.args,
subprocess.CalledProcessError: Command '['npu-smi', 'info', '-t', 'usages', '-i', '0']' returned \
non-zero exit status 255.
"""
SOLUTION = """\
Traceback (most recent call last):
  File "/opt/verl/verl/utils/reward_score/prime_code/utils.py", line 31, in _temp_run
    res, metadata = run_test(in_outs=sample, test=generation, debug=debug, timeout=timeout)
  File "<string>", line 12, in solve
MemoryError
"""
VLLM = (
    "INFO 11-20 08:01:15 [__init__.py:235] Automatically detected platform ascend.\n"
    "WARNING 11-20 08:01:16 [_custom_ops.py:20] Failed to import from vllm._C with"
    " ModuleNotFoundError(\"No module named 'vllm._C'\")\n"
    "/usr/lib/python3.11/site-packages/torch/distributed/fsdp/_state_dict_utils.py:859:"
    " FutureWarning: Please use DTensor instead and we are deprecating ShardedTensor.\n"
    "/usr/lib/python3.11/site-packages/torch_npu/contrib/transfer_to_npu.py:292: ImportWarning:\n"
)


def prefixed(prefix: str, text: str) -> str:
    return "".join(f"{prefix}{row}\n" for row in text.splitlines())


def metrics(step: int) -> dict[str, float | int]:
    lengths = {
        f"{name}/{kind}": step / STEPS
        for name in (
            "critic/score",
            "critic/rewards",
            "critic/advantages",
            "critic/returns",
            "response_length",
            "response_length_non_aborted",
            "prompt_length",
        )
        for kind in ("mean", "max", "min", "clip_ratio")
    }
    times = {
        f"{kind}/{name}": 61.5 + step / 997
        for kind in ("timing_s", "timing_per_token_ms")
        for name in (
            "gen",
            "reward",
            "old_log_prob",
            "ref",
            "adv",
            "update_actor",
            "testing",
            "step",
        )
    }
    return {
        "training/global_step": step,
        "actor/entropy": 0.31 + step / 997,
        "actor/grad_norm": 0.12,
        **lengths,
        **times,
        "response/aborted_ratio": 0.0,
        "perf/total_num_tokens": 507018 + step,
        "perf/throughput": 1071.5,
    }


def verl(step: int) -> str:
    pairs = " - ".join(f"{name}:{value!r}" for name, value in metrics(step).items())
    return f"{DRIVER}step:{step} - {pairs}\n"


def bar(step: int) -> str:
    share = 100 * step // STEPS
    times = f"[{step}:01<{STEPS - step}:02, 61.52s/it]"
    done = "#" * (share // 10)
    return f"{DRIVER}Training Progress:  {share}%|{done:<10}| {step}/{STEPS} {times}\n"


def start() -> str:
    workers = "".join(prefixed(WORKER.format(rank=rank), VLLM) for rank in range(8))
    return f"ray init kwargs: {{'num_cpus': None}}\n{prefixed(DRIVER, CONFIG)}{workers}"


def run_verl(early: str, each: Iterable[str] = (), end: str = "") -> str:
    every = "".join(each)
    steps = "".join(f"{verl(step)}{every}{bar(step)}" for step in range(1, STEPS + 1))
    return f"{start()}{early}{steps}{DRIVER}Final validation metrics: {{'val/test': 0.8}}\n{end}"


def run_async() -> str:
    head = "(FullyAsyncTaskRunner pid=4200) [ASYNC MAIN] "
    steps = "".join(
        f"(FullyAsyncTrainer pid=4300) step:{step} - "
        + " - ".join(f"{name}:{value!r}" for name, value in metrics(step).items())
        + f"\n(FullyAsyncRollouter pid=4400) [FullyAsyncRollouter][MonitorLoop] {step} samples\n"
        for step in range(1, STEPS + 1)
    )
    first = prefixed("(FullyAsyncTaskRunner pid=4200) ", f"{CONFIG}{QUERY}")
    end = "One component completed successfully\n", "Training completed or interrupted\n"
    return f"{first}{head}Starting Rollouter and Trainer...\n{steps}{head}{head.join(end)}"


def run_openrlhf() -> str:
    options = "Namespace(data=Namespace(max_len=1024, on_error='raise'), vllm=Namespace(sync='nccl'"
    info = "(PPOTrainer pid=4100) INFO 11-20 08:{minute:02d}:00 ppo_trainer.py:{line}] {text}\r\n"
    first = info.format(minute=0, line=224, text="Sample: ['def f(x):', 'Error: no']")
    steps = "".join(
        info.format(
            minute=step,
            line=547,
            text=f"✨ Global step {step}: {{'policy_loss': 0.0{step}, 'reward': 0.5, 'kl': 0.01}}",
        )
        for step in range(1, STEPS + 1)
    )
    caught = prefixed("(RewardModelActor pid=4500) ", f"{SOLUTION}{QUERY}")
    return f"{options}, timeout_error=None))\n{prefixed('(pid=4400) ', VLLM)}{first}{caught}{steps}"


def run_mindspeed() -> str:
    log = "(RayGRPOTrainer pid=4100) 2026-01-02 08:{minute:02d}:00,123 - INFO - [2026-01-02 "
    steps = "".join(
        f"{log.format(minute=step)}08:{step:02d}:00] iteration: {step} / {STEPS} | "
        f"actor/loss : 0.0{step} | grpo/score/mean : 0.5000 | tokens/p/s : 207001.0000 \n"
        for step in range(1, STEPS + 1)
    )
    caught = prefixed("(IntegratedWorker pid=4502) ", QUERY)
    return f"{prefixed('(IntegratedWorker pid=4501) ', VLLM)}{RAY_CAUSES}\n{caught}{steps}"


TIMED_OUT = (
    f"{DRIVER}[Request ID: 7f3c] Sandbox API call failed. Last error: [Request ID: 7f3c] API"
    " Request Error: HTTPConnectionPool(host='192.0.2.9', port=8080): Read timed out.\n"
    f"{DRIVER}Case 3: API error occurred: API Request Error: Read timed out.\n"
)
SCORES = (
    f"{DRIVER}[Error] Task failed: invalid literal for int(), completion: x = 1\n"
    f"{DRIVER}[Timeout] Task timeout: while True: pass\n"
    f"{DRIVER}[Shutdown] 3 subprocess(es) terminated.\n{DRIVER}global timeout\n"
)
RUNS = {
    "verl, scores of programs": lambda: run_verl(SCORES),
    "verl, sandbox time-outs": lambda: run_verl(TIMED_OUT),
    "verl, samples that are skipped": lambda: run_verl(prefixed(DRIVER, SKIPPED)),
    "verl, fully asynchronous": run_async,
    "OpenRLHF": run_openrlhf,
    "MindSpeed-RL": run_mindspeed,
}


@pytest.mark.parametrize("run", RUNS)
def test_a_whole_healthy_run_accuses_no_rank(run: str) -> None:
    seen = of_text(RUNS[run]())
    assert (answer(seen), seen.exit_code, seen.guilty) == ("none", 0, None)


@pytest.mark.parametrize("run", RUNS)
def test_the_only_rank_of_a_healthy_run_is_not_guilty(run: str) -> None:
    seen = of_text(f"[rank0]: using world size: 1\n{RUNS[run]()}")
    assert (seen.world_size, seen.exit_code, seen.guilty) == (1, 0, None)
