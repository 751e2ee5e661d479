import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.collect.hccl import parse_rank_table, rank_table
from ascend_doctor.facts import RankTable
from tests import samples

from .replayed import replay


def sample(name: str) -> str:
    return samples.read(f"hccl/{name}")


def test_without_the_variable_there_is_no_rank_table(tmp_path: Path) -> None:
    assert rank_table(replay(tmp_path)) == RankTable()


def test_the_rank_table_of_the_environment(tmp_path: Path) -> None:
    machine = replay(
        tmp_path,
        env={"RANK_TABLE_FILE": "/job/table.json"},
        files={"/job/table.json": sample("rank_table-a3-v1.2.json.txt")},
    )
    facts = rank_table(machine)
    assert (facts.path, facts.version, facts.problem) == ("/job/table.json", "1.2", None)
    assert [rank.rank for rank in facts.ranks] == [0, 1, 2, 3]
    assert msgspec.json.decode(msgspec.json.encode(facts), type=RankTable) == facts


def test_a_file_that_is_not_there_is_a_problem(tmp_path: Path) -> None:
    facts = rank_table(replay(tmp_path, env={"RANK_TABLE_FILE": "/job/table.json"}))
    assert facts.path == "/job/table.json"
    assert facts.problem is not None
    assert facts.problem.startswith("cannot be read")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "is not JSON"),
        ('{"version": "1.0", // mine\n"server_list": []}', "is not JSON"),
        ("[" * 100000, "is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"version": "1.0", "server_list": []}', "has no server_list"),
        ('{"server_list": [1, {"device": 2}], "rank_list": {}, "group_list": [[]]}', "has no"),
    ],
)
def test_a_broken_rank_table_says_why(text: str, problem: str) -> None:
    rank_table = parse_rank_table(text)
    assert rank_table.problem is not None
    assert rank_table.problem.startswith(problem)
    assert rank_table.ranks == ()


def test_values_that_are_no_numbers_are_unknown() -> None:
    device = {"device_id": "x", "rank_id": True, "device_ip": 5}
    text = json.dumps({"server_list": [{"server_id": "a", "device": [device]}]})
    (entry,) = parse_rank_table(text).ranks
    assert (entry.device, entry.rank, entry.address) == (None, None, None)


KEYS = (
    *("server_list", "rank_list", "group_list", "device", "devices", "instance_list"),
    *("level_list", "rank_addr_list", "super_pod_list", "net_layer", "rank_id"),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(KEYS), inner, max_size=4)
    ),
)


@pytest.mark.slow
@given(JSON)
def test_no_json_makes_the_rank_table_raise(value: object) -> None:
    parse_rank_table(json.dumps(value))


@given(st.text())
def test_no_text_makes_the_rank_table_raise(text: str) -> None:
    parse_rank_table(text)
