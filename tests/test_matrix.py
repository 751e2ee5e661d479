from pathlib import Path

import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.lint import lint
from ascend_doctor.matrix.queries import (
    Bond,
    applies,
    candidates,
    choose,
    fit,
    meets,
    requirements,
    why,
)
from ascend_doctor.matrix.schema import Need
from ascend_doctor.matrix.versions import key

CATALOG = Catalog()
SOURCE = 'sources: [{url: "our own wiki", date: "2026-12-01"}]'
HEAD = f"schema: 1\nid: spam\ntitle: S\nscheme: pep440\nobtain: {{kind: pip}}\n{SOURCE}\n"


def overlay(folder: Path, name: str, text: str) -> Catalog:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return Catalog((folder,))


def needing(need: str, kind: str = "requires") -> str:
    return f'releases: [{{version: "1", {kind}: [{{{need}}}], {SOURCE}}}]'


def bonds(first: str, other: str) -> tuple[Bond, ...]:
    return why(CATALOG, choose(CATALOG, first), choose(CATALOG, other))


def test_the_shipped_matrix_has_no_problem() -> None:
    assert [str(problem) for problem in lint(CATALOG)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "key_path", "what"),
    [
        (f"releases: [{{version: x, {SOURCE}}}]", "releases[x]", "no Python version"),
        (
            f'releases: [{{version: "2.10", {SOURCE}}}, {{version: "2.10.0", {SOURCE}}}]',
            "releases[2.10.0]",
            "there twice",
        ),
        (
            f'releases: [{{version: "1", covers: ">1<2", {SOURCE}}}]',
            "releases[1].covers",
            "no range",
        ),
        (
            f'releases: [{{version: "1", provides: {{egg: "1"}}, {SOURCE}}}]',
            "releases[1].provides",
            "no component is called egg",
        ),
        (
            f'releases: [{{version: "1", provides: {{megatron-core: "9.9"}}, {SOURCE}}}]',
            "releases[1].provides",
            "no row for 9.9",
        ),
        (
            f'releases: [{{version: "1", requires: [{{component: egg}}], {SOURCE}}}]',
            "releases[1].requires[egg]",
            "no component is called egg",
        ),
        (
            f'releases: [{{version: "1", requires: [{{component: spam}}], {SOURCE}}}]',
            "releases[1].requires",
            "cannot need itself",
        ),
        (
            needing('component: cann, versions: "8.5"'),
            "releases[1].requires[cann]",
            "no comparison",
        ),
        (
            needing('component: driver-950, versions: ">=1"'),
            "releases[1].requires[driver-950]",
            "no order",
        ),
        (
            needing('component: mindspeed, versions: "==x"'),
            "releases[1].requires[mindspeed]",
            "mindspeed has no row within ==x",
        ),
        (
            needing('component: cann, also: "==7.7.7"', "conflicts"),
            "releases[1].conflicts[cann]",
            "cann has no row within ==7.7.7",
        ),
        (
            needing("component: cann, when: {family: b3}"),
            "releases[1].requires[cann].when",
            "no hardware file is called b3",
        ),
        (
            f"behaviours: [{{id: x, text: x, versions: '=> 3', {SOURCE}}}]",
            "behaviours[x]",
            "no range",
        ),
        (f"refs: [{{ref: a, exists: false, use: b, {SOURCE}}}]", "refs[a].use", "is no release"),
        ("after: [egg]", "after", "no component is called egg"),
    ],
)
def test_lint_finds_what_is_wrong_with_a_component(
    tmp_path: Path, body: str, key_path: str, what: str
) -> None:
    problems = lint(overlay(tmp_path, "components/spam.yaml", f"{HEAD}{body}\n"))
    assert [problem.key_path for problem in problems] == [key_path]
    assert what in problems[0].what
    assert problems[0].file == str(tmp_path / "components" / "spam.yaml")


@pytest.mark.slow
def test_lint_finds_a_distribution_that_a_fast_look_misses(tmp_path: Path) -> None:
    odd = HEAD.replace("obtain: {", '"obtain": {distribution: spam, ', 1)
    assert odd != HEAD
    problems = lint(overlay(tmp_path, "components/spam.yaml", odd))
    assert [(problem.key_path, "distribution: spam" in problem.what) for problem in problems] == [
        ("obtain", True)
    ]


