from pathlib import Path
from types import ModuleType

import pytest

from tests.probes.started import start_probe
from tests.programs import load_module

PROBES = Path(__file__).parent.parent.parent / "probes"


@pytest.fixture(scope="module")
def rates() -> ModuleType:
    return load_module(PROBES / "_rates.py", "probe_rates")


# Lines of hccl_test and nccl-tests: bytes, microseconds, ranks, algorithm and bus GB/s.
KNOWN = [
    ("all-reduce", 1 << 30, 10445.0, 128, 102.8, 204.0),
    # By hand.
    ("all-reduce", 10**9, 1e6, 4, 1.0, 1.5),
    ("all-gather", 10**9, 1e6, 4, 1.0, 0.75),
    ("reduce-scatter", 10**9, 1e6, 4, 1.0, 0.75),
    ("all-to-all", 10**9, 1e6, 4, 1.0, 0.75),
    ("broadcast", 10**9, 1e6, 4, 1.0, 1.0),
]


@pytest.mark.parametrize(("name", "size", "us", "ranks", "algorithm", "bus"), KNOWN)
def test_bandwidths_are_those_of_nccl_tests(  # noqa: PLR0913, PLR0917 - a line of a table
    rates: ModuleType, name: str, size: int, us: float, ranks: int, algorithm: float, bus: float
) -> None:
    bandwidths = rates.bandwidths(name, size, us / 1e6, ranks)
    assert bandwidths["us"] == pytest.approx(us)
    assert bandwidths["algbw"] == pytest.approx(algorithm, rel=1e-3)
    assert bandwidths["busbw"] == pytest.approx(bus, rel=1e-3)


def test_a_product_has_two_operations_a_term(rates: ModuleType) -> None:
    # 4096 multiply-adds per cube core and cycle: an hour of a 910B3 is a thousand of these.
    assert rates.teraflops(8192, 8192, 8192, 1.0) == pytest.approx(1.0995, rel=1e-4)
    assert rates.teraflops(1000, 2000, 500_000, 1.0) == pytest.approx(2.0)


# Every look at the clock is one second later than the one before, whatever happens between.
CLOCK = """
import itertools, time
seconds = itertools.count()
time.perf_counter = lambda: float(next(seconds))
"""


def test_units_of_bandwidth(forked_python: Path, tmp_path: Path) -> None:
    run = start_probe(forked_python, "bandwidth", ranks=2, mutation=CLOCK, folder=tmp_path)
    for rank in run.ranks:
        assert set(rank.values["rates"]) == {
            *("all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast")
        }
        for name, sizes in rank.values["rates"].items():
            assert [int(size) for size in sizes] == [4**step << 10 for step in range(7)]
            for size, rate in sizes.items():
                # 20 calls a second; with 2 ranks, half a buffer crosses the link.
                assert rate["us"] == pytest.approx(50_000)
                assert rate["algbw"] == pytest.approx(int(size) * 20 / 1e9)
                half = 1 if name in {"all-reduce", "broadcast"} else 0.5
                assert rate["busbw"] == pytest.approx(rate["algbw"] * half)


def test_units_of_products_and_copies(forked_python: Path, tmp_path: Path) -> None:
    run = start_probe(forked_python, "gemm", ranks=2, mutation=CLOCK, folder=tmp_path)
    for rank in run.ranks:
        assert rank.wrong == ()
        for rate in rank.values["rates"].values():
            assert rate == pytest.approx(10 * 2 * 256**3 / 1e12)
    run = start_probe(forked_python, "hbm", ranks=2, mutation=CLOCK, folder=tmp_path)
    for rank in run.ranks:
        assert rank.wrong == ()
        # Ten copies a second, each read and written.
        assert rank.values["rates"]["copy"] == pytest.approx(10 * 2 * (1 << 25) / 1e9)


@pytest.mark.parametrize(
    ("probe", "stage", "what"),
    [
        ("gemm", "product float32", "wrong elements of a product of whole torch.float32"),
        ("hbm", "copy", "elements that a copy changed"),
    ],
)
def test_a_wrong_element_is_found(forked_python: Path, probe: str, stage: str, what: str) -> None:
    fault = f"rank=1,stage={stage},do=value"
    run = start_probe(forked_python, probe, ranks=2, fault=fault)
    assert [[wrong.what for wrong in rank.wrong] for rank in run.ranks] == [[], [what]]


LOSES_A_SUM = """
import torch.distributed as dist
reduce, calls = dist.all_reduce, []
def some(tensor, *arguments, **options):
    calls.append(tensor)
    result = reduce(tensor, *arguments, **options)
    if len(calls) == 3:
        tensor[1] += 1
    return result
dist.all_reduce = some
"""


def test_a_soak_compares_every_product_and_sum(forked_python: Path, tmp_path: Path) -> None:
    fault = "rank=1,stage=tenth 4,do=value"
    run = start_probe(forked_python, "soak", ranks=2, fault=fault, minutes=0.02)
    assert [[wrong.what for wrong in rank.wrong] for rank in run.ranks] == [
        [],
        ["products that were wrong"],
    ]
    assert len({rank.values["rounds"] for rank in run.ranks}) == 1
    assert [len(rank.values["rates"]) for rank in run.ranks] == [10, 10]
    run = start_probe(
        forked_python, "soak", ranks=2, mutation=LOSES_A_SUM, folder=tmp_path, minutes=0.02
    )
    for rank in run.ranks:
        assert [(wrong.what, wrong.got) for wrong in rank.wrong] == [("sums that were wrong", "1")]
