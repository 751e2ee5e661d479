"""Forms in which logs, manifests and commands show a name with its value."""

import ast
import random
import re

from tests.redaction import labelled
from tests.redaction.corpus import made

# § is the name, ¶ the value, † the name as an option, ‡ as a header. Each line is one form, with
# variants between two bars.
_FORMS = r"""
export §=¶ || env §='¶' python train.py || ENV §="¶"
§:\n    ¶ || §=\\\n  ¶ || § =\n"¶"
§: ¶ || §: "¶"  # set by ops || §: >-\n  ¶
- name: §\n  value: ¶ || - name: "§"\n  value: "¶" || - {name: §, value: ¶}
{"§": "¶", "epoch": 3} || {'§': '¶', 'epoch': 3} || {\\"§\\": \\"¶\\"}
"§":\n    "¶", || {"name": "§", "value": "¶"} || "key": "§",\n"value": "¶"
\x1b[1m§\x1b[0m=\x1b[32m¶\x1b[0m || §\u200b:\u200b ¶ || §\xad = \r\xad¶
| § | ¶ | set | || │ §  │ ¶ │ || §        : ¶
train.py † ¶ --lr 1e-4 || train.py †=¶ --lr 1e-4 || launch † "¶"
https://api.example.net/v1?§=¶&page=2 || ‡: ¶ || curl -H "‡: ¶" https://api.example.net
"""
# Forms gathered after the patterns for the above were written.
_LATER = r"""
<add key="§" value="¶"/>
<§>¶</§>
("§", "¶")
'§' => '¶',
§ := "¶"
helm upgrade x . --set-string auth.§=¶
docker run -e §=¶ -it image
Environment="§=¶"
{"value": "¶", "name": "§"}
"§": [\n  "¶"\n]
\x1b]8;;x\x07§\x1b]8;;\x07 : ¶
§ is ¶
"""
_ESCAPE = re.compile(r"\\(?:n|r|x..|u....|\\)")


def _forms(texts: str) -> tuple[tuple[str, ...], ...]:
    return tuple(
        tuple(
            _ESCAPE.sub(lambda match: ast.literal_eval(f'"{match[0]}"'), variant)
            for variant in line.split(" || ")
        )
        for line in texts.strip().splitlines()
    )


FORMS = _forms(_FORMS)
LATER = _forms(_LATER)


def pairs(kind: str) -> tuple[tuple[str, str], ...]:
    """Names with values of a kind: secrets, identities, stays."""
    dice = random.Random(f"forms {kind}")
    words = made(labelled.PAIRS[kind], dice).split()
    return tuple((word.partition("=")[0], word.partition("=")[2]) for word in words)


def lines() -> tuple[str, ...]:
    return tuple(made(line, random.Random(line)) for line in labelled.LINES)


def calm() -> tuple[str, ...]:
    texts = [made(text, random.Random(text)) for text in labelled.CALM]
    return tuple(dict.fromkeys((*texts, *(line for text in texts for line in text.splitlines()))))


def written(
    name: str, value: str, number: int, shapes: tuple[tuple[str, ...], ...] = FORMS
) -> list[str]:
    """A name and value in each form; ``number`` picks each variant."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name).lower().replace("_", "-")
    header = words if words.startswith("x-") else f"x-{words}"
    fill = {"§": name, "¶": value, "†": f"--{words}", "‡": header.title()}
    forms = [variants[number % len(variants)] for variants in shapes]
    return [re.sub("[§¶†‡]", lambda match: fill[match[0]], form) for form in forms]
