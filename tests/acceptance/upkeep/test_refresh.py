"""A matrix without its newest rows gets exactly these rows from the repositories."""

from __future__ import annotations

from pathlib import Path

import pytest

from ascend_doctor.upkeep.proposals import propose_rows
from tests.acceptance.clones import clone
from tests.upkeep.test_refresh import CATALOG, git, refs_of, without

CLONES = {
    "megatron-lm": "NVIDIA/Megatron-LM",
    "mindspeed": "Ascend/MindSpeed",
    "mcore-bridge": "modelscope/mcore-bridge",
    "verl": "verl-project/verl",
    "vllm-ascend": "vllm-project/vllm-ascend",
}


@pytest.mark.parametrize("name", CLONES)
@pytest.mark.parametrize("frozen", ["2025-12-31", "2026-04-30", "2026-07-01"])
def test_a_matrix_of_an_earlier_day_gets_exactly_the_rows_that_came_later(
    name: str, frozen: str
) -> None:
    repository = clone(CLONES[name])
    component = CATALOG.component(name)
    days = {
        row.version: git(repository, "log", "-1", "--format=%cs", row.commit or ref, "--")
        for row in component.releases
        if (ref := ref_of(repository, name, row.version))
    }
    later = {version for version, day in days.items() if day > frozen}
    rows = [*propose_rows(without(component, later), refs_of(repository))]
    assert {row.version for row in rows} == later
    again = [*propose_rows(without(component, later), refs_of(repository), frozen)]
    assert {row.version for row in again} == set()


def ref_of(repository: Path, name: str, version: str) -> str:
    """The tag or branch that is a row's release; "" for pinned commits and what has none."""
    if name in {"megatron-lm", "mindspeed"}:
        return version if version.startswith(("core_", "2")) and "core_" in version else ""
    tag = f"v{version}"
    return tag if git(repository, "tag", "-l", tag) else ""
