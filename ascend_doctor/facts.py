"""The facts about a machine: plain data, no opinions.

In every section ``None`` means "could not tell"; absence is a value (an empty tuple, ``False``).
Sizes are bytes and times are seconds unless a field's name says otherwise.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from ascend_doctor.errors import Unknown
from ascend_doctor.findings import Place
from ascend_doctor.probe_results import ProbeRun
from ascend_doctor.timestamps import Timestamp

SCHEMA = 1


class Section(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One subject, collected in one go. ``source`` is its tool or file."""

    source: str = ""


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A piece of a section."""


class Container(Part, frozen=True, kw_only=True):
    """``kind`` is docker, podman, kubernetes, containerd, lxc or "container" where unnamed."""

    kind: str
    ascend_docker_runtime: bool = False
    privileged: bool | None = None


class Limit(Part, frozen=True, kw_only=True):
    """A limit of a process, or a setting of the kernel. ``-1`` stands for unlimited."""

    name: str
    soft: int
    hard: int
    used: int | None = None


class OddLine(Part, frozen=True, kw_only=True):
    """A line outside of the grammar of its file."""

    path: str
    line: int
    text: str


class Host(Section, frozen=True, kw_only=True):
    name: str = ""
    os_id: str = ""
    os_version: str = ""
    arch: str = ""
    kernel: str = ""
    glibc: str | None = None
    libstdcxx: str | None = None
    glibcxx: str | None = None
    cpus: int | None = None
    cpus_usable: int | None = None
    numa_nodes: int | None = None
    memory: int | None = None
    memory_available: int | None = None
    memory_limit: int | None = None
    memory_held: dict[str, int] = {}
    shm_size: int | None = None
    shm_free: int | None = None
    limits: tuple[Limit, ...] = ()
    container: Container | None = None
    virtual_machine: str | None = None
    uid: int | None = None
    gids: tuple[int, ...] = ()
    transparent_hugepages: str | None = None
    cpu_governors: tuple[str, ...] = ()
    page_size: int | None = None
    hosts: dict[str, str] = {}
    name_services: tuple[str, ...] = ()
    odd_lines: tuple[OddLine, ...] = ()


class FileSystem(Part, frozen=True, kw_only=True):
    """Room where jobs write: bytes and inodes, as this user may use them.

    ``uses`` are words of checks/storage.py. ``path`` is the requested folder, or the nearest
    existing one above it. Without ``files`` the file system counts no inodes. ``closed`` is where
    this user may not write.
    """

    path: str
    uses: tuple[str, ...]
    size: int
    free: int
    files: int = 0
    files_free: int = 0
    read_only: bool = False
    no_exec: bool = False
    closed: str = ""


class Storage(Section, frozen=True, kw_only=True):
    """File systems that jobs write to. ``untold``: those that did not answer.

    ``mounts`` are options by the place of a mount.
    """

    places: tuple[FileSystem, ...] = ()
    untold: tuple[str, ...] = ()
    mounts: dict[str, str] = {}

    def options(self, path: str) -> list[str]:
        """Those of the mount that a path is on."""
        points = [each for each in self.mounts if f"{path}/".startswith(f"{each.rstrip('/')}/")]
        return self.mounts[max(points, key=len)].split(",") if path and points else []


class DeviceNode(Part, frozen=True, kw_only=True):
    """A device file. ``number`` is N of /dev/davinciN; ``kind`` is device, vdevice or manager."""

    path: str
    kind: str
    number: int | None = None
    uid: int | None = None
    gid: int | None = None
    owner: str | None = None
    group: str | None = None
    mode: str = ""
    is_device: bool = True
    readable: bool | None = None
    writable: bool | None = None


class Library(Part, frozen=True, kw_only=True):
    """A shared library and the loader's file for it. ``by`` names the rule."""

    name: str
    path: str | None = None
    by: str = ""


