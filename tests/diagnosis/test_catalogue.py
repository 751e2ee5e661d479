from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.diagnosis.patterns import Patterns
from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import KnownFailure
from tests.conftest import Command
from tests.diagnosis.logs import answer, catalog, of_text

FAILURES = catalog().failures
HARMFUL = [one for one in FAILURES.values() if one.severity != "benign"]
BENIGN = [one for one in FAILURES.values() if one.severity == "benign"]
NEXT = "\n{'loss': 0.1, 'epoch': 0.2}\n"


def test_the_catalogue_is_whole() -> None:
    files = Catalog().files("failures").values()
    texts = [path.read_text("utf-8") for paths in files for path in paths]
    written = [
        name for text in texts for name in re.findall(r"^ *- id: (\S+)$", text, re.MULTILINE)
    ]
    assert sorted(FAILURES) == sorted(written), "every row is loaded, under an id of its own"
    assert BENIGN


def test_an_example_is_diagnosed_as_itself() -> None:
    for failure in HARMFUL:
        diagnosis = of_text(failure.example + NEXT)
        causes = [cause.id for cause in diagnosis.causes]
        unseen = 3 if failure.secondary else 0
        code = 1 if failure.severity == "fatal" else unseen
        assert (causes[:1], diagnosis.exit_code) == ([failure.id], code), failure.id


@pytest.mark.parametrize("failure", BENIGN, ids=lambda one: one.id)
def test_a_benign_example_is_counted_and_no_more(failure: KnownFailure) -> None:
    found = of_text(failure.example + NEXT)
    assert not found.causes
    assert {one.id for one in found.benign} >= {failure.id}
    # torch_npu's hook for uncaught exceptions is harmless itself; that there was one is not.
    assert found.exit_code == (3 if failure.id == "benign-err99999" else 0)


def test_what_counts_only_at_the_end_counts_at_the_end() -> None:
    (last,) = [one for one in FAILURES.values() if one.only_if_last]
    found = of_text(last.example)
    assert answer(found) == last.id
    assert not found.benign
    assert answer(of_text(last.example + NEXT)) == "none"


def test_failures_refer_to_what_is_there() -> None:
    checks = {one.id for one in all_checks()}
    for one in FAILURES.values():
        assert set(one.beats) <= set(FAILURES), one.id
        assert set(one.caught_by) <= checks, one.id


@pytest.mark.parametrize(
    ("pattern", "words"), [("a*", "empty"), ("(?=x)y", "assertion"), ("(a", "parenthes")]
)
def test_a_pattern_that_cannot_be_used_is_named(pattern: str, words: str) -> None:
    broken = KnownFailure(
        id="own",
        title="",
        severity="fatal",
        matches=("fine", pattern),
        example="",
        basis="log",
        cause="",
        fix="",
        sources=("x",),
    )
    with pytest.raises(DataError, match=f"failure own: .*{words}"):
        Patterns([broken]).judge(b"")


