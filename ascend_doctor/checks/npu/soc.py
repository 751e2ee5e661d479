"""The chip: known to torch_npu, meant for training, and not mistaken for another."""

import fnmatch

from ascend_doctor.facts import Npus
from ascend_doctor.judging import Case, Findings, Texts, Unknown, error, matrix_fit, note, warning
from ascend_doctor.judging.packages import distribution, family, npu_only
from ascend_doctor.judging.version_compare import is_in_range
from ascend_doctor.matrix.schema import urls

TEXTS = Texts("soc")

_ATC = (
    "https://www.hiascend.com/document/detail/zh/CANNCommunityEdition/83RC1/devaids/atctool/"
    "atlasatcparam_16_0035.html"
)
_VARIABLES = "Ascend/pytorch@v26.1.0-pytorch2.7.1:torch_npu/csrc/core/npu/NpuVariables.cpp"
_SUPPORTED = "Ascend/MindSpeed@26.1.0_core_r0.12.1:docs/zh/user-guide/install_guide.md"


def names(case: Case) -> tuple[str, ...]:
    """The SoC names, as from aclrtGetSocName. Raises Unknown, and NotApplicable without an NPU.

    Ascend and npu-smi's name; on A3 the board's chip name and NPU name, joined by "_".
    """
    npus = case.need(Npus)
    boards = [
        f"{board.chip_name}_{board.npu_name}".replace(" ", "")
        for board in npus.boards
        if board.chip_name and board.npu_name
    ]
    plain = [
        device.name if device.name.startswith("Ascend") else f"Ascend{device.name}"
        for device in npus.devices
        if device.name and device.name != "Ascend910"
    ]
    boards_and_names = tuple(dict.fromkeys(board for board in (*boards, *plain) if board))
    if not boards_and_names:
        family(case)
        raise Unknown("the names of the chips could not be told")
    return boards_and_names


@TEXTS.check("soc-unknown")
def _soc_unknown(case: Case) -> Findings:
    npu_only(case)
    torch_npu, chip = distribution(case, "torch-npu"), family(case)
    if not chip.first_torch_npu:
        return
    row = matrix_fit.release(case, "torch-npu", torch_npu.version)
    train = row.attributes.get("train") if row else None
    for name in names(case):
        first = next(
            (
                train
                for pattern, train in chip.first_torch_npu.items()
                if fnmatch.fnmatchcase(name, pattern)
            ),
            None,
        )
        if first is None:
            continue
        if train is None:
            raise Unknown(f"no table says which TorchNPU release {torch_npu.version} is")
        known = is_in_range(train, f">={first}", "ascend")
        if not known:
            yield error(
                f"torch_npu {torch_npu.version} does not know the chip {name}",
                observed=f"torch_npu {torch_npu.version} is of TorchNPU {train}",
                required=f"TorchNPU {first} or newer",
                because="It raises an error for a chip that is not in its table.",
                remedy=f"Install a torch_npu of TorchNPU {first} or newer",
                refs=urls(chip.sources),
            )


@TEXTS.check("vllm-ascend-chip")
def _vllm_ascend_chip(case: Case) -> Findings:
    npu_only(case)
    vllm, chip = distribution(case, "vllm-ascend"), family(case)
    first = chip.first_vllm_ascend
    if not first or (first != "none" and is_in_range(vllm.version, f">={first}.dev0")):
        return
    never = first == "none"
    yield (error if never else warning)(
        f"vllm-ascend {vllm.version} does not {'support' if never else 'list'} {chip.title}",
        observed=chip.title,
        required="Atlas A2 or A3" if never else f"vllm-ascend {first} or newer for this chip",
        because="Its operators are not made for this chip.",
        refs=tuple(source.url for source in chip.sources if "vllm" in source.url),
    )


@TEXTS.check("soc-910b-confusion")
def _soc_910b_confusion(case: Case) -> Findings:
    npu_only(case)
    if family(case).network == "planes" and "Ascend910B" in names(case):
        yield note(
            "Ascend910B without a digit is a first-generation chip, not Atlas A2",
            observed="Ascend910B",
            because="Guides for 910B mean Atlas A2, whose chips are called 910B1 to 910B4.",
            refs=(_ATC, _VARIABLES),
        )


@TEXTS.check("soc-training")
def _soc_training(case: Case) -> Findings:
    npu_only(case)
    chip = family(case)
    if not chip.training:
        yield warning(
            f"MindSpeed does not support {chip.title}",
            observed=chip.title,
            required="Atlas A2, Atlas A3 or Ascend 950",
            because="Operators that training needs do not exist for this chip.",
            refs=(_SUPPORTED,),
        )
    behaviour = case.catalog.component("mindspeed").behaviour("no-first-generation", "master")
    if chip.network == "planes" and behaviour is not None:
        yield warning(
            "MindSpeed does not support the first generation of Ascend 910",
            observed=chip.title,
            required="Atlas A2, Atlas A3 or Ascend 950",
            because=behaviour.text,
            refs=urls(behaviour.sources),
        )
    if chip.bf16 is False:
        yield note(
            f"{chip.title} has no bfloat16",
            observed=chip.title,
            because="Train with float16 and loss scaling; bf16 options fail.",
            refs=(_VARIABLES,),
        )