@pytest.mark.slow
def test_lint_finds_files_that_do_not_load(tmp_path: Path) -> None:
    overlay(tmp_path, "components/cann.yaml", "schema: 1\nid: cann\nreleases: [{version: 9.3}]\n")
    overlay(tmp_path, "stacks/x.yaml", "schema: 1\n")
    overlay(tmp_path, "components/spam.yaml", f"{HEAD}title: T\n")
    overlay(tmp_path, "components/egg.yaml", HEAD)
    overlay(tmp_path, "failures/x.yaml", "schema: 1\nfailures: [{id: x}]\n")
    overlay(tmp_path, "models/x.yaml", "schema: one\n")
    overlay(tmp_path, "error-codes.yaml", "schema: one\n")
    problems = lint(overlay(tmp_path, "hazards.yaml", "schema: 1\nhazards: [{name: 1}]\n"))
    assert [(Path(problem.file).name, problem.key_path) for problem in problems] == [
        ("cann.yaml", "releases[0].version"),
        ("egg.yaml", "id"),
        ("spam.yaml", "line 1"),
        ("x.yaml", ""),
        ("hazards.yaml", "hazards[0].name"),
        ("error-codes.yaml", "schema"),
        ("x.yaml", "failures[0]"),
        ("x.yaml", "schema"),
    ]
    assert "the key title is there twice" in problems[2].what
    assert str(problems[0]).startswith(f"{tmp_path}/components/cann.yaml: releases[0].version: Exp")


@pytest.mark.slow
def test_lint_finds_an_install_order_that_runs_in_a_circle(tmp_path: Path) -> None:
    overlay(tmp_path, "components/spam.yaml", f"{HEAD}after: [egg]\n")
    problems = lint(
        overlay(tmp_path, "components/egg.yaml", HEAD.replace("spam", "egg") + "after: [spam]\n")
    )
    assert len(problems) == 1
    assert problems[0].what.endswith(("egg -> spam -> egg", "spam -> egg -> spam"))


def test_a_file_names_once_when_its_sources_were_read(tmp_path: Path) -> None:
    rows = 'releases: [{version: "1", sources: [{url: x}]}]\n'
    spam = overlay(tmp_path, "components/spam.yaml", f'{HEAD}read: "2026-11-20"\n{rows}')
    dates = [source.date for source in spam.component("spam").releases[0].sources]
    assert (dates, lint(spam)) == (["2026-11-20"], ())


WRONG_STACKS = (
    ('{egg: "==1"}', "", "components.egg", "no component"),
    ('{cann: "9"}', "", "components.cann", "no comparison"),
    ('{cann: "==7.7.7"}', "", "components.cann", "no row within"),
    ('{cann: "==9.0.0"}', "frameworks: [egg]\n", "frameworks", "no component"),
    ('{cann: "==9.0.0"}', 'environment: {EGG: "1"}\n', "environment.EGG", "no row"),
    (
        '{mindspeed: "==core_r0.15.3", megatron-core: "==0.12.1"}',
        "",
        "components.mindspeed",
        "core_r0.15.3 requires megatron-core ==0.15.*",
    ),
)


def test_lint_finds_what_is_wrong_with_stacks(tmp_path: Path) -> None:
    for number, (components, extra, _, _) in enumerate(WRONG_STACKS):
        head = f"schema: 1\nid: x{number}\ntitle: X\nstatus: derived\n{SOURCE}\n"
        text = f"{head}components: {components}\n{extra}"
        catalog = overlay(tmp_path, f"stacks/x{number}.yaml", text)
    problems = lint(catalog)
    assert [(Path(problem.file).name, problem.key_path) for problem in problems] == [
        (f"x{number}.yaml", key_path) for number, (*_, key_path, _) in enumerate(WRONG_STACKS)
    ]
    for problem, (*_, what) in zip(problems, WRONG_STACKS, strict=True):
        assert what in problem.what


@pytest.mark.slow
def test_lint_finds_what_is_wrong_with_a_family(tmp_path: Path) -> None:
    text = (
        f"schema: 1\nid: x\ntitle: X\nnames: [X1, Ascend910B1]\nnpu_smi_names: []\n{SOURCE}\n"
        'socs: [{soc: X2}]\nfirst_torch_npu: {X3: "new"}\n'
    )
    problems = lint(overlay(tmp_path, "hardware/x.yaml", text))
    assert {problem.key_path for problem in problems} == {
        "socs[X2]",
        "first_torch_npu[X3]",
        "names",
    }


