import importlib.util
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.fleet.engine import Job, Silent
from ascend_doctor.fleet.ray_cluster import choose_nodes
from ascend_doctor.fleet.ray_engine import RayEngine, Told


def row(number: int, **differs: Any) -> dict[str, Any]:
    """As ``ray.nodes()`` lists it."""
    return {
        "NodeID": f"{number:08x}{0:048x}",
        "Alive": True,
        "NodeManagerAddress": f"10.0.0.{number}",
        "NodeManagerHostname": f"host{number}",
        "NodeName": f"10.0.0.{number}",
        "Resources": {"CPU": 1.0, "NPU": 8.0},
        **differs,
    }


def job(*nodes: str, count: int | None = None) -> Job:
    return Job(folder="/f", check=(), deadline=9, nodes=nodes, count=count)


def names(*listed: dict[str, Any], request: Job | None = None) -> list[str]:
    return [node.name for node in choose_nodes(listed, request or job())[0]]


def test_nodes_are_called_as_their_hosts() -> None:
    assert names(row(2), row(1)) == ["host1", "host2"]


def test_a_name_that_was_given_counts_more() -> None:
    assert names(row(1, NodeName="left")) == ["left"]


def test_hosts_of_one_name_are_told_apart() -> None:
    same = [row(number, NodeManagerHostname="vm") for number in (1, 2)]
    assert names(*same) == ["10.0.0.1", "10.0.0.2"]
    twins = [row(number, NodeName="a/b") for number in (1, 2)]
    assert names(*twins) == ["a_b-00000001", "a_b-00000002"]


def test_a_name_is_no_path() -> None:
    assert names(row(1, NodeName="../../etc/x")) == ["_.._etc_x"]


def test_the_head_without_npus_is_left_out_where_others_have_some() -> None:
    head = row(1, Resources={"CPU": 4.0})
    assert names(head, row(2)) == ["host2"]
    assert names(head) == ["host1"]


def test_dead_nodes_are_not_checked() -> None:
    assert names(row(1, Alive=False), row(2)) == ["host2"]


def test_wanted_nodes_keep_the_names_that_the_user_gave() -> None:
    nodes, absent = choose_nodes([row(1), row(2)], job("host2", "10.0.0.1", "host3"))
    assert [node.name for node in nodes] == ["host2", "10.0.0.1"]
    assert absent == ("host3",)


def test_fewer_nodes_than_wanted_is_no_verdict() -> None:
    assert names(row(1), row(2), request=job(count=1)) == ["host1"]
    with pytest.raises(DataError, match="1 nodes can be checked, and 2 are wanted"):
        choose_nodes([row(1)], job(count=2))
    with pytest.raises(DataError, match="0 nodes"):
        choose_nodes([], job())


def test_without_ray_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(DataError, match=r"pip install 'ascend-doctor\[ray\]'"):
        RayEngine(None).run(job())


def test_nodes_that_a_dead_driver_left_out_are_silent(tmp_path: Path) -> None:
    (tmp_path / "done.json").write_text("{}")
    answers = [Told(nodes=("done", "busy", "lost")), Told(silent=Silent("busy", "busy"))]
    asked = Job(folder=str(tmp_path), check=(), deadline=9)
    silent = RayEngine("a:1")._outcome(answers, asked, ended=True, last="Aborted")
    assert silent == (
        Silent("busy", "busy"),
        Silent("lost", "Ray's driver ended before it reported: Aborted"),
    )
    with pytest.raises(DataError, match="no answer within 9 s"):
        RayEngine("a:1")._outcome([], asked, ended=False, last="")
