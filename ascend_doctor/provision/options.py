"""What a setup was asked for, and what it is going to do: one struct each, down to the lock."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ascend_doctor.facts import Snapshot
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.sets import PinnedSet
from ascend_doctor.provision.lock import Lock, Prefix, Proof
from ascend_doctor.provision.request_ranges import StackRequest
from ascend_doctor.provision.running import Runner
from ascend_doctor.provision.sources import Mirrors
from ascend_doctor.provision.steps import Steps
from ascend_doctor.provision.target import Target


@dataclass(frozen=True, kw_only=True)
class SetupOptions:
    """The request, its machine, and who looks on.

    ``additions`` are those of --with, ``accept`` conflicts, ``accepted_checks`` those whose
    errors do not keep the stack from use, ``carried`` the bundle of --from. ``undeclared`` are
    packages that CANN and torch_npu import without requiring them. ``known_good``: with the wheels
    of a proven run; None: if one fits. ``target`` is the other
    machine of --on: the stack is only carried there, in ``bundle``. ``environment`` gives a
    shell's variables with those of a stack; ``prove`` runs a stack at ``level``.
    """

    megatron: str | None = None
    framework: str | None = None
    additions: tuple[str, ...] = ()
    accept: tuple[str, ...] = ()
    accepted_checks: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    as_of: str | None = None
    known_good: bool | None = None
    venv: str | None = None
    active: bool = False
    locked: bool = False
    lock: str | None = None
    carried: Path | None = None
    bundle: Path | None = None
    target: Target | None = None
    prefix: Prefix
    mirrors: Mirrors
    catalog: Catalog
    facts: Snapshot
    undeclared: tuple[str, ...] = ()
    level: int
    environment: Callable[[Path, Lock], Mapping[str, str]]
    prove: Callable[[Path, Lock], Proof]
    steps: Steps = field(default_factory=Steps)
    runner: Runner = field(default_factory=Runner)

    @property
    def request(self) -> StackRequest:
        asked = StackRequest(
            megatron=self.megatron, framework=self.framework, additions=self.additions
        )
        return asked.spell(self.catalog)

    @property
    def wish(self) -> dict[str, str]:
        """The request, as the lock records it."""
        on = self.target.facts if self.target else {}
        wish = {
            "megatron": self.megatron,
            "framework": self.framework,
            "with": " ".join(self.additions),
            "accept": " ".join((*self.accept, *self.accepted_checks)),
            "as-of": self.as_of,
            "on": " ".join(f"{name}={fact}" for name, fact in on.items()),
        }
        return {name: value for name, value in wish.items() if value}


@dataclass(frozen=True, kw_only=True)
class Plan:
    """``lock`` is the future lock, as far as known.

    Its id names the stack's folder and depends on what is built, not on where or when. A
    checkout without a commit is pinned once a server was asked. In an ``exact`` plan, as from a
    lock, the wheels are the lock's; else ``requirements`` and ``constraints`` are pip's, and
    ``indexes`` those that documents name, by requirement. ``python`` is the interpreter that
    makes the environment. ``missing`` are versions that the machine lacks, ``based_on`` the set
    that was taken as a whole, ``known_good`` the run whose wheels are taken.
    """

    lock: Lock
    python: str
    exact: bool = False
    requirements: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    indexes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    based_on: PinnedSet | None = None
    known_good: str = ""
