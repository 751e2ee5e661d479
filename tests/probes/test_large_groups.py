from pathlib import Path

from tests.probes.started import start_probe


def test_members_in_large_worlds(forked_megatron: Path) -> None:
    (rank,) = start_probe(forked_megatron, "large-groups").ranks
    assert (rank.ok, rank.wrong) == (True, ())
    assert rank.values["layouts"][-1] == "TP8 PP8 EP4 CP2 ETP1 on 256"
    # Ten kinds of groups of three ranks in five worlds.
    assert rank.compared == 150


def test_the_layout_that_is_asked_for(forked_megatron: Path) -> None:
    sizes = (("tp", 2), ("ep", 4))
    (rank,) = start_probe(forked_megatron, "large-groups", sizes=sizes).ranks
    assert rank.values["layouts"] == ["TP2 EP4 on 8", "TP2 EP4 on 32"]
    assert rank.compared == 60


def test_a_missing_member_is_found(forked_megatron: Path) -> None:
    fault = "rank=0,stage=TP8 PP4 on 64,do=value"
    (rank,) = start_probe(forked_megatron, "large-groups", fault=fault).ranks
    assert {wrong.what.split(", ")[1] for wrong in rank.wrong} == {"TP8 PP4"}


def test_parallel_groups_of_the_layout_that_is_asked_for(forked_megatron: Path) -> None:
    run = start_probe(forked_megatron, "parallel-groups", ranks=2, sizes=(("pp", 2),))
    assert [list(rank.values["layouts"]) for rank in run.ranks] == [["PP2"]] * 2
