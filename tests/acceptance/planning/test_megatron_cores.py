"""Groups and parameters are those of other releases of megatron-core, too."""

from pathlib import Path

import pytest

from tests.acceptance import needs
from tests.planning.test_groups import (  # noqa: F401 - tests, run with the interpreters below
    test_groups_are_those_of_megatrons_rank_generator,
    test_groups_are_those_of_ranks_over_gloo,
    test_groups_are_those_that_megatron_builds,
)
from tests.planning.test_memory import (  # noqa: F401 - as above
    test_parameters_are_those_of_a_real_model_and_activations_are_near,
)


@pytest.fixture(scope="session", params=needs.load().need("megatron-cores").paths())
def examined_python(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)
