"""A healthy Atlas A2 machine as values; the tests change one thing of it."""

from typing import Any

import msgspec

from ascend_doctor.checks import all_checks
from ascend_doctor.facts import (
    BuildLocks,
    Cann,
    CannComponent,
    CannInstall,
    CannShell,
    DeviceNode,
    Distribution,
    Driver,
    Environment,
    GitState,
    Host,
    ImportName,
    ImportPath,
    Library,
    Native,
    Needed,
    Nnal,
    Npu,
    Npus,
    PackageCopy,
    PciFunction,
    Python,
    Snapshot,
)
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, judge
from ascend_doctor.matrix.catalog import Catalog
from tests.remedies import parse

CATALOG = Catalog()
CHECKS = {check.id: check for check in all_checks()}
ROOT = "/usr/local/Ascend/cann-8.5.0"
SITE = "/venv/lib/python3.11/site-packages"
LIBRARIES = (
    "libhccl.so",
    "libascendcl.so",
    "libacl_op_compiler.so",
    "libge_runner.so",
    "libgraph.so",
    "libacl_tdt_channel.so",
)
TORCH_NPU = "torch_npu/lib/libtorch_npu.so"


def dist(name: str, version: str, **fields: Any) -> Distribution:
    return Distribution(name=name, version=version, location=SITE, **fields)


def copy(path: str, entry: str, *parts: str, git: GitState | None = None, **versions: str) -> Any:
    return PackageCopy(
        path=path, entry=entry, kind="namespace", parts=parts, versions=versions, git=git
    )


def healthy() -> Snapshot:
    names = ("decorator", "attrs", "psutil", "scipy", "sympy", "cffi", "pyyaml", "protobuf")
    distributions = (
        dist("torch", "2.7.1"),
        dist("torch-npu", "2.7.1.post2", requires=("torch==2.7.1", "pyyaml", "numpy")),
        dist("numpy", "1.26.0"),
        dist("transformers", "5.2.0"),
        dist("mcore-bridge", "1.2.3", requires=("megatron-core>=0.12", "transformers>=4.33,<5.7")),
        dist("ms-swift", "4.1.3"),
        dist("triton-ascend", "3.2.0"),
        dist("mindspeed", "0.12.1", editable=True, direct_url="file:///src/MindSpeed"),
        dist("flash-linear-attention", "0.4.2"),
        *(dist(name, "1.0") for name in (*names, "requests", "absl-py")),
    )
    megatron = GitState(root="/src/Megatron-LM", commit="a845aa7e12b3", refs=("core_v0.12.1",))
    mindspeed = GitState(root="/src/MindSpeed", branch="2.3.0_core_r0.12.1", commit="674226a1")
    return Snapshot(
        host=Host(arch="aarch64", glibc="2.34", glibcxx="GLIBCXX_3.4.29"),
        driver=Driver(
            path="/usr/local/Ascend/driver",
            version="25.5.0",
            nodes=(DeviceNode(path="/dev/davinci0", kind="device", number=0),),
            pci=(PciFunction(address="0000:c1:00.0", device="0xd802"),),
        ),
        npus=Npus(
            tool="/usr/local/bin/npu-smi",
            devices=(Npu(npu_id=0, device=0, name="910B3"),),
            listed=1,
        ),
        cann=Cann(
            installs=(
                CannInstall(
                    root=ROOT,
                    version="8.5.0",
                    arch="aarch64",
                    components=(CannComponent(name="runtime", version="8.5.0", public="8.5.0"),),
                    kernels=("ascend910b",),
                    ops_packages=("Ascend-cann-910b-ops",),
                    set_env="/usr/local/Ascend/cann/set_env.sh",
                ),
            ),
            active=ROOT,
            nnal=(
                Nnal(
                    root="/usr/local/Ascend/nnal/atb/latest",
                    version="8.5.0",
                    set_env="/usr/local/Ascend/nnal/atb/set_env.sh",
                ),
            ),
            shell=CannShell(
                home=ROOT,
                opp=f"{ROOT}/opp",
                atb="/usr/local/Ascend/nnal/atb/latest/atb/cxx_abi_1",
                library_roots=(ROOT,),
                python_roots=(ROOT,),
                named={"ASCEND_HOME_PATH": ROOT, "LD_LIBRARY_PATH": ROOT},
            ),
        ),
        python=Python(
            executable="/venv/bin/python",
            version="3.11.9",
            machine="aarch64",
            distributions=distributions,
            importable={"tbe": True, "te": True, "acl": True, "torch": True, "torch_npu": True},
            enums_by_getattr=False,
        ),
        native=Native(
            torch_npu=f"{SITE}/torch_npu",
            machine="aarch64",
            needed=tuple(
                Needed(name=library, path=f"{ROOT}/lib64/{library}", wanted_by=(TORCH_NPU,))
                for library in LIBRARIES
            ),
            symbols_checked=900,
            versions=("CXXABI_1.3.11", "GLIBCXX_3.4.22", "GLIBC_2.28"),
            hal=Library(name="libascend_hal.so", path="/usr/local/Ascend/driver/lib64/x.so"),
            atb=Library(name="libatb.so", path="/usr/local/Ascend/nnal/atb/latest/x.so"),
        ),
        build_locks=BuildLocks(),
        import_path=ImportPath(
            pythonpath=("/src/Megatron-LM",),
            names=(
                ImportName(
                    name="megatron",
                    copies=(
                        copy(
                            "/src/Megatron-LM/megatron",
                            "/src/Megatron-LM",
                            "core",
                            "training",
                            git=megatron,
                            core="0.12.1",
                        ),
                    ),
                ),
                ImportName(
                    name="mindspeed",
                    copies=(
                        PackageCopy(
                            path="/src/MindSpeed/mindspeed",
                            entry="/src/MindSpeed",
                            kind="editable",
                            git=mindspeed,
                        ),
                    ),
                ),
            ),
        ),
        environment=Environment(
            variables={"MEGATRON_LM_PATH": "/src/Megatron-LM", "USE_MCORE_GDN": "0"}
        ),
    )


