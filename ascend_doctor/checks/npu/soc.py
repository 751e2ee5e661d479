"""The chip: known to torch_npu, meant for training, and not mistaken for another."""

import fnmatch

from ascend_doctor.facts import Npus
from ascend_doctor.judging import Case, Findings, Level, Texts, Unknown, error, matrix_fit, warning
from ascend_doctor.judging.packages import distribution, family, npu_only
from ascend_doctor.judging.version_compare import is_in_range
from ascend_doctor.matrix.schema import urls

TEXTS = Texts("soc")


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
            yield TEXTS.finding(
                "unknown-chip",
                refs=urls(chip.sources),
                torch_npu=torch_npu,
                name=name,
                train=train,
                first=first,
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
        yield TEXTS.finding("no-atlas")


@TEXTS.check("soc-training")
def _soc_training(case: Case) -> Findings:
    npu_only(case)
    chip = family(case)
    if not chip.training:
        path = case.facts.import_path
        level = Level.ERROR if path and path.find("mindspeed").copies else None
        yield TEXTS.finding("unsupported-chip", level=level, chip=chip)
    behaviour = case.catalog.component("mindspeed").behaviour("no-first-generation", "master")
    if chip.network == "planes" and behaviour is not None:
        yield TEXTS.finding(
            "unsupported-first", refs=urls(behaviour.sources), chip=chip, behaviour=behaviour
        )
    if chip.bf16 is False:
        yield TEXTS.finding("no-bfloat16", chip=chip)
