"""Kinds that others list, in ten forms: most are hidden, and nothing else changes."""

import pytest

from ascend_doctor.redact import Redactor
from tests.redaction import drawn

KEY = b"k" * 16
# Of each set: items, those that some form shows, texts that show.
SETS = {
    "first": (120, 0, 0),
}


@pytest.mark.parametrize("name", SETS)
def test_the_set_is_whole_and_shows_what_it_hides(name: str) -> None:
    items = drawn.items(name)
    assert len(items) == SETS[name][0]
    assert {len(texts) for texts in items.values()} == {10}
    for texts in items.values():
        assert all(set(drawn.seen(text, text.text)) == set(text.hidden) for text in texts)


@pytest.mark.parametrize("name", SETS)
def test_most_are_hidden_in_every_form(name: str) -> None:
    shown = {}
    for item, texts in drawn.items(name).items():
        outputs = [(text, Redactor(key=KEY).text(text.text)) for text in texts]
        assert [word for text, out in outputs for word in text.stays if word not in out] == []
        forms = [text.form for text, out in outputs if drawn.seen(text, out)]
        if forms:
            shown[item] = forms
    _, items, count = SETS[name]
    assert len(shown) <= items, shown
    assert sum(map(len, shown.values())) <= count, shown


@pytest.mark.parametrize("name", SETS)
def test_healthy_texts_stay(name: str) -> None:
    redactor = Redactor(key=KEY)
    texts = drawn.healthy(name)
    assert [text for text in texts if redactor.text(text) != text] == []
    assert redactor.text("\n".join(texts)) == "\n".join(texts)
