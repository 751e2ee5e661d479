"""The shape of the matrix: components, stacks, hardware, variables. Plain data, strictly loaded."""

import functools
import re
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Literal

import msgspec

from ascend_doctor.matrix.versions import Scheme, parse, satisfies

Evidence = Literal["stated", "code", "derived"]


_NAMES = re.compile(r"[A-Za-z_][\w.]*")


class Row(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True
):
    """A piece of a matrix file; unknown keys are errors."""


class Source(Row, frozen=True, kw_only=True):
    """A row's source: a URL or OWNER/REPO@REF:path, read on ``date`` (ISO 8601).

    One without a date was read on the day that the file names once, as ``read``.
    """

    url: Annotated[str, msgspec.Meta(min_length=1)]
    date: Annotated[str, msgspec.Meta(pattern=r"^20[0-9]{2}-[01][0-9]-[0-3][0-9]$")]
    quote: str = ""


Sources = Annotated[tuple[Source, ...], msgspec.Meta(min_length=1)]


def urls(sources: Iterable[Source]) -> tuple[str, ...]:
    return tuple(source.url for source in sources)


class Need(Row, frozen=True, kw_only=True):
    """A relation to another component; in ``conflicts``, to what must not be there with it.

    ``versions`` is a range in that component's scheme ("" is any). ``hard``: package metadata
    or code refuses anything else; otherwise the range is documented, and another version is a
    doubt. ``also`` is a range that another or a disputed source allows. ``optional``: binds
    only if that component is there. ``when`` restricts by machine facts: ``arch`` (x86_64,
    aarch64) and ``family`` (id of a hardware file); ``a|b`` is either, ``!a`` any other.
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
    """Whether a machine's fact fits what ``when`` of a need requires."""
    if required.startswith("!"):
        return value != required[1:]
    return value in required.split("|")


class Release(Row, frozen=True, kw_only=True):
    """One release, branch or package of a component.

    ``version`` is unique in the component and written in its scheme; a branch head of a
    numbered component is ``0+<branch>``. ``covers``: a range of further versions of this row.
    ``ref`` and ``commit`` are git's; ``moving``: the ref is a branch. ``reports`` is what the
    software says of itself if that differs from ``version``. ``provides``: versions of other
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

    ``versions`` are those that only it has. ``when`` is as in Need.
    """

    url: Annotated[str, msgspec.Meta(pattern=r"^https://")]
    versions: str = ""
    when: dict[Literal["arch", "family"], str] = {}
    because: str = ""
    sources: Sources


class SourceBuild(Row, frozen=True, kw_only=True):
    """A distribution is built from source beside torch, as its wheels are for others.

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
    """Where `matrix refresh` looks for releases of a component. ``repository`` is a git URL.

    ``tags`` and ``branches`` are regular expressions that match a whole ref, "" for none; their
    group ``version``, else the ref, is the row's version. Refs whose commit is older than ``since``
    (ISO 8601) are left out. ``core`` is the file that says which megatron-core a checkout has.
    """

    repository: Annotated[str, msgspec.Meta(pattern=r"^https://")]
    tags: str = ""
    branches: str = ""
    since: str = ""
    core: str = ""


class ImportCheck(Row, frozen=True, kw_only=True):
    """Lines of Python with which a project's documents check an installation."""

    versions: str = ""
    code: str
    sources: Sources


class WrongRef(Row, frozen=True, kw_only=True):
    """A documented ref that does not exist, or is not what it seems."""

    ref: str
    exists: bool
    use: str = ""
    seen_in: str = ""
    note: str = ""
    sources: Sources


class Behaviour(Row, frozen=True, kw_only=True):
    """A fact about a range of a component's ``versions`` ("" is all)."""

    id: str
    text: str
    versions: str = ""
    evidence: Evidence = "code"
    sources: Sources


