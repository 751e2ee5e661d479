"""What a run got over accuses nobody, and what may have ended it stands."""

from pathlib import Path

import pytest

from ascend_doctor.diagnosis.job import JobOptions
from ascend_doctor.diagnosis.logs import find
from ascend_doctor.render import diagnosis as page
from tests.diagnosis.logs import answer, of_files, of_text, reader

STEPS = "".join(
    f" iteration {step:8d}/    5000 | lm loss: 2.{step:03d}E+00 | grad norm: 1.2 |\n"
    for step in range(1, 6)
)
TRACEBACK = (
    "Traceback (most recent call last):\n"
    '  File "train.py", line 7, in <module>\n'
    "ValueError: shapes (3, 4) and (5,) cannot be joined\n"
)
PLAIN = "".join(f"layer {layer} has 1769472 parameters\n" for layer in range(10))
HARMLESS = {
    "a test that logs": "ERROR    svc:client.py:4 refused\n==== 5 passed in 0.65s ====\n",
    "a test that raises": f"{TRACEBACK}===== 7 passed, 1 xfailed in 0.65s =====\n",
    "googletest": f"{TRACEBACK}[----------] teardown\n[  PASSED  ] 12 tests.\n",
    "ctest": "ERROR: no such device\n100% tests passed, 0 tests failed out of 12\n",
    "unittest": "ERROR:root:disk failure simulated\n.\nRan 2 tests in 0.001s\n\nOK\n",
    "an optional package": f"import error: No module named 'liger'\n{PLAIN}",
    "an optional package, and steps": f"import error: No module named 'liger'\n{STEPS}",
    "E of TensorFlow": "2026-01-02 10:00:00.000000: E external/a.cc:7] Unable"
    " to find a plan for the convolution\n"
    + "".join(f"Epoch {epoch}/9\n 157/157 - 2s 10ms/step - loss: 0.4\n" for epoch in (1, 2, 3)),
    "E of glog": f"E0000 00:00:1767348000.000000    1001 a.cc:7] no plugin\n{STEPS}",
    "pip's resolver": "ERROR: pip's dependency resolver does not take this into account.\n"
    "job 1.0 requires part==0.2.1, but you have part 0.8.3 which is incompatible.\n"
    "Successfully installed part-0.8.3\n",
    "a service that starts": "ERROR 01-01 10:00:00 [plugins.py:3] no plugin of that name\n"
    "INFO:     Application startup complete.\n",
    "a rebuild": "client (webpack 5.0.0) compiled with 1 error\n"
    "client (webpack 5.0.0) compiled successfully\n",
    "answers of a model": f"**The problem cannot be solved, for an answer is missing.**\n{STEPS}",
    "a trainer": "LoRA checkpoint None not found; training from base model.\n"
    "{'train_runtime': '50.0', 'train_samples_per_second': '4.0', 'train_loss': '1.2'}\n",
    "an upload": f"2025-01-01 10:00:00,123 ERROR up.py: could not upload the metrics\n{STEPS}",
    "the end of a training": "ERROR: no swap space\ntraining has finished\nsaved model.pt\n",
    "a known failure that is a warning here": "[WARNING] DEVICE(1,ffff,python):2025-01-01-10:00:00"
    ".000.000 [a.cc:1] Load] Malloc device memory failed, may be other processes occupying this"
    f" card\n{STEPS}",
    "训练": "ERROR: no swap space\n训练完成\n",
}
# Part of the run may have failed, or an earlier run in the file.
GRAVE = {
    "after an exception, an end": f"{TRACEBACK}{STEPS}Training completed in 0.2 hours\n",
    "long after an exception": f"{TRACEBACK}{STEPS}" + PLAIN * 300 + STEPS.replace("/ ", "1/ "),
    "later by the clock": f"2025-01-01 10:00:00,123 start\n{TRACEBACK}"
    + "".join(f"2025-01-01 10:0{step}:00,1 INFO step {step} loss 0.5\n" for step in range(2, 6)),
    "an earlier launch": "train.py: error: argument --name: expected one argument\n"
    f"{STEPS}{PLAIN * 200}{STEPS.replace('5000', '6000')}Training finished\n",
}
STANDS = {
    "what was not flushed": f"{TRACEBACK}{STEPS}",
    "nothing": TRACEBACK,
    "words at the end": f"{STEPS}the socket was closed: connection refused\n",
    "few lines after words": "cannot find the tokenizer\nloading\nloading\n",
    "an error after the end": f"{STEPS}Training finished\nSegmentation fault (core dumped)\n",
    "another process": f"{TRACEBACK}worker 1 exited with code 0\n",
    "tests that fail": "ERROR    svc:client.py:4 refused\n== 1 failed, 5 passed in 0.65s ==\n",
    "a level, and few steps": "ERROR: the device is lost\n" + STEPS.split("\n")[0] + "\n",
    "a step that does not come again": "ERROR: the device is lost\n"
    + " iteration 7/ 10 | lm loss: 2.3 |\n" * 5,
    "another failure": f"ERROR: no plugin\n{STEPS}{TRACEBACK}",
    "torchrun's summary": "train.py FAILED\nRoot Cause (first observed failure):\n[0]:\n"
    "  rank      : 3 (local_rank: 3)\n  exitcode  : 1 (pid: 8)\n" + STEPS + "Training finished\n",
    "not yet": "ERROR: the device is lost\nwaiting until the training is done\n",
}