@pytest.mark.parametrize(
    ("text", "component", "version"),
    [
        ("cann", "cann", None),
        ("torch_npu==2.7.1.post4", "torch-npu", "2.7.1.post4"),
        ("twinkle-kit", "twinkle", None),
        ("mindspeed@core_r0.15.3", "mindspeed", "core_r0.15.3"),
        (" CANN == 8.5.0 ", "cann", "8.5.0"),
    ],
)
def test_choosing(text: str, component: str, version: str | None) -> None:
    chosen = choose(CATALOG, text)
    assert (chosen.component.id, chosen.version) == (component, version)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("mindsped", "did you mean mindspeed"),
        ("cann==x", "no Ascend version"),
        ("cann==", "missing"),
        ("", "called"),
    ],
)
def test_choosing_what_is_not_there(text: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        choose(CATALOG, text)


def test_why_a_pair_is_bound() -> None:
    (bond,) = (bond for bond in bonds("torch_npu==2.7.1.post4", "cann==8.0.0"))
    assert (bond.kind, bond.row, bond.fit) == ("requires", "torch-npu 2.7.1.post4", "outside")
    assert "==9.0.0" in bond.text
    assert bond.sources
    assert bonds("cann==8.0.0", "torch_npu==2.7.1.post4")[0] == bond


def test_why_through_a_provided_version() -> None:
    kinds = {bond.row: bond.fit for bond in bonds("megatron-lm@core_v0.15.3", "mcore-bridge@1.5.0")}
    assert kinds["mcore-bridge 1.5.0"] == "outside"


def test_why_through_a_third_part() -> None:
    clash = [
        bond for bond in bonds("mindspeed@core_r0.15.3", "twinkle@0.5.1") if "numpy" in bond.text
    ]
    assert [(bond.kind, bond.fit) for bond in clash] == [("shared", "outside")]
    fine = [bond for bond in bonds("mindspeed@core_r0.15.3", "verl@0+main") if "numpy" in bond.text]
    assert [bond.fit for bond in fine] == ["fits"]


def test_why_with_conflicts_and_stacks() -> None:
    assert any(bond.kind == "conflicts" for bond in bonds("triton-ascend==3.2.0", "triton==3.2.0"))
    assert not any(bond.kind == "conflicts" for bond in bonds("torch_npu==2.7.1", "cann==8.3.RC1"))
    stacks = [bond for bond in bonds("mindspeed", "megatron-lm") if bond.kind == "stack"]
    assert len(stacks) == len(CATALOG.stacks)
    assert {bond.row for bond in bonds("mindspeed@core_r0.15.3", "cann@9.0.0")} == {
        "mindspeed core_r0.15.3",
        "mindspeed-core-0.15.3",
        "mindspeed-core-0.15.3-guide",
        "ms-swift-image-cann-9.0.0-a2",
    }


def test_requirements_of_a_checkout_include_softly_what_it_provides() -> None:
    needs = {need.component: need for need in requirements(CATALOG, "megatron-lm", "core_v0.15.3")}
    assert needs["numpy"].versions == "<2.0.0"
    assert not needs["numpy"].hard
    python = {
        version: requirements(CATALOG, "megatron-lm", version)
        for version in ("core_v0.17.1", "core_v0.18.2")
    }
    assert [need.hard for need in python["core_v0.17.1"] if need.component == "python"] == [False]
    assert [need.hard for need in python["core_v0.18.2"] if need.component == "python"] == [True]
    assert requirements(CATALOG, "megatron-lm", "core_v9") == ()


def test_needs_that_depend_on_the_machine() -> None:
    need = Need(component="cann", when={"arch": "x86_64", "family": "!ascend950"})
    assert applies(need, {"arch": "x86_64", "family": "ascend910b"}) is True
    assert applies(need, {"arch": "aarch64"}) is False
    assert applies(need, {"arch": "x86_64"}) is None
    assert applies(need, {"arch": "x86_64", "family": "ascend950"}) is False
    either = Need(component="cann", when={"family": "ascend950|ascend910b"})
    assert applies(either, {"family": "ascend910b"}) is True


def test_fits() -> None:
    need = Need(component="cann", versions="==9.0.0", also=">=8.5.0", hard=False)
    fits = [fit(CATALOG, need, version) for version in ("9.0.0", "9.1.0", "8.3.RC1")]
    assert fits == ["fits", "also", "outside"]


def test_ranges_of_an_open_component_meet_where_they_can() -> None:
    numpy = CATALOG.component("numpy")
    assert not meets(numpy, ("<=1.26.0", ">=2.0.0,<2.3.0"))
    assert meets(numpy, ("<=1.26.0", "<2.0.0", ">=1.19.2"))
    assert meets(numpy, (">1.26", "<2"))
    assert meets(numpy, (">=1,!=1", "<2"))
    assert candidates(CATALOG.component("arch"), ("==x",)) == ("aarch64", "x86_64")


def test_chips_are_known_from_the_same_train_in_both_files() -> None:
    (train,) = CATALOG.family("ascend950").first_torch_npu.values()
    for row in CATALOG.component("torch-npu").releases:
        if "train" in row.attributes:
            early = key("ascend", row.attributes["train"]) < key("ascend", train)
            assert early == any(need.component == "soc" for need in row.conflicts) or (
                row.status == "prerelease"
            )
