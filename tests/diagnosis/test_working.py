"""Only a log that shows a run getting on, or ending well, is fine."""

import pytest

from tests.diagnosis.logs import of_files, of_text

WORK = [
    " iteration        7/    1000 | consumed samples: 56 | lm loss: 2.300000E+00 |",
    "{'loss': '2.31', 'grad_norm': '0.4', 'epoch': '0.1'}",
    "step:12 - actor/entropy:0.3 - perf/throughput:812.1",
    "[rank3]:  12%|█▏        | 12/100 [00:12:00<01:28:00, 60.00s/it]",
    "INFO 01-01 10:00:00 [loggers.py:1] Avg generation throughput: 31.2 tokens/s, Running: 1 reqs",
    '(APIServer pid=1) INFO:     127.0.0.1:40000 - "POST /v1/completions HTTP/1.1" 200 OK',
    "INFO:     Application startup complete.",
    "saved checkpoint from iteration 500 to /ckpt in torch format",
    "=============== 12 passed, 2 skipped, 1 warnings in 3.00s ===============",
    "Process finished with exit code 0",
    "训练完成",
]
NO_WORK = [
    "INFO 01-02 10:00:00 server.py:7] server version 1.0",
    "[INFO] acl init success",
    "Loading safetensors checkpoint shards:   0% Completed | 0/1 [00:00<?, ?it/s]",
    "  0%|          | 0/100 [00:00<?, ?it/s]",
    f"Loading checkpoint shards:   0%|{' ' * 150}| 0/4 [00:00<?, ?it/s]",
    "Waiting for the server to become ready",
    "the job has not completed yet",
    "Script done on 2026-11-19 10:02:19-03:00",
    "Running setup before step is done",
    "服务启动成功后会退出",
    "iteration 5/ 10 | lm loss: nan | timed out",
]


@pytest.mark.parametrize("line", WORK)
def test_work_is_fine_and_shown(line: str) -> None:
    seen = of_text(f"something starts\n{line}\nand goes on\n")
    assert (seen.exit_code, seen.outcome) == (0, "nothing known found")
    assert seen.work is not None
    assert seen.work.line == 2


@pytest.mark.parametrize("line", NO_WORK)
def test_a_log_without_work_could_not_be_told(line: str) -> None:
    seen = of_text(f"something starts\n{line}\n")
    assert seen.exit_code == 3
    assert seen.work is None


def test_the_end_decides() -> None:
    """What a run did before it fell silent elsewhere does not show how that went."""
    assert of_text(f"{WORK[-2]}\n" + "loading a model\n" * 5).outcome == "could not tell"
    assert of_text(f"{WORK[0]}\n" + "loading a model\n" * 40).outcome == "could not tell"
    assert of_text(f"{WORK[0]}\n" + "loading a model\n" * 39).outcome == "nothing known found"


def test_one_rank_that_prints_steps_is_enough() -> None:
    seen = of_files({"rank_0.log": "starts\n", "rank_1.log": f"starts\r\n{WORK[0]}\r\n"})
    assert seen.exit_code == 0
    assert seen.work is not None
    assert (seen.work.file.rpartition("/")[2], seen.work.line) == ("rank_1.log", 2)


def test_a_line_is_counted_once_where_a_pattern_takes_its_end() -> None:
    seen = of_text("step 1\nKilled\nKilled\n")
    assert (seen.error_lines, seen.unexplained[0].count) == (2, 2)


def test_a_warning_alone_is_not_fine() -> None:
    assert of_text("{'loss': 0.0, 'grad_norm': nan}\n").exit_code == 3
