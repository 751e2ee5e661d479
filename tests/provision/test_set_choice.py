"""A question is answered by the nearest set that somebody ran, else by pairs."""

from dataclasses import replace

import pytest

from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.sets import PinnedSet
from ascend_doctor.provision.request_ranges import StackRequest
from ascend_doctor.provision.set_choice import Answer, SetSearch
from ascend_doctor.provision.solve import SolveQuery, solve
from tests.conftest import Command

CATALOG = Catalog()
A2, A3 = {"soc": "ascend910b"}, {"soc": "ascend910_93"}


def ask(framework: str | None, *additions: str, **machine: str) -> Answer | None:
    request = StackRequest(framework=framework, additions=additions)
    query = SolveQuery(wishes=request.ranges(CATALOG), machine={**A2, **machine})
    return SetSearch(CATALOG, query, request, solve).answer()


@pytest.mark.slow
@pytest.mark.parametrize("row", CATALOG.sets, ids=lambda row: row.id)
def test_a_set_is_among_the_answers_to_its_own_question_and_fits_no_other_chip(
    row: PinnedSet,
) -> None:
    framework = f"{row.framework}=={row.version}" if row.version else row.framework
    request = StackRequest(framework=framework)
    for family in CATALOG.families:
        machine = {"soc": family.id, "cann": row.pins.get("cann", "9.0.0")}
        if row.arch:
            machine["arch"] = row.arch[0]
        query = SolveQuery(wishes=request.ranges(CATALOG), machine=machine)
        fitting, _ = SetSearch(CATALOG, query, request, solve).sets()
        assert (row in fitting) == (
            family.id in row.families or (not row.families and family.training)
        )


def test_pins_of_the_set_are_kept_and_the_rest_is_solved() -> None:
    answer = ask("ms-swift==4.2.3")
    assert answer
    assert answer.chosen
    versions = answer.solution.versions
    pins = {name: pin for name, pin in answer.chosen.pins.items() if name in versions}
    assert pins.items() <= versions.items()
    assert versions.keys() > pins.keys()
    assert versions["mcore-bridge"]


def test_what_differs_from_the_set_is_told() -> None:
    answer = ask("ms-swift==4.1.0", cann="8.5.0", python="3.10")
    assert answer
    assert "cann 8.5.0 instead of 8.5.1" in answer.differences
    assert "ms-swift 4.1.0 instead of 4.1.3" in answer.differences


def test_a_named_addition_that_no_set_has_gives_a_mix_that_says_so() -> None:
    answer = ask("verl==0.7.1", "transformers==5.0.0", "torch==2.8.0", "no-such-package")
    assert answer
    assert answer.chosen is None
    assert any("transformers 4.57.6" in text for text in answer.differences)
    assert "nothing is known of no-such-package" in answer.differences
    other = ask("verl==0.8.0", "sglang==0.5.10")
    assert other
    assert other.chosen
    assert other.chosen.others["sglang"] == "0.5.10"


def test_setup_takes_no_set_whose_packages_refuse_each_other() -> None:
    request = StackRequest(framework="verl==0.9.0")
    query = SolveQuery(wishes=request.ranges(CATALOG), machine=A3)
    shown = SetSearch(CATALOG, query, request, solve).answer()
    assert shown
    assert shown.forced or shown.chosen is None or shown.solution
    built = SetSearch(CATALOG, query, request, solve).build()
    assert built is None or not built.forced
    other = replace(query, machine={"soc": "ascend310p"})
    assert SetSearch(CATALOG, other, request, solve).build() is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "texts"),
    [
        ("--framework ms-swift --on soc=A2 --on cann=8.5", 0, ["for: Atlas A2", "set: ", "Next: "]),
        ("--megatron 0.15.3 --on soc=910B", 0, ["for: Atlas A2", "megatron-lm core_v0.15.3"]),
        ("--framework roll --on soc=910C -v", 0, ["for: Atlas A3", "source: "]),
        ("--on driver=25.0.RC1 --on cann=9.1.0 --anywhere", 1, ["cann 9.1.0 needs driver"]),
        (
            "--framework ms-swift==4.1.0 --on soc=A2",
            0,
            ["Next: ascend-doctor matrix show ms-swift"],
        ),
        ("--framework LlamaFactory=0.9.4 --on soc=A3", 0, ["set: LLaMA-"]),
        ("--with vllm==0.15.0 --on soc=A2", 0, ["vllm-ascend 0.15.0rc1"]),
        ("--framework swift", 2, ["did you mean ms-swift?"]),
        ("--megatron 0.15.3 --on cann=7.9", 2, ["no such version"]),
    ],
)
def test_questions_as_typed(doctor: Command, words: str, code: int, texts: list[str]) -> None:
    done = doctor("matrix", "solve", *words.split())
    assert done.returncode == code, done.stderr
    for text in texts:
        assert text in done.stdout + done.stderr
    assert len(done.stdout.splitlines()) <= 10 or "-v" in words


def test_packages_and_sets_have_pages(doctor: Command) -> None:
    page = doctor("explain", "torch_npu==2.7.1.post2").stdout
    assert "cann ==8.5.0" in page
    assert "matrix show torch-npu==2.7.1.post2" in page
    assert (
        "  torch-npu              2.8.0.post2"
        in doctor("matrix", "show", "roll-0.3.0-cann-8.5.1").stdout
    )
    assert "set: ms-swift-4.2.3-guide" in doctor("matrix", "why", "ms-swift==4.2.3", "cann").stdout


@pytest.mark.parametrize(
    ("text", "family", "chip"),
    [
        ("A2", "ascend910b", "Ascend910B1"),
        ("910B", "ascend910b", "Ascend910B1"),
        ("Ascend910B", "ascend910b", "Ascend910B1"),
        ("910B3", "ascend910b", "910B3"),
        ("910C", "ascend910_93", "Ascend910_9391"),
        ("Atlas 800T A3", "ascend910_93", "Ascend910_9391"),
        ("A5", "ascend950", "Ascend950PR_9579"),
        ("910A", "ascend910", "910A"),
        ("H200", "", "H200"),
    ],
)
def test_chips_are_called_as_people_do(text: str, family: str, chip: str) -> None:
    called = CATALOG.family_called(text)
    assert (called.id if called else "") == family
    assert CATALOG.chip_called(text) == chip
