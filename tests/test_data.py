from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from packaging.utils import canonicalize_name

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes
from ascend_doctor.machine.parsing import read_yaml
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.loading import CacheEntry, load
from ascend_doctor.matrix.schema import Component, Hazards
from tests.present import present

COMPONENT = """
schema: 1
id: spam
title: Spam
scheme: pep440
obtain: {kind: pip, distribution: spam}
sources: [{url: "a/b@c:d", date: "2026-01-02"}]
releases:
  - version: "1.10"
    sources: [{url: "a/b@c:d", date: "2026-01-02"}]
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_a_component_loads(tmp_path: Path) -> None:
    spam = load(write(tmp_path / "spam.yaml", COMPONENT), Component)
    row = present(spam.release("1.10.0"))
    assert row.version == "1.10"
    assert spam.release("1.1") is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"1.10"', "1.10", r"Expected `str`, got `float` - at `\$.releases\[0\].version`"),
        ('"1.10"', "110", r"got `int` - at `\$.releases\[0\].version`"),
        ('date: "2026-01-02"}]\nrel', "date: 2026-01-02}]\nrel", r"sources\[0\].date"),
        ('version: "1.10"', 'version: "1.10"\n    vresion: 1', r"unknown field `vresion`"),
        ("title: Spam", "tittle: Spam", "field"),
        ("pep440", "semver", r"Invalid enum value 'semver' - at `\$.scheme`"),
        ('    sources: [{url: "a/b@c:d", date: "2026-01-02"}]', "    note: x", "sources"),
        ('    sources: [{url: "a/b@c:d", date: "2026-01-02"}]', "    sources: []", "length"),
        ("[{url", "[{{url", "line [0-9]+, column [0-9]+$"),
        ("schema: 1", "schema: [1", "line"),
    ],
)
def test_a_file_that_is_not_strict_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    assert old in COMPONENT
    path = write(tmp_path / "spam.yaml", COMPONENT.replace(old, new))
    with pytest.raises(DataError, match=message) as caught:
        load(path, Component)
    assert str(caught.value).startswith(f"{path}: ")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="No such file"):
        load(tmp_path / "absent.yaml", Component)
    (tmp_path / "latin.yaml").write_bytes(b"id: \xff\xfe")
    with pytest.raises(DataError, match=r"latin\.yaml"):
        load(tmp_path / "latin.yaml", Component)
    write(tmp_path / "deep.yaml", "[" * 3000 + "]" * 3000)
    with pytest.raises(DataError, match=r"deep\.yaml"):
        load(tmp_path / "deep.yaml", Component)


@given(st.binary(max_size=300))
def test_any_bytes_load_or_are_a_data_error(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "any.yaml"
    path.write_bytes(content)
    with pytest.raises(DataError):
        load(path, Component)


def test_every_shipped_file_loads() -> None:
    catalog = Catalog()
    assert {component.id for component in catalog.components} == set(catalog.component_ids)
    assert catalog.stacks
    assert catalog.families
    assert catalog.hazards.hazards
    assert catalog.variables.variables


def test_components_are_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    real = read_bytes

    def noted(path: Path, limit: int) -> bytes:
        read.append(path.name)
        return real(path, limit)

    monkeypatch.setattr("ascend_doctor.matrix.loading.read_bytes", noted)
    catalog = Catalog()
    catalog.component("cann")
    catalog.component("cann")
    assert read == ["cann.yaml"]


def test_unknown_names() -> None:
    catalog = Catalog()
    with pytest.raises(DataError, match="no component is called spam"):
        catalog.component("spam")
    with pytest.raises(DataError, match="spam: there is no such row"):
        catalog.stack("spam")
    with pytest.raises(DataError, match="spam: there is no such row"):
        catalog.family("spam")
    assert catalog.family_of("Ascend910Z") is None


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("Ascend910B3", "ascend910b"),
        ("910B4-1", "ascend910b"),
        ("Ascend910", "ascend910_93"),
        ("Ascend910_9362", "ascend910_93"),
        ("Ascend950PR_9579", "ascend950"),
        ("Ascend950XX_new", "ascend950"),
        ("310P3", "ascend310p"),
        ("910ProB", "ascend910"),
    ],
)
def test_families_by_name(name: str, family: str) -> None:
    known_family = present(Catalog().family_of(name))
    assert known_family.id == family


SOURCE = 'sources: [{url: "our own wiki", date: "2026-12-01"}]'


def test_an_overlay_adds_and_replaces_rows(tmp_path: Path) -> None:
    write(
        tmp_path / "components" / "torch-npu.yaml",
        f"""
schema: 1
id: torch-npu
releases:
  - {{version: "2.7.1.post4", note: ours, {SOURCE}}}
  - {{version: "2.7.1.post99", {SOURCE}}}
""",
    )
    write(tmp_path / "components" / "spam.yaml", COMPONENT)
    write(
        tmp_path / "hazards.yaml",
        f"""
