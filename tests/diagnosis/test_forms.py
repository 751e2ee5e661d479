"""Logs in the forms of the field: all that they say of the culprit is told, and nothing more."""

from collections.abc import Mapping

import pytest

from tests.diagnosis.forms import FORMS, Form
from tests.diagnosis.logs import answer, of_files
from tests.present import present


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_culprit_is_named_as_far_as_the_logs_say(form: Form) -> None:
    diagnosis = of_files(
        form.files if isinstance(form.files, Mapping) else {"train.log": form.files}
    )
    guilty = present(diagnosis.guilty)
    guessed = (guilty.ranks, guilty.local_ranks, guilty.nodes, guilty.devices)
    expected = (form.rank, form.local, form.node, form.device)
    assert (answer(diagnosis), *guessed) == (
        form.root,
        *(() if each is None else (each,) for each in expected),
    )
