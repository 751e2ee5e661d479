"""What a user of `setup` and `matrix solve` wishes, as ranges of components."""

from __future__ import annotations

from ascend_doctor.data import Catalog
from ascend_doctor.errors import DataError
from ascend_doctor.stacks import Release
from ascend_doctor.versions import VersionError, satisfies

FRAMEWORKS = ("ms-swift", "twinkle", "verl", "mindspeed-llm")
_WITH_BRIDGE = ("ms-swift", "twinkle")
_ALWAYS = ("mindspeed", "torch", "torch-npu", "cann", "python")


def wishes(catalog: Catalog, megatron: str, framework: str | None = None) -> dict[str, str]:
    """Ranges by component for a Megatron version (0.15.3, 0.15) or ref (core_v0.15.3).

    ``framework`` may name a version (ms-swift==4.2.3). Raises DataError for a ref that does not
    exist, with the right one where the matrix knows it, and for an unknown framework.
    """
    found = {"megatron-lm": _refs(catalog, megatron)} | dict.fromkeys(_ALWAYS, "")
    if framework:
        name, mark, version = framework.partition("==")
        if name not in FRAMEWORKS:
            raise DataError(f"{name} is none of the frameworks {', '.join(FRAMEWORKS)}")
        found[name] = f"=={version}" if mark else ""
        if name in _WITH_BRIDGE:
            found["mcore-bridge"] = ""
    return found


def _refs(catalog: Catalog, megatron: str) -> str:
    component = catalog.component("megatron-lm")
    for one in component.refs:
        if one.ref == megatron and not one.exists:
            seen = f", although {one.seen_in} name it" if one.seen_in else ""
            raise DataError(f"Megatron-LM has no ref {megatron}{seen}; use {one.use}. {one.note}")
        if one.ref == megatron and one.use:
            return f"=={one.use}"
    if any(one.version == megatron for one in component.releases):
        return f"=={megatron}"
    numbered = [one.version for one in component.releases if _is_release(one, megatron)]
    if not numbered:
        raise DataError(
            f"no row of megatron-lm is Megatron {megatron}; see: matrix show megatron-lm"
        )
    return " || ".join(f"=={one}" for one in numbered)


def _is_release(row: Release, number: str) -> bool:
    """Whether a row is the tag of release 0.15.3, or of line 0.15; branches move and are none."""
    if row.moving:
        return False
    wanted = f"=={number}" if number.count(".") > 1 else f"=={number}.*"
    try:
        return satisfies("pep440", row.attributes["core"], wanted)
    except VersionError:
        return False