class Function(Row, frozen=True, kw_only=True):
    """What a function, class or dataclass of a component takes, by its full name.

    ``takes`` are parameter names by the range of versions that has them ("" is all listed).
    ``*name`` and ``**name`` take any further arguments.
    """

    name: str
    takes: dict[str, tuple[str, ...]]

    def releases_with(self, argument: str) -> tuple[str, ...]:
        """The ranges of versions that take an argument."""
        return tuple(versions for versions, names in self.takes.items() if argument in names)


class Component(Row, frozen=True, kw_only=True, dict=True):
    """``matrices/components/<id>.yaml``. ``after``: components to install before this one.

    A component without releases is open: any version may exist, and only ranges name it.
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
        """The URL for git; "" if no row names one."""
        return self.obtain.url or (self.upstream.repository if self.upstream else "")

    def release(self, version: str) -> Release | None:
        """The row of a version: exact, else one that covers it. Raises VersionError."""
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
        """The documented check of a version, or None. Raises VersionError."""
        for check in self.import_checks:
            if satisfies(self.scheme, version, check.versions):
                return check
        return None

    def behaviour(self, identity: str, version: str) -> Behaviour | None:
        """The behaviour of that id in the version, or None. Raises VersionError."""
        for behaviour in self.behaviours:
            if behaviour.id == identity and satisfies(self.scheme, version, behaviour.versions):
                return behaviour
        return None


class Rows(Row, frozen=True, kw_only=True):
    """A site's matrix file for a known component: rows to add or to replace."""

    schema: int
    id: str
    releases: tuple[Release, ...] = ()
    refs: tuple[WrongRef, ...] = ()
    behaviours: tuple[Behaviour, ...] = ()


class Fields(Row, frozen=True, kw_only=True):
    """Keys of objects that allocate, by the file's kind and two keys above (*: any), and of sbatch.

    Their values are text, int, bool, or choices as in ``Options``.
    """

    schema: int
    objects: dict[str, dict[str, str | None]]
    sources: Sources


class Soc(Row, frozen=True, kw_only=True):
    """A chip by the name that aclrtGetSocName gives. Memory in GiB, clocks in MHz, L2 in MiB."""

    soc: str
    cube_cores: int | None = None
    vector_cores: int | None = None
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
    """GB/s (10^9 bytes) below which a device or node is not healthy: hints, not baselines.

    ``copy`` in device memory, read and written; ``all_reduce`` on a bus, in a node of ``ranks``.
    """

    copy: float
    all_reduce: float | None = None
    ranks: int = 0


class Bandwidths(Row, frozen=True, kw_only=True):
    """GB/s (10^9 bytes) of a device, one way, as documented.

    ``pair``: to one device of its server; ``card``: to all of them; ``network``: to others.
    """

    memory: float
    pair: float
    card: float
    network: float
    source: str


