"""Sets of kinds that others list, each in ten forms, as files of sets/ write them.

{a20} is made anew as in hidden.yaml, "~" in a name is a space; "«…»" of a text must vanish.
"""

import json
import random
import re
from typing import NamedTuple
from urllib.parse import quote, unquote

from ascend_doctor.machine.parsing import read_yaml
from tests.redaction.corpus import HERE, made, shows

_ESCAPE = re.compile(r"\\(?:n|r|t|x1b|u200b|\\)|\\\"")


class Text(NamedTuple):
    """What has to vanish from a text, which words have to stay, and its form."""

    text: str
    hidden: tuple[str, ...]
    stays: tuple[str, ...]
    form: int


def items(name: str) -> dict[str, tuple[Text, ...]]:
    """Every secret and identity of a set in its forms."""
    fields = {
        "tokens": "",
        "identities": "",
        "secret_texts": "",
        "identity_texts": "",
        **_fields(name),
    }
    texts: dict[str, tuple[Text, ...]] = {}
    for pair in made(fields["secrets"] + fields["identities"], random.Random(name)).split():
        key, _, value = pair.partition("=")
        texts[pair] = tuple(_written(key.replace("~", " "), value, len(texts), fields["named"]))
    for value in made(fields["tokens"], random.Random(f"{name} tokens")).split():
        texts[value] = tuple(_written("", value, len(texts), fields["bare"]))
    for text in [*fields["secret_texts"], *fields["identity_texts"]]:
        marked = made(text, random.Random(text))
        texts[marked] = tuple(_carried(marked, fields["carried"]))
    return texts


def healthy(name: str) -> list[str]:
    """Texts without secrets and identities, which stay byte for byte."""
    return made(_fields(name)["healthy"], random.Random(name)).strip("\n").split("\n")


def seen(text: Text, output: str) -> list[str]:
    """What a cleaned text still shows."""
    plain = re.sub(r"\\[nt]", " ", re.sub("\x1b\\[[0-9;]*m|\u200b", "", output))
    return [each for each in text.hidden if shows(each, plain) or shows(each, unquote(plain))]


def _fields(name: str) -> dict[str, str]:
    loaded: dict[str, str] = read_yaml(HERE / "sets" / f"{name}.yaml")
    return loaded


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(lambda match: match[0].encode().decode("unicode_escape"), text)


def _written(name: str, value: str, number: int, forms: str) -> list[Text]:
    option = "--" + re.sub(r"(?<=[a-z])(?=[A-Z])|[ _.]", "-", name).lower()
    texts = []
    for form, line in enumerate(forms.strip().splitlines()):
        variants = line.split(" || ")
        variant = variants[(number + form) % len(variants)]
        fill = {"§": name, "¶": value, "‡": option}
        if "%7B" in variant:
            fill = {key: quote(each, safe="") for key, each in fill.items()}
        elif "://" in variant:
            fill = {
                key: quote(each, safe="-._~:@=+" if key == "¶" else "")
                for key, each in fill.items()
            }
        variant = _unescaped(variant)
        stays = tuple(re.findall("[a-z]{4,}", re.sub("[§¶‡]", " ", variant)))
        text = "".join(fill.get(piece, piece) for piece in re.split("([§¶‡])", variant))
        texts.append(Text(text, (value,), stays, form))
    return texts


def _carried(marked: str, forms: str) -> list[Text]:
    hidden = tuple(
        each for whole in re.findall("«(.*?)»", marked, re.DOTALL) for each in whole.split("\n")
    )
    text = re.sub("[«»]", "", marked)
    texts = []
    for form, line in enumerate(forms.strip().splitlines()):
        kind, _, carrier = line.partition(" ")
        before, after = _unescaped(carrier).split("¶")
        whole = {
            "json": json.dumps(text, ensure_ascii=False)[1:-1],
            "repr": repr(text)[1:-1],
            "url": quote(text, safe=""),
            "text": text,
            "lines": f"{after}\n{before}".join(text.split("\n")),
        }[kind]
        stays = ("finished",) if "finished" in carrier else ()
        texts.append(Text(f"{before}{whole}{after}", hidden, stays, form))
    return texts
