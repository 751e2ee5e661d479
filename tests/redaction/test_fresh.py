"""Kinds that others list, in ten forms: most are hidden, and nothing else changes."""

from ascend_doctor.redact import Redactor
from tests.redaction import fresh

KEY = b"k" * 16


def _shown(items: dict[str, tuple[fresh.Text, ...]]) -> dict[str, list[int]]:
    shown: dict[str, list[int]] = {}
    for name, texts in items.items():
        for text in texts:
            if fresh.seen(text, Redactor(key=KEY).text(text.text)):
                shown.setdefault(name, []).append(text.form)
    return shown


def test_the_set_is_whole_and_shows_what_it_hides() -> None:
    items = fresh.items()
    assert len(items) == 120
    assert {len(texts) for texts in items.values()} == {10}
    for texts in items.values():
        assert all(set(fresh.seen(text, text.text)) == set(text.hidden) for text in texts)


def test_most_are_hidden_in_every_form() -> None:
    shown = _shown(fresh.items())
    assert len(shown) <= 10
    assert sum(map(len, shown.values())) <= 63
    assert len(fresh.again()) == 58
    assert len(_shown(fresh.again())) <= 4


def test_words_beside_a_secret_stay() -> None:
    texts = [text for texts in fresh.items().values() for text in texts]
    outputs = [(text, Redactor(key=KEY).text(text.text)) for text in texts]
    lost = [(out, word) for text, out in outputs for word in text.stays if word not in out]
    assert lost == []


def test_healthy_texts_stay() -> None:
    redactor = Redactor(key=KEY)
    assert [text for text in fresh.healthy() if redactor.text(text) != text] == []
    assert redactor.text("\n".join(fresh.healthy())) == "\n".join(fresh.healthy())
