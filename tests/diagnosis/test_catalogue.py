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
HARMFUL = [failure for failure in FAILURES.values() if failure.severity != "benign"]
BENIGN = [failure for failure in FAILURES.values() if failure.severity == "benign"]
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


@pytest.mark.parametrize("failure", BENIGN, ids=lambda failure: failure.id)
def test_a_benign_example_is_counted_and_no_more(failure: KnownFailure) -> None:
    diagnosis = of_text(failure.example + NEXT)
    assert not diagnosis.causes
    assert {counted.id for counted in diagnosis.benign} >= {failure.id}
    # torch_npu's hook for uncaught exceptions is harmless; the exception is not.
    assert diagnosis.exit_code == (3 if failure.id == "benign-err99999" else 0)


def test_what_counts_only_at_the_end_counts_at_the_end() -> None:
    (last,) = [failure for failure in FAILURES.values() if failure.only_if_last]
    diagnosis = of_text(last.example)
    assert answer(diagnosis) == last.id
    assert not diagnosis.benign
    assert answer(of_text(last.example + NEXT)) == "none"


def test_failures_refer_to_what_is_there() -> None:
    checks = {check.id for check in all_checks()}
    for failure in FAILURES.values():
        assert set(failure.beats) <= set(FAILURES), failure.id
        assert set(failure.caught_by) <= checks, failure.id


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
    caches = list(no_real_home.rglob("patterns/*.msgpack"))
    assert len(caches) == 2, "one for blocks, one for lines"
    for cache in caches:
        assert isinstance(msgspec.msgpack.decode(cache.read_bytes()), bytes)
        cache.write_bytes(msgspec.msgpack.encode(b"no automaton"))
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
            "python-argument",
        ),
        (
            "call aclnnNonzeroV2 failed, error code is 1",
            "bool-mask-index-nonzero",
        ),
        ("ModuleNotFoundError: No module named 'tbe'", "tbe-python-module-import-failed"),
        (
            (
                "RuntimeError: [enforce fail at inline_container.cc:101] . "
                "PytorchStreamWriter failed writing file data/0: file write failed"
            ),
            "checkpoint-write-failed",
        ),
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
        ("AttentionRunner_0_0:0 node[2] setup fail, error code:13", "atb-setup-failed"),
        (
            "Calling acl failed. (Calling Function = aclrtCreateContext, Code = 507033, M)",
            "device-start-failed-507033",
        ),
        (
            "rtStreamSetMode execute failed, reason=[feature not support]",
            "runtime-feature-unsupported-207000",
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
        (
            (
                "[ERROR]    2026/01/02 10:00:00.000000 1001    "
                "collector/a.go:7    deviceManager init failed, prepare dcmi "
                "failed, err: dcmi init call failed, error code: -8005"
            ),
            "npu-smi-dcmi-init-8005",
        ),
        (
            (
                "docker: Error response from daemon: stderr: failed to mount src dir: "
                "/dev/davinci0 to dst dir: "
                "/var/lib/docker/overlay2/x/merged/dev/davinci0.failed to mount dev."
            ),
            "docker-ascend-runtime-hook-failed",
        ),
        (
            "docker: Error response from daemon: stderr: failed to do mount directories.",
            "docker-ascend-runtime-hook-failed",
        ),
        (
            "AssertionError: World size (8) must be divisible by tp*cp*pp (3)",
            "megatron-world-size-divisible",
        ),
        (
            (
                "RuntimeError: data_parallel_size * context_parallel_size (6) is not "
                "divisible by expert_model_parallel_size "
            ),
            "megatron-world-size-divisible",
        ),
        (
            (
                "AssertionError: number of layers of the model must be divisible pipeline "
                "model parallel size"
            ),
            "megatron-pp-layers-divisible",
        ),
        (
            (
                "AssertionError: number of layers per pipeline stage must be divisible "
                "number of layers per virtual pipeline stage"
            ),
            "megatron-pp-layers-divisible",
        ),
        (
            (
                "AssertionError: number of layers per pipeline stage must be divisible by "
                "number of layers per virtual pipeline stage"
            ),
            "megatron-pp-layers-divisible",
        ),
        (
            (
                "ValueError: number of layers at middle stage: 7 must be divisible bythe "
                "middle pipeline model parallel size 2"
            ),
            "megatron-pp-layers-divisible",
        ),
        (
            (
                "ValueError: number of middle layers: 7 must be divisible by middle "
                "pipeline_model_parallel_size 2"
            ),
            "megatron-pp-layers-divisible",
        ),
        (
            (
                "ValueError: num_layers: 29 after "
                "enableaccount_for_embedding_in_pipeline_split or "
                "account_for_loss_in_pipeline_split must be divisibleby "
                "pipeline_model_parallel_size 4"
            ),
            "megatron-pp-layers-divisible",
        ),
        (
            (
                "ValueError: number of layers on each pipeline rank: 7(after enable "
                "account_for_embedding_in_pipeline_split or "
                "account_for_loss_in_pipeline_split) must be divisible "
                "byvirtual_pipeline_model_parallel_size2"
            ),
            "megatron-pp-layers-divisible",
        ),
        (
            (
                "AssertionError: With uneven pipelineing the left over layers must be "
                "divisible by left over stages"
            ),
            "megatron-pp-layers-divisible",
        ),
        (
            "AssertionError: num_layers: 7 must be divisible by virtual_model_parallel_size 2",
            "megatron-pp-layers-divisible",
        ),
        (
            "AssertionError: Number of experts should be divisible by expert parallel size",
            "megatron-experts-divisible",
        ),
        (
            "AssertionError: Number of experts(60) is not divisible by ep size(8).",
            "megatron-experts-divisible",
        ),
        (
            "ValueError: ep must be divisible by the number of experts",
            "megatron-experts-divisible",
        ),
        (
            (
                "AssertionError: seq-length should be a multiple of 2 * "
                "context-parallel-size if context-parallel-size > 1."
            ),
            "mindspeed-sequence-divisible",
        ),
        (
            "AssertionError: Sequence length per GPU needs to be divisible by 2!",
            "mindspeed-sequence-divisible",
        ),
        (
            (
                "AssertionError: sequence length must be divisible by 2 * ampipe_degree * "
                "context_parallel_size * tensor_model_parallel_size"
            ),
            "mindspeed-sequence-divisible",
        ),
        (
            (
                "AssertionError: num_attention_heads must be divisible by "
                "ulysse-degree-in-cp * tensor_model_parallel_size in hybrid cp"
            ),
            "mindspeed-context-heads",
        ),
        (
            (
                "RuntimeError: Unexpected result inf (message='found Inf in local forward "
                "loss calculation')"
            ),
            "megatron-grad-nan-append-eod",
        ),
        (
            (
                "FileNotFoundError: One or both of the .idx and .bin files cannot be found "
                "at the path prefix /data/x_text_document"
            ),
            "mindspeed-dataset-not-exist",
        ),
        (
            "FileNotFoundError: Tokenizer path not found: /data/qwen",
            "python-missing-file",
        ),
        (
            "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
            "store-connect-timeout",
        ),
        (
            (
                "ValueError: Default process group has not been initialized, please make "
                "sure to call init_process_group."
            ),
            "default-process-group-missing",
        ),
        (
            (
                "RuntimeError: Default process group has not been initialized, please make "
                "sure to call init_process_group."
            ),
            "default-process-group-missing",
        ),
        (
            "RuntimeError: Cannot support runtime soc_version: 104.",
            "vllm-ascend-older-card",
        ),
        (
            "NotImplementedError: Unsupported quant_type=W4A4 for layer_type=moe.",
            "vllm-quant-type-unsupported",
        ),
        (
            "Shape Join Failed: shape1 = (2, 3, 4, 5), shape2 = ().",
            "mindspore-branches-differ",
        ),
        (
            "Type Join Failed: dtype1 = Float32, dtype2 = Float16.",
            "mindspore-branches-differ",
        ),
        (
            "AssertionError: World size (8) must be divisible by expt_tp*ep*pp (3)",
            "megatron-world-size-divisible",
        ),
        (
            (
                "    raise AssertionError(f'{args.tokenizer_name_or_path} not "
                "exists!')\nAssertionError: /data/qwen not exists!"
            ),
            "mindspeed-tokenizer-folder",
        ),
        (
            (
                "[WARNING] DISTRIBUTED(1,ffff,python):2026-01-02-10:00:00.000.000 "
                "[mindspore/ccsrc/distributed/cluster/topology/compute_graph_node.cc:7] "
                "Register] Failed to connect to the meta server node url: 192.0.2.1:8118"
            ),
            "none",
        ),
        (
            "AssertionError: --overlap-param-gather only supported with distributed optimizer",
            "megatron-overlap-param-gather",
        ),
        (
            (
                "Unable to load rng state from checkpoint ckpt. Specify --no-load-rng or "
                "--finetune to prevent attempting to load the rng state, exiting ..."
            ),
            "megatron-checkpoint-without-optimizer",
        ),
        (
            (
                "RuntimeError: Memory isn't enough and alloc failed, kernel name: "
                "Default/Add-op1, alloc size: 1024B."
            ),
            "unknown",
        ),
        (
            "AssertionError: num_moe_experts (8) should be divisible by moe_router_num_groups (3).",
            "python-assertion",
        ),
        (
            "ValueError: World size 6 must be divisible by sharding_size 4. ",
            "unknown",
        ),
        (
            (
                "ValueError: linear_num_value_heads (6) must be a multiple of "
                "linear_num_key_heads (4)."
            ),
            "unknown",
        ),
        (
            "ValueError: The function <megatron.core.x.y> not exist.",
            "unknown",
        ),
        (
            "RuntimeError: Undefined soc_version: ascend910x. Please file an issue to vllm-ascend.",
            "unknown",
        ),
        (
            (
                "[W102 03:04:05.678901234 socket.cpp:101] [c10d] The client socket has "
                "failed to connect to any network address of (node-0, 29500)."
            ),
            "none",
        ),
        (
            (
                "WARNING 01-02 10:00:00 utils.py:7] Failed to register custom ops, all "
                "custom ops will be disabled. error=x. The custom ops library might not be "
                "installed or the environment is not configured correctly. Please check the "
                "custom ops installation and environment variables."
            ),
            "none",
        ),
    ],
)
def test_what_was_told_wrongly_before(line: str, identity: str) -> None:
    assert answer(of_text(f"{line}\n")) == identity


def test_what_explains_the_failure_of_a_graph_stands_above_it() -> None:
    text = "RuntimeError: error code is 507011\nThe vector core execution is abnormal\n"
    for log in (text, "\n".join(reversed(text.splitlines()))):
        assert answer(of_text(log)) == "aicore-exception-507015"


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
    line = "[ERROR] RUNTIME(1,python): ProcessSdmaErrorInfo:report error module_type=3, \
module_name=EE8888\n"
    program = (
        "from tests.diagnosis.logs import of_text; "
        f"print([one.id for one in of_text({line!r}).causes])"
    )
    answers = {
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
    assert answers == {"['memory-async-copy-failed', 'sdma-copy-error-507013']\n"}
