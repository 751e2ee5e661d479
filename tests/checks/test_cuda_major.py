import pytest

from ascend_doctor.facts import Distribution, Snapshot
from ascend_doctor.findings import Level
from tests.checks.levels import fails, remedy_of
from tests.checks.machine import dist, healthy, packages, run

REQUIRES = ("nvidia-nvshmem-cu13==3.4.5; platform_system == 'Linux'", "filelock")


@pytest.mark.parametrize(
    ("torch", "other", "level"),
    [
        (dist("torch", "2.9.0+cu130"), dist("nvidia-nvshmem-cu13", "3.4.5"), Level.OK),
        (dist("torch", "2.9.0+cu130"), dist("nvidia-nvshmem-cu12", "3.3.20"), Level.ERROR),
        (dist("torch", "2.9.0", requires=REQUIRES), dist("nvidia-nvshmem-cu13", "3"), Level.OK),
        (dist("torch", "2.9.0", requires=REQUIRES), dist("cupy-cuda12x", "13"), Level.ERROR),
        (dist("torch", "2.9.0+cu126"), dist("transformer-engine-cu13", "2.9"), Level.ERROR),
        (dist("torch", "2.9.0+cpu", requires=REQUIRES), dist("cupy-cuda12x", "13"), Level.SKIPPED),
        (dist("torch", "2.9.0"), dist("cupy-cuda12x", "13"), Level.SKIPPED),
        (
            dist("torch", "2.9.0", requires=(*REQUIRES, "nvidia-cublas-cu12")),
            dist("cupy-cuda12x", "13"),
            Level.UNKNOWN,
        ),
    ],
)
def test_what_the_cuda_of_torch_allows(
    torch: Distribution, other: Distribution, level: Level
) -> None:
    facts = packages(healthy(), torch, other)
    assert [finding.level for finding in run("cuda-major", facts, "cuda")] == [level]


def test_the_remedy_names_the_right_package() -> None:
    torch, other = dist("torch", "2.9.0+cu130"), dist("nvidia-nvshmem-cu12", "3.3.20")
    facts: Snapshot = packages(healthy(), torch, other)
    finding = fails("cuda-major", facts, "nvidia-nvshmem-cu12 is for CUDA 12")
    assert remedy_of(finding).commands[1] == "/venv/bin/python -m pip install nvidia-nvshmem-cu13"
