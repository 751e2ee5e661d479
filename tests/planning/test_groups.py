import hashlib
import json
import random
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import folder
from ascend_doctor.planning.layout import DENSE, EXPERT, Layout, communicators, crossing, parse
from tests.planning.interpreters import HERE, run
from tests.programs import load_module

KINDS = (*DENSE, *EXPERT)
MOST = 4096


def draw_layout(choose: random.Random) -> Layout:
    """Any layout that divides its ranks, mostly a small one."""
    while True:
        sizes = [choose.choice((1, 1, 2, 3, 4, 5, 6, 8, 16, 32)) for _ in range(6)]
        tp, pp, cp, ep, etp, rest = sizes
        npus = tp * pp * cp * rest * choose.choice((1, ep, ep * etp))
        layout = Layout(npus=npus, tp=tp, pp=pp, cp=cp, ep=ep, etp=choose.choice((0, 1, etp)))
        if npus <= MOST and layout.divides:
            return layout


def topologies() -> list[Layout]:
    choose = random.Random(20261121)
    small = {draw_layout(choose): None for _ in range(420)}
    large = [
        Layout(npus=4096, tp=8, pp=16, ep=32, etp=1),
        Layout(npus=4096, tp=4, pp=8, cp=4, ep=64, etp=1),
        Layout(npus=4096),
        Layout(npus=3072, tp=8, pp=12, cp=2, ep=8, etp=1),
    ]
    return [*small, *large]


def digest(groups: object) -> str:
    return hashlib.sha256(json.dumps(groups).encode()).hexdigest()


def as_json(layouts: list[Layout]) -> list[object]:
    return [msgspec.to_builtins(layout) for layout in layouts]


def test_groups_are_those_of_megatrons_rank_generator(examined_python: Path) -> None:
    layouts = topologies()
    assert len(layouts) >= 300
    assert max(layout.npus for layout in layouts) == MOST
    answers = run(examined_python, HERE / "rank_groups.py", as_json(layouts))
    for layout, theirs in zip(layouts, answers, strict=True):
        ours = {name: digest(layout.groups(name)) for name in KINDS}
        assert ours == theirs, layout


def test_groups_are_those_that_megatron_builds(examined_python: Path) -> None:
    layouts = [layout for layout in topologies() if layout.npus <= 32][:60]
    assert len(layouts) > 30
    answers = run(examined_python, HERE / "process_groups.py", as_json(layouts))
    for layout, theirs in zip(layouts, answers, strict=True):
        agree(layout, theirs)


def test_groups_are_those_of_ranks_over_gloo(
    examined_python: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layouts = [
        Layout(npus=4, tp=2, pp=2),
        Layout(npus=4, tp=2, ep=2),
        Layout(npus=4, tp=2, ep=2, etp=1),
        Layout(npus=4, cp=2, ep=4),
    ]
    monkeypatch.setenv("LAYOUTS", json.dumps(as_json(layouts)))
    launcher = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "4")
    answers = run(examined_python, HERE / "process_groups.py", [], *launcher)
    for layout, theirs in zip(layouts, answers, strict=True):
        assert len(theirs) == 4
        agree(layout, theirs)


def agree(layout: Layout, theirs: dict[str, dict[str, list[int]]]) -> None:
    for rank, groups in theirs.items():
        for name, members in groups.items():
            ours = next(group for group in layout.groups(name) if int(rank) in group)
            assert list(ours) == members, (layout, name, rank)


@pytest.fixture(scope="module")
def of_probes() -> ModuleType:
    path = folder("probes") / "_layouts.py"
    return load_module(path, "probe_layouts")


@given(seed=st.integers(0, 1 << 32))
def test_probes_expect_the_same_groups(of_probes: ModuleType, seed: int) -> None:
    layout = draw_layout(random.Random(seed))
    if layout.npus > 64:
        return
    probed = of_probes.ProbeLayout(layout.tp, layout.pp, layout.ep, layout.cp, layout.etp or None)
    theirs = of_probes.groups(probed, layout.npus)
    names = {"dp_cp": "dp-cp", "mp": "tp-pp", "tp_ep": "etp-ep"}
    for name, groups in theirs.items():
        ours = layout.groups(names.get(name, name))
        assert sorted(list(group) for group in ours) == groups


@given(seed=st.integers(0, 1 << 32), kind=st.sampled_from(KINDS))
def test_every_rank_is_in_one_group_of_a_kind(seed: int, kind: str) -> None:
    layout = draw_layout(random.Random(seed))
    groups = layout.groups(kind)
    assert sorted(rank for group in groups for rank in group) == list(range(layout.npus))
    assert len({len(group) for group in groups}) == 1
    assert all(list(group) == sorted(group) for group in groups)


def test_what_crosses_a_node() -> None:
    assert crossing(Layout(npus=16, tp=2, ep=8), 16) == ()
    assert crossing(Layout(npus=16, tp=2, ep=8), 8) == ("dp", "ep")
    assert crossing(Layout(npus=16, tp=2, ep=8, etp=1), 8) == ("dp", "edp")
    assert crossing(Layout(npus=16, tp=2, pp=2), 8) == ("pp",)


def test_communicators_are_counted_once_a_kind() -> None:
    assert communicators(Layout(npus=1)) == 0
    assert communicators(Layout(npus=2, tp=2)) == 9
    assert communicators(Layout(npus=2)) == 6


@pytest.mark.parametrize("text", ["TP2·EP4", "tp=2,ep=4", "ep4 tp2", "Tp: 2 x EP: 4"])
def test_a_layout_is_read_as_people_write_it(text: str) -> None:
    assert parse(text, 8) == Layout(npus=8, tp=2, ep=4)


@pytest.mark.parametrize("text", ["", "TP", "TP0", "TP3", "XP2", "TP2 and more", "TP2·EP16"])
def test_what_is_no_layout_is_refused(text: str) -> None:
    with pytest.raises(DataError):
        parse(text, 8)


@given(st.text())
def test_any_text_is_a_layout_or_refused(text: str) -> None:
    try:
        layout = parse(text, 8)
    except DataError:
        return
    assert layout.divides
