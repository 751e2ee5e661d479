import json
import os
import re
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
from tests.diagnosis.logs import answer, catalog, of_text, read_pairs
from tests.programs import run_program

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


# Lines below what `diagnose` answers, with escapes as in Python.
WRONGLY_TOLD = r"""
torch-npu-cann-symbol-mismatch
  ImportError: a/libtorch_npu.so: undefined symbol: aclrtX
  ImportError: a/libtorch_npu.so: undefined symbol: HcclX
  ImportError: a/libtorch_npu.so: undefined symbol: MsprofX
  a/libtorch_npu.so: undefined symbol: _ZN2ge5Graph1fEv
  RuntimeError: Failed to find function aclrtGetDeviceResLimit
  RuntimeError: Failed to find function HcclCommConfig
torch-npu-atb-symbol-mismatch
  a/libtorch_npu.so: undefined symbol: _ZN3atb6Context1fEv
  a/libatb.so: undefined symbol: _ZN3Mki6Kernel1fEv
torch-npu-undefined-symbol
  a/libtorch_npu.so: undefined symbol: _ZN3c105ErrorC1Ev
  a/libtorch_npu.so: undefined symbol: _ZN2at4_ops3addEv
extension-torch-npu-symbol-mismatch
  a/x.so: undefined symbol: _ZN7c10_npu1fEv
cann-libhccl-not-found
  Failed to load HCCL library. so_file=libhccl.so
unknown
  RuntimeError: shape '[2, 3]' is invalid for input of size 7
  RuntimeError: Failed to find function prepare_batch
  RuntimeError: Memory isn't enough and alloc failed, kernel name: Default/Add-op1, alloc size: 1024B.
  ValueError: The function <megatron.core.x.y> not exist.
  RuntimeError: Undefined soc_version: ascend910x. Please file an issue to vllm-ascend.
mbridge-megatron-core-too-old
  megatron-core>=0.16.0.dev is required for x, but found megatron-core==0.15.3.
python-argument
  TypeError: get_megatron_optimizer() got an unexpected keyword argument 'lr_mult'
bool-mask-index-nonzero
  call aclnnNonzeroV2 failed, error code is 1
tbe-python-module-import-failed
  ModuleNotFoundError: No module named 'tbe'
checkpoint-write-failed
  RuntimeError: [enforce fail at inline_container.cc:101] . PytorchStreamWriter failed writing file data/0: file write failed
device-start-failed-507033
  [Error]: Failed to start the device.
  Calling acl failed. (Calling Function = aclrtCreateContext, Code = 507033, M)
aicore-timeout-507014
  [Error]: Vector core execution timed out.
aicore-exception-507015
  [Error]: The aicore trap read out-of-bounds exception.
  [Error]: Vector core trap write out-of-bounds exception.
aicore-trap-507016
  [Error]: An exception occurs when the aicore trap is executed.
  [Error]: An exception occurs when vector core traps are executed.
device-lost-heartbeat
  [Error]: The task scheduler loses the heartbeat.
npu-oom-driver-el0004
  [Error]: The memory on the device is exhausted.
stream-not-in-context-107003
  [Error]: The stream is not in the current context.
runtime-driver-internal-507899
  [Error]: An internal error occurs in the Driver module.
stream-sync-timeout-507046
  [Error]: In the specified timeout waiting event, all tasks in the specified stream
event-sync-timeout-507047
  [Error]: During the specified event synchronization waiting time, the event is not
soc-version-507008
  [Error]: Failed to obtain the SOC version.
runtime-resources-207009
  [Error]: Event resources are insufficient.
hccl-internal-timeout-507048
  [Error]: The execution of the internal task times out.
fftsplus-exception-507049
  [Error]: An exception occurs during the execution of an internal task.
atb-setup-failed
  AttentionRunner_0_0:0 node[2] setup fail, error code:13
runtime-feature-unsupported-207000
  rtStreamSetMode execute failed, reason=[feature not support]
python-environment-variable
  RuntimeError: ASCEND_LAUNCH_BLOCKING should be 0 or 1.
  RuntimeError: COMBINED_ENABLE should be 0 or 1.
  RuntimeError: ASCEND_GLOBAL_LOG_LEVEL should be 0, 1, 2, 3 or 4.
none
  UserWarning: Called NPUGraph::debug_dump without a preceding successful capture.
  [WARNING] DISTRIBUTED(1,ffff,python):2026-01-02-10:00:00.000.000 [mindspore/ccsrc/distributed/cluster/topology/compute_graph_node.cc:7] Register] Failed to connect to the meta server node url: 192.0.2.1:8118
  [W102 03:04:05.678901234 socket.cpp:101] [c10d] The client socket has failed to connect to any network address of (node-0, 29500).
  WARNING 01-02 10:00:00 utils.py:7] Failed to register custom ops, all custom ops will be disabled. error=x. The custom ops library might not be installed or the environment is not configured correctly. Please check the custom ops installation and environment variables.
hbm-ecc-error
  [ERROR] PTA(1,python): UCE ERROR happened, set task queue status to UCE_EXIT
  RuntimeError: SUSPECT MEM ERROR happened with workEnqueue.
  [ERROR] PTA(1,python): getRepoStopFlag in Run, throw ECC ERROR.
  [ERROR] PTA(1,python): getUceErrorFlag in Enqueue, throw UCE ERROR.
  RuntimeError: UCE ERROR
hccs-link-error
  [ERROR] PTA(1,python): HCCS LINK ERROR happened, set task queue status
  [ERROR] PTA(1,python): getRepoStopFlag in Run, throw UB LINK ERROR.
  RuntimeError: HCCS LINK ERROR
suspect-remote-error-507057
  [ERROR] PTA(1,python): getRepoStopFlag in Run, throw SUSPECT REMOTE ERROR.
npu-smi-dcmi-init-8005
  [ERROR]    2026/01/02 10:00:00.000000 1001    collector/a.go:7    deviceManager init failed, prepare dcmi failed, err: dcmi init call failed, error code: -8005
docker-ascend-runtime-hook-failed
  docker: Error response from daemon: stderr: failed to mount src dir: /dev/davinci0 to dst dir: /var/lib/docker/overlay2/x/merged/dev/davinci0.failed to mount dev.
  docker: Error response from daemon: stderr: failed to do mount directories.
python-not-divisible
  AssertionError: World size (8) must be divisible by tp*cp*pp (3)
  RuntimeError: data_parallel_size * context_parallel_size (6) is not divisible by expert_model_parallel_size\x20
  AssertionError: World size (8) must be divisible by expt_tp*ep*pp (3)
  AssertionError: number of layers of the model must be divisible pipeline model parallel size
  AssertionError: number of layers per pipeline stage must be divisible number of layers per virtual pipeline stage
  AssertionError: number of layers per pipeline stage must be divisible by number of layers per virtual pipeline stage
  ValueError: number of layers at middle stage: 7 must be divisible bythe middle pipeline model parallel size 2
  ValueError: number of middle layers: 7 must be divisible by middle pipeline_model_parallel_size 2
  ValueError: num_layers: 29 after enableaccount_for_embedding_in_pipeline_split or account_for_loss_in_pipeline_split must be divisibleby pipeline_model_parallel_size 4
  ValueError: number of layers on each pipeline rank: 7(after enable account_for_embedding_in_pipeline_split or account_for_loss_in_pipeline_split) must be divisible byvirtual_pipeline_model_parallel_size2
  AssertionError: With uneven pipelineing the left over layers must be divisible by left over stages
  AssertionError: num_layers: 7 must be divisible by virtual_model_parallel_size 2
  AssertionError: Number of experts should be divisible by expert parallel size
  AssertionError: Number of experts(60) is not divisible by ep size(8).
  ValueError: ep must be divisible by the number of experts
  ValueError: World size 6 must be divisible by sharding_size 4.\x20
  ValueError: linear_num_value_heads (6) must be a multiple of linear_num_key_heads (4).
  AssertionError: num_moe_experts (8) should be divisible by moe_router_num_groups (3).
  AssertionError: seq-length should be a multiple of 2 * context-parallel-size if context-parallel-size > 1.
  AssertionError: Sequence length per GPU needs to be divisible by 2!
  AssertionError: sequence length must be divisible by 2 * ampipe_degree * context_parallel_size * tensor_model_parallel_size
  AssertionError: num_attention_heads must be divisible by ulysse-degree-in-cp * tensor_model_parallel_size in hybrid cp
megatron-grad-nan-append-eod
  RuntimeError: Unexpected result inf (message='found Inf in local forward loss calculation')
mindspeed-dataset-not-exist
  FileNotFoundError: One or both of the .idx and .bin files cannot be found at the path prefix /data/x_text_document
python-missing-file
  FileNotFoundError: Tokenizer path not found: /data/qwen
store-connect-timeout
  torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError
default-process-group-missing
  ValueError: Default process group has not been initialized, please make sure to call init_process_group.
  RuntimeError: Default process group has not been initialized, please make sure to call init_process_group.
vllm-ascend-older-card
  RuntimeError: Cannot support runtime soc_version: 104.
vllm-quant-type-unsupported
  NotImplementedError: Unsupported quant_type=W4A4 for layer_type=moe.
mindspore-branches-differ
  Shape Join Failed: shape1 = (2, 3, 4, 5), shape2 = ().
  Type Join Failed: dtype1 = Float32, dtype2 = Float16.
mindspeed-tokenizer-folder
      raise AssertionError(f'{args.tokenizer_name_or_path} not exists!')\nAssertionError: /data/qwen not exists!
megatron-checkpoint-without-optimizer
  Unable to load rng state from checkpoint ckpt. Specify --no-load-rng or --finetune to prevent attempting to load the rng state, exiting ...
"""  # noqa: E501


@pytest.mark.parametrize(("line", "identity"), read_pairs(WRONGLY_TOLD))
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
@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("name", ["cann-sourced", "cann-libhccl-not-found"])
def test_a_log_is_shown_as_it_is(doctor: Command, name: str, language: str) -> None:
    page = doctor("explain", name, "--lang", language).stdout
    assert f"\n{catalog().failures['cann-libhccl-not-found'].example}\n" in page


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
        run_program(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path.cwd())},
        ).stdout
        for seed in ("1", "3")
    }
    assert answers == {"['memory-async-copy-failed', 'sdma-copy-error-507013']\n"}
