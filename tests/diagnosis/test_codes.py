"""A code of the runtime or the error manager is a code in any wording; other numbers are not."""

import pytest

from tests.diagnosis.logs import answer, of_text

WORDINGS = (
    "aclInit failed, error code 107001",
    "aclInit, error code is 107001",
    "open device: ret=107001",
    "open device: drvRet[107001]",
    "open device returned status 107001",
    "errno: 107001 of the runtime",
    "aclInit stopped (107001)",
    "call to rtSetDevice [107001]",
    "启动失败 返回码为107001",
)
NUMBERS = (
    "step 107001 loss 0.5",
    "global_step:507018 - perf/total_num_tokens:207001",
    "consumed samples: 107001 | elapsed time 507018.0",
    "listening on port 50701, pid=507018",
    "size: 207001 bytes, default 507018, barcode 507015",
    "loaded 107001 samples (507018 tokens)",
    "checkpoint EI0006x was written, model E10001 is ready",
)


@pytest.mark.parametrize("text", WORDINGS)
def test_a_code_beside_a_word_for_one_is_known(text: str) -> None:
    seen = of_text(f"{text}\n")
    assert answer(seen) == "set-device-107001"
    assert [code.code for code in seen.codes] == ["107001"]


@pytest.mark.parametrize("word", ["error", "errcode", "error code:", "code is", "status ="])
def test_a_code_of_the_error_manager_is_known(word: str) -> None:
    assert [code.code for code in of_text(f"stopped, {word} EE1001\n").codes] == ["EE1001"]


def test_numbers_of_a_healthy_log_are_not_codes() -> None:
    seen = of_text("\n".join((*NUMBERS, "{'loss': 0.1, 'epoch': 0.2}")) + "\n")
    assert (answer(seen), seen.codes, seen.exit_code) == ("none", (), 0)
