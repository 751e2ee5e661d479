import pytest

from ascend_doctor.errors import DataError
from ascend_doctor.shrinking.sizes import SmallLayout, shrink_layout

TP, PP, CP, EP = (
    f"{name}-model-parallel-size" if name != "context" else "context-parallel-size"
    for name in ("tensor", "pipeline", "context", "expert")
)


@pytest.mark.parametrize(
    ("sizes", "ranks", "small"),
    [
        ({TP: 8, PP: 16}, 8, (2, 2, 1, 4)),
        ({TP: 8, PP: 16}, 256, (2, 2, 1, 8)),
        ({EP: 8}, 8, (1, 1, 1, 2)),
        ({EP: 8, PP: 2}, 16, (1, 2, 1, 4)),
        ({TP: 2, EP: 8}, 16, (2, 1, 1, 4)),
        ({TP: 4, PP: 4, CP: 4}, 512, (2, 2, 2, 8)),
        ({}, None, (1, 1, 1, 1)),
        ({}, 8, (1, 1, 1, 2)),
    ],
)
def test_each_kind_of_parallelism_stays(
    sizes: dict[str, int], ranks: int | None, small: tuple[int, ...]
) -> None:
    layout = shrink_layout(sizes, ranks, 8)
    assert (layout.tensor, layout.pipeline, layout.context, layout.ranks) == small


def test_too_few_npus_are_refused() -> None:
    with pytest.raises(DataError, match="--npus 4: this launch needs 8"):
        shrink_layout({TP: 2, PP: 2, CP: 2}, 8, 4)


def test_gradients_are_accumulated_and_stages_have_two_layers() -> None:
    layout = SmallLayout(tensor=1, pipeline=2, context=1, ranks=4)
    assert (layout.data, layout.layers, layout.batch) == (2, 4, 8)
