"""Inputs that are not here, and an early end, for launches of any framework at their true size."""

from collections.abc import Callable
from pathlib import Path

from ascend_doctor.shrinking import hugging_face, llama_factory, ms_swift
from ascend_doctor.shrinking.hydra import is_hydra
from ascend_doctor.shrinking.stand_ins import lacks_weights
from ascend_doctor.shrinking.words import LaunchWords, Option


def place_inputs(
    launch: LaunchWords, folder: Path, steps: int, copy_model: Callable[[str], str]
) -> list[Option]:
    """The options of a launch that ends after ``steps``; copies replace models without weights."""
    placed, saved, script = [*launch.options], folder / "saved", launch.program[-1]
    if file := llama_factory.find_configuration(placed):
        model = llama_factory.read_settings(file)["model_name_or_path"]
        end, named = f"max_steps={steps}", f"model_name_or_path={model}"
        placed.append(Option("", (end, f"output_dir={saved}", named)))
    elif is_hydra(placed):
        end = f"trainer.total_training_steps={steps}"
        placed.append(Option("", (end, f"trainer.default_local_dir={saved}")))
    elif {"model", "dataset"} <= {option.name for option in placed}:
        launcher = "megatron" if "megatron" in script else "swift"
        placed = ms_swift.end_early(placed, launcher, folder, steps)
    else:
        placed = hugging_face.end_script(placed, script, folder, steps)
    return [
        Option(option.typed, tuple(_give_weights(word, copy_model) for word in option.arguments))
        for option in placed
    ]


def _give_weights(word: str, copy_model: Callable[[str], str]) -> str:
    key, equals, value = word.rpartition("=")
    return f"{key}{equals}{copy_model(value)}" if lacks_weights(value) else word