class Family(Row, frozen=True, kw_only=True):
    """``matrices/hardware/<id>.yaml``: chips that share kernels, driver package and rules.

    ``id`` is the kernel folder's name (ascend910b ...). ``servers`` are the numbers of devices
    in servers, empty for any number. ``idle_hbm_mb`` is the largest figure seen at idle.
    ``first_torch_npu`` is the torch_npu train that knows a name first. In it and in ``names`` a
    final ``*`` is any rest. ``first_vllm_ascend``: whose documents list the family first, "none"
    if they exclude it. ``node`` is the usual number of devices in a server, 0 if unknown.
    ``network``: jobs of several servers send over addresses in ``planes``
    (of the first generation) or ``addresses``; over ``hccs`` inside a SuperPoD; over ``ports``
    of UB without addresses. ``topology``: every pair of a ``group`` of eight is linked, or
    every pair beside the two dies of a ``card``. ``inf_nan_only``: torch_npu refuses to let
    overflows saturate. ``ordered_drivers``: driver versions are comparable. ``rank_tables`` are
    the versions of tables that HCCL takes.
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
    bandwidths: Bandwidths | None = None
    pod: ChipResource | None = None
    note: str = ""
    sources: Sources

    @property
    def is_new(self) -> bool:
        """Whether torch_npu knows its names only from a train on: older documents lack it."""
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


_Plain = Literal["int", "float", "bool01", "enum", "string", "list", "kv_list", "port_spec"]
_OfHost = Literal["ip", "host", "url", "ifname_filter", "path", "folder", "made_path"]
ValueType = Literal[_Plain, _OfHost, "search_path", "locale", "codec"]


class Bounds(Row, frozen=True, kw_only=True):
    """What a value may be. ``low`` and ``high`` are allowed, ``above`` and ``below`` are not.

    ``pattern`` is a regular expression for a whole text.
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
    """One environment variable. ``families`` has other bounds for a chip family.

    ``keys`` are those of a kv_list. ``invalid`` is the effect of another value: error, ignored,
    default, unknown. ``products`` are the families on which it works, empty for all. ``hurts``
    maps an allowed value to the reason against it in training.
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


class VariableRelation(Row, frozen=True, kw_only=True):
    """What variables of a launcher have to fulfil: an expression, and words if it is not clear."""

    holds: str
    words: str = ""
    sources: Sources


class NearMiss(Row, frozen=True, kw_only=True):
    wrong: str
    right: str
    note: str = ""


class NamesOf(Row, frozen=True, kw_only=True):
    """Names of variables without bounds, with blanks between them, that ``of`` has."""

    of: str
    names: str


class Variables(Row, frozen=True, kw_only=True):
    """``matrices/environment.yaml``. ``limits`` are those of the kernel and of processes."""

    schema: int
    variables: tuple[Variable, ...]
    names: tuple[NamesOf, ...] = ()
    near_misses: tuple[NearMiss, ...]
    relations: tuple[VariableRelation, ...] = ()
    limits: tuple[Variable, ...] = ()

    def find(self, name: str) -> Variable | None:
        return next((variable for variable in self.variables if variable.name == name), None)

    def list_names(self) -> tuple[str, ...]:
        """All names, those without bounds, too."""
        more = (name for row in self.names for name in row.names.split())
        return (*(variable.name for variable in self.variables), *more)


class Flags(Row, frozen=True, kw_only=True):
    """``matrices/flags.yaml``: options of Megatron-LM's scripts, without their two dashes.

    ``every`` are those of all ``versions``, each with what it takes (``Options``), ``some`` those
    of the versions in its keys, with blanks between them; a branch of MindSpeed adds ``mindspeed``.
    ``launcher`` has torchrun's with hyphens, and what each takes: flag, int, float, word, list
    (N,N), nodes (N or MIN:MAX), ranks (N or a device type), count, pairs, streams, or choices.
    """

    schema: int
    versions: tuple[str, ...]
    every: dict[str, str | None]
    some: dict[str, dict[str, str | None]]
    mindspeed: frozenset[str]
    launcher: dict[str, str]
    sources: Sources

    @property
    def of_launcher(self) -> frozenset[str]:
        """Torchrun's options in both spellings that it takes."""
        return frozenset((*self.launcher, *(name.replace("-", "_") for name in self.launcher)))

    def listed(self, version: str) -> str:
        """The version, or the listed one with its first two numbers, or ""."""
        same = [name for name in self.versions if name.split(".")[:2] == version.split(".")[:2]]
        return version if version in same else next(reversed(same), "")

    def of(self, listed: str) -> frozenset[str]:
        some = (names for has, names in self.some.items() if listed in has.split())
        return frozenset(self.every).union(*some)

    def read_in(self, listed: str) -> tuple[str, ...]:
        """Sources of a listed version's options."""
        return tuple(source.url for source in self.sources if f"@core_v{listed}:" in source.url)

    def versions_with(self, name: str) -> tuple[str, ...]:
        if name in self.every:
            return self.versions
        return next((tuple(has.split()) for has, names in self.some.items() if name in names), ())


