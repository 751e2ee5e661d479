import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.models import Model, every, find, from_config
from ascend_doctor.planning.flags import FRAMEWORKS
from ascend_doctor.planning.layout import Layout
from ascend_doctor.planning.memory import GIB, TrainingRun
from ascend_doctor.planning.ranking import RankBudget, choice, choices, fewest
from ascend_doctor.planning.rules import LayoutQuery, broken
from tests.conftest import Command
from tests.present import present

CATALOG = Catalog()
ROW = find(CATALOG, "qwen3-30b-a3b")
ANYWHERE = RankBudget()


def query_of(
    model: Model = ROW, *, megatron: str = "", sequence: int = 4096, lora: int = 0
) -> LayoutQuery:
    run = TrainingRun(sequence=sequence, lora=lora)
    return LayoutQuery(model=model, run=run, megatron=megatron)


@pytest.mark.parametrize(("npus", "expected", "experts"), [(8, "TP2·EP4", 32), (16, "TP2·EP8", 16)])
def test_the_known_layouts_of_a_model_with_experts_come_first(
    npus: int, expected: str, experts: int
) -> None:
    first = choices(query_of(), npus, ANYWHERE)[0]
    assert (first.layout.name, first.experts, first.layout.edp) == (expected, experts, 1)


def test_every_legal_layout_satisfies_every_rule_and_is_listed_once() -> None:
    layouts = choices(query_of(), 16, ANYWHERE)
    assert len({layout.layout for layout in layouts}) == len(layouts)
    for layout in layouts:
        assert not list(broken(query_of(), layout.layout))
        assert layout.layout.dp * layout.layout.tp * layout.layout.pp * layout.layout.cp == 16


@pytest.mark.parametrize(
    ("layout", "query", "words"),
    [
        (Layout(npus=8, tp=8), query_of(), "key and value heads"),
        (Layout(npus=8, ep=3), query_of(), "divide the number of ranks"),
        (Layout(npus=8, tp=2, ep=2), query_of(lora=8), "LoRA on experts"),
        (Layout(npus=8, cp=4), query_of(sequence=4100), "2·CP divides"),
        (Layout(npus=128, pp=64), query_of(), "every pipeline stage"),
        (Layout(npus=8, ep=2), query_of(find(CATALOG, "qwen3-8b")), "without experts"),
        (Layout(npus=8, ep=1), query_of(find(CATALOG, "deepseek-v3")), "at most 128 experts"),
        (Layout(npus=8, cp=2), query_of(find(CATALOG, "qwen3.5-35b-a3b"), megatron="0.16.1"), "CP"),
    ],
)
def test_a_layout_that_breaks_a_rule_says_which(
    layout: Layout, query: LayoutQuery, words: str
) -> None:
    problems = list(broken(query, layout))
    assert any(words in rule.text for rule in problems)
    assert all(rule.source for rule in problems)


def test_newer_megatrons_take_more() -> None:
    wide = Layout(npus=8, tp=8, ep=8, etp=1)
    assert list(broken(query_of(megatron="0.15.3"), wide))
    assert not list(broken(query_of(megatron="0.16.1"), wide))


def test_what_fits_comes_before_what_does_not_and_recomputation_is_tried() -> None:
    small = choices(query_of(), 8, RankBudget(memory=40 * GIB))
    order = [{True: 0, None: 1, False: 2}[layout.fits] for layout in small]
    assert order == sorted(order)
    model = find(CATALOG, "qwen3-8b")
    long = query_of(model, sequence=32768, lora=8)
    ranked = choice(long, Layout(npus=8, tp=4), RankBudget(memory=40 * GIB))
    assert ranked.fits
    assert ranked.memory.recompute


def test_what_is_too_near_to_the_memory_is_not_said_to_fit() -> None:
    layout = Layout(npus=8, tp=4, ep=8, etp=1)
    again = choice(query_of(), layout, RankBudget(memory=GIB)).memory.total
    for room, fits in ((1.2, True), (1.1, None), (1.003, None), (0.99, False)):
        ranked = choice(query_of(), layout, RankBudget(memory=again * room))
        assert ranked.fits is fits, room
        assert ranked.memory.recompute


@pytest.mark.parametrize("name", ["qwen2.5-0.5b", "qwen3-8b", "qwen3-30b-a3b"])
@pytest.mark.parametrize("lora", [0, 8])
def test_the_fewest_that_fit_are_counted(name: str, lora: int) -> None:
    query, room = query_of(find(CATALOG, name), lora=lora), RankBudget(memory=60 * GIB)
    least = next(
        n for n in (1, 2, 4, 8, 16, 32) if any(layout.fits for layout in choices(query, n, room))
    )
    assert fewest(query, room, 4096) == least
    assert fewest(query, RankBudget(memory=GIB), 64) == 64


def test_nodes_are_not_crossed_where_there_is_another_way() -> None:
    first = choices(query_of(), 16, RankBudget(per_node=8))[0]
    assert not {"tp", "ep", "cp"} & set(first.crosses)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_every_framework_is_told_the_same_sizes(name: str) -> None:
    ranked = choice(query_of(), Layout(npus=16, tp=2, pp=2, ep=4, etp=1), ANYWHERE)
    text = " ".join(FRAMEWORKS[name](query_of(), ranked)).replace("-", "_")
    expected = {"tp": 2, "pp": 2, "ep": 4, "etp": 1}
    long = {"tp": "tensor_model", "pp": "pipeline_model", "ep": "expert_model"}
    for short, size in expected.items():
        key = (
            f"{short}_size" if name == "twinkle" else f"{long.get(short, 'expert_tensor')}_parallel"
        )
        assert re.search(rf"\b(\w+\.)*_*{key}\w*[= ]{size}\b", text), (short, text)