class PciFunction(Part, frozen=True, kw_only=True):
    """A PCI function of vendor 0x19e5; ids are lower-case hex with 0x. ``width``: lanes in use."""

    address: str
    device: str
    subsystem_device: str = ""
    width: str = ""
    driver: str = ""


class InstallInfo(Part, frozen=True, kw_only=True):
    """``/etc/ascend_install.info``; ``is_directory``: made by a mount; ``closed``: unreadable."""

    is_directory: bool = False
    closed: bool = False
    driver_path: str | None = None
    driver_status: str | None = None
    group: str | None = None
    for_all: bool = False


class DockerRuntime(Part, frozen=True, kw_only=True):
    """Ascend Docker Runtime on this host. ``mounts`` are the paths of its base.list.

    ``is_there``: the program ``path`` exists.
    """

    path: str | None = None
    is_there: bool | None = None
    default: bool = False
    mounts: tuple[str, ...] = ()


class Driver(Section, frozen=True, kw_only=True):
    """The kernel driver (HDK), its firmware, its device files and its user-space libraries.

    ``modules``: loaded kernel modules. ``parts``: versions by name, as ascendhal.
    """

    path: str | None = None
    version: str | None = None
    package_version: str | None = None
    parts: dict[str, str] = {}
    compatible_firmware: str | None = None
    firmware_version: str | None = None
    compatible_drivers: str | None = None
    install_info: InstallInfo | None = None
    nodes: tuple[DeviceNode, ...] = ()
    libraries: tuple[Library, ...] = ()
    modules: tuple[str, ...] | None = None
    pci: tuple[PciFunction, ...] | None = None
    docker: DockerRuntime | None = None

    @property
    def devices(self) -> tuple[DeviceNode, ...]:
        return tuple(node for node in self.nodes if node.kind == "device")

    @property
    def present(self) -> bool:
        return bool(self.nodes or self.pci or self.version or self.install_info)


class Usage(Part, frozen=True, kw_only=True):
    """Used and total memory in MB as npu-smi prints them."""

    used: int
    total: int


class Npu(Part, frozen=True, kw_only=True):
    """One device of the npu-smi table: the pair (``npu_id``, ``chip_id``).

    ``device`` is the number of /dev/davinciN and of ``hccn_tool -i``: the Phy-ID on A3, the NPU id
    on A2 and 950, None on 310. ``cells`` have what is under each header with a unit.
    """

    npu_id: int
    chip_id: int = 0
    device: int | None = None
    name: str = ""
    bus: str = ""
    health: str = ""
    cells: dict[str, str] = {}
    temperature_c: int | None = None
    utilisation: int | None = None
    memory: Usage | None = None
    hbm: Usage | None = None


class NpuProcess(Part, frozen=True, kw_only=True):
    """A row of the process table. ``memory_mb`` as printed."""

    npu_id: int
    chip_id: int = 0
    pid: int
    name: str = ""
    memory_mb: int | None = None


class NpuHealth(Part, frozen=True, kw_only=True):
    """``npu-smi info -t health``: codes and their texts."""

    npu_id: int
    chip_id: int = 0
    codes: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()


class NpuEcc(Part, frozen=True, kw_only=True):
    """``npu-smi info -t ecc``: counters by their printed name."""

    npu_id: int
    chip_id: int = 0
    counters: dict[str, int] = {}


class NpuBoard(Part, frozen=True, kw_only=True):
    """``npu-smi info -t board``. ``compatibility`` is driver against firmware: OK, NOK, UNKNOWN.

    ``kind`` has answers by their printed name that cards of one kind share.
    """

    npu_id: int
    chip_name: str | None = None
    npu_name: str | None = None
    driver_version: str | None = None
    firmware_version: str | None = None
    compatibility: str | None = None
    kind: dict[str, str] = {}


class NpuMapping(Part, frozen=True, kw_only=True):
    npu_id: int
    chip_id: int


class Topology(Part, frozen=True, kw_only=True):
    """``npu-smi info -t topo``: ``links[i][j]`` is the code from ``names[i]`` to ``names[j]``.

    A row of "" was not printed.
    """

    names: tuple[str, ...]
    links: tuple[tuple[str, ...], ...]


