import json
import runpy
from pathlib import Path

import pytest

from ascend_doctor.errors import DataError, DoctorError
from ascend_doctor.shrinking.stand_ins import _SCRIPT, copy_small_model, write_conversations


def test_a_copy_has_a_small_config_and_none_of_the_weights(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text('{"num_hidden_layers": 40}')
    (model / "tokenizer.json").write_text("{}")
    (model / "model-00001-of-00002.safetensors").write_text("large")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho made > $3/model.safetensors\n")
    python.chmod(0o755)
    copy = Path(copy_small_model(str(model), tmp_path / "scratch", 4, str(python)))
    assert copy.name == "model"
    assert json.loads((copy / "config.json").read_text()) == {"num_hidden_layers": 4}
    assert sorted(path.name for path in copy.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
    ]
    assert (model / "config.json").read_text() == '{"num_hidden_layers": 40}'
    assert copy_small_model(str(model), tmp_path / "scratch", 4, "/no/python") == str(copy)


def test_a_name_on_a_hub_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Qwen/Qwen3-8B: not a folder with a config"):
        copy_small_model("Qwen/Qwen3-8B", tmp_path, 2, "python")


def test_an_interpreter_that_cannot_make_weights_is_named(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho 'No module named transformers' >&2; exit 1\n")
    python.chmod(0o755)
    with pytest.raises(DoctorError, match="No module named transformers"):
        copy_small_model(str(tmp_path), tmp_path / "scratch", 2, str(python))


def test_conversations_are_rows_of_messages(tmp_path: Path) -> None:
    rows = Path(write_conversations(tmp_path)).read_text().splitlines()
    assert len(rows) == 64
    assert [message["role"] for message in json.loads(rows[0])["messages"]] == ["user", "assistant"]


def test_questions_have_what_fine_tuning_reads() -> None:
    row = runpy.run_path(_SCRIPT)["make_row"](3)
    assert row["extra_info"] == {
        "index": 3, "split": "train", "question": "What is 3 + 1?", "answer": "It is 4.",
    }  # fmt: skip
    assert [message["role"] for message in row["messages"]] == ["user", "assistant"]