def test_layers_that_do_not_divide_are_said() -> None:
    query = query_of(find(CATALOG, "deepseek-v3"))
    ranked = choice(query, Layout(npus=64, pp=16, ep=4), ANYWHERE)
    assert "--decoder-last-pipeline-num-layers 1" in FRAMEWORKS["megatron"](query, ranked)


# --- a config.json


CONFIG: dict[str, Any] = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_hidden_layers": 48,
    "vocab_size": 151936,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "tie_word_embeddings": False,
}


def test_a_configuration_gives_the_row() -> None:
    model = from_config(CONFIG, title="x")
    names = [name for name in Model.__struct_fields__ if name not in {"id", "title", "names"}]
    same = [name for name in names if name != "sources"]
    assert [getattr(model, name) for name in same] == [getattr(ROW, name) for name in same]


@pytest.mark.parametrize("missing", ["hidden_size", "num_hidden_layers", "vocab_size"])
def test_a_configuration_without_a_size_says_which(missing: str) -> None:
    with pytest.raises(DataError, match=missing):
        from_config({**CONFIG, missing: None}, title="x")


SIZES = st.one_of(
    st.none(), st.integers(-(1 << 70), 1 << 70), st.text(max_size=4), st.booleans(), st.floats()
)


@given(st.dictionaries(st.sampled_from([*CONFIG, "kv_lora_rank", "text_config"]), SIZES))
def test_any_configuration_is_read_or_refused(config: dict[str, Any]) -> None:
    try:
        model = from_config({**config}, title="x")
    except DataError:
        return
    assert model.layers > 0


# --- the command


def test_the_command_ranks_and_explains(doctor: Command) -> None:
    done = doctor("plan", "--model", "Qwen/Qwen3-30B-A3B", "--npus", "16")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^ +1 TP4·CP2·EP8·ETP1 +.* yes .* 16 ", done.stdout, re.MULTILINE)
    for words in ("--expert-model-parallel-size 8", "DeviceMesh.from_sizes", "setup --framework"):
        assert words in done.stdout


def test_a_model_alone_is_planned(doctor: Command) -> None:
    done = doctor("plan", "--model", "Qwen3-30B-A3B")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Qwen3-30B-A3B on 16 NPUs: all weights, ")
    assert "Ascend910B3" in done.stderr
    for more in (("--soc", "Ascend910A"), ("--layout", "TP2")):
        assert doctor("plan", "--model", "Qwen3-30B-A3B", *more).returncode == 2


def test_the_command_says_where_nothing_fits(doctor: Command) -> None:
    many = ("plan", "--model", "deepseek-v3", "--npus", "8", "--soc", "Ascend910B3")
    done = doctor(*many)
    assert done.returncode == 1
    assert " no " in done.stdout


@pytest.mark.slow
def test_a_file_has_what_its_ending_says(doctor: Command, tmp_path: Path) -> None:
    asked = ("plan", "--model", "Qwen/Qwen3-30B-A3B", "--npus", "16")
    for name, begins in (("p.json", "{"), ("p.txt", "Qwen3-30B")):
        done = doctor(*asked, "-o", str(tmp_path / name))
        assert (done.returncode, done.stdout) == (0, "")
        assert (tmp_path / name).read_text("utf-8").startswith(begins)
    done = doctor(*asked, "-o", str(tmp_path / "no/p.json"))
    assert done.returncode == 2
    assert str(tmp_path / "no/p.json") in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("npus", ["1", "16", "1024"])
def test_a_page_has_a_bar_for_each_layout(doctor: Command, tmp_path: Path, npus: str) -> None:
    page = tmp_path / "plan.html"
    done = doctor("plan", "Qwen3-8B", "--npus", npus, "--soc", "A2", "-o", str(page))
    text, other = page.read_text("utf-8").split('<template id="other">')
    assert "每个NPU的显存" in other
    rows = re.findall(r'<span class="bar".*?</span>', text)
    shares = [list(map(float, re.findall(r"width:([\d.]+)%", row))) for row in rows]
    assert 1 <= len(rows) <= 8
    limits = {float(present(re.search(r"left:([\d.]+)%", row))[1]) for row in rows}
    (limit,) = limits
    assert all(sum(row) <= 100 for row in shares)
    assert (sum(shares[0]) <= limit) == (done.returncode != 1)
    assert ('<h1 class="verdict ok">Yes, it fits' in text) == (done.returncode == 0)


def test_json_has_layouts_groups_and_flags(doctor: Command, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG), "utf-8")
    done = doctor(
        *("plan", "--model", str(tmp_path), "--npus", "16", "--lora", "8", "--format", "json"),
        *("--soc", "Ascend910_9392", "--framework", "ms-swift"),
    )
    answer = json.loads(done.stdout)
    first = answer["layouts"][0]
    assert answer["schema"] == 1
    assert first["fits"] is True
    assert "--tuner_type lora" in first["flags"]["ms-swift"]
    assert sorted(rank for group in first["groups"]["tp"] for rank in group) == list(range(16))


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        ("--model", "nothing"),
        ("--model", "qwen3-8b", "--layout", "TP3"),
        ("--model", "qwen3-30b-a3b", "--layout", "TP8"),
        ("--model", "qwen3-8b", "--soc", "H100"),
        ("--model", "qwen3-8b", "--megatron", "new"),
    ],
)
def test_bad_wishes_are_refused_in_one_line(doctor: Command, more: tuple[str, ...]) -> None:
    done = doctor("plan", "--npus", "8", *more)
    assert done.returncode == 2, done.stdout
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.slow
@pytest.mark.parametrize("row", every(CATALOG), ids=lambda row: row.id)
def test_every_row_can_be_planned(row: Model) -> None:
    assert choices(query_of(row), 64, ANYWHERE)