class ToolError(Part, frozen=True, kw_only=True):
    """A vendor tool's error instead of an answer. ``kind`` is a stable kebab-case word."""

    kind: str
    text: str
    exit_code: int | None = None


class Npus(Section, frozen=True, kw_only=True):
    """The output of npu-smi. ``tool`` is its path, "" if it is not installed.

    ``layout`` is a2 (910 too), a3, 310 or 950. ``complete``: the device table was not cut.
    ``processes`` is None if the tool did not say. ``listed`` is the number of cards of ``info -l``.
    """

    tool: str = ""
    tool_version: str | None = None
    driver_version: str | None = None
    layout: str | None = None
    devices: tuple[Npu, ...] = ()
    complete: bool = True
    processes: tuple[NpuProcess, ...] | None = None
    listed: int | None = None
    mapping: tuple[NpuMapping, ...] | None = None
    health: tuple[NpuHealth, ...] = ()
    ecc: tuple[NpuEcc, ...] = ()
    boards: tuple[NpuBoard, ...] = ()
    topology: Topology | None = None
    error: ToolError | None = None
    warnings: tuple[str, ...] = ()


class CannComponent(Part, frozen=True, kw_only=True):
    """A folder of the toolkit. ``public`` is the release it belongs to, ``version`` as written.

    ``requires``: versions by what its file names, as "package runtime" and "driver ascendhal".
    """

    name: str
    version: str | None = None
    public: str | None = None
    requires: dict[str, str] = {}


class CannInstall(Part, frozen=True, kw_only=True):
    """One toolkit on disk. ``kernels``: SoC folders with compiled operators."""

    root: str
    version: str | None = None
    arch: str | None = None
    components: tuple[CannComponent, ...] = ()
    kernels: tuple[str, ...] = ()
    ops_packages: tuple[str, ...] = ()
    ops_arch: str | None = None
    set_env: str | None = None
    simulated: bool = False

    @property
    def title(self) -> str:
        return f"CANN {self.version or 'of unknown version'}"


class Nnal(Part, frozen=True, kw_only=True):
    """An NNAL/ATB install."""

    root: str
    version: str | None = None
    arch: str | None = None
    set_env: str | None = None


class CannShell(Part, frozen=True, kw_only=True):
    """CANN in the environment of this process.

    A path into an install begins with that install's ``root``, in any spelling; others are as
    written. ``library_roots`` and ``python_roots`` are the roots in LD_LIBRARY_PATH and
    PYTHONPATH, in their order. ``named`` is the root that each variable leads into first, of CANN
    or NNAL. ``in_front`` are files that the loader takes instead of CANN's. ``stale`` are named
    folders of CANN that are gone.
    """

    home: str | None = None
    toolkit_home: str | None = None
    opp: str | None = None
    atb: str | None = None
    library_roots: tuple[str, ...] = ()
    python_roots: tuple[str, ...] = ()
    named: dict[str, str] = {}
    in_front: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()

    @property
    def sourced(self) -> bool:
        return bool(self.home or self.toolkit_home)


class Cann(Section, frozen=True, kw_only=True):
    """Every CANN on disk and the one that this environment uses."""

    installs: tuple[CannInstall, ...] = ()
    active: str | None = None
    nnal: tuple[Nnal, ...] = ()
    shell: CannShell = CannShell()

    @property
    def in_use(self) -> CannInstall | None:
        return next((install for install in self.installs if install.root == self.active), None)


class Distribution(Part, frozen=True, kw_only=True):
    """An installed distribution, by its metadata alone.

    ``name`` is normalised (PEP 503). ``direct_url`` is the PEP 610 URL without credentials.
    ``shadowed``: another copy of the name is earlier on sys.path. For a few packages the
    modules and libraries of RECORD were checked: ``files_listed`` is their number, else None,
    and ``files_missing`` are the first of those that are gone or empty.
    """

    name: str
    version: str
    location: str = ""
    direct_url: str | None = None
    commit: str | None = None
    editable: bool = False
    shadowed: bool = False
    requires: tuple[str, ...] = ()
    requires_python: str | None = None
    files_listed: int | None = None
    files_missing: tuple[str, ...] = ()


