import pytest

from ascend_doctor.commands.options.probe_scope import ProbeScope, ranks_of
from tests.conftest import Command


@pytest.mark.parametrize(
    ("sizes", "ranks"),
    [
        ({}, 1),
        ({"tp": 2, "pp": 2, "cp": 2}, 8),
        ({"tp": 2, "ep": 4}, 8),
        ({"tp": 2, "ep": 4, "etp": 1}, 4),
        ({"tp": 3, "ep": 2, "etp": 1}, 6),
        ({"tp": 2, "pp": 3, "ep": 2, "etp": 1}, 6),
    ],
)
def test_the_ranks_that_a_layout_needs(sizes: dict[str, int], ranks: int) -> None:
    assert ranks_of(sizes) == ranks


def test_what_is_asked_reaches_the_probes() -> None:
    asked = ProbeScope(sizes={"tp": 2}, nodes=(2, 1, "a:1"), minutes=3)
    extent = asked.extent(1)
    assert extent.sizes == (("tp", 2),)
    assert (extent.nodes.count, extent.nodes.rank, extent.nodes.endpoint) == (2, 1, "a:1")
    assert extent.minutes == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--nnodes", "2"), "--nnodes needs --rdzv-endpoint HOST:PORT"),
        (("--nnodes", "2", "--rdzv-endpoint", "a:b"), "--nnodes needs --rdzv-endpoint HOST:PORT"),
        (("--node-rank", "1"), "--node-rank 1 is not below --nnodes 1"),
        (("--tp", "0"), "--tp"),
        (
            ("--device", "cpu", "--nproc", "4", "--tp", "3", "--only", "allreduce"),
            "--tp 3 needs a multiple of 3 ranks, and there are 4",
        ),
    ],
)
def test_what_cannot_be_is_one_line(doctor: Command, arguments: tuple[str, ...], text: str) -> None:
    done = doctor("check", *arguments)
    assert done.returncode == 2
    assert text in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert not done.stdout
