"""The version files of CANN and NNAL. Nothing here ever raises."""

from ascend_doctor.collect.vendor_text import first, parse_assignments, parse_pairs
from ascend_doctor.facts import CannComponent
from ascend_doctor.patterns import patterns_of

_RUNNING, _REQUIRED = patterns_of(__file__)


def parse_component(name: str, text: str) -> CannComponent | None:
    """``version.info`` of a component.

    Up to 8.3 ``Version`` is an internal number (7.7...) and ``version_dir`` the release; from 8.5
    on ``Version`` is the release and ``version_dir`` a folder name. mindstudio-toolkit has neither.
    """
    assignments = parse_assignments(text)
    version, folder = assignments.get("Version") or None, assignments.get("version_dir", "")
    if version is None:
        return None
    return CannComponent(
        name=name,
        version=version,
        public=(folder if folder[:1].isdecimal() else version) if folder else None,
        requires={
            f"{match.group(1)} {match.group(2)}": text
            for key, text in assignments.items()
            if (match := _REQUIRED.fullmatch(key))
        },
    )


def parse_running_versions(text: str) -> dict[str, tuple[str, str]]:
    """(internal, public) by component of ``version.cfg``: ``X_running_version=[7.7.0:8.1.RC1]``."""
    return {name: (inner, public) for name, inner, public in _RUNNING.findall(text)}


def parse_atb_version(text: str) -> str | None:
    """The release in ``nnal/atb/latest/version.info``."""
    return first(parse_pairs(text), "Ascend-cann-atb")