class Doctor(Part, frozen=True, kw_only=True):
    """The environment that runs the doctor. ``packages`` are its training packages."""

    executable: str
    packages: tuple[str, ...] = ()


class Python(Section, frozen=True, kw_only=True):
    """The examined interpreter. ``own``: it is the one that runs the doctor.

    ``by`` is what named it: --python, VIRTUAL_ENV, CONDA_PREFIX, or PATH if no environment is
    active. ``enums_by_getattr``: it pickles members of an enum by a call of getattr. ``torch_abi``
    is that of the C++ library as torch's own file tells it, asked if ATB is set up.
    ``other_releases``: folders of other Pythons in this environment that have packages.
    """

    executable: str = ""
    version: str = ""
    implementation: str = ""
    prefix: str = ""
    base_prefix: str = ""
    own: bool = False
    by: str = ""
    doctor: Doctor | None = None
    machine: str = ""
    sys_path: tuple[str, ...] = ()
    distributions: tuple[Distribution, ...] = ()
    importable: dict[str, bool] = {}
    enums_by_getattr: bool | None = None
    torch_abi: int | None = None
    other_releases: tuple[str, ...] = ()

    def find(self, name: str) -> Distribution | None:
        """The distribution that metadata lookups give for this normalised name."""
        return next(
            (
                distribution
                for distribution in self.distributions
                if distribution.name == name and not distribution.shadowed
            ),
            None,
        )


class Needed(Part, frozen=True, kw_only=True):
    """A NEEDED entry and where the loader finds it. ``path`` is None if it finds nothing.

    ``at_import``: loaded by ``import torch_npu`` itself, not only by a later use.
    """

    name: str
    path: str | None = None
    by: str = ""
    wanted_by: tuple[str, ...] = ()
    at_import: bool = True


class MissingSymbol(Part, frozen=True, kw_only=True):
    """A symbol that no resolved library exports. ``owner``: cann, nnal, torch, or "" if unknown."""

    name: str
    wanted_by: str
    owner: str = ""
    at_import: bool = True


class Native(Section, frozen=True, kw_only=True):
    """ELF facts of the installed torch_npu; nothing was loaded.

    ``torch_npu`` is its folder, "" without one.
    ``needed`` is in the loader's order. A missing symbol is only listed if the library that
    should have it was found; ``symbols_checked`` counts those. ``versions`` are the newest
    interfaces of the C and C++ library that torch and torch_npu need; ``libstdcxx`` is the C++
    library that they get and ``glibcxx`` its versions.
    """

    torch_npu: str | None = None
    machine: str | None = None
    needed: tuple[Needed, ...] = ()
    missing_symbols: tuple[MissingSymbol, ...] = ()
    symbols_checked: int = 0
    hal: Library | None = None
    atb: Library | None = None
    versions: tuple[str, ...] = ()
    libstdcxx: str | None = None
    glibcxx: str | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """Libraries without which ``import torch_npu`` fails."""
        return tuple(
            needed.name for needed in self.needed if needed.path is None and needed.at_import
        )


class GitState(Part, frozen=True, kw_only=True):
    """The checkout of a copy. ``refs``: tags and branches at its commit. ``unmerged``: files."""

    root: str
    commit: str | None = None
    branch: str | None = None
    refs: tuple[str, ...] = ()
    dirty: bool | None = None
    unmerged: tuple[str, ...] = ()


