import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.errors import DataError
from ascend_doctor.judging.expectations import (
    CHECKS,
    KEYS,
    Expectation,
    over,
    parse,
    parse_expectations,
)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("npus=8", "npus=8"),
        ("npus==8", "npus=8"),
        (" npus >= 8 ", "npus>=8"),
        ("SOC=910B3", "soc=910B3"),
        ("links=up", "links=up"),
        ("driver>=24.1.rc1", "driver>=24.1.rc1"),
        ("cann=8.5.X", "cann=8.5.X"),
        ("torch_npu=2.7.1.post4", "torch-npu=2.7.1.post4"),
        ("megatron-core<0.16", "megatron<0.16"),
        ("mindspeed!=core_r0.15.3", "mindspeed!=core_r0.15.3"),
    ],
)
def test_an_expectation_is_a_key_an_operator_and_a_value(text: str, same: str) -> None:
    assert parse(text).text == same


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the keys are npus, soc"),
        ("npus", "in a shell quote it: 'npus>="),
        ("cards=8", "no such key; the keys are npus"),
        ("npus=eight", "npus takes a number"),
        ("npus=-1", "npus takes a number"),
        ("npus~=8", "the keys are"),
        ("soc>910B3", "soc takes = and !="),
        ("links=down", "links=up is all"),
        ("links!=up", "links=up is all"),
        ("driver>=new", "no Ascend version"),
        ("torch>=", "the keys are"),
        ("torch>=x", "no range of Python versions"),
        ("mindspeed>=core_r0.15.3", "no choice of git refs"),
        ("cann=" + "9" * 200, "the keys are"),
    ],
)
def test_what_is_none_is_refused_with_the_keys_or_the_reason(text: str, words: str) -> None:
    with pytest.raises(DataError, match=words):
        parse(text)


def test_the_last_source_that_has_a_key_counts() -> None:
    preset, site, options = (
        parse_expectations(texts, "here")
        for texts in (["npus>=1"], ["npus>=4", "npus<=8", "cann>=8.5.0"], ["npus=0"])
    )
    assert [expectation.text for expectation in over(preset, site)] == [
        "npus>=4",
        "npus<=8",
        "cann>=8.5.0",
    ]
    assert [expectation.text for expectation in over(preset, site, options)] == [
        "npus=0",
        "cann>=8.5.0",
    ]
    assert over(preset) == preset


def test_every_key_has_a_check_with_a_page() -> None:
    pages = {check.id: check.explain for check in all_checks()}
    assert {key.check for key in KEYS.values()} == set(CHECKS)
    assert all("--expect" in pages[name] for name in CHECKS)


def test_a_range_of_versions_is_written_as_the_versions_module_takes_it() -> None:
    assert Expectation(key="cann", operator="=", value="8.5.X").versions == "==8.5.X"
