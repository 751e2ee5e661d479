"""What a rehearsal needs in the examined interpreter: the packages of the extra ``rehearsal``."""

import importlib.metadata
import shlex

import msgspec
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from ascend_doctor.machine.live import LiveMachine, ProgramMissing

EXTRA = "ascend-doctor[rehearsal]"
# Runs in the examined interpreter.
NAMES = """
import importlib.metadata, json
print(json.dumps([d.metadata["Name"] for d in importlib.metadata.distributions()]))
"""


def command(python: str) -> str:
    return f"{shlex.quote(python)} -m pip install '{EXTRA}'"


def missing(python: str) -> tuple[str, ...]:
    """The extra's packages that an interpreter lacks; empty if it cannot be asked."""
    try:
        done = LiveMachine().run([python, "-c", NAMES], deadline=60)
        there = {canonicalize_name(name) for name in msgspec.json.decode(done.stdout) if name}
    except (ProgramMissing, msgspec.DecodeError):
        return ()
    requirements = map(Requirement, importlib.metadata.requires("ascend-doctor") or ())
    names = [
        requirement.name
        for requirement in requirements
        if requirement.marker and requirement.marker.evaluate({"extra": "rehearsal"})
    ]
    return tuple(name for name in names if canonicalize_name(name) not in there)
