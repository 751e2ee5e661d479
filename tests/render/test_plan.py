import re

import pytest

from tests.conftest import Command
from tests.render.test_html import Page

SMALL = ("--model", "Qwen3-30B-A3B", "--npus", "16", "--soc", "910B3", "--layout", "TP2·PP2·EP4")


@pytest.fixture
def page(doctor: Command) -> str:
    return doctor("plan", *SMALL, "--format", "html").stdout


def test_the_page_is_whole_and_fetches_nothing(page: str) -> None:
    whole = Page(page)
    assert whole.fetched == ["data:,"]
    assert whole.ids == ["layouts", "ranking", "layout-1", "rules", "said"]
    assert whole.headings == [1, 2, 2, 2]


def test_it_has_the_picture_the_memory_and_the_options(page: str) -> None:
    rows = re.findall(r'<th scope="row">([^<]*)</th>', page)
    assert rows == [
        "rank",
        *("tensor (TP 2)", "pipeline (PP 2)", "data (DP 4)"),
        *("expert (EP 4)", "expert tensor (ETP 2)", "layers", "experts"),
        *("weights", "gradients", "optimizer", "activations", "HCCL buffers, at most"),
    ]
    for part in (">node 1<", ">0-23<", ">96-127<", "--expert-model-parallel-size 4", ">yes<"):
        assert part in page


def test_ranks_of_two_nodes_have_an_edge_between_them(page: str) -> None:
    assert page.count('class="begins"') == 7


def test_where_nothing_is_legal_the_rules_remain(doctor: Command) -> None:
    done = doctor("plan", "--model", "deepseek-v3", "--npus", "1", "--format", "html")
    assert done.returncode == 1
    assert Page(done.stdout).ids == ["layouts", "rules", "said"]
    assert "No layout satisfies every rule." in done.stdout
