"""Checkpoints that can be written, and that torch.load takes again."""

from ascend_doctor.facts import Python
from ascend_doctor.judging import Case, Findings, NotApplicable, Texts, Unknown, warning
from ascend_doctor.judging.packages import find_distribution
from ascend_doctor.judging.source_trees import core, core_version
from ascend_doctor.judging.version_compare import is_in_range

TEXTS = Texts("checkpoint-files")

_WRITER = (
    "https://github.com/NVIDIA/Megatron-LM/blob/core_v0.12.1/megatron/core/dist_checkpointing/"
    "strategies/filesystem_async.py"
)


@TEXTS.check("enum-pickling")
def _enum_pickling(case: Case) -> Findings:
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


@TEXTS.check("checkpoint-writer")
def _checkpoint_writer(case: Case) -> Findings:
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
