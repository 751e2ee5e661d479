"""Records of the probes that import the stack and look at what it patches."""

import msgspec

from ascend_doctor.probe_records.common import ChildOutcome, Number, ProbeRecord

# What a name was bound to, before and after.
Binding = tuple[str | None, str | None]


class ImportedModule(msgspec.Struct, frozen=True, kw_only=True):
    """One import in a process; ``error`` is the innermost, ``outermost`` what Python shows."""

    ok: bool | None = None
    error: str | None = None
    outermost: str | None = None
    output: str | None = None
    version: str | None = None
    file: str | None = None
    devices: int | None = None


class InspectEnvRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/inspect_env.py."""

    modules: dict[str, ImportedModule] | None = None


class PortRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/port.py: ``free`` are further ports; ``here`` whether MASTER_ADDR is this node."""

    port: str = ""
    error: str | None = None
    here: bool = False
    free: list[int] | None = None


class TreeCopy(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    version: str


class RefusedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call with keywords that the function does not take."""

    call: str
    where: str
    keywords: list[str]


class GatedDeltaNets(msgspec.Struct, frozen=True, kw_only=True):
    """What there is for them; ``variable`` is USE_MCORE_GDN."""

    megatron: bool = False
    mindspeed: bool = False
    bridge: bool = False
    bridge_has: bool = False
    bridge_masks: bool = False
    fla: bool = False
    variable: str | None = None


class MegatronTreeRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/megatron_tree.py: ``named`` is MEGATRON_LM_PATH, ``api`` parameters by function."""

    parts: dict[str, str | None] = {}
    version: str = ""
    copies: list[TreeCopy] = []
    distributions: list[str] = []
    named: str | None = None
    api: dict[str, list[str]] = {}
    callers: list[RefusedCall] | None = None
    searched: list[str] = []
    gdn: GatedDeltaNets | None = None


class ImportOrder(msgspec.Struct, frozen=True, kw_only=True):
    """Who imported megatron.core first, and whether MindSpeed had begun by then."""

    after_adaptor: bool | None = None
    stack: list[str] = []


class PatchedImport(ChildOutcome, frozen=True, kw_only=True):
    """An import of Megatron: what it decided, and ``order`` where it came about."""

    order: ImportOrder | None = None
    decisions: dict[str, bool | str | None] = {}


class EntryCase(PatchedImport, frozen=True, kw_only=True):
    """An entry point of a framework; ``owners`` of a function of flash-linear-attention."""

    version: str = ""
    mindspeed: bool = False
    owners: dict[str, str] = {}


class EntryPointsRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/entry_points.py."""

    cases: dict[str, EntryCase] = {}


class PatchCase(PatchedImport, frozen=True, kw_only=True):
    """MindSpeed in a process: its patches and arguments.

    ``off`` are arguments that it does not see as they were set; ``changed`` the names that a
    repatch binds anew, with what they were and are where it should have bound none.
    """

    megatron: str | None = None
    training: bool = False
    patches: int | None = None
    applied: int | None = None
    optimization_level: int | str | None = None
    leaked: list[str] = []
    taken: dict[str, str] = {}
    off: dict[str, str] = {}
    changed: dict[str, Binding] | list[str] = []


class MindSpeedPatchesRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/mindspeed_patches.py: ``line`` of Megatron that MindSpeed's source is for."""

    line: str | None = None
    repatches: bool | None = None
    differ: dict[str, Binding] = {}
    cases: dict[str, PatchCase] = {}


class ForwardCase(ChildOutcome, frozen=True, kw_only=True):
    """What MindSpeed gives on one device; ``off`` is the error of an attention."""

    types: dict[str, str] = {}
    parameter: str | None = None
    forward: str | None = None
    off: Number | None = None
    ring: list[int] = []
    group: list[int] = []


class MindSpeedForwardRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/mindspeed_forward.py."""

    cases: dict[str, ForwardCase] = {}
