"""What a text that leaves for good may say."""

import pytest

from ascend_doctor.redact import Redactor


def clean(text: str) -> str:
    hidden = Redactor()
    hidden.strict = True
    return hidden.apply(text)


@pytest.mark.parametrize(
    "text",
    [
        "iteration 100/ 500 | elapsed time per iteration (ms): 812.4 | lm loss: 8.563",
        "> context-parallel size 2 on rank4: Qwen2ForCausalLM layer3 bf16 [TP0] worker-0",
        "EI0006: getting socket times out, PTA error ERR02200 at 0x7f3c90aa1b2c",
        "allocate 68719476736 bytes; optimizer.py; plog-8812_20261128112233445.log",
    ],
)
def test_lines_of_software_stay(text: str) -> None:
    assert clean(text) == text


@pytest.mark.parametrize(
    "name",
    [
        "risk-control",
        "Grace Winter",
        "7402 9163 55",
        "panxiaoyu",
        "CUST_LY0815",
        "npu_lab4_excl",
        "OPS-4412",
        "CC-7714-0938",
        "E0049417",
        "gz-a2-57",
        "w00487123",
        "gz.example-lab.net",
        "吴建国",
        r"\u5434\u5efa",
    ],
)
def test_other_names_do_not(name: str) -> None:
    text = clean(f"loss at /share/{name}/train.py")
    assert text.startswith("loss at /share/")
    assert name not in text


@pytest.mark.parametrize("text", ["node-3 slots=8\n11.54.208.77 slots=8", "the code is 834 019."])
def test_numbers_that_lead_somewhere_are_hidden(text: str) -> None:
    assert not {"11.54.208.77", "834"} & {*clean(text).split()}
