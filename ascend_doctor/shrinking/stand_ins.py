"""Small copies of models and made-up data, in the folder of a rehearsal."""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ascend_doctor.errors import DataError, DoctorError
from ascend_doctor.machine.live import LiveMachine
from ascend_doctor.machine.parsing import read_json
from ascend_doctor.shrinking.model_config import shrink_config

_SCRIPT = str(Path(__file__).parent / "site" / "stand_ins.py")
_WEIGHTS = {".safetensors", ".bin", ".pt", ".pth", ".gguf", ".h5", ".msgpack"}
# More than a batch of any shrunk training: an unfilled batch would be dropped.
ROWS = 64
DATA_SET = "rows"
# A model's code, tokenizer and configuration are smaller; larger files are weights.
_LARGEST = 64 << 20
_DEADLINE = 300


def lacks_weights(model: str) -> bool:
    """Whether it is a folder with a model's configuration alone."""
    here = Path(model)
    if not (here / "config.json").is_file():
        return False
    return not any(_WEIGHTS & set(path.suffixes) for path in here.iterdir())


def copy_small_model(model: str, folder: Path, layers: int | None, python: str) -> str:
    """The path of a copy of a model's folder with few layers and random weights.

    Without ``layers`` it keeps its sizes, and its weights are holes. Raises DataError for a folder
    without a config.json, DoctorError if its interpreter cannot make the weights.
    """
    source = Path(model)
    if not (source / "config.json").is_file():
        raise DataError(
            f"{model}: not a folder with a config.json, which is what can be shrunk without network"
        )
    # ms-swift recognises a model by its folder's name.
    copy = folder / "models" / source.absolute().name
    if copy.is_dir():
        return str(copy)
    copy.mkdir(parents=True)
    for path in source.iterdir():
        if path.is_file() and not _WEIGHTS & set(path.suffixes) and path.stat().st_size < _LARGEST:
            shutil.copy(path, copy / path.name)
    index = copy / "model.safetensors.index.json"
    index.unlink(missing_ok=True)
    config = read_json(copy / "config.json")
    if not isinstance(config, dict):
        raise DataError(f"{source / 'config.json'}: not an object")
    if layers is not None:
        small = json.dumps(shrink_config(config, layers), indent=1)
        (copy / "config.json").write_text(small, "utf-8")
    _run(python, "weights", str(copy), "meta" if layers is None else "cpu")
    return str(copy)


def write_conversations(folder: Path) -> str:
    """The path of a file with rows in ms-swift's form."""
    path = folder / "conversations.jsonl"
    rows = ({"messages": _make_conversation(number)["messages"]} for number in range(ROWS))
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_text(text, "utf-8")
    return str(path)


def write_data_set(folder: Path, *, pairs: bool) -> str:
    """The path of a folder for `datasets`: conversations, or pairs with a better answer.

    Its splits are train, test and validation.
    """
    data = folder / DATA_SET
    data.mkdir(exist_ok=True)
    rows = [_make_pair(number) if pairs else _make_conversation(number) for number in range(ROWS)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    for split in ("train", "test", "validation"):
        (data / f"{split}.jsonl").write_text(text, "utf-8")
    return str(data)


def _make_pair(number: int) -> dict[str, Any]:
    answers = {"chosen": f"It is {number + 1}.", "rejected": f"It is {number}."}
    return {"prompt": f"What is {number} + 1?", **answers}


def _make_conversation(number: int) -> dict[str, Any]:
    """Also as plain text, which other scripts read."""
    question, answer = f"What is {number} + 1?", f"It is {number + 1}."
    asked, answered = (
        {"role": "user", "content": question},
        {"role": "assistant", "content": answer},
    )
    return {"messages": [asked, answered], "text": f"{question} {answer}"}


def write_questions(folder: Path, python: str) -> str:
    """The path of a file with rows in verl's form. Raises DoctorError without pandas."""
    path = str(folder / "questions.parquet")
    _run(python, "rows", path, str(ROWS))
    return path


def write_instructions(
    folder: Path, python: str, program: Sequence[str], length: int, words: int
) -> str:
    """The path of a folder with a tokenizer, and with documents as ``data`` for fine-tuning.

    Each has ``length`` tokens of ``words``. Raises DoctorError without ``program``'s Megatron-LM.
    """
    path = folder / "instructions"
    path.mkdir(exist_ok=True)
    source = "." if len(program) > 1 else str(Path(program[0]).parent)
    _run(python, "instructions", str(path), str(length), str(words), source)
    return str(path)


def _run(python: str, *arguments: str) -> None:
    env = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "HF_HUB_OFFLINE": "1"}
    done = LiveMachine(env).run([python, _SCRIPT, *arguments], deadline=_DEADLINE)
    if done.exit_code != 0:
        last = done.stderr.strip().rpartition("\n")[2]
        raise DoctorError(f"{python} cannot make {arguments[0]} for the rehearsal: {last}")
