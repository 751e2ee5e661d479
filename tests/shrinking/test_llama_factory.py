from pathlib import Path

import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.shrinking.llama_factory import (
    find_configuration,
    parallel_sizes,
    read_settings,
    shrink_words,
)
from ascend_doctor.shrinking.words import split_launch
from tests.shrinking.test_programs import start

CONFIGURATION = """\
### model
model_name_or_path: "Qwen/Qwen3-4B"  # a name
stage: sft
deepspeed: examples/deepspeed/ds_z3_config.json
lora_target: all
cutoff_len: 2048
learning_rate: 1.0e-4
gradient_accumulation_steps: 1
output_dir: saves/here
adapter_name_or_path: saves/before
resume_from_checkpoint: null
"""


@pytest.fixture
def configuration(tmp_path: Path) -> str:
    path = tmp_path / "sft.yaml"
    path.write_text(CONFIGURATION)
    return str(path)


def test_a_configuration_is_small_and_what_is_no_size_stays(
    configuration: str, tmp_path: Path
) -> None:
    words = shrink_words(
        configuration,
        ["cutoff_len=8192", "lora_rank=8"],
        tmp_path,
        lambda each: f"copy of {each}",
    )
    assert words[2:] == [
        *("max_steps=5", "max_samples=64", "model_name_or_path=copy of Qwen/Qwen3-4B"),
        *("cutoff_len=128", f"output_dir={tmp_path}/saved", "adapter_name_or_path=null"),
    ]
    assert Path(configuration).read_text() == CONFIGURATION


def test_a_configuration_is_told_from_other_files(configuration: str, tmp_path: Path) -> None:
    def find(*words: str) -> str | None:
        return find_configuration(split_launch("llamafactory-cli", ["train", *words]).options)

    other = tmp_path / "other.yaml"
    other.write_text("stage: test\n")
    assert find(configuration, "lora_rank=8") == configuration
    assert [find(str(other)), find("absent.yaml"), find("--stage", "sft"), find()] == [None] * 4


def test_sizes_of_its_layout_are_read() -> None:
    settings = {"tensor_model_parallel_size": "4", "context_parallel_size": "none"}
    assert parallel_sizes(settings) == {"tensor-model-parallel-size": 4}


def test_what_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"\xff")
    with pytest.raises(DataError, match=r"a\.yaml: 'utf-8'"):
        read_settings(str(tmp_path / "a.yaml"))


def test_its_launchers_are_given_a_small_configuration(configuration: str, tmp_path: Path) -> None:
    Path(configuration).write_text("stage: sft\nmodel_name_or_path: a/b\n")
    done = start(tmp_path, ["llamafactory-cli", "train", configuration])
    assert done.returncode == 2
    assert "cannot shrink: a/b: not a folder with a config.json" in done.stderr
