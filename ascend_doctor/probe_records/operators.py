"""Records of the probes of operators: what each case measured, by the name of the case.

Errors are relative. ``cases`` is None where the probe did not come to the first.
"""

import msgspec

from ascend_doctor.probe_records.common import ChildOutcome, Number, ProbeRecord


class ElementCase(ChildOutcome, frozen=True, kw_only=True):
    differ: int | None = None


class BoolIndexRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/bool_index.py."""

    cases: dict[str, ElementCase] | None = None


class TritonRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/triton_kernel.py: which distributions bring the module triton.

    ``interpretations`` are the kernels again where no compiler was found.
    """

    cases: dict[str, ElementCase] | None = None
    interpretations: dict[str, ElementCase] = {}
    distributions: list[str] = []
    interpreted: bool = False


class SoftmaxCase(ChildOutcome, frozen=True, kw_only=True):
    """Errors of the fused softmax, and the seconds that the case took."""

    value: Number | None = None
    row_sum: Number | None = None
    masked: Number | None = None
    gradient: Number | None = None
    seconds: float = 0.0

    @property
    def errors(self) -> dict[str, Number | None]:
        return {name: getattr(self, name) for name in ("value", "row_sum", "masked", "gradient")}


class FusedSoftmaxRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/fused_softmax.py: whether each package that a compilation imports is there."""

    cases: dict[str, SoftmaxCase] | None = None
    packages: dict[str, bool] = {}


class KernelCase(ChildOutcome, frozen=True, kw_only=True):
    """Errors of a fused operator; ``arrived`` is that of tokens that experts were given."""

    value: Number | None = None
    gradient: Number | None = None
    sum: Number | None = None
    arrived: Number | None = None

    @property
    def errors(self) -> dict[str, Number]:
        """Those that were measured."""
        measured = ((name, getattr(self, name)) for name in ("value", "gradient", "sum", "arrived"))
        return {name: error for name, error in measured if error is not None}


class KernelsRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/flash_attention.py and fused_ops.py."""

    cases: dict[str, KernelCase] | None = None


class DtypeCase(ChildOutcome, frozen=True, kw_only=True):
    """``differ`` elements are converted otherwise; ``product`` is the error of a product."""

    differ: int | None = None
    sum: bool | None = None
    product: Number | None = None
    product_error: str = ""


class DtypeRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/dtype.py."""

    cases: dict[str, DtypeCase] | None = None


class Fp8Record(ProbeRecord, frozen=True, kw_only=True):
    """probes/fp8.py: multiples of tokens by recipe; why there is no FP8, "" where there is."""

    alignment: dict[str, int | None] | None = None
    unable: str | None = None


class LeftPadding(msgspec.Struct, frozen=True, kw_only=True):
    """A mask with padding on the left, and what becomes of it."""

    mask: list[int]
    rebuilt: list[int]
    right_padded: bool


class MaskRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/attention_mask_rebuild.py."""

    left: LeftPadding | None = None


class VocabularyRow(msgspec.Struct, frozen=True, kw_only=True):
    """Errors of log-probabilities, and the all-reduces that they took."""

    value_off: Number
    gradient_off: Number
    forward: int
    backward: int


class InPlaceRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a backward came to: an error, or how far gradients are off."""

    error: str | None = None
    gradient_off: Number = "nan"


class VocabularyRecord(ProbeRecord, frozen=True, kw_only=True):
    """probes/vocab_parallel_logprob.py.

    ``chunks``: by tokens at a time, "None" for all. ``in_place``: by what writes in place, order,
    and tokens at a time.
    """

    chunks: dict[str, VocabularyRow] | None = None
    in_place: dict[str, dict[str, dict[str, InPlaceRow]]] | None = None
    cross_entropy: VocabularyRow | None = None