@pytest.mark.slow
def test_a_cache_that_is_damaged_is_made_again(
    no_real_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    first = Patterns(HARMFUL)
    text = b"EI0006: x"
    assert first.places(text, familiar=()).own
    assert first.judge(text)[0]
    kept = list(no_real_home.rglob("patterns/*.msgpack"))
    assert len(kept) == 2, "one for blocks, one for lines"
    for one in kept:
        assert isinstance(msgspec.msgpack.decode(one.read_bytes()), bytes)
        one.write_bytes(msgspec.msgpack.encode(b"no automaton"))
    second = Patterns(HARMFUL)
    assert first.judge(text) == second.judge(text)
    assert second.places(text, familiar=()).own


@pytest.mark.parametrize(
    ("line", "identity"),
    [
        (
            "ImportError: a/libtorch_npu.so: undefined symbol: aclrtX",
            "torch-npu-cann-symbol-mismatch",
        ),
        (
            "ImportError: a/libtorch_npu.so: undefined symbol: HcclX",
            "torch-npu-cann-symbol-mismatch",
        ),
        (
            "ImportError: a/libtorch_npu.so: undefined symbol: MsprofX",
            "torch-npu-cann-symbol-mismatch",
        ),
        ("a/libtorch_npu.so: undefined symbol: _ZN2ge5Graph1fEv", "torch-npu-cann-symbol-mismatch"),
        (
            "a/libtorch_npu.so: undefined symbol: _ZN3atb6Context1fEv",
            "torch-npu-atb-symbol-mismatch",
        ),
        ("a/libatb.so: undefined symbol: _ZN3Mki6Kernel1fEv", "torch-npu-atb-symbol-mismatch"),
        ("a/libtorch_npu.so: undefined symbol: _ZN3c105ErrorC1Ev", "torch-npu-undefined-symbol"),
        ("a/libtorch_npu.so: undefined symbol: _ZN2at4_ops3addEv", "torch-npu-undefined-symbol"),
        ("a/x.so: undefined symbol: _ZN7c10_npu1fEv", "extension-torch-npu-symbol-mismatch"),
        ("Failed to load HCCL library. so_file=libhccl.so", "hccl-library-not-loaded"),
        ("RuntimeError: shape '[2, 3]' is invalid for input of size 7", "unknown"),
        (
            "megatron-core>=0.16.0.dev is required for x, but found megatron-core==0.15.3.",
            "mbridge-megatron-core-too-old",
        ),
        (
            "TypeError: get_megatron_optimizer() got an unexpected keyword argument 'lr_mult'",
            "megatron-optimizer-function-kwarg",
        ),
        (
            "call aclnnNonzeroV2 failed, error code is 1",
            "bool-mask-index-nonzero",
        ),
        ("ModuleNotFoundError: No module named 'tbe'", "tbe-python-module-import-failed"),
        ("[Error]: Failed to start the device.", "device-start-failed-507033"),
        ("[Error]: Vector core execution timed out.", "aicore-timeout-507014"),
        ("[Error]: The aicore trap read out-of-bounds exception.", "aicore-exception-507015"),
        ("[Error]: Vector core trap write out-of-bounds exception.", "aicore-exception-507015"),
        ("[Error]: An exception occurs when the aicore trap is executed.", "aicore-trap-507016"),
        ("[Error]: An exception occurs when vector core traps are executed.", "aicore-trap-507016"),
        ("[Error]: The task scheduler loses the heartbeat.", "device-lost-heartbeat"),
        ("[Error]: The memory on the device is exhausted.", "npu-oom-driver-el0004"),
        ("[Error]: The stream is not in the current context.", "stream-not-in-context-107003"),
        (
            "[Error]: The internal host device communication (HDC) session is disconnected.",
            "hdc-disconnected-507901",
        ),
        ("[Error]: Memory copy fails during data enqueuing.", "copy-failed-507052"),
        (
            "[Error]: An internal error occurs in the Driver module.",
            "runtime-driver-internal-507899",
        ),
        ("[Error]: An internal error occurs on the AI CPU module.", "aicpu-internal-507900"),
        (
            "[Error]: In the specified timeout waiting event, all tasks in the specified stream",
            "stream-sync-timeout-507046",
        ),
        (
            "[Error]: During the specified event synchronization waiting time, the event is not",
            "event-sync-timeout-507047",
        ),
        ("[Error]: Failed to obtain the SOC version.", "soc-version-507008"),
        ("[Error]: You do not have the operation permission.", "runtime-no-permission-207006"),
        ("[Error]: Event resources are insufficient.", "runtime-resources-207009"),
        ("[Error]: The execution of the internal task times out.", "hccl-internal-timeout-507048"),
        (
            "[Error]: An exception occurs during the execution of an internal task.",
            "fftsplus-exception-507049",
        ),
        (
            "RuntimeError: Failed to find function aclrtGetDeviceResLimit",
            "torch-npu-cann-symbol-mismatch",
        ),
        ("RuntimeError: Failed to find function HcclCommConfig", "torch-npu-cann-symbol-mismatch"),
        ("RuntimeError: Failed to find function prepare_batch", "unknown"),
        ("RuntimeError: ASCEND_LAUNCH_BLOCKING should be 0 or 1.", "torch-npu-switch-value"),
        ("RuntimeError: COMBINED_ENABLE should be 0 or 1.", "torch-npu-switch-value"),
        (
            "RuntimeError: ASCEND_GLOBAL_LOG_LEVEL should be 0, 1, 2, 3 or 4.",
            "torch-npu-switch-value",
        ),
        (
            "RuntimeError: input tensor must be the same type as the output tensor.",
            "collective-tensors-differ",
        ),
        (
            "RuntimeError: endAllocatePool: not currently recording to mempool_id",
            "npu-graph-capture-order",
        ),
        (
            "RuntimeError: Capture must end on the same stream it began on.",
            "npu-graph-capture-order",
        ),
        (
            "RuntimeError: Called NPUGraph::replay without a preceding successful capture.",
            "npu-graph-capture-order",
        ),
        (
            "RuntimeError: Called NPUGraph::pool() without a preceding successful capture.",
            "npu-graph-capture-order",
        ),
        (
            "UserWarning: Called NPUGraph::debug_dump without a preceding successful capture.",
            "none",
        ),
        (
            "[ERROR] PTA(1,python): UCE ERROR happened, set task queue status to UCE_EXIT",
            "hbm-ecc-error",
        ),
        ("RuntimeError: SUSPECT MEM ERROR happened with workEnqueue.", "hbm-ecc-error"),
        ("[ERROR] PTA(1,python): getRepoStopFlag in Run, throw ECC ERROR.", "hbm-ecc-error"),
        ("[ERROR] PTA(1,python): getUceErrorFlag in Enqueue, throw UCE ERROR.", "hbm-ecc-error"),
        ("RuntimeError: UCE ERROR", "hbm-ecc-error"),
        (
            "[ERROR] PTA(1,python): HCCS LINK ERROR happened, set task queue status",
            "hccs-link-error",
        ),
        ("[ERROR] PTA(1,python): getRepoStopFlag in Run, throw UB LINK ERROR.", "hccs-link-error"),
        ("RuntimeError: HCCS LINK ERROR", "hccs-link-error"),
        (
            "[ERROR] PTA(1,python): getRepoStopFlag in Run, throw SUSPECT REMOTE ERROR.",
            "suspect-remote-error-507057",
        ),
    ],
)
def test_what_was_told_wrongly_before(line: str, identity: str) -> None:
    assert answer(of_text(f"{line}\n")) == identity


def test_what_explains_the_failure_of_a_graph_stands_above_it() -> None:
    text = "RuntimeError: error code is 507011\nThe vector core execution is abnormal\n"
    for one in (text, "\n".join(reversed(text.splitlines()))):
        assert answer(of_text(one)) == "aicore-exception-507015"


OWN = """
schema: 1
failures:
- id: site-license
  title: The licence server of our site is down
  severity: fatal
  matches: ['license server (\\d+\\.?){4} refused']
  example: license server 10.1.2.3 refused
  basis: log
  cause: It is restarted on Sundays.
  fix: Wait.
  sources: ['our wiki']
"""


@pytest.mark.slow
def test_a_site_adds_its_own(doctor: Command, tmp_path: Path) -> None:
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "site.yaml").write_text(OWN)
    log = tmp_path / "train.log"
    log.write_text("license server 10.1.2.3 refused\n")
    done = doctor("diagnose", "--matrix", str(tmp_path), str(log), "--format", "json")
    assert json.loads(done.stdout)["causes"][0]["id"] == "site-license"
    assert done.returncode == 1
    page = doctor("explain", "--matrix", str(tmp_path), "site-license").stdout
    assert "restarted on Sundays" in page


