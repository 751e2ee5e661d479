"""The shape of the matrix: components, stacks, hardware, variables. Plain data, strictly loaded."""

import functools
from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec

from ascend_doctor.matrix.versions import Scheme, parse, satisfies

Evidence = Literal["stated", "code", "derived"]


class Row(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A piece of a matrix file; unknown keys are errors."""


class Source(Row, frozen=True, kw_only=True):
    """Where a row is from: a URL or OWNER/REPO@REF:path, read on ``date`` (ISO 8601)."""

    url: Annotated[str, msgspec.Meta(min_length=1)]
    date: Annotated[str, msgspec.Meta(pattern=r"^20[0-9]{2}-[01][0-9]-[0-3][0-9]$")]
    quote: str = ""


Sources = Annotated[tuple[Source, ...], msgspec.Meta(min_length=1)]


def urls(sources: Iterable[Source]) -> tuple[str, ...]:
    return tuple(source.url for source in sources)


class Need(Row, frozen=True, kw_only=True):
    """A relation to another component; in ``conflicts``, to what must not be there with it.

    ``versions`` is a range in that component's scheme ("" is any). ``hard``: package metadata or
    code refuses anything else; otherwise the range is what is documented to go together, and
    another version is a doubt. ``also`` is a range that another or a disputed source allows.
    ``optional``: binds only where that component is there. ``when`` restricts by machine facts:
    ``arch`` (x86_64, aarch64) and ``family`` (id of a hardware file); ``a|b`` is either, ``!a`` any
    other.
    """

    component: str
    versions: str = ""
    also: str = ""
    hard: bool = True
    optional: bool = False
    when: dict[Literal["arch", "family"], str] = {}
    evidence: Evidence = "stated"
    because: str = ""
    sources: tuple[Source, ...] = ()


def is_meant(value: str, required: str) -> bool:
    """Whether a machine's fact is one of those that ``when`` of a need names, or no other one."""
    if required.startswith("!"):
        return value != required[1:]
    return value in required.split("|")


class Release(Row, frozen=True, kw_only=True):
    """One release, branch or package of a component.

    ``version`` is unique in the component and written in its scheme; a branch head of a component
    with numbers is ``0+<branch>``. ``covers``: a range of further versions that the row speaks for.
    ``ref`` and ``commit`` are git's; ``moving``: the ref is a branch. ``reports`` is what the
    software says of itself where that differs from ``version``. ``provides``: versions of other
    components that come with it. ``attributes`` hold facts that checks ask for by name.
    """

    version: str
    covers: str = ""
    ref: str | None = None
    commit: str | None = None
    moving: bool = False
    reports: str | None = None
    status: Literal["", "maintained", "end-of-life", "prerelease", "unlisted", "unmapped"] = ""
    released: str = ""
    provides: dict[str, str] = {}
    requires: tuple[Need, ...] = ()
    conflicts: tuple[Need, ...] = ()
    attributes: dict[str, str] = {}
    note: str = ""
    sources: Sources


class Index(Row, frozen=True, kw_only=True):
    """A package index that documents name for a component, beside the user's own.

    ``versions`` are those that only it has. ``when`` is that of a Need.
    """

    url: Annotated[str, msgspec.Meta(pattern=r"^https://")]
    versions: str = ""
    when: dict[Literal["arch", "family"], str] = {}
    because: str = ""
    sources: Sources


class SourceBuild(Row, frozen=True, kw_only=True):
    """That a distribution is built from its source beside torch, where its wheels are for others.

    ``variables`` are in the environment of the build, ``requires`` what it takes beside torch.
    """

    variables: dict[str, str]
    requires: tuple[str, ...]
    because: str
    sources: Sources


class PackageManager(Row, frozen=True, kw_only=True):
    """How a package manager of the system installs a component from ``repository``.

    ``package`` is how it writes a package: ``{name}`` as the matrix has it, ``{lower}`` in small
    letters, ``{short}`` without ``ascend-``, ``{version}``. ``systems`` are ids of os-release, none
    for any.
    """

    name: str
    command: str
    package: str
    repository: Annotated[str, msgspec.Meta(pattern=r"^https://")]
    versions: str
    systems: tuple[str, ...] = ()
    sources: Sources

    def command_for(self, packages: Iterable[str], version: str) -> str:
        """What installs packages of a version."""
        words = (
            self.package.format(
                name=name,
                lower=name.lower(),
                short=name.lower().removeprefix("ascend-"),
                version=version,
            )
            for name in packages
        )
        return " ".join((self.command, *words))


class Obtain(Row, frozen=True, kw_only=True):
    """How a component comes onto a machine. ``system``: by the administrator, never by us."""

    kind: Literal["git", "pip", "system"]
    url: str = ""
    distribution: str = ""
    editable: bool = False
    indexes: tuple[Index, ...] = ()
    source_build: SourceBuild | None = None
    packages: tuple[str, ...] = ()
    managers: tuple[PackageManager, ...] = ()


class Upstream(Row, frozen=True, kw_only=True):
    """Where `matrix refresh` looks for releases of a component.

    ``repository`` is a git URL. ``tags`` and ``branches`` are regular expressions that a ref
    matches in whole, "" for none; their group ``version`` is the row's version, and without one
    the ref is. Refs whose commit is older than ``since`` (ISO 8601) are left out. ``core`` is the
    file that says which megatron-core a checkout has.
    """

    repository: Annotated[str, msgspec.Meta(pattern=r"^https://")]
    tags: str = ""
    branches: str = ""
    since: str = ""
    core: str = ""


class ImportCheck(Row, frozen=True, kw_only=True):
    """The lines of Python with which a project's documents have an installation checked."""

    versions: str = ""
    code: str
    sources: Sources


class WrongRef(Row, frozen=True, kw_only=True):
    """A ref that documents name and that does not exist, or that is not what it seems."""

    ref: str
    exists: bool
    use: str = ""
    seen_in: str = ""
    note: str = ""
    sources: Sources


class Behaviour(Row, frozen=True, kw_only=True):
    """What holds for a range of a component's versions (``versions``; "" is all)."""

    id: str
    text: str
    versions: str = ""
    evidence: Evidence = "code"
    sources: Sources


class Function(Row, frozen=True, kw_only=True):
    """What a function, class or dataclass of a component takes, by its full name.

    ``takes`` are names of parameters by the range of versions that has them ("" is all that are
    listed). ``*name`` and ``**name`` take any further arguments.
    """

    name: str
    takes: dict[str, tuple[str, ...]]


class Component(Row, frozen=True, kw_only=True, dict=True):
    """``matrices/components/<id>.yaml``. ``after``: components to be installed before this one.

    A component without releases is open: any version may exist, and only ranges speak of it.
    """

    schema: int
    id: str
    title: str
    scheme: Scheme
    obtain: Obtain
    import_name: str = ""
    after: tuple[str, ...] = ()
    releases: tuple[Release, ...] = ()
    refs: tuple[WrongRef, ...] = ()
    behaviours: tuple[Behaviour, ...] = ()
    functions: tuple[Function, ...] = ()
    import_checks: tuple[ImportCheck, ...] = ()
    upstream: Upstream | None = None
    note: str = ""
    sources: Sources

    @property
    def repository(self) -> str:
        """The URL that git fetches it from; "" where no row names one."""
        return self.obtain.url or (self.upstream.repository if self.upstream else "")

    def release(self, version: str) -> Release | None:
        """The row of a version, exact first, then one that covers it. Raises VersionError."""
        exact = self._by_version.get(parse(self.scheme, version))
        if exact is not None:
            return exact
        for release in self.releases:
            if release.covers and satisfies(self.scheme, version, release.covers):
                return release
        return None

    @functools.cached_property
    def _by_version(self) -> dict[object, Release]:
        # Of rows that compare equal the first counts.
        rows = reversed(self.releases)
        return {parse(self.scheme, release.version): release for release in rows}

    def import_check(self, version: str) -> ImportCheck | None:
        """The check that documents have for a version, or None. Raises VersionError."""
        for check in self.import_checks:
            if satisfies(self.scheme, version, check.versions):
                return check
        return None

    def behaviour(self, identity: str, version: str) -> Behaviour | None:
        """The behaviour of that id that the version shows, or None. Raises VersionError."""
        for behaviour in self.behaviours:
            if behaviour.id == identity and satisfies(self.scheme, version, behaviour.versions):
                return behaviour
        return None


class Rows(Row, frozen=True, kw_only=True):
    """A file of a site's own matrix for a component that is there: rows to add or to replace."""

    schema: int
    id: str
    releases: tuple[Release, ...] = ()
    refs: tuple[WrongRef, ...] = ()
    behaviours: tuple[Behaviour, ...] = ()


class Soc(Row, frozen=True, kw_only=True):
    """A chip by the name that aclrtGetSocName gives. Memory in GiB, clocks in MHz, L2 in MiB."""

    soc: str
    cube_cores: int | None = None
    vector_cores: int | None = None
    cube_mhz: int | None = None
    l2_mib: int | None = None
    memory_gib: int | None = None
    peak_tflops: float | None = None


class ChipResource(Row, frozen=True, kw_only=True):
    """What Kubernetes calls a family of chips: the resource, and the label of its jobs.

    ``npus`` has a node whose model is not known.
    """

    resource: str
    label: str
    npus: int
    source: str


class ChipRates(Row, frozen=True, kw_only=True):
    """GB/s (10^9 bytes) below which a healthy device or node is not: hints, there are no baselines.

    ``copy`` in device memory, read and written; ``all_reduce`` on a bus, in a node of ``ranks``.
    """

    copy: float
    all_reduce: float | None = None
    ranks: int = 0


class Family(Row, frozen=True, kw_only=True):
    """``matrices/hardware/<id>.yaml``: chips that share kernels, driver package and rules.

    ``id`` is the kernel folder's name (ascend910b ...). ``servers`` are the numbers of devices that
    servers have, empty where any number may be. ``idle_hbm_mb`` is the largest figure seen
    at idle. ``first_torch_npu`` is the torch_npu train that knows a name first. In it and in
    ``names`` a ``*`` at the end stands for any rest. ``first_vllm_ascend`` is the vllm-ascend whose
    documents list the family first, "none" where they say that it is not supported.

    ``node`` is how many devices a server usually has, 0 where that is not known. ``network``: jobs
    of several servers send over addresses in ``planes`` (of the first generation) or ``addresses``;
    over ``hccs`` inside a SuperPoD; over ``ports`` of UB without addresses. ``topology``: every
    pair of a ``group`` of eight is linked, or every pair beside the two dies of a ``card``.
    ``inf_nan_only``: torch_npu refuses to let overflows saturate. ``ordered_drivers``: drivers have
    versions that can be compared. ``rank_tables`` are the versions of tables that HCCL takes.
    """

    schema: int
    id: str
    title: str
    names: tuple[str, ...]
    npu_smi_names: tuple[str, ...]
    devices_per_npu: int | None = None
    servers: tuple[int, ...] = ()
    pci_device: str = ""
    bf16: bool | None = None
    fp8: bool | None = None
    training: bool = True
    ops_packages: tuple[str, ...] = ()
    manager_nodes: tuple[str, ...] = ()
    idle_hbm_mb: int | None = None
    first_torch_npu: dict[str, str] = {}
    first_vllm_ascend: str = ""
    socs: tuple[Soc, ...] = ()
    node: int = 0
    network: Literal["planes", "addresses", "hccs", "ports"] = "addresses"
    topology: Literal["", "group", "card"] = ""
    inf_nan_only: bool = False
    ordered_drivers: bool = True
    rank_tables: tuple[str, ...] = ()
    rates: ChipRates | None = None
    pod: ChipResource | None = None
    note: str = ""
    sources: Sources

    @property
    def is_new(self) -> bool:
        """Whether torch_npu knows none of its names before a train: older documents lack it."""
        return any(name.endswith("*") for name in self.first_torch_npu)


class Stack(Row, frozen=True, kw_only=True):
    """``matrices/stacks/<id>.yaml``: a combination that some project documents.

    ``components`` gives a range in each component's scheme (``==2.7.1.post4``).
    """

    schema: int
    id: str
    title: str
    status: Literal["verified", "documented", "derived", "known-bad", "end-of-life"]
    components: dict[str, str]
    environment: dict[str, str] = {}
    frameworks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sources: Sources


ValueType = Literal[
    "int",
    "float",
    "bool01",
    "enum",
    "ip",
    "ifname_filter",
    "port_spec",
    "path",
    "list",
    "kv_list",
    "string",
]


class Bounds(Row, frozen=True, kw_only=True):
    """What a value may be. ``low`` and ``high`` are allowed, ``above`` and ``below`` are not.

    ``pattern`` is a regular expression that the whole of a text has to match.
    """

    type: ValueType = "string"
    values: tuple[str, ...] = ()
    low: float | None = None
    high: float | None = None
    above: float | None = None
    below: float | None = None
    multiple_of: int | None = None
    any_case: bool = False
    pattern: str = ""


class Variable(Bounds, frozen=True, kw_only=True):
    """One environment variable. ``families`` has bounds that hold instead on a chip family.

    ``keys`` are those of a kv_list. ``invalid`` says what happens with another value: error,
    ignored, default, unknown. ``products`` are the families on which it has an effect, empty for
    all. ``hurts`` maps an allowed value to the reason why it does not belong into training.
    """

    name: str
    group: str
    meaning: str
    default: str = ""
    families: dict[str, Bounds] = {}
    keys: dict[str, Bounds] = {}
    invalid: Literal["", "error", "ignored", "default", "unknown"] = ""
    valid: str = ""
    products: tuple[str, ...] = ()
    scope: Literal["", "same", "node", "process"] = ""
    hurts: dict[str, str] = {}
    recommend: str = ""
    mistakes: tuple[str, ...] = ()
    show: bool = True
    sources: Sources


class NearMiss(Row, frozen=True, kw_only=True):
    wrong: str
    right: str
    note: str = ""


class Variables(Row, frozen=True, kw_only=True):
    """``matrices/environment.yaml``."""

    schema: int
    variables: tuple[Variable, ...]
    near_misses: tuple[NearMiss, ...]

    def find(self, name: str) -> Variable | None:
        return next((variable for variable in self.variables if variable.name == name), None)


class Flags(Row, frozen=True, kw_only=True):
    """``matrices/flags.yaml``: options of Megatron-LM's scripts, without their two dashes.

    ``every`` are those of all ``versions``, ``some`` those of the listed ones; ``mindspeed`` are
    added by a branch of MindSpeed. ``launcher`` has torchrun's with hyphens, and what each takes:
    flag, int, float, word, nodes (N or MIN:MAX), ranks (N or a device type), or choices as in
    ``Options.kinds``.
    """

    schema: int
    versions: tuple[str, ...]
    every: tuple[str, ...]
    some: dict[str, tuple[str, ...]]
    mindspeed: frozenset[str]
    launcher: dict[str, str]
    sources: Sources

    @property
    def of_launcher(self) -> frozenset[str]:
        """Torchrun's options in both spellings, which its parser takes."""
        return frozenset((*self.launcher, *(name.replace("-", "_") for name in self.launcher)))

    def listed(self, version: str) -> str:
        """The version itself, or the listed one with the same first two numbers, or ""."""
        same = [name for name in self.versions if name.split(".")[:2] == version.split(".")[:2]]
        return version if version in same else next(reversed(same), "")

    def of(self, listed: str) -> frozenset[str]:
        """The options of a listed version."""
        return frozenset((*self.every, *(name for name, has in self.some.items() if listed in has)))

    def read_in(self, listed: str) -> tuple[str, ...]:
        """Where the options of a listed version stand."""
        return tuple(source.url for source in self.sources if f"@core_v{listed}:" in source.url)

    def versions_with(self, name: str) -> tuple[str, ...]:
        return self.versions if name in self.every else self.some.get(name, ())


class OptionTable(Row, frozen=True, kw_only=True):
    """The options of a framework, of all its ``commits`` (by ref) together.

    ``lacks`` are those of them that a ref does not have, where its refs are told apart.
    """

    name: str
    repository: str
    commits: dict[str, str]
    options: frozenset[str]
    lacks: dict[str, frozenset[str]] = {}

    def has(self, ref: str) -> frozenset[str]:
        """The options of one ref."""
        return self.options - self.lacks.get(ref, frozenset())

    def refs_with(self, name: str) -> tuple[str, ...]:
        """The refs that have an option."""
        return tuple(ref for ref in self.commits if name in self.has(ref))


class Options(Row, frozen=True, kw_only=True):
    """``matrices/options.yaml``: options beside Megatron-LM's, and the values that its take.

    ``kinds`` are int, float, flag, or the choices, each with a | behind it. ``overrides`` are the
    kinds of verl's dotted keys: bool, int or float, or the known words, each with a | behind it.
    """

    schema: int
    tables: tuple[OptionTable, ...]
    kinds: dict[str, str]
    overrides: dict[str, str] = {}
    sources: Sources

    def table(self, name: str) -> OptionTable:
        """The table of a framework. Raises StopIteration for a name that has none."""
        return next(table for table in self.tables if table.name == name)

    def of(self, *names: str) -> frozenset[str]:
        """The options of these tables together."""
        return frozenset().union(*(table.options for table in self.tables if table.name in names))


class Hazard(Row, frozen=True, kw_only=True):
    """A name on PyPI that is not what its name says. ``kind``: placeholder or unrelated."""

    name: str
    kind: Literal["placeholder", "unrelated"]
    versions: str = ""
    what: str = ""
    want: str = ""
    sources: Sources


class Hazards(Row, frozen=True, kw_only=True):
    """``matrices/hazards.yaml``."""

    schema: int
    hazards: tuple[Hazard, ...]


class KnownWarning(Row, frozen=True, kw_only=True):
    """A line that warns of nothing on NPUs. ``pattern`` is a regular expression that finds it.

    ``by`` is the library that prints it, ``symptom``: harmless only where MindSpeed is not at work.
    """

    id: str
    by: str
    pattern: str
    meaning: str
    symptom: bool = False
    example: str


class KnownWarnings(Row, frozen=True, kw_only=True):
    """``matrices/warnings.yaml``."""

    schema: int
    warnings: tuple[KnownWarning, ...]


# What programs print before a code of CANN's runtime, such as "error code is 507018" or
# "ret[507018]". A part of another word does not count, as in "default 507018" or "barcode 507018".
CODE_BEFORE = (
    r"(?:(?:\b|_|[Ee]rr|[Ee]rror|[Rr]et|[Ee]xit|[Ss]tatus|[Rr]esult)code|Code|CODE|[Ee]rror|ERROR|"
    r"[Ee]rr[Nn]o|\b[Ee]rr|(?:\b|_)ret|Ret|RET|\brc|[Rr]esult|[Ss]tatus|[Ff]ailed|FAILED|[Ff]ailure|"
    r"(?:\b|_)fault|Fault|[Rr]eturned|AI ?CORE|AI ?CPU|错误码|返回码|返回值)"
    r"(?: is| no is|为|是)?[\]\"' ]{0,2}(?:[:=\[(,]|"
    "\uff1a|\uff08"
    r"){0,2} {0,2}"
)
# A call of the runtime or of HCCL with a code in brackets, such as "aclInit (107001)".
CALL_BEFORE = r"\b(?:acl|ACL|rt[A-Z]|[Hh]ccl|HCCL)\w*[^\d()\[\]]{0,60}[(\[]"


def find_code(codes: str) -> str:
    """An expression that finds one of these codes where a program prints it as a code."""
    return f"(?:{CODE_BEFORE}|{CALL_BEFORE})(?:{codes})\\b"


class KnownFailure(Row, frozen=True, kw_only=True):
    """A failure that a log shows, and what was behind it.

    ``matches`` are regular expressions, one of which finds a line; ``unless`` takes back lines
    that it finds as well. ``codes`` are those of CANN's runtime that it has, as one expression, in
    any of the forms in which programs print them. All are Hyperscan's: without look-around and
    back references, so that the time they take grows with the text alone. ``secondary``: mostly a
    wrapper or a consequence of another failure. ``victim``: told by a rank that waited, while
    another one is guilty.
    ``beats``: ids of failures that this one explains better where both are found.
    ``only_if_last``: a failure only where nothing follows the line. ``example`` is written for this
    file: the format of the program with neutral values. ``basis`` says what the patterns rest on: a
    public log, a document, the source that prints the text, or the usual form of such a message.
    ``before`` is what to look at before a run, ``caught_by`` the checks that do.
    ``verdict`` is what a scheduler should do: leave out the node that shows it, start again, or
    stop; without it, start again where a victim tells it, nothing where it is secondary, else stop.
    ``node`` is a regular expression whose first group is the node that a line names as failed.
    ``by_type``: an exception that the reader of tracebacks recognizes; it says
    title, cause and fix by the sentences of ``variants``.
    """

    id: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    title: str
    severity: Literal["fatal", "degraded", "benign"]
    matches: tuple[str, ...] = ()
    codes: str = ""
    unless: str = ""
    example: str
    basis: Literal["log", "doc", "source", "format"]
    cause: str
    fix: str
    affected: str = ""
    before: str = ""
    caught_by: tuple[str, ...] = ()
    beats: tuple[str, ...] = ()
    secondary: bool = False
    victim: bool = False
    only_if_last: bool = False
    verdict: Literal["", "restart", "exclude", "stop", "unknown"] = ""
    node: str = ""
    by_type: bool = False
    variants: dict[str, tuple[str, str, str]] = {}
    sources: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]

    def __post_init__(self) -> None:
        if bool(self.patterns) is self.by_type:
            raise ValueError(f"failure {self.id} needs matches, codes, or by_type")

    @property
    def patterns(self) -> tuple[str, ...]:
        """Expressions of which one finds a line."""
        if not self.codes:
            return self.matches
        return (*self.matches, find_code(self.codes))


class Failures(Row, frozen=True, kw_only=True):
    """``matrices/failures/<area>.yaml``."""

    schema: int
    failures: tuple[KnownFailure, ...]


class ImportNames(Row, frozen=True, kw_only=True):
    """``matrices/imports.yaml``: who brings a module, and how to get what pip does not have."""

    schema: int
    distributions: dict[str, str]
    trees: dict[str, str]
    frameworks: tuple[str, ...]
    sources: Sources


class ErrorCodes(Row, frozen=True, kw_only=True):
    """``matrices/error-codes.yaml``: what the codes of CANN, its runtime and HCCL mean."""

    schema: int
    reported: dict[str, str] = {}
    acl: dict[int, str] = {}
    hccl: dict[int, str] = {}
    sources: Sources


class CodeGuide(Row, frozen=True, kw_only=True):
    """What is behind codes of CANN's error manager, and what to do, in English and in Chinese."""

    codes: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    cause: str
    remedy: str
    cause_zh: str
    remedy_zh: str


class ErrorGuides(Row, frozen=True, kw_only=True):
    """``matrices/error-guides.yaml``."""

    schema: int
    guides: tuple[CodeGuide, ...]
    sources: Sources