@pytest.mark.parametrize("text", HARMLESS.values(), ids=HARMLESS)
def test_what_a_run_got_over_accuses_nobody(text: str) -> None:
    seen = of_text(text)
    assert answer(seen) == "none"
    assert seen.outlived_lines >= len(seen.outlived) >= 1
    assert not seen.error_lines


@pytest.mark.parametrize("text", GRAVE.values(), ids=GRAVE)
def test_a_run_that_got_over_something_grave_is_not_fine(text: str) -> None:
    seen = of_text(text)
    assert (answer(seen), seen.outcome, seen.exit_code) == ("none", "could not tell", 3)
    assert seen.outlived
    assert seen.guilty is None


@pytest.mark.parametrize("text", STANDS.values(), ids=STANDS)
def test_what_may_have_ended_a_run_stands(text: str) -> None:
    seen = of_text(text)
    assert answer(seen) == "unknown"
    assert not seen.outlived


def test_who_ended_badly_is_not_done() -> None:
    end = 'level=info msg="retCode 255 has been written"\ntraining is completed\n'
    assert answer(of_text(f"{STEPS}{TRACEBACK}{end}")) == "unknown"
    assert answer(of_text(f"{STEPS}{TRACEBACK}the job is finished\n")) == "none"


def test_a_server_that_answers_on_has_got_over_a_request() -> None:
    served = 'INFO:     127.0.0.1:40000 - "POST /v1/chat/completions HTTP/1.1" 200 OK\n'
    seen = of_text(f"{TRACEBACK}{served * 3}")
    assert (answer(seen), seen.outcome) == ("none", "could not tell")
    watched = of_text(f"{TRACEBACK}{served.replace('POST', 'GET') * 3}")
    assert answer(watched) == "unknown"


def test_an_error_that_the_run_got_over_is_fine() -> None:
    seen = of_text(HARMLESS["a test that raises"])
    assert (seen.outcome, seen.exit_code) == ("nothing known found", 0)
    assert seen.outlived[0].text == "ValueError: shapes (3, 4) and (5,) cannot be joined"


def test_every_log_that_complains_has_to_get_over_it() -> None:
    harmless = f"ERROR: no plugin\n{STEPS}"
    both = of_files({"rank_0.log": harmless, "rank_1.log": TRACEBACK})
    assert answer(both) == "unknown"
    assert not both.outlived
    assert answer(of_files({"rank_0.log": harmless, "rank_1.log": harmless})) == "none"


def test_the_good_end_of_one_log_is_that_of_a_rank_that_prints_nothing_more() -> None:
    end = f"{STEPS}training finished\n"
    assert answer(of_files({"rank_0.log": end, "rank_1.log": "ERROR: no plugin\n"})) == "none"
    grave = of_files({"0/stdout.log": end, "0/stderr.log": TRACEBACK, "1/stderr.log": TRACEBACK})
    assert (answer(grave), grave.outcome) == ("none", "could not tell")
    died = of_files({"rank_0.log": end, "rank_1.log": f"{TRACEBACK}Segmentation fault\n"})
    assert answer(died) == "unknown"


def test_what_a_log_says_before_its_end_is_no_end_of_the_job() -> None:
    for text in (f"training finished\n{STEPS}{PLAIN}", "evaluation finished\n", "initialised\n"):
        assert answer(of_files({"rank_0.log": text, "rank_1.log": TRACEBACK})) == "unknown"


def test_a_known_failure_that_the_run_got_over_is_no_cause() -> None:
    oom = "RuntimeError: NPU out of memory. Tried to allocate 3.47 GiB (NPU 0; 60 GiB total)\n"
    assert of_text(f"{oom}{STEPS}").causes[0].id == "npu-oom-torch"
    assert of_text(f"{oom}== 5 passed in 3.1s ==\n").outcome == "nothing known found"
    assert of_text(f"{oom}{STEPS}Training finished\n").outcome == "could not tell"


def test_what_degrades_a_run_is_not_outlived() -> None:
    seen = of_text(f"{{'loss': 0.0, 'grad_norm': nan}}\n{STEPS}Training finished\n")
    assert seen.causes[0].severity == "degraded"


def test_a_log_that_is_full_of_errors_has_not_got_over_them() -> None:
    text = "".join(f"ERROR: plugin {number} is gone\n" for number in range(1100))
    assert answer(of_text(f"{text}{STEPS}Training finished\n")) == "unknown"


@pytest.mark.parametrize(
    ("error", "root"),
    [
        ("", "none"),
        ("import error: No module named 'liger'\n", "unknown"),
        ("ERROR    svc:client.py:4 refused\n", "unknown"),
        ("tee: logs/train.log: No such file or directory\n", "tee-file-unwritable"),
    ],
)
def test_what_ended_badly_got_over_nothing(tmp_path: Path, error: str, root: str) -> None:
    log = tmp_path / "train.log"
    log.write_text(f"{error}{STEPS}")
    named, skipped = find((str(log),))
    ended = {
        status: reader(JobOptions(exit_status=status)).diagnose(named, skipped) for status in (0, 1)
    }
    assert answer(ended[1]) == root
    assert ended[1].exit_code != 0
    assert not ended[1].outlived
    assert ended[0].exit_code == 0
    if not error:
        assert "It ended with 1, and no line of the logs says why." in page.render(ended[1])
