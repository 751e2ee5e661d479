"""The stack of a machine beside the rows of the matrix that come closest to it."""

from __future__ import annotations

from typing import NamedTuple

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Snapshot
from ascend_doctor.judging.judge import Case
from ascend_doctor.judging.matrix_fit import present, spoken
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import Stack
from ascend_doctor.matrix.versions import VersionError, satisfies

# As many columns as stand beside each other on a page.
_NEAREST = 3
# Without one of these there is no stack to compare.
_TELLING = ("torch-npu", "mindspeed", "megatron-core")


class DocumentedCell(NamedTuple):
    """What a row wants of a component; ``fits`` is None where either side is not known."""

    range_text: str
    fits: bool | None


class Line(NamedTuple):
    """A component, its version here, and a cell a stack."""

    component: str
    here: str
    cells: list[DocumentedCell]


class Documented(NamedTuple):
    stacks: list[Stack]
    lines: list[Line]


def nearest_rows(facts: Snapshot, catalog: Catalog, device: str) -> Documented | None:
    """The nearest rows: with the fewest components that differ, then that could not be told.

    None where nothing of a training stack is installed.
    """
    if facts.python is None:
        return None
    case = Case(facts=facts, catalog=catalog, device=device)
    here = {
        name: _present(case, name)
        for name in dict.fromkeys(name for stack in catalog.stacks for name in stack.components)
    }
    if not any(here[component] for component in _TELLING if component in here):
        return None
    cells = {
        stack.id: {
            name: _cell(catalog, name, here[name], component)
            for name, component in stack.components.items()
        }
        for stack in catalog.stacks
    }

    def distance(stack: Stack) -> tuple[int, int]:
        fits = [cell.fits for cell in cells[stack.id].values()]
        return fits.count(False), fits.count(None)

    nearest = sorted(catalog.stacks, key=distance)[:_NEAREST]
    names = dict.fromkeys(name for stack in nearest for name in stack.components)
    nothing = DocumentedCell("", None)
    return Documented(
        nearest,
        [
            Line(name, here[name], [cells[stack.id].get(name, nothing) for stack in nearest])
            for name in names
        ],
    )


def _present(case: Case, component: str) -> str:
    """The version here, "" where there is none or it could not be told."""
    try:
        return present(case, component)
    except (Unknown, NotApplicable):
        return ""


def _cell(catalog: Catalog, component: str, version: str, version_range: str) -> DocumentedCell:
    try:
        scheme = catalog.component(component).scheme
        fits = satisfies(scheme, version, version_range) if version else None
    except VersionError:
        fits = None
    return DocumentedCell(spoken(version_range), fits)
