from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.planning.layout import Layout
from ascend_doctor.probe_results import ProbeResult, ProbeRun
from ascend_doctor.render.layouts import MOST_RANKS, Picture, layouts, picture


def cells(made: Picture) -> dict[str, list[str]]:
    return {
        f"{row.title} ({row.size})": [layout_cell.text for layout_cell in row.cells]
        for row in made.rows
    }


def run_of(probe: str, names: Any, *, ranks: int = 8, per_node: int = 8) -> ProbeRun:
    return ProbeRun(
        probe=probe,
        world_size=ranks,
        ranks=tuple(
            ProbeResult(rank=rank, host=f"h{rank // per_node}", values={"layouts": names})
            for rank in range(min(ranks, 16))
        ),
    )


def test_ranks_of_one_group_share_a_number_and_a_colour() -> None:
    made = picture(Layout(npus=8, tp=2, ep=4, etp=1))
    assert cells(made) == {
        "tensor (TP 2)": ["0", "0", "1", "1", "2", "2", "3", "3"],
        "data (DP 4)": ["0", "1", "0", "1", "0", "1", "0", "1"],
        "expert (EP 4)": ["0", "0", "0", "0", "1", "1", "1", "1"],
        "expert data (EDP 2)": ["0", "1", "2", "3", "0", "1", "2", "3"],
    }
    for row in made.rows:
        assert len({layout_cell.hue for layout_cell in row.cells}) == len(
            {layout_cell.text for layout_cell in row.cells}
        )


def test_nodes_have_an_edge() -> None:
    made = picture(Layout(npus=8, tp=2), per_node=4)
    assert made.nodes == [("node 0", 4), ("node 1", 4)]
    assert [layout_cell.side for layout_cell in made.rows[0].cells] == [
        "",
        "",
        "",
        "",
        "begins",
        "",
        "",
        "",
    ]


def test_a_large_layout_is_cut_and_says_so() -> None:
    made = picture(Layout(npus=4096, tp=8, pp=8))
    assert (len(made.ranks), made.more) == (MOST_RANKS, 4096 - MOST_RANKS)
    assert all(len(row.cells) == MOST_RANKS for row in made.rows)


def test_what_probes_tried_stands_once() -> None:
    runs = (
        run_of("parallel-groups", {"TP2": {}, "TP2 EP4 ETP1": {}}, per_node=4),
        run_of("smoke-train", {"TP2 EP4 ETP1": {}, "no parallelism but DP": {}}, per_node=4),
        run_of("bandwidth", {"TP4": {}}),
    )
    pictures = list(layouts(runs))
    assert [(row.name, row.note) for row in pictures] == [
        ("TP2", "parallel-groups"),
        ("TP2·EP4·ETP1", "parallel-groups, smoke-train"),
        ("DP8", "smoke-train"),
    ]
    assert pictures[0].nodes == [("node 0", 4), ("node 1", 4)]


@given(
    names=st.dictionaries(st.text(max_size=12) | st.from_regex(r"(TP|EP|PP)[0-9]{1,9}"), st.none())
    | st.integers(),
    ranks=st.integers(-1, 10**12),
)
def test_no_record_raises(names: Any, ranks: int) -> None:
    for drawing in layouts((run_of("smoke-train", names, ranks=ranks),)):
        assert drawing.rows
