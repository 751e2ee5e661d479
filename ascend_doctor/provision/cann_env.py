"""The variables of CANN, NNAL and the driver, as their own set_env.sh has them.

Written out rather than sourced: sourcing cannot be undone, fish cannot do it, set_env.sh of 8.3 and
older adds to the lists at each run, NNAL's imports torch to see one flag, and both leave an empty
entry (the current folder) in PYTHONPATH.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from ascend_doctor.machine.live import Machine, is_directory, matches
from ascend_doctor.machine.torch_abi import read_torch_abi
from ascend_doctor.provision.env_format import Change

_TILING = "opp/built-in/op_impl/ai_core/tbe/op_tiling/lib/linux"
# The set_env.sh of CANN 8.1.RC1 (leideng/CANN-8.1.RC1@551ed27c:ascend-toolkit/set_env.sh), the
# runtime's setenv.bash from 8.5 on (hicann/runtime@681ef761) and what that of 9.1.0 exported.
# Folders that a toolkit lacks are left out.
_LIBRARIES = ("lib64", "lib64/plugin/opskernel", "lib64/plugin/nnengine", _TILING)
_AML = ("tools/aml/lib64", "tools/aml/lib64/plugin")
_MODULES = ("python/site-packages", "opp/built-in/op_impl/ai_core/tbe")
_PROGRAMS = {
    "old": ("bin", "compiler/ccec_compiler/bin", "tools/ccec_compiler/bin"),
    "new": (
        *("bin", "tools/ccec_compiler/bin", "tools/profiler/bin"),
        *("tools/ascend_system_advisor/asys", "tools/show_kernel_debug_data", "tools/msobjdump"),
    ),
}
_CMAKE = ("toolkit/tools/tikicpulib/lib/cmake", "lib64/cmake")
_HOMES = (
    ("ASCEND_TOOLKIT_HOME", "", "the CANN toolkit in use"),
    ("ASCEND_HOME_PATH", "", "the same; torch_npu and the operators look here"),
    ("ASCEND_OPP_PATH", "/opp", "where the operators lie"),
    ("ASCEND_AICPU_PATH", "", "where those of the AI CPU lie"),
    ("TOOLCHAIN_HOME", "/toolkit", "where the compilers of kernels lie"),
)
# As nnal/atb/set_env.sh sets them (leideng/CANN-8.1.RC1@551ed27c, hicann/ascend-transformer-boost).
_ATB = {
    "ATB_STREAM_SYNC_EVERY_KERNEL_ENABLE": "0", "ATB_STREAM_SYNC_EVERY_RUNNER_ENABLE": "0",
    "ATB_STREAM_SYNC_EVERY_OPERATION_ENABLE": "0", "ATB_OPSRUNNER_KERNEL_CACHE_LOCAL_COUNT": "1",
    "ATB_OPSRUNNER_KERNEL_CACHE_GLOABL_COUNT": "5", "ATB_WORKSPACE_MEM_ALLOC_ALG_TYPE": "1",
    "ATB_COMPARE_TILING_EVERY_KERNEL": "0", "ATB_SHARE_MEMORY_NAME_SUFFIX": "",
    "ATB_MATMUL_SHUFFLE_K_ENABLE": "1", "LCCL_DETERMINISTIC": "0", "LCCL_PARALLEL": "0",
}  # fmt: skip


class Install(NamedTuple):
    """A CANN toolkit or NNAL; ``spellings`` are all names of its folder."""

    root: str
    spellings: tuple[str, ...] = ()
    layout: str = "new"


class CannHost(NamedTuple):
    """The machine, as far as variables depend on it.

    ``version`` is that of ``cann``. ``others`` are unused toolkits, and every NNAL, whose
    entries depend on the ABI. ``driver``: folders of driver libraries that the loader does not
    know; None without a driver. ``abi`` is torch's _GLIBCXX_USE_CXX11_ABI.
    """

    machine: Machine
    cann: Install | None = None
    version: str | None = None
    nnal: Install | None = None
    others: tuple[Install, ...] = ()
    driver: tuple[str, ...] | None = None
    arch: str = ""
    abi: int = 1


def fronts(host: CannHost) -> dict[str, list[str]]:
    """What CANN, NNAL and driver put into lists of folders, in order."""
    if host.cann is None:
        return {}
    root, atb = host.cann.root, _atb_home(host) or ""
    libraries = [
        f"{library}/{host.arch}" if library == _TILING else library
        for library in (*_LIBRARIES, *_AML)
    ]
    return {
        "PATH": [*_there(host, atb, ("bin",)), *_there(host, root, _PROGRAMS[host.cann.layout])],
        "LD_LIBRARY_PATH": [
            *_there(host, atb, ("lib", "examples", "tests/atbopstest")),
            *_there(host, root, libraries),
            *(host.driver or ()),
        ],
        "PYTHONPATH": _there(host, root, _MODULES),
        "CMAKE_PREFIX_PATH": _there(host, root, _CMAKE) if host.cann.layout == "new" else [],
    }


def stub(host: CannHost) -> list[str]:
    """Without a driver, from 8.5 on, ``devlib``: a stub of the driver's library.

    With it torch imports and sees no device. It may only answer if nothing else does.
    """
    if host.cann is None or host.driver is not None:
        return []
    return _there(host, host.cann.root, ("devlib",))


def is_foreign(entry: str, host: CannHost) -> bool:
    """Whether an entry must go: of another CANN or ABI, or the stub; the user's operators stay."""
    own = [f"{spelling}/devlib" for spelling in host.cann.spellings] if host.cann else []
    spellings = [spelling for install in host.others for spelling in install.spellings]
    return any(f"{entry}/".startswith(f"{folder}/") for folder in (*own, *spellings))


def homes(base: Mapping[str, str], host: CannHost) -> Iterator[Change]:
    """Where CANN and ATB lie. Existing settings of ATB are kept."""
    if host.cann is None:
        return
    for name, below, why in _HOMES:
        yield Change(name, host.cann.root + below, why)
    home = _atb_home(host)
    if home is not None:
        yield Change("ATB_HOME_PATH", home, f"ATB for the C++ ABI of torch, {host.abi}")
        for name, value in _ATB.items():
            if name not in base:
                yield Change(name, value, "as set_env.sh of NNAL sets it")


def _atb_home(host: CannHost) -> str | None:
    if host.nnal is None:
        return None
    home = f"{host.nnal.root}/atb/cxx_abi_{host.abi}"
    return home if is_directory(host.machine, home) else None


def _there(host: CannHost, root: str, parts: Iterable[str]) -> list[str]:
    if not root:
        return []
    return [f"{root}/{part}" for part in parts if is_directory(host.machine, f"{root}/{part}")]


def torch_abi(machine: Machine, environment: str | None) -> int:
    """The C++ ABI of torch in a Python environment; 1 without torch, as in set_env.sh."""
    folders = matches(machine, f"{environment}/lib", "python3*") if environment else ()
    return (
        0 if any(read_torch_abi(machine, f"{each}/site-packages") == 0 for each in folders) else 1
    )
