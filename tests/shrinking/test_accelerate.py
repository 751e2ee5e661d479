import json
from pathlib import Path

import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.shrinking.accelerate import (
    add_configuration,
    divide_replicas,
    parallel_sizes,
    shrink_places,
)
from ascend_doctor.shrinking.sizes import shrink_layout
from ascend_doctor.shrinking.words import Option, split_launch
from tests.shrinking.test_programs import start

CONFIGURATION = """
deepspeed_config: {gradient_accumulation_steps: 4, zero_stage: 3}
distributed_type: DEEPSPEED
gpu_ids: 0,1
main_process_ip: 10.0.0.1
machine_rank: 1
num_machines: 2
num_processes: 16
rdzv_backend: static
"""
DIVIDED = """
parallelism_config:
  parallelism_config_cp_size: 1
  parallelism_config_dp_replicate_size: 4
  parallelism_config_dp_shard_size: 4
  parallelism_config_tp_size: 4
num_processes: 64
"""


def places(folder: Path, configuration: str, *typed: str) -> list[str]:
    (folder / "c.yaml").write_text(configuration)
    words = ["launch", "--config_file", f"{folder}/c.yaml", *typed, "train.py", "--lr", "1"]
    launch = add_configuration(split_launch("accelerate", words))
    assert launch.program == ("train.py",)
    return shrink_places(launch, 2).words()


def test_what_is_typed_goes_before_a_configuration(tmp_path: Path) -> None:
    typed = ("--num_processes=8", "--rdzv_backend", "c10d")
    assert places(tmp_path, CONFIGURATION, *typed) == [
        *("launch", "--config_file", f"{tmp_path}/c.yaml", "--num_processes", "2"),
        *("--gradient_accumulation_steps", "2", "--gpu_ids", "all"),
        *("--main_process_ip", "127.0.0.1", "--machine_rank", "0", "--num_machines", "1"),
        *("train.py", "--lr", "1"),
    ]


def test_a_configuration_without_places_gets_a_number_of_ranks(tmp_path: Path) -> None:
    words = places(tmp_path, "distributed_type: FSDP\n")
    assert words[3:5] == ["--num_processes", "2"]


def test_replicas_that_are_divided_have_two_ranks_each(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(DIVIDED)
    words = ["--config_file", f"{tmp_path}/c.yaml", "train.py"]
    launch = add_configuration(split_launch("accelerate-launch", words))
    layout = shrink_layout(parallel_sizes(launch.places), launch.ranks, 8)
    assert divide_replicas(launch.places, layout, 8).ranks == 8
    with pytest.raises(DataError, match="needs 8"):
        divide_replicas(launch.places, layout, 4)
    assert Option("--parallelism_config_tp_size", ("2",)) in shrink_places(launch, 8).places


@pytest.mark.parametrize("text", ["- a list", "{"])
def test_a_configuration_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(DataError, match=r"c\.yaml"):
        places(tmp_path, text)


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("accelerate", ["launch"]),
        ("accelerate-launch", []),
        ("python", ["-u", "-m", "accelerate.commands.launch"]),
    ],
)
def test_accelerate_by_each_of_its_names(program: str, words: list[str]) -> None:
    launch = split_launch(program, [*words, "--num_processes", "4", "-m", "a.b", "--c", "d"])
    assert (launch.accelerate, launch.ranks, launch.program) == (True, 4, ("-m", "a.b"))
    assert launch.on_one_node(2).words() == [*words, "--num_processes", "2", *launch.words()[-4:]]


def test_its_other_commands_are_left_alone() -> None:
    assert not split_launch("accelerate", ["config", "--config_file", "c.yaml"]).accelerate


def test_a_script_is_started_small(tmp_path: Path) -> None:
    """Its model exists already: no test here has transformers."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    (tmp_path / "train.py").write_text("parser = HfArgumentParser(SFTConfig)")
    script = f"""
        mkdir -p {tmp_path}/scratch/programs/models/model
        printf '#!/bin/sh\\necho $HF_DATASETS_CACHE; printf "%%s\\n" "$@"' > real/accelerate
        accelerate launch --multi_gpu train.py --model_name_or_path model --dataset_name a/b \
            --num_train_epochs 3 --per_device_train_batch_size 8 --push_to_hub --output_dir x
    """
    done = start(tmp_path, ["sh", "-c", script])
    folder = tmp_path / "scratch" / "programs"
    cache, *words = done.stdout.split()
    assert cache == f"{folder}/rows-read"
    assert words == [
        *("launch", "--multi_gpu", "--num_processes", "2", "train.py"),
        *("--model_name_or_path", f"{folder}/models/model", "--dataset_name", f"{folder}/rows"),
        *("--per_device_train_batch_size", "1", "--output_dir", f"{folder}/saved"),
        *("--max_steps", "5", "--logging_steps", "1", "--report_to", "none"),
    ]
    rows = (folder / "rows" / "test.jsonl").read_text().splitlines()
    assert json.loads(rows[1])["messages"][1]["content"] == "It is 2."
    assert "shrunk: --num_processes 2 is added\n" in done.stderr


def test_a_script_with_options_of_its_own_gets_none_that_it_does_not_have(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text('parser.add_argument("--max_train_steps")  # DPOTrainer')
    script = "accelerate launch train.py --dataset_name a/b --report_to=wandb --num_train_epochs 3"
    done = start(tmp_path, ["sh", "-c", script])
    rows = tmp_path / "scratch" / "programs" / "rows"
    assert done.stdout.split()[3:] == [
        *("train.py", "--dataset_name", f"{rows}"),
        *("--num_train_epochs", "3", "--max_train_steps", "5"),
    ]
    assert set(json.loads((rows / "train.jsonl").read_text().splitlines()[0])) == {
        *("prompt", "chosen", "rejected"),
    }
    assert "no option names a model" in done.stderr


def test_a_kind_of_model_is_no_model(tmp_path: Path) -> None:
    done = start(tmp_path, ["accelerate", "launch", "-m", "lm_eval", "--model", "hf"])
    assert done.stdout.split() == [
        "launch",
        "--num_processes",
        "2",
        "-m",
        "lm_eval",
        "--model",
        "hf",
    ]
