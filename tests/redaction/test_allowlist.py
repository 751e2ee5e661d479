"""What a text that leaves for good may say."""

import pytest

from ascend_doctor.redact import Redactor


def clean(text: str, *, whole_lines: bool = False) -> str:
    hidden = Redactor()
    hidden.strict, hidden.whole_lines = True, whole_lines
    return hidden.apply(text)


@pytest.mark.parametrize(
    "text",
    [
        "iteration 100/ 500 | elapsed time per iteration (ms): 812.4 | lm loss: 8.563871E+00",
        "> context-parallel size 2 on rank4: Qwen2ForCausalLM layer3 bf16 [TP0] worker-0",
        "EI0006: getting socket times out, PTA error ERR02200 at 0x7f3c90aa1b2c",
        "http://127.0.0.1:8080 is up",
        "allocate 68719476736 bytes; iter_0000100/mp_rank_00; plog-8812_20261128112233445.log",
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


@pytest.mark.parametrize(
    "text",
    [
        "node-3 slots=8\n11.54.208.77 slots=8",
        "at 011.54.208.077 ip: 0x0b36d04d ip%3D11%2E54%2E208%2E77",
        "the code is 834 019.",
    ],
)
def test_numbers_that_lead_somewhere_are_hidden(text: str) -> None:
    assert not {
        "11.54.208.77",
        "011.54.208.077",
        "0x0b36d04d",
        "ip%3D11%2E54%2E208%2E77",
        "834",
    } & {*clean(text).split()}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("paged @momo_of_infra, bridge code 8340, locker B7-19", ("8340", "B7-19")),
        ("asked MacAskill, Linden Wharf, 12 Foundry Row", ("Linden", "Wharf", "Foundry")),
    ],
)
def test_a_line_that_tells_of_somebody_keeps_only_our_words(
    text: str, shown: tuple[str, ...]
) -> None:
    cleaned = clean(text, whole_lines=True)
    assert not [word for word in shown if word in cleaned]
    assert cleaned.startswith(text[:5])


@pytest.mark.parametrize(
    "text",
    [
        '[rank3]:   File "/home/w00487123/train.py", line 1312, in main',
        "2026-11-28 10:22:33,123 user w00487123: iteration 1200/ 5000 | lm loss: 8.34E+00",
        "(TaskRunner pid=4127) w00487123 at 10.1.1.7: rank 12 failed, exit code 137",
    ],
)
def test_what_programs_count_stays_beside_somebody(text: str) -> None:
    cleaned = clean(text.replace("10.1.1.7", "node"), whole_lines=True)
    assert [word for word in text.split() if word not in cleaned.split()] in (
        ['"/home/w00487123/train.py",'],
        ["w00487123:"],
        ["w00487123", "10.1.1.7:"],
    )


def test_a_text_is_cleaned_anew_where_more_is_to_be_hidden() -> None:
    hidden = Redactor()
    assert hidden.apply("loss of pretty-maple") == "loss of pretty-maple"
    hidden.strict = True
    assert "maple" not in hidden.apply("loss of pretty-maple")