class OptionTable(Row, frozen=True, kw_only=True):
    """The options of a framework, of all its ``commits`` (by ref) together, with their kinds.

    ``lacks`` are those that refs do not have, by these refs with commas between them.
    """

    name: str
    repository: str
    commits: dict[str, str]
    options: dict[str, str | None]
    lacks: dict[str, dict[str, None]] = {}

    def has(self, ref: str) -> frozenset[str]:
        """The options of one ref."""
        return frozenset(self.options).difference(
            *(names for refs, names in self.lacks.items() if ref in refs.split(","))
        )

    def refs_with(self, name: str) -> tuple[str, ...]:
        return tuple(ref for ref in self.commits if name in self.has(ref))


class Options(Row, frozen=True, kw_only=True):
    """``matrices/options.yaml``: options beside Megatron-LM's, and the values that all take.

    Their kinds are int, float, flag, or the choices, each followed by |; + at the end stands for
    several values. ``overrides`` is the tree of verl's keys, with their kinds: bool, int, float,
    the known words, each followed by |, open for a mapping of any keys, or any.
    """

    schema: int
    tables: tuple[OptionTable, ...]
    overrides: dict[str, Any] = {}
    sources: Sources

    def table(self, name: str) -> OptionTable:
        """Raises StopIteration for an unknown name."""
        return next(table for table in self.tables if table.name == name)

    def of(self, *names: str) -> frozenset[str]:
        return frozenset().union(*(table.options for table in self.tables if table.name in names))


class LaunchRule(Row, frozen=True, kw_only=True):
    """What options of a launch must satisfy, with these releases of Megatron-LM.

    ``when`` and ``needs`` are expressions (checks/launch/rules.py); ``divides`` is a short name, an
    expression and the option that its value divides, in place of ``needs`` and texts. ``at`` are
    the options to look at, the likeliest mistake first.
    """

    source: str
    megatron: str = ""
    level: Literal["error", "warning"] = "error"
    when: str = ""
    needs: str = ""
    divides: tuple[str, str, str] | None = None
    title: str = ""
    required: str = ""
    because: str = ""
    remedy: str = ""
    at: tuple[str, ...] = ()


class RuleGroup(Row, frozen=True, kw_only=True):
    """The rules of a check, for launches of these programs."""

    check: str
    programs: tuple[str, ...] = ("megatron", "megatron-swift", "verl", "mindspeed-rl", "")
    rules: tuple[LaunchRule, ...]


class LaunchRules(Row, frozen=True, kw_only=True):
    """``matrices/launch-rules.yaml``: rules, and the defaults of options.

    ``short`` are names for beginnings of Hydra's keys, ``files`` for those of sources.
    """

    schema: int
    short: dict[str, str]
    files: dict[str, str]
    defaults: dict[str, int | float | str | bool]
    groups: tuple[RuleGroup, ...]

    def key(self, name: str) -> str:
        """A name of an expression in full."""
        first, dot, rest = name.partition(".")
        return f"{self.short.get(first, first)}{dot}{rest}"

    def source(self, rule: LaunchRule) -> str:
        file, colon, line = rule.source.partition(":")
        return f"{self.files[file]}{colon}{line}" if file in self.files else rule.source

    def names(self) -> frozenset[str]:
        """The names in all expressions."""
        rules = (rule for group in self.groups for rule in group.rules)
        texts = (text for rule in rules for text in (rule.when, rule.needs, *(rule.divides or ())))
        return frozenset(self.key(name) for text in texts for name in _NAMES.findall(text))


