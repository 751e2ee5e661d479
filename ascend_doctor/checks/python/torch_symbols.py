"""Whether the libraries on the loader's path have the functions that torch_npu calls."""

from ascend_doctor.checks.python.torch_import import (
    OF_CANN,
    absent,
    native_of,
    require_torch_npu,
    symbols,
)
from ascend_doctor.errors import NotApplicable, Unknown
from ascend_doctor.facts import MissingSymbol, Native
from ascend_doctor.judging import Case, Findings, Texts, quantity
from ascend_doctor.judging.packages import cann_version, distribution, statement, torch_pair

TEXTS = Texts("torch-symbols")

_OWN = "libtorch_npu.so"


@TEXTS.check("torch-npu-cann-symbols")
def _torch_npu_cann_symbols(case: Case) -> Findings:
    native = native_of(case)
    _require_symbols(native)
    if any(needed.name in OF_CANN for needed in absent(native)):
        raise NotApplicable("libraries of CANN are not found at all")
    missing = symbols(native, "cann")
    if missing:
        require_torch_npu(case)
        try:
            cann = f"CANN {cann_version(case)}"
        except (NotApplicable, Unknown):
            cann = "the CANN in use"
        torch_npu = distribution(case, "torch-npu")
        yield TEXTS.finding(
            "old-cann",
            statement=statement(case),
            cann=cann,
            torch_npu=torch_npu,
            symbols=_list_symbols(missing),
        )
    unowned = symbols(native, "")
    if unowned:
        yield TEXTS.finding(
            "unowned-functions",
            functions=quantity(len(unowned), "function"),
            symbols=_list_symbols(unowned),
        )


@TEXTS.check("torch-npu-torch-symbols", caused_by=("torch-npu-base-mismatch",))
def _torch_npu_torch_symbols(case: Case) -> Findings:
    native = native_of(case)
    _require_symbols(native)
    missing = symbols(native, "torch")
    if missing:
        require_torch_npu(case)
        torch, torch_npu = distribution(case, "torch"), distribution(case, "torch-npu")
        yield TEXTS.finding(
            "other-torch",
            remedy=torch_pair(case),
            statement=statement(case),
            torch_npu=torch_npu,
            torch=torch,
            symbols=_list_symbols(missing),
        )


def _require_symbols(native: Native) -> None:
    if any(needed.name == _OWN for needed in absent(native)):
        raise NotApplicable(f"{_OWN}, which calls them, is not found (see torch-npu-libraries)")
    if not native.symbols_checked:
        raise Unknown("no symbols could be compared")


def _list_symbols(symbols: tuple[MissingSymbol, ...]) -> str:
    shown = "; ".join(f"{symbol.name} (wanted by {symbol.wanted_by})" for symbol in symbols[:3])
    return f"{len(symbols)} undefined: {shown}{' ...' if len(symbols) > 3 else ''}"  # noqa: PLR2004 - as cut
