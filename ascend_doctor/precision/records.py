"""What a run leaves of its tensors, whatever wrote it down."""

import enum

import msgspec


class TensorKind(enum.Enum):
    """What a tensor is, in the words of the format."""

    WEIGHT = "weight"
    BUFFER = "buffer"
    INPUT = "input"
    OUTPUT = "output"
    OUTPUT_GRADIENT = "output-gradient"
    INPUT_GRADIENT = "input-gradient"
    WEIGHT_GRADIENT = "weight-gradient"
    STATE = "state"
    MAIN_GRADIENT = "main-gradient"
    GRADIENT = "gradient"
    UPDATE = "update"


TensorKey = tuple[int, TensorKind, str, int, str]


class TensorRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A tensor at one moment of a step. Sums leave out the elements that are not finite.

    ``name`` is a module, or a parameter with its module. ``call`` counts the calls of the module in
    the step. ``slot`` is the tensor's path in arguments, results, or the optimizer's state.
    ``attached``: a gradient can come back to it. ``norm`` is the Euclidean one; ``projections`` are
    sums with random signs, ``digest`` a check sum of the bytes: the writer may omit each.
    """

    step: int
    kind: TensorKind
    name: str
    shape: tuple[int, ...]
    dtype: str
    type: str = ""
    call: int = 0
    slot: str = ""
    attached: bool | None = None
    norm: float | None = None
    mean: float | None = None
    least: float | None = None
    most: float | None = None
    not_finite: int = 0
    projections: tuple[float, ...] = ()
    digest: str = ""

    @property
    def key(self) -> TensorKey:
        return (self.step, self.kind, self.name, self.call, self.slot)

    @property
    def elements(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def owner(self) -> str:
        """The module of a weight, or of what belongs to it; else the module itself."""
        own = self.kind in {
            TensorKind.INPUT,
            TensorKind.OUTPUT,
            TensorKind.INPUT_GRADIENT,
            TensorKind.OUTPUT_GRADIENT,
        }
        return self.name if own else self.name.rpartition(".")[0] or self.name


class RankRecords(msgspec.Struct, frozen=True, kw_only=True):
    """One rank's records, in the order of computation."""

    rank: int
    device: str = ""
    simulated: bool = False
    records: tuple[TensorRecord, ...] = ()


class Dump(msgspec.Struct, frozen=True, kw_only=True):
    """A run: its ranks by the names of their files or folders."""

    path: str
    ranks: dict[str, RankRecords]