class PackageCopy(Part, frozen=True, kw_only=True):
    """One copy of an import name. ``entry`` is the sys.path entry or finder that offers it.

    ``kind`` is package, namespace, module or editable. ``parts`` are the sub-packages of this
    copy (core, training ... for megatron). ``versions`` has the version that a sub-package's
    source reports.
    """

    path: str
    entry: str
    kind: str
    parts: tuple[str, ...] = ()
    versions: dict[str, str] = {}
    git: GitState | None = None


class ImportName(Part, frozen=True, kw_only=True):
    """All copies of one import name, the winner first."""

    name: str
    copies: tuple[PackageCopy, ...] = ()


class ImportPath(Section, frozen=True, kw_only=True):
    """Importable copies of the packages that decide a training stack.

    ``pythonpath``: PYTHONPATH split at colons, with empty entries; ``absent`` do not exist.
    ``hidden``: packages of CANN and its needs behind a module that is not installed.
    """

    pythonpath: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    names: tuple[ImportName, ...] = ()
    hidden: tuple[ImportName, ...] = ()

    def find(self, name: str) -> ImportName:
        return next(
            (import_name for import_name in self.names if import_name.name == name),
            ImportName(name=name),
        )


class Interface(Part, frozen=True, kw_only=True):
    """A network interface of this network namespace. Addresses without prefix length."""

    name: str
    addresses: tuple[str, ...] = ()
    up: bool | None = None


class PathEntry(Part, frozen=True, kw_only=True):
    """An unsearched entry of PATH, why, and the programs of the doctor in it."""

    text: str
    reason: str
    programs: tuple[str, ...] = ()


class Environment(Section, frozen=True, kw_only=True):
    """Environment variables and the host's network.

    ``variables`` holds values of an allow-list, ``withheld`` the names of others; ``odd_paths`` say
    what is wrong with the path of a variable. ``locales`` are the installed ones, None if not
    listed. ``listening`` are the used local TCP ports, None if unreadable. ``preloaded`` are the
    entries of LD_PRELOAD and where they are found. ``path_left_out`` are the entries of PATH that
    the doctor starts nothing from; None in records of earlier versions.
    """

    variables: dict[str, str] = {}
    withheld: tuple[str, ...] = ()
    odd_paths: dict[str, str] = {}
    locales: tuple[str, ...] | None = None
    interfaces: tuple[Interface, ...] | None = None
    listening: tuple[int, ...] | None = None
    local_port_range: tuple[int, int] | None = None
    reserved_ports: str | None = None
    preloaded: tuple[Library, ...] = ()
    path_left_out: tuple[PathEntry, ...] | None = None


class HccnPort(Part, frozen=True, kw_only=True):
    """A port of a 950 device (``hccn_tool -g -dev_info``)."""

    udie: int
    port: int
    link: str = ""


class HccnDevice(Part, frozen=True, kw_only=True):
    """Answers of hccn_tool for one device; "" for what is not set.

    ``tls``: the switch is on. ``link_ups`` counts since the start; ``link_changes`` are UP and
    DOWN, the newest first; ``link_drops`` counts DOWN of the last hour. ``optical`` holds lines of
    ``-optical`` by key, asked if the link is not UP. ``ports`` is for 950, where ``device`` is the
    index of the runtime; elsewhere it is N of /dev/davinciN. ``unsupported`` are questions that
    this product or machine does not know.
    """

    device: int
    address: str | None = None
    netmask: str | None = None
    gateway: str | None = None
    link: str | None = None
    health: str | None = None
    detect: str | None = None
    tls: bool | None = None
    link_ups: int | None = None
    link_changes: tuple[str, ...] = ()
    link_drops: int = 0
    optical: dict[str, str] = {}
    ports: tuple[HccnPort, ...] = ()
    unsupported: tuple[str, ...] = ()
    error: ToolError | None = None

    @property
    def state(self) -> str | None:
        """The link; of 950 that of the best port, as a server does not wire all."""
        links = [port.link for port in self.ports if port.link]
        return ("UP" if "UP" in links else links[0]) if links else self.link