def having(facts: Snapshot, section: str, **fields: Any) -> Snapshot:
    changed = msgspec.structs.replace(getattr(facts, section), **fields)
    return msgspec.structs.replace(facts, **{section: changed})


def without(facts: Snapshot, section: str) -> Snapshot:
    return msgspec.structs.replace(facts, **{section: None})


def packages(facts: Snapshot, *changed: Distribution, gone: tuple[str, ...] = ()) -> Snapshot:
    assert facts.python is not None
    names = {distribution.name for distribution in changed} | set(gone)
    distributions = tuple(
        distribution
        for distribution in facts.python.distributions
        if distribution.name not in names
    )
    return having(facts, "python", distributions=(*distributions, *changed))


def install(facts: Snapshot, **fields: Any) -> Snapshot:
    assert facts.cann is not None
    changed = msgspec.structs.replace(facts.cann.installs[0], **fields)
    return having(facts, "cann", installs=(changed,))


def shell(facts: Snapshot, **fields: Any) -> Snapshot:
    assert facts.cann is not None
    return having(facts, "cann", shell=msgspec.structs.replace(facts.cann.shell, **fields))


def imports(facts: Snapshot, name: str, *copies: PackageCopy) -> Snapshot:
    assert facts.import_path is not None
    import_names = tuple(
        import_name for import_name in facts.import_path.names if import_name.name != name
    )
    return having(facts, "import_path", names=(*import_names, ImportName(name=name, copies=copies)))


def set_to(facts: Snapshot, **variables: str) -> Snapshot:
    assert facts.environment is not None
    return having(facts, "environment", variables={**facts.environment.variables, **variables})


def run(identity: str, facts: Snapshot, device: str = "npu") -> tuple[Finding, ...]:
    findings = judge(Case(facts=facts, catalog=CATALOG, device=device), [CHECKS[identity]])
    for finding in findings:
        for command in finding.remedy.commands if finding.remedy else ():
            assert parse(command) == "", command
    return findings