schema: 1
hazards:
  - {{name: spam, kind: unrelated, {SOURCE}}}
  - {{name: apex, kind: unrelated, what: ours, {SOURCE}}}
""",
    )
    base, catalog = Catalog(), Catalog((tmp_path,))
    old, new = base.component("torch-npu"), catalog.component("torch-npu")
    assert len(new.releases) == len(old.releases) + 1
    replaced, added = new.release("2.7.1.post4"), new.release("2.7.1.post99")
    assert replaced is not None
    assert (replaced.note, replaced.requires) == ("ours", ())
    assert added is not None
    assert (new.title, new.sources) == (old.title, old.sources)
    assert catalog.component("spam").title == "Spam"
    assert len(catalog.hazards.hazards) == len(base.hazards.hazards) + 1
    assert (
        next(hazard.what for hazard in catalog.hazards.hazards if hazard.name == "apex") == "ours"
    )


def test_an_overlay_replaces_heads_stacks_and_families(tmp_path: Path) -> None:
    shipped = Path(Catalog().files("stacks")["mindspeed-core-0.15.3"][0])
    ours = read_yaml(shipped) | {"status": "verified"}
    write(tmp_path / "stacks" / shipped.name, yaml.safe_dump(ours))
    whole = COMPONENT.replace("id: spam", "id: cann").replace("pep440", "ascend")
    write(tmp_path / "components" / "cann.yaml", whole)
    catalog = Catalog((tmp_path,))
    assert catalog.stack("mindspeed-core-0.15.3").status == "verified"
    assert catalog.component("cann").title == "Spam"
    assert catalog.component("cann").release("9.0.0") is not None
    assert catalog.component("cann").release("1.10") is not None


def test_a_bad_overlay_names_its_own_file(tmp_path: Path) -> None:
    path = write(
        tmp_path / "components" / "cann.yaml", "schema: 1\nid: cann\nreleases: [{version: 9.3}]"
    )
    with pytest.raises(DataError) as caught:
        Catalog((tmp_path,)).component("cann")
    assert str(caught.value).startswith(str(path))
    with pytest.raises(DataError, match="missing"):
        Catalog((tmp_path / "absent",))


def test_hazards_load_strictly(tmp_path: Path) -> None:
    path = write(tmp_path / "hazards.yaml", "schema: 1\nhazards: [{name: x, kind: bad}]")
    with pytest.raises(DataError, match="kind"):
        load(path, Hazards)


def test_distributions_are_told_without_parsing_as_with_it() -> None:
    catalog = Catalog()
    assert catalog.distributions == {
        canonicalize_name(component.obtain.distribution)
        for component in catalog.components
        if component.obtain.distribution
    }


def test_a_file_that_changed_is_read_again_and_a_damaged_cache_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "hazards.yaml"
    path.write_text("schema: 1\nhazards: []\n")
    assert load(path, Hazards).schema == 1
    cached = CacheEntry.of("matrix", path.read_bytes())
    assert cached.get() == {"schema": 1, "hazards": []}
    cached.path.write_bytes(b"\xc1 damaged")
    assert load(path, Hazards).schema == 1
    path.write_text("schema: 22\nhazards: []\n")
    assert load(path, Hazards).schema == 22


def test_what_is_wrong_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "hazards.yaml"
    path.write_text("schema: one\nhazards: []\n")
    for _ in range(2):
        with pytest.raises(DataError, match="schema"):
            load(path, Hazards)
    cached = CacheEntry.of("matrix", path.read_bytes())
    assert cached.get() is None


def test_a_cache_that_cannot_be_written_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    path = tmp_path / "hazards.yaml"
    path.write_text("schema: 1\nhazards: []\n")
    assert load(path, Hazards).schema == 1


@pytest.mark.parametrize(
    "obtain",
    [
        "obtain: {kind: pip, distribution: Spam}",
        "obtain: {kind: pip,\n  'distribution': Spam}",
        "obtain:\n  kind: pip\n  distribution: Spam",
        "obtain:\n distribution: 'Spam'\n kind: pip",
        'obtain:  # from an index\n  kind: pip\n  # its name\n  distribution: "Spam"',
    ],
)
def test_distributions_are_known_however_the_rows_are_written(tmp_path: Path, obtain: str) -> None:
    text = COMPONENT.replace("obtain: {kind: pip, distribution: spam}", obtain)
    assert obtain in text
    write(tmp_path / "components" / "spam.yaml", text)
    catalog = Catalog([tmp_path])
    assert catalog.component("spam").obtain.distribution == "Spam"
    assert "spam" in catalog.distributions


def test_what_is_obtained_otherwise_has_no_distribution(tmp_path: Path) -> None:
    text = COMPONENT.replace("{kind: pip, distribution: spam}", "{kind: system}")
    note = "note: |\n  distribution: spam\n"
    write(tmp_path / "components" / "spam.yaml", f"{text}{note}")
    assert "spam" not in Catalog([tmp_path]).distributions