class Hccn(Section, frozen=True, kw_only=True):
    """The network ports inside the NPUs. ``conf`` is /etc/hccn.conf by key, None where absent.

    ``error`` is what ended all asking (permission, a time-out); ``devices`` are those up to it.
    """

    conf: dict[str, str] | None = None
    tool: str = ""
    devices: tuple[HccnDevice, ...] = ()
    error: ToolError | None = None


class RankEntry(Part, frozen=True, kw_only=True):
    """One device of a rank table; None where the table does not say, or says no number.

    ``server`` is the server_id, of 950 the network instance of its lowest layer. ``device`` is
    the physical id. ``super_device`` is the SDID of A3.
    """

    rank: int | None = None
    server: str = ""
    device: int | None = None
    address: str | None = None
    super_device: int | None = None


class RankTable(Section, frozen=True, kw_only=True):
    """The file of RANK_TABLE_FILE. ``path`` is "" if the variable is not set.

    ``version`` is 1.0, 1.2, 2.0, or "" for the old form with group_list. ``problem`` says why
    there are no ``ranks``. ``counted`` is its declared number of servers (950: of ranks).
    """

    path: str = ""
    version: str = ""
    status: str = ""
    counted: int | None = None
    ranks: tuple[RankEntry, ...] = ()
    problem: str | None = None


class Holder(Part, frozen=True, kw_only=True):
    """A process that has device files open. ``devices`` are davinci numbers."""

    pid: int
    name: str = ""
    user: str = ""
    devices: tuple[int, ...] = ()
    age: float | None = None
    container: bool | None = None


class Holders(Section, frozen=True, kw_only=True):
    """Processes that hold NPUs, from /proc. ``complete``: every process could be read."""

    processes: tuple[Holder, ...] = ()
    complete: bool = True


class BuildLock(Part, frozen=True, kw_only=True):
    """A lock of an extension that torch compiles. ``age`` in seconds, None if unknown.

    ``holder`` is the process that holds it, if any. ``complete``: every process could be asked;
    ``local``: no other machine writes to its file system.
    """

    path: str
    age: float | None = None
    holder: int | None = None
    complete: bool = True
    local: bool = True


class BuildLocks(Section, frozen=True, kw_only=True):
    """Locks below the folder where torch compiles extensions; ``source`` is the folder."""

    locks: tuple[BuildLock, ...] = ()


class Spot(Part, frozen=True, kw_only=True):
    """A name in a file: what is imported or called, with which argument, or not known."""

    name: str
    argument: str = ""
    location: Place = msgspec.field(name="place")


class FrameworkRefusal(Part, frozen=True, kw_only=True):
    """What a framework says of a launch.

    ``program`` is the framework, ``text`` its words, ``source`` its file and line, ``code`` the
    text there. ``option`` is its subject, ``others`` are further options that it depends on.
    ``outcome`` is refused, changed (another value is used), or unjudged.
    """

    program: str
    text: str
    source: str = ""
    code: str = ""
    option: str = ""
    location: Place | None = msgspec.field(name="place", default=None)
    others: tuple[Spot, ...] = ()
    outcome: str = "refused"


class Allocation(Part, frozen=True, kw_only=True):
    """What a scheduler gives a launch: nodes (pods), tasks and devices of each; 0: unknown.

    ``whole``: each task of all nodes starts the launch. ``places`` are those of the sizes.
    """

    nodes: int = 0
    tasks: int = 1
    devices: int = 0
    whole: bool = False
    places: dict[str, Place] = {}


