"""Every release of the collected facts is in the matrix, with what they say of it, or listed."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ascend_doctor.machine.parsing import read_yaml
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.queries import allowed_range, requirements
from ascend_doctor.matrix.schema import Need, Stack
from ascend_doctor.matrix.versions import satisfies
from tests.acceptance import needs
from tests.test_matrix_coverage import list_left_out
from tests.test_wrong_claims import CLAIMS

CATALOG = Catalog()

# Row fields and the components whose versions they hold.
FIELDS = {
    "cann": "cann",
    "torch": "torch",
    "torch_npu": "torch-npu",
    "torch_npu_wheel_in_guide": "torch-npu",
    "megatron_ref": "megatron-lm",
    "mindspeed_ref": "mindspeed",
    "vllm": "vllm",
    "vllm_ascend": "vllm-ascend",
    "triton_ascend": "triton-ascend",
    "transformers": "transformers",
    "python": "python",
}
# Component, place of its rows, version field, whether the row is what it needs.
ROWS = (
    ("megatron-lm", "megatron_lm.refs", "ref", False),
    ("megatron-core", "megatron_lm.pypi_megatron_core", "newest_installable", False),
    ("megatron-core", "megatron_lm.pypi_megatron_core", "also", False),
    ("mindspeed", "mindspeed.branches", "ref", True),
    ("megatron-adaptor", "megatron_adaptor.rows", "megatron_adaptor", True),
    ("transformer-engine-npu", "megatron_adaptor.rows", "transformer_engine_npu", False),
    ("torch-npu", "torch_npu.packages", "torch_npu", True),
    ("torch", "torch_npu.packages", "torch", False),
    ("torch-npu", "torch_npu.prereleases", "packages", False),
    ("torch-npu", "torch_npu.on_pypi_unmapped", "versions", False),
    ("cann", "cann", "known_versions_order", False),
    ("cann", "cann.matched_hdk", "cann", False),
    ("mcore-bridge", "mcore_bridge.releases", "versions", True),
    ("ms-swift", "ms_swift.releases", "versions", True),
    ("twinkle", "twinkle.npu_requirements", "versions", True),
    ("verl", "verl.releases", "version", True),
    ("verl", "verl.mindspeed_llm_backend", "version", False),
    ("vllm-ascend", "vllm_ascend.releases", "vllm_ascend", True),
    ("vllm-ascend", "vllm_ascend.newer_on_pypi", "versions", False),
    ("triton-ascend", "triton_ascend.releases", "version", True),
    ("mindspeed-llm", "mindspeed_llm", "version", True),
    ("mindspeed-mm", "mindspeed_mm", "version", True),
    ("mindspeed-rl", "mindspeed_rl", "version", True),
)
# A verl release has a set for each engine; the matrix has the first one's.
_FIRST_ENGINE = ("vLLM", None)
_NUMBER = r"\d+(?:\.\w+)+(?:\+\w+)?"
_VERSION = re.compile(rf"\b(main|master|{_NUMBER})")
_PLAIN = re.compile(r"[\w.+]+")


@pytest.fixture(scope="module")
def facts() -> dict[str, Any]:
    read: dict[str, Any] = read_yaml(Path(needs.first_path("facts")) / "compatibility.yaml")
    return read


def versions(component: str, cell: str | list[str]) -> Iterator[str]:
    """Versions of a cell: "4.3.2 to 4.4.1", "main, 2026-08-22", a git ref."""
    for text in [cell] if isinstance(cell, str) else cell:
        if CATALOG.component(component).scheme == "ref":
            yield text.partition(" ")[0]
            continue
        for version in _VERSION.findall(re.split(r" with | \(", text)[0]):
            yield f"0+{version}" if version.isalpha() else version.replace(".x", ".0")


def releases(facts: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(component, version, row) of every release and ref; the row is empty if not compared."""
    for component, path, field, compared in ROWS:
        section: Any = facts
        for key in path.split("."):
            section = section[key]
        for row in [section] if isinstance(section, dict) else section:
            mine = compared and row.get("engine") in _FIRST_ENGINE
            for version in versions(component, row.get(field, [])):
                yield component, version, row if mine else {}


def test_every_release_is_there_or_listed_with_a_reason(facts: dict[str, Any]) -> None:
    known = list_left_out()
    missing = []
    for name, version, _ in releases(facts):
        release = CATALOG.component(name).release(version)
        if release is None and (name, version) not in known:
            missing.append(f"{name} {version}")
    assert missing == []
    assert len(list(releases(facts))) > 200


def test_a_release_needs_what_the_facts_say(facts: dict[str, Any]) -> None:
    wrong = []
    for name, version, row in releases(facts):
        if CATALOG.component(name).release(version) is None:
            continue
        needs = requirements(CATALOG, name, version)
        for field, other in FIELDS.items():
            documented = row.get(field)
            if isinstance(documented, str) and _PLAIN.fullmatch(documented) and other != name:
                mine = [need for need in needs if need.component == other]
                # Where wheel and table disagree, the row follows the wheel and names both.
                named = any(documented in need.because for need in mine)
                if documented != "unreleased" and not (
                    named or any(allows(other, documented, need) for need in mine)
                ):
                    wrong.append(f"{name} {version}: {other} {documented}, not {mine}")
    assert wrong == []


def allows(component: str, version: str, need: Need) -> bool:
    """``version`` may be a ref by another name, or a line (9.1.X)."""
    whole = CATALOG.component(component)
    aliases = {ref.ref: ref.use for ref in whole.refs if ref.exists and ref.use}
    release = aliases.get(version, version.replace(".X", ".0"))
    return satisfies(whole.scheme, release, allowed_range(need))


def test_every_documented_stack_is_a_file(facts: dict[str, Any]) -> None:
    assert {row["id"] for row in facts["stacks"]} == {stack.id for stack in CATALOG.stacks}
    for row in facts["stacks"]:
        stack = CATALOG.stack(row["id"])
        refs = re.findall(r"core_[vr][\d.]+\d", row["megatron_ref"])
        assert any(f"=={ref}" in stack.components["megatron-lm"] for ref in refs), stack.id
        assert stack.components["mindspeed"] == f"=={row['mindspeed_ref']}"
        for field in ("cann", "torch", "torch_npu", "python"):
            name, documented = FIELDS[field], str(row[field])
            if documented.startswith("not stated"):
                assert name not in stack.components or stack.status == "derived", stack.id
                continue
            fits = [
                number for number in re.findall(_NUMBER, documented) if within(stack, name, number)
            ]
            assert fits, f"{stack.id}: {name} {documented}, not {stack.components.get(name)}"
        expected = "0" if row["use_mcore_gdn"].startswith("0 required") else None
        assert stack.environment.get("USE_MCORE_GDN") == expected


def within(stack: Stack, name: str, version: str) -> bool:
    component = CATALOG.component(name)
    return satisfies(component.scheme, version, stack.components.get(name, "==0"))


def test_every_wrong_claim_has_a_test_of_the_truth(facts: dict[str, Any]) -> None:
    assert {row["claim"] for row in facts["wrong_claims"]} == set(CLAIMS)
