"""A name with its value is hidden in every form, and what is neither secret nor identity stays."""

import re

from ascend_doctor.redact import Redactor
from tests.redaction import forms
from tests.redaction.corpus import HOME, LOGIN

KEY = b"k" * 16
# Zero-width characters that a value may hold.
_UNSEEN = re.compile("[\x1b\u200b\xad\r]")


def _shown(kind: str, shapes: tuple[tuple[str, ...], ...] = forms.FORMS) -> dict[str, list[int]]:
    shown: dict[str, list[int]] = {}
    for number, (name, value) in enumerate(forms.pairs(kind)):
        texts = [_redacted(text) for text in forms.written(name, value, number, shapes)]
        seen = [form for form, text in enumerate(texts) if value in _UNSEEN.sub("", text)]
        if seen:
            shown[f"{name}={value}"] = seen
    return shown


def _redacted(text: str) -> str:
    redactor = Redactor(key=KEY)
    redacted = redactor.text(text)
    assert redactor.text(redacted) == redacted, text
    return redacted


def test_a_secret_is_hidden_in_every_form() -> None:
    assert len(forms.pairs("secrets")) >= 100
    assert _shown("secrets") == {}


def test_an_identity_is_hidden_in_every_form() -> None:
    assert len(forms.pairs("identities")) >= 30
    assert _shown("identities") == {"SLURM_SUBMIT_HOST=tor-eins": [7]}


def test_few_values_are_shown_in_the_forms_that_were_gathered_later() -> None:
    """A value before its name, and plain words in a sentence or in brackets."""
    shown = {**_shown("secrets", forms.LATER), **_shown("identities", forms.LATER)}
    assert sum(map(len, shown.values())) <= 8
    assert {form for each in shown.values() for form in each} <= {2, 8, 11}


def test_marked_words_of_a_line_are_hidden() -> None:
    for line in forms.lines():
        redacted = _redacted(re.sub("[«»]", "", line))
        assert not [word for word in re.findall("«(.*?)»", line) if word in redacted], redacted


def test_values_of_other_names_stay_in_every_form() -> None:
    pairs = enumerate(forms.pairs("stays"))
    texts = [text for number, pair in pairs for text in forms.written(*pair, number)]
    assert len(texts) >= 400
    assert [text for text in texts if Redactor(key=KEY).text(text) != text] == []


def test_healthy_lines_stay() -> None:
    lines = forms.calm()
    redactor = Redactor(host="trainer-17.dc3.acme.net", home=HOME, logins=[LOGIN], key=KEY)
    assert [line for line in lines if redactor.text(line) != line] == []
    assert [line for line in lines if redactor.secrets(line) != line] == []
    assert redactor.text("\n".join(lines)) == "\n".join(lines)
    assert redactor.hidden == {}


def test_colours_stay_beside_what_is_hidden() -> None:
    text = "\x1b[1mDB_PASS\x1b[0m=\x1b[32mbirnbaum\x1b[0m \x1b[31mnode\x1b[0m 10.1.2.3\x1b[K"
    redacted = Redactor(key=KEY).secrets(text)
    assert redacted == text.replace("birnbaum", "[redacted]")


def test_quotes_of_a_log_stay_and_those_of_a_shell_move() -> None:
    redactor = Redactor(home="/home/mila", key=KEY)
    assert redactor.text("open('/home/mila/x')") == "open('~/x')"
    assert redactor.text("cat '/home/mila/a b'") == "cat ~/'a b'"


def test_a_pair_of_name_and_value_is_judged_by_its_name() -> None:
    pair = {"name": "DB_PASS", "value": "birnbaum"}
    assert Redactor(key=KEY).apply(pair) == {"name": "DB_PASS", "value": "[redacted]"}