class Launch(Section, frozen=True, kw_only=True):
    """The launch command to judge with the machine. ``present``: there is one.

    ``program`` is megatron (a script of Megatron-LM), megatron-swift, swift, verl, or empty.
    ``module`` is what python runs, by -m or as a file; ``absent`` that file, if it is. ``options``
    are those that checks ask for, in Megatron's spelling with underscores; flags have "", and
    UNTOLD is an unknown part. ``flags`` are the names of all options with two dashes, ``one_dash``
    the longer words behind one, ``keys`` the dotted ones of Hydra, ``strays`` what its grammar
    refuses. ``values`` are those that checks judge, by these names; no other is kept, except
    PYTHONPATH's. ``partial``: unseen options may be given, ``open_environment``: variables;
    ``launcher_seen``: the launcher's are seen. ``launcher`` is torchrun, accelerate or deepspeed,
    ``launcher_options`` its options before the script. ``unresolved`` are the expressions behind
    this, with the option of each (``argument``). ``unexported`` are variables of the matrix that
    the script assigns for itself alone and does not use. ``places`` are those in the file.
    ``model_sizes`` are those of the model ``model_name``, if known: layers, heads, kv_heads,
    experts, expert_ffn, and key_heads and value_heads of gated delta nets. ``refusals`` are its
    framework's words, if asked.
    """

    present: bool = msgspec.field(name="given", default=False)
    program: str = ""
    module: str = ""
    absent: str = ""
    options: dict[str, str] = {}
    flags: tuple[str, ...] = ()
    one_dash: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    strays: tuple[Spot, ...] = ()
    values: dict[str, str] = {}
    partial: bool = False
    launcher_seen: bool = False
    launcher: str = ""
    launcher_options: dict[str, str] = {}
    open_environment: bool = False
    unresolved: tuple[Spot, ...] = ()
    pythonpath: str = ""
    unexported: tuple[str, ...] = ()
    places: dict[str, Place] = {}
    model_name: str = ""
    model_sizes: dict[str, int] = {}
    refusals: tuple[FrameworkRefusal, ...] | None = None
    allocation: Allocation | None = None


# A part of a text that only the running shell knows.
UNTOLD = "\ufffc"
# Before a key of a configuration file, among the words of a command.
SETTING = "\x1f"
# Addresses at which a machine only reaches itself.
LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1", "0.0.0.0"})  # noqa: S104 - nothing listens


class Script(Section, frozen=True, kw_only=True):
    """A Python entry file: its imports and calls in the order of lines.

    ``imports`` are those of the module, ``late_imports`` those in functions; ``settings`` are
    variables that the module sets in os.environ. ``runs`` are the imports in the order of
    execution: of the module with the functions that it calls, then of each function that it
    does not call. ``swallowed`` are calls whose exceptions are passed over.
    ``entry``: the file is run, not imported.
    """

    imports: tuple[Spot, ...] = ()
    late_imports: tuple[Spot, ...] = ()
    calls: tuple[Spot, ...] = ()
    settings: tuple[Spot, ...] = ()
    runs: tuple[tuple[Spot, ...], ...] = ()
    swallowed: tuple[Spot, ...] = ()
    entry: bool = False


class ShellMark(Part, frozen=True, kw_only=True):
    """A place in a shell script that breaks it.

    ``rule`` is a rule of shellcheck (SC1101) or of the doctor; ``text`` is the text there,
    ``near`` what was probably meant.
    """

    rule: str
    text: str = ""
    near: str = ""
    location: Place = msgspec.field(name="place")


class ShellScript(Section, frozen=True, kw_only=True):
    """A shell script as text. ``unjudged``: why shellcheck did not read it, "" if it did."""

    marks: tuple[ShellMark, ...] = ()
    unjudged: str = ""


class ContainerSpec(Part, frozen=True, kw_only=True):
    """A container of a workload, as its file describes it.

    ``texts`` are its image, resources and mounts, as written, by their paths, such as
    resources/limits/NAME; ``places`` are theirs, and its own as container. ``volumes`` are those
    of its pod, with their path on the host or "".
    """

    texts: dict[str, str] = {}
    places: dict[str, Place] = {}
    volumes: dict[str, str] = {}
    host_ipc: bool = False


class Pods(Section, frozen=True, kw_only=True):
    """The containers of a file, and places that their scheduler refuses (``marks``)."""

    containers: tuple[ContainerSpec, ...] = ()
    marks: tuple[ShellMark, ...] = ()


