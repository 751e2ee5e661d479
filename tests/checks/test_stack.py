import pytest

from ascend_doctor.facts import Npu, PciFunction, Snapshot
from ascend_doctor.findings import Level
from tests.checks.levels import cannot_tell, fails, passes, remedy_of, skips, warns
from tests.checks.machine import dist, having, healthy, install, packages, run, without


def torches(torch: str, torch_npu: str, requires: str = "") -> Snapshot:
    needs = (requires,) if requires else ()
    return packages(healthy(), dist("torch", torch), dist("torch-npu", torch_npu, requires=needs))


def on_x86(facts: Snapshot) -> Snapshot:
    return having(having(facts, "python", machine="x86_64"), "host", arch="x86_64")


@pytest.mark.parametrize("torch", ["2.7.1", "2.7.1+cpu", "2.7.1.post1"])
def test_suffixes_do_not_matter_for_the_number(torch: str) -> None:
    passes("torch-npu-base-mismatch", torches(torch, "2.7.1.post4"))


def test_torch_of_another_number() -> None:
    finding = fails(
        "torch-npu-base-mismatch",
        torches("2.8.0", "2.7.1.post2"),
        "torch 2.8.0 does not go with torch_npu 2.7.1.post2",
    )
    assert remedy_of(finding).commands[0].endswith("torch==2.7.1")
    cannot_tell("torch-npu-base-mismatch", torches("odd", "2.7.1"), "'odd'")


def test_x86_wants_the_cpu_build() -> None:
    facts = on_x86(torches("2.7.1", "2.7.1.post2", "torch==2.7.1+cpu"))
    finding = fails("torch-x86-not-cpu", facts, "not the +cpu build", "CUDA build")
    assert remedy_of(finding).commands[0].endswith("torch==2.7.1+cpu")
    held = on_x86(torches("2.7.1+cpu", "2.7.1.post2", "torch==2.7.1+cpu"))
    passes("torch-x86-not-cpu", held)
    newer = on_x86(torches("2.13.0+cpu", "2.13.0", "torch==2.13.0.*"))
    skips("torch-x86-not-cpu", newer)


def test_a_cuda_build_beside_torch_npu() -> None:
    labelled = torches("2.7.1+cu126", "2.7.1")
    fails("torch-cuda-build", labelled, "built for cu126")
    warns("torch-cuda-build", labelled, "built for cu126", device="cpu")
    plain = packages(healthy(), dist("torch", "2.7.1", requires=("nvidia-cublas-cu12==12.6",)))
    fails("torch-cuda-build", plain, "built for CUDA")
    passes("torch-cuda-build", torches("2.7.1+cpu", "2.7.1"))


def test_the_published_cann_is_fine_and_its_line_is_noted() -> None:
    assert run("torch-npu-cann", healthy())[0].title.startswith("CANN is a release")
    passes("torch-npu-cann", install(healthy(), version="8.5.1"), "of the line", "8.5.0")


def test_a_cann_that_only_a_disputed_source_allows_is_a_warning() -> None:
    finding = warns(
        "torch-npu-cann",
        install(healthy(), version="9.0.0"),
        "published for CANN 8.5.0, in use is 9.0.0",
        "disagree",
    )
    assert remedy_of(finding).commands == (
        "/venv/bin/python -m pip install --no-deps torch-npu==2.7.1.post6",
    )


def test_a_cann_that_no_table_names_is_a_warning() -> None:
    finding = warns("torch-npu-cann", install(healthy(), version="8.0.RC2"), "No table names")
    assert remedy_of(finding).summary == "Install CANN 8.5.0 and source its set_env.sh"


def test_a_known_bad_pair_is_an_error() -> None:
    facts = install(torches("2.7.1", "2.7.1"), version="9.0.0")
    fails("torch-npu-cann", facts, "torch_npu 2.7.1 fails on CANN 9.0.0", "8.3.RC1")


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ("2.13.0", ("It is not known for which CANN", "No version table")),
        ("2.7.1.dev3", ("No table has torch_npu 2.7.1.dev3", "2.7.1.post8 (CANN 9.1.0)")),
        ("7.7.7", ("No table has a package of this PyTorch line",)),
    ],
)
def test_a_package_that_no_table_maps_could_not_be_told(
    version: str, words: tuple[str, ...]
) -> None:
    cannot_tell("torch-npu-cann", torches("2.13.0", version), *words)