class Validation(Row, frozen=True, kw_only=True):
    """Refusals of a framework's validation, by file: each a line and a condition over options.

    ``defaults`` are those that are not false. Options that are ``open`` have none. ``releases`` of
    Megatron-LM have all of them, and so have its ``forks``. ``unless`` is a framework that leaves
    these validations out.
    """

    name: str
    source: str
    releases: tuple[str, ...] = ()
    unless: str = ""
    forks: bool = False
    defaults: dict[str, int | float | str | bool]
    open: tuple[str, ...]
    files: dict[str, tuple[str, ...]]

    def rules(self) -> Iterator[tuple[str, str]]:
        """Each source and its condition."""
        for file, lines in self.files.items():
            for line in lines:
                number, _, condition = line.partition(" ")
                yield f"{self.source}{file}:{number}", condition


class Validations(Row, frozen=True, kw_only=True):
    """``matrices/validations.yaml``."""

    schema: int
    tables: tuple[Validation, ...]


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
    """A harmless warning on NPUs; ``pattern`` finds it, ``by`` is the library that prints it."""

    id: str
    by: str
    pattern: str
    meaning: str
    example: str


class KnownWarnings(Row, frozen=True, kw_only=True):
    """``matrices/warnings.yaml``."""

    schema: int
    warnings: tuple[KnownWarning, ...]


# What programs print before a code of CANN's runtime, as "error code is 507018" or
# "ret[507018]". Parts of other words do not count, as in "default 507018" or "barcode 507018".
CODE_BEFORE = (
    r"(?:(?:\b|_|[Ee]rr|[Ee]rror|[Rr]et|[Ee]xit|[Ss]tatus|[Rr]esult)code|Code|CODE|[Ee]rror|ERROR|"
    r"[Ee]rr[Nn]o|\b[Ee]rr|(?:\b|_)ret|Ret|RET|\brc|[Rr]esult|[Ss]tatus|[Ff]ailed|FAILED|[Ff]ailure|"
    r"(?:\b|_)fault|Fault|[Rr]eturned|AI ?CORE|AI ?CPU|错误码|返回码|返回值)"
    r"(?: is| no is|为|是)?[\]\"' ]{0,2}(?:[:=\[(,]|"
    "\uff1a|\uff08"
    r"){0,2} {0,2}"
)
# A call of the runtime or HCCL with a code in brackets, as "aclInit (107001)".
CALL_BEFORE = r"\b(?:acl|ACL|rt[A-Z]|[Hh]ccl|HCCL)\w*[^\d()\[\]]{0,60}[(\[]"

# A code of CANN's error manager, and what follows one without such words.
REPORTED = r"[EW][A-Z\d]\d{4}"
CODE_AFTER = r":|\)|\[PID| error code"


def find_code(codes: str) -> str:
    """An expression for one of these codes where a program prints it as a code."""
    return f"(?:{CODE_BEFORE}|{CALL_BEFORE})(?:{codes})\\b"


_ISSUE = re.compile(r"\A([\w.-]+/[\w.-]+)#(\d+)\Z")
Verdict = Literal["", "restart", "exclude", "stop", "unknown"]