class LockedCheckout(Part, frozen=True, kw_only=True):
    """A checkout of a lock, and what is at its path. ``head`` is the commit there.

    ``exists``: something is there. ``dirty``: tracked files differ from the commit.
    """

    name: str
    path: str
    ref: str
    commit: str
    exists: bool = False
    head: str | None = msgspec.field(name="found", default=None)
    dirty: bool | None = None


class LockedWheel(Part, frozen=True, kw_only=True):
    """A wheel of a lock, and what the environment has of that name ("" for nothing).

    ``found_sha256`` is of the installed file; None if the environment lacks it. ``built``: from
    a source distribution, so another build may be another file.
    """

    name: str
    version: str
    sha256: str
    built: bool = False
    installed: str = msgspec.field(name="found", default="")
    found_sha256: str | None = None


class StackLock(Section, frozen=True, kw_only=True):
    """A lock to compare with. ``present``: there is one; ``stack`` is its folder.

    ``environment`` is the folder of its wheels.
    ``proof`` is how the stack was run after its build, ``proof_failed`` what failed then.
    Errors of ``accepted_checks`` do not count: the user took the stack with them. ``edited`` are
    Python files of the wheels that were changed; None if that could not be determined.
    """

    present: bool = msgspec.field(name="given", default=False)
    stack: str = ""
    environment: str = ""
    checkouts: tuple[LockedCheckout, ...] = ()
    wheels: tuple[LockedWheel, ...] = ()
    edited: tuple[str, ...] | None = ()
    proof: str = ""
    proof_failed: tuple[str, ...] = ()
    accepted_checks: tuple[str, ...] = ()


class Gap(Part, frozen=True, kw_only=True):
    """A section that could not be collected, and why."""

    section: str
    reason: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """What one machine shows. ``taken_at``: UTC, ISO 8601; ``started``: programs, not by probes.

    ``refused``: paths that the user may not open.
    """

    schema: int = SCHEMA
    tool_version: str = ""
    taken_at: Timestamp = ""
    simulated: bool = False
    redacted: bool = False
    started: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    host: Host | None = None
    storage: Storage | None = None
    driver: Driver | None = None
    npus: Npus | None = None
    cann: Cann | None = None
    python: Python | None = None
    native: Native | None = None
    import_path: ImportPath | None = None
    environment: Environment | None = None
    hccn: Hccn | None = None
    rank_table: RankTable | None = None
    holders: Holders | None = None
    build_locks: BuildLocks | None = None
    launch: Launch | None = None
    script: Script | None = None
    shell_script: ShellScript | None = None
    pods: Pods | None = None
    stack_lock: StackLock | None = None
    gaps: tuple[Gap, ...] = ()
    probes: tuple[ProbeRun, ...] = ()

    def need(self, section: type[S]) -> S:
        """The section of this type. Raises Unknown with the reason of its gap if it is missing."""
        name = _NAMES[section]
        value: Any = getattr(self, name)
        if value is not None:
            return value  # type: ignore[no-any-return]
        reasons = [gap.reason for gap in self.gaps if gap.section == name]
        raise Unknown(f"{name}: {reasons[0]}" if reasons else f"{name}: not collected")


S = TypeVar("S", bound=Section)
V = TypeVar("V")

SECTIONS: dict[str, type[Section]] = {
    "host": Host, "storage": Storage, "driver": Driver, "npus": Npus, "cann": Cann,
    "python": Python, "native": Native, "import_path": ImportPath, "environment": Environment,
    "hccn": Hccn, "rank_table": RankTable, "holders": Holders, "build_locks": BuildLocks,
    "launch": Launch, "script": Script, "shell_script": ShellScript, "pods": Pods,
    "stack_lock": StackLock,
}  # fmt: skip
_NAMES = {section: name for name, section in SECTIONS.items()}


def require_known(value: V | None, what: str) -> V:
    """The value. Raises Unknown that names what is missing."""
    if value is None:
        raise Unknown(f"could not tell {what}")
    return value
