from pathlib import Path

import pytest

from ascend_doctor.findings import Finding, Level
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.versions import satisfies
from tests.checks.levels import remedy_of
from tests.probes.judged import judge_probes
from tests.probes.standins import ran, write_files

PROBE = "megatron-tree"
FUNCTIONS = Catalog().component("megatron-core").functions
FILES = {
    "get_megatron_optimizer": "optimizer/__init__.py",
    "OptimizerConfig": "optimizer/optimizer_config.py",
    "DistributedDataParallelConfig": "distributed/distributed_data_parallel_config.py",
    "initialize_model_parallel": "parallel_state.py",
    "model_parallel_cuda_manual_seed": "tensor_parallel/random.py",
    "GPTModel": "models/gpt/gpt_model.py",
}
ONE_FILE = {
    "distributed/finalize_model_grads.py": (
        "finalize_model_grads",
        "_get_main_grad_attr",
        "_allreduce_word_embedding_grads",
    ),
    "tensor_parallel/layers.py": ("ColumnParallelLinear", "RowParallelLinear"),
    "models/gpt/gpt_layer_specs.py": ("get_gpt_layer_local_spec", "get_gpt_layer_local_submodules"),
}


def definition(name: str, version: str) -> str:
    (row,) = (function for function in FUNCTIONS if function.name.endswith(f".{name}"))
    taken = [
        field
        for versions, names in row.takes.items()
        if not versions or satisfies("pep440", version, versions)
        for field in names
    ]
    if not taken:
        return ""
    if name.endswith("Config"):
        return f"class {name}:\n" + "".join(f"    {field}: int = 0\n" for field in taken)
    if name in {"GPTModel", "ColumnParallelLinear", "RowParallelLinear"}:
        return f"class {name}:\n    def __init__(self, {', '.join(taken)}): ...\n"
    return f"def {name}({', '.join(taken)}): ...\n"


def tree(folder: Path, version: str, **changes: str) -> Path:
    numbers = dict(zip(("MAJOR", "MINOR", "PATCH"), version.split("."), strict=True))
    files = {"__init__.py": "", "package_info.py": "PRE_RELEASE = ''\n"}
    files["package_info.py"] += "".join(
        f"{constant} = {number}\n" for constant, number in numbers.items()
    )
    for name, file in FILES.items():
        files[file] = changes.get(name, definition(name, version))
    for file, names in ONE_FILE.items():
        files[file] = "".join(
            changes.get(function, definition(function, version)) for function in names
        )
    return write_files(folder, {f"megatron/core/{name}": text for name, text in files.items()})


def judge_tree(check: str, *folders: Path, device: str = "cpu") -> list[Finding]:
    return list(judge_probes(ran(PROBE, *folders, device=device), check=check))


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.12.1", "0.15.3", "0.16.1", "0.17.1", "0.19.0"])
def test_a_tree_as_it_was_released(tmp_path: Path, version: str) -> None:
    folder = tree(tmp_path, version)
    (drift,) = judge_tree("api-drift", folder)
    assert drift.level is Level.OK, drift
    assert f"functions of megatron.core {version}" in drift.observed
    optimizer = drift.because.partition("get_megatron_optimizer(")[2].partition(")")[0]
    assert ("lr_mult" in optimizer) is (version >= "0.16")
    assert [finding.level for finding in judge_tree("megatron-origin", folder)] == [Level.OK]


def test_a_removed_keyword_is_found(tmp_path: Path) -> None:
    changed = definition("get_megatron_optimizer", "0.15.3").replace("lr_mult, ", "")
    (drift,) = judge_tree("api-drift", tree(tmp_path, "0.15.3", get_megatron_optimizer=changed))
    assert drift.level is Level.ERROR
    assert drift.title.endswith("does not take lr_mult")


def test_a_function_that_is_gone_and_a_new_name_are_found(tmp_path: Path) -> None:
    changed = definition("OptimizerConfig", "0.15.3") + "    muon: int = 0\n"
    folder = tree(tmp_path, "0.15.3", OptimizerConfig=changed, finalize_model_grads="")
    more, gone = judge_tree("api-drift", folder)
    assert (more.level, more.observed) == (Level.WARNING, "muon")
    assert gone.level is Level.ERROR
    assert gone.observed == "there is no megatron.core.distributed.finalize_model_grads"