class KnownFailure(Row, frozen=True, kw_only=True):
    """A failure that a log shows, and what was behind it.

    An expression of ``matches`` finds a line, unless ``unless`` does; its groups fill <group> in
    ``fix``. ``codes``: those of CANN's runtime, as one expression. All are Hyperscan's, without
    look-around and back references. ``secondary``: mostly a wrapper or a consequence. ``victim``:
    a rank that waited. ``beats``: failures that this one explains. ``example`` has neutral values.
    ``basis`` of the patterns: a public log, a document, a source, or the usual form of a message.
    ``before``: what to look at before a run, ``caught_by``: the checks that do. ``verdict`` is for
    a scheduler; without it, start again for a victim, nothing for a secondary one, else stop. The
    first group of ``node`` is the failed node. ``by_type``: known by the reader of tracebacks, with
    the sentences of ``variants`` as title, cause and fix; ``reads``: see links.py. ``sources``:
    OWNER/REPO#N is an issue.
    """

    id: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
    title: str
    severity: Literal["fatal", "degraded", "benign"] = "fatal"
    matches: tuple[str, ...] = ()
    codes: str = ""
    unless: str = ""
    example: str
    basis: Literal["log", "doc", "source", "format"] = "log"
    cause: str
    fix: str
    affected: str = ""
    before: str = ""
    caught_by: tuple[str, ...] = ()
    beats: tuple[str, ...] = ()
    secondary: bool = False
    victim: bool = False
    verdict: Verdict = ""
    node: str = ""
    by_type: bool = False
    variants: dict[str, tuple[str, str, str]] = {}
    reads: dict[str, str] = {}
    sources: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]

    def __post_init__(self) -> None:
        if bool(self.patterns) is self.by_type:
            raise ValueError(f"failure {self.id} needs matches, codes, or by_type")
        urls = (_ISSUE.sub(r"https://github.com/\1/issues/\2", source) for source in self.sources)
        msgspec.structs.force_setattr(self, "sources", tuple(urls))

    @property
    def patterns(self) -> tuple[str, ...]:
        """Expressions of which one finds a line."""
        if not self.codes:
            return self.matches
        alone = [rf"\b{self.codes}(?:{CODE_AFTER})"] if self.codes[0].isalpha() else []
        return (*self.matches, find_code(self.codes), *alone)

    @property
    def is_of_code(self) -> bool:
        """Whether it is a documented code."""
        return self.id == self.codes.lower()


class Failures(Row, frozen=True, kw_only=True):
    """``matrices/failures/<area>.yaml``; ``sources`` are those of several rows."""

    schema: int
    sources: tuple[str, ...] = ()
    failures: tuple[KnownFailure, ...]


class ImportNames(Row, frozen=True, kw_only=True):
    """``matrices/imports.yaml``: who brings a module, and how to get what pip does not have."""

    schema: int
    distributions: dict[str, str]
    trees: dict[str, str]
    frameworks: tuple[str, ...]
    sources: Sources


class ErrorCodes(Row, frozen=True, kw_only=True):
    """``matrices/error-codes.yaml``: what the codes of CANN, its runtime and HCCL mean.

    Several that are ``reported`` may share a text in the file, with blanks between them.
    """

    schema: int
    reported: dict[str, str] = {}
    acl: dict[int, str] = {}
    hccl: dict[int, str] = {}
    sources: Sources

    def __post_init__(self) -> None:
        pairs = [(code, text) for codes, text in self.reported.items() for code in codes.split()]
        if len(pairs) > len(each := dict(pairs)):
            raise ValueError("a code is there twice")
        msgspec.structs.force_setattr(self, "reported", each)


class CodeGuide(Row, frozen=True, kw_only=True):
    """Cause and remedy of codes of CANN; ``names``: what the runtime prints for the first."""

    codes: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    cause: str
    remedy: str
    names: tuple[str, ...] = ()
    verdict: Verdict = ""
    secondary: bool = False
    caught_by: tuple[str, ...] = ()
    beats: tuple[str, ...] = ()

    def as_failure(self, code: str, meaning: str) -> KnownFailure:
        own = msgspec.structs.asdict(self) | {"codes": code, "fix": self.remedy}
        del own["remedy"], own["names"]
        names = self.names if code == self.codes[0] else ()
        return KnownFailure(
            id=code.lower(),
            title=f"CANN reports {code}: {meaning}",
            matches=tuple(rf"(reason=|retCode=0x\w+, ?)\[?{name}" for name in names),
            severity="degraded" if code.startswith("W") else "fatal",
            example=f"error code {code}: {meaning}",
            sources=("matrices/error-guides.yaml",),
            **own,
        )


class ErrorGuides(Row, frozen=True, kw_only=True):
    """``matrices/error-guides.yaml``."""

    schema: int
    guides: tuple[CodeGuide, ...]
    sources: Sources