def test_a_driver_below_the_minimum_of_cann_is_an_error() -> None:
    fails(
        "cann-hdk",
        having(healthy(), "driver", version="24.1.0"),
        "driver 24.1.0 is too old for CANN 8.5.0",
        ">=25.0.X",
    )
    passes("cann-hdk", having(healthy(), "driver", version="25.2.1"))


def test_a_driver_that_no_table_names() -> None:
    facts = having(healthy(), "driver", version="27.0.0")
    warns("cann-hdk", facts, "named by no table", "25.5.0")


def test_old_cann_has_no_floor_and_an_older_driver_is_a_warning() -> None:
    facts = having(install(healthy(), version="8.2.RC1"), "driver", version="24.1.0")
    warns("cann-hdk", facts, "25.2")


def test_drivers_of_950_are_not_compared_with_others() -> None:
    facts = install(healthy(), version="9.1.0")
    facts = having(facts, "npus", devices=(Npu(npu_id=0, name="Ascend950PR"),))
    facts = having(facts, "driver", version="25.6.rc1")
    passes("cann-hdk", facts)
    warns("cann-hdk", having(facts, "driver", version="26.0.rc1"))


def test_the_driver_may_be_known_from_npu_smi_only() -> None:
    facts = having(having(healthy(), "driver", version=None), "npus", driver_version="24.1.0")
    fails("cann-hdk", facts, "24.1.0")
    cannot_tell("cann-hdk", having(facts, "npus", driver_version=None), "could not be told")
    none = having(facts, "npus", driver_version=None, devices=())
    none = having(none, "driver", nodes=(), pci=None)
    skips("cann-hdk", none)


def test_cann_without_a_row_or_without_a_driver_row() -> None:
    cannot_tell("cann-hdk", install(healthy(), version="10.0.0"), "no table has CANN")
    cannot_tell("cann-hdk", install(healthy(), version="9.2.0"), "no table says which")
    other = having(healthy(), "driver", pci=(PciFunction(address="0", device="0xffff"),))
    cannot_tell("cann-hdk", without(other, "npus"), "chip")


def test_python_outside_of_the_table() -> None:
    facts = having(healthy(), "python", version="3.14.0")
    warns("torch-python", facts, "Python 3.14.0", ">=3.9,<3.14")
    disputed = having(torches("2.12.0", "2.12.0.post1"), "python", version="3.14.0")
    passes("torch-python", disputed, "3.14")
    cannot_tell("torch-python", torches("2.7.1", "7.7.7"))


def test_torch_npu_for_another_processor_is_an_error() -> None:
    fails("torch-npu-arch", having(healthy(), "native", machine="x86_64"), "x86_64")
    cannot_tell("torch-npu-arch", having(healthy(), "native", machine=None))


def vllm(version: str, torch: str, torch_npu: str) -> Snapshot:
    return packages(torches(torch, torch_npu), dist("vllm-ascend", version))


def test_vllm_ascend_pins_torch_and_torch_npu() -> None:
    findings = run("vllm-ascend-torch", vllm("0.13.0", "2.7.1", "2.7.1.post2"))
    assert [finding.level for finding in findings] == [Level.ERROR, Level.ERROR]
    assert "pins torch 2.8.0, installed is 2.7.1" in findings[0].title
    assert remedy_of(findings[1]).commands == (
        "/venv/bin/python -m pip install torch-npu==2.8.0.post2",
    )
    passes("vllm-ascend-torch", vllm("0.13.0", "2.8.0", "2.8.0.post2"))


def test_vllm_ascend_documents_a_cann() -> None:
    facts = install(vllm("0.13.0", "2.8.0", "2.8.0.post2"), version="9.1.0")
    warns("vllm-ascend-torch", facts, "cann 8.5.0", "9.1.0")


def test_pins_come_from_the_package_where_the_table_has_none() -> None:
    own = dist("vllm-ascend", "0.99.0", requires=("torch==2.13.0", "torch-npu==2.13.0"))
    facts = packages(torches("2.7.1", "2.13.0"), own)
    fails("vllm-ascend-torch", facts, "pins torch 2.13.0")
    bare = packages(facts, dist("vllm-ascend", "0.99.0"))
    cannot_tell("vllm-ascend-torch", bare, "not known")


def test_a_cann_that_does_not_tell_its_version() -> None:
    facts = install(healthy(), version=None)
    cannot_tell("torch-npu-cann", facts, "does not tell its version")
    cannot_tell("torch-npu-cann", torches("2.7.1", "odd"), "'odd'")


def test_a_bad_pair_is_bad_with_that_cann_only() -> None:
    facts = install(torches("2.7.1", "2.7.1"), version="8.3.RC1")
    passes("torch-npu-cann", facts)