def test_two_failures_of_one_name_are_refused(tmp_path: Path) -> None:
    (tmp_path / "failures").mkdir()
    (tmp_path / "failures" / "a.yaml").write_text(OWN)
    (tmp_path / "failures" / "b.yaml").write_text(OWN)
    with pytest.raises(DataError, match="site-license"):
        _ = Catalog([tmp_path]).failures


@pytest.mark.slow
def test_explain_has_every_failure(doctor: Command) -> None:
    page = doctor("explain", "hccl-connect-timeout-ei0006").stdout
    for words in ("EI0006", "HCCL_CONNECT_TIMEOUT", "hccn-link", "https://"):
        assert words in page


@pytest.mark.slow
def test_two_failures_of_one_line_come_in_the_same_order_always() -> None:
    """Sets of names have another order in every process; the answer has not."""
    line = "[ERROR] RUNTIME(1,python): ProcessSdmaErrorInfo:report error module_name=EE8888 \
report error module_type=3, module_name=EE8888\n"
    program = (
        "from tests.diagnosis.logs import of_text; "
        f"print([one.id for one in of_text({line!r}).causes])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path.cwd())},
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
        ).stdout
        for seed in ("1", "3")
    }
    assert told == {"['memory-async-copy-failed', 'sdma-copy-error-507013']\n"}
