"""Checkpoints that can be written, and that torch.load takes again."""

from collections.abc import Iterator

from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import Python
from ascend_doctor.findings import Finding
from ascend_doctor.judging.judge import Case, check, warning
from ascend_doctor.judging.packages import find_distribution
from ascend_doctor.judging.source_trees import core, core_version
from ascend_doctor.judging.version_compare import is_in_range

_WRITER = (
    "https://github.com/NVIDIA/Megatron-LM/blob/core_v0.12.1/megatron/core/dist_checkpointing/"
    "strategies/filesystem_async.py"
)


@check("enum-pickling", "Checkpoints of this Python can be loaded again")
def enum_pickling(case: Case) -> Iterator[Finding]:
    """Megatron's checkpoints have members of enums, which an early Python 3.11 pickles by getattr.

    Since torch 2.6 torch.load calls no function that it does not know, so that no run is resumed
    from such a checkpoint: "Unsupported global: GLOBAL getattr". Debian 12 has such a Python,
    3.11.2; 3.10.13, 3.11.7 and 3.12.1 pickle by value. The interpreter is asked, not its number.
    """
    python = case.need(Python)
    core(case)
    torch = find_distribution(case, "torch")
    if torch is None or not is_in_range(torch.version, ">=2.6"):
        raise NotApplicable("torch.load of this torch takes any object")
    if python.enums_by_getattr is None:
        raise Unknown("this record does not tell how its Python pickles enums")
    if python.enums_by_getattr:
        yield warning(
            f"Python {python.version} writes Megatron checkpoints that torch.load refuses",
            observed=f"Python {python.version} pickles members of an enum by getattr",
            required="a Python that pickles them by value",
            because="torch.load reads tensors and known classes only, and calls no getattr: a run "
            "cannot be resumed.",
            remedy="Build the environment anew with Python 3.11.7 or another one that pickles "
            "by value",
            refs=(
                "https://github.com/python/cpython/blob/v3.11.2/Lib/enum.py",
                "https://github.com/pytorch/pytorch/blob/main/torch/_weights_only_unpickler.py",
            ),
        )


@check("checkpoint-writer", "This Megatron-core can write checkpoints with this torch")
def checkpoint_writer(case: Case) -> Iterator[Finding]:
    """Megatron-core writes a checkpoint of the format torch_dist by a function of torch's own.

    Since torch 2.8 this function has one more argument, which Megatron-core up to 0.12 does not
    give: "_write_item() missing 1 required positional argument: 'serialization_format'". The job
    trains until its first checkpoint; where only some ranks write, the others wait for them until
    a time-out. The older format, torch, is written by torch.save.
    """
    version = core_version(case)
    torch = find_distribution(case, "torch")
    if torch is None or not is_in_range(torch.version, ">=2.8"):
        raise NotApplicable("torch has no such argument")
    if is_in_range(version, "<0.13"):
        yield warning(
            f"Megatron-core {version} cannot write checkpoints with torch {torch.version}",
            observed=f"Megatron-core {version}, torch {torch.version}",
            required="Megatron-core 0.13 or newer, or torch below 2.8",
            because="The job ends, or hangs, at its first checkpoint of the format torch_dist.",
            remedy="Save in the older format (--ckpt-format torch), or change one of the two",
            refs=("https://github.com/pytorch/pytorch/pull/151452", _WRITER),
        )