def test_a_call_with_a_keyword_that_is_gone_is_found(tmp_path: Path) -> None:
    call = """
        from megatron.core.optimizer import get_megatron_optimizer as build
        from megatron.core import parallel_state as mpu
        def step(config, models, **more):
            build(config, models, lr_mult=1.0, use_gloo_process_groups=True)
            mpu.initialize_model_parallel(2, encoder_tensor_model_parallel_size=0, **more)
            other.initialize_model_parallel(nonsense=1)
            try:
                build(config, models, asked=1)
            except TypeError:
                pass
        """
    folder = tree(tmp_path / "tree", "0.16.1")
    write_files(tmp_path / "tree", {"swift/__init__.py": "", "swift/megatron/train.py": call})
    tree(tmp_path / "tree", "0.16.1")
    (drift,) = judge_tree("api-drift", folder)
    assert drift.level is Level.WARNING
    assert drift.observed.splitlines() == [
        "swift/megatron/train.py:5: get_megatron_optimizer(lr_mult=)",
        "swift/megatron/train.py:6: initialize_model_parallel(encoder_tensor_model_parallel_size=)",
    ]


def test_a_release_that_the_table_does_not_have(tmp_path: Path) -> None:
    (drift,) = judge_tree("api-drift", tree(tmp_path, "0.20.0"))
    assert drift.level is Level.UNKNOWN


def test_two_trees_and_a_version_that_lies(tmp_path: Path) -> None:
    wheel, checkout = tmp_path / "wheel", tmp_path / "checkout"
    tree(wheel, "0.16.1")
    (wheel / "megatron" / "training" / "__init__.py").unlink()
    (wheel / "megatron" / "training").rmdir()
    tree(checkout, "0.15.3")
    (mixed,) = judge_tree("megatron-origin", wheel, checkout)
    assert mixed.level is Level.ERROR
    assert remedy_of(mixed).commands == (
        f"export PYTHONPATH={checkout}${{PYTHONPATH:+:$PYTHONPATH}}",
    )
    (double,) = judge_tree("megatron-origin", checkout, wheel)
    assert double.level is Level.WARNING
    assert double.observed.index("0.15.3") < double.observed.index("0.16.1")


def test_metadata_and_variable_that_name_another_tree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tree(tmp_path, "0.15.3")
    info = folder / "megatron_core-0.12.1.dist-info" / "METADATA"
    info.parent.mkdir()
    info.write_text("Metadata-Version: 2.1\nName: megatron-core\nVersion: 0.12.1\n")
    monkeypatch.setenv("MEGATRON_LM_PATH", "/elsewhere")
    lies, named = judge_tree("megatron-origin", folder)
    assert lies.title == "pip knows megatron-core 0.12.1; imported is 0.15.3"
    assert named.observed.startswith("MEGATRON_LM_PATH=/elsewhere")


BRIDGE = {
    "mcore_bridge/__init__.py": "",
    "mcore_bridge/gdn.py": "class GatedDeltaNet: ...  # attention_mask_2d\n",
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("value", "files", "level"),
    [
        (None, {}, Level.WARNING),
        ("1", {}, Level.ERROR),
        ("0", {}, Level.OK),
        ("1", {"megatron/core/ssm/gated_delta_net.py": ""}, Level.WARNING),
        ("1", {"megatron/core/ssm/gated_delta_net.py": "", "fla/__init__.py": ""}, Level.OK),
    ],
)
def test_gated_delta_nets(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    value: str | None,
    files: dict[str, str],
    level: Level,
) -> None:
    if value is not None:
        monkeypatch.setenv("USE_MCORE_GDN", value)
    (finding,) = judge_tree("gdn", write_files(tmp_path, {**BRIDGE, **files}), device="npu")
    assert finding.level is level


@pytest.mark.slow
@pytest.mark.parametrize(("text", "level"), [("", Level.WARNING), (" attention_mask_2d", Level.OK)])
def test_the_padding_mask(tmp_path: Path, text: str, level: Level) -> None:
    source = f"class GatedDeltaNet: ...  #{text}\n"
    folder = write_files(tmp_path, {**BRIDGE, "mcore_bridge/gdn.py": source})
    (finding,) = judge_tree("gdn-mask", folder, device="npu")
    assert finding.level is level


@pytest.mark.slow
def test_without_a_bridge_there_is_nothing_to_say(tmp_path: Path) -> None:
    folder = tree(tmp_path, "0.15.3")
    assert judge_tree("gdn", folder)[0].level is Level.SKIPPED
    assert judge_tree("gdn-mask", folder, device="npu")[0].level is Level.SKIPPED
    (tmp_path / "none").mkdir()
    assert judge_tree("megatron-origin", tmp_path / "none")[0].level is Level.SKIPPED
