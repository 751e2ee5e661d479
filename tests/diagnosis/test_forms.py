"""Logs in the forms of the field: all that they say of the culprit is told, and nothing more."""

import pytest

from tests.diagnosis.forms import FORMS, Form, judge_form


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_the_culprit_is_named_as_far_as_the_logs_say(form: Form) -> None:
    answer = judge_form(form)
    assert answer.missed == []
    assert answer.wrong == []
