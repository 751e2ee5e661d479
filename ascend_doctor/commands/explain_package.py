"""Manual pages of packages, as ``explain torch_npu==2.7.1.post2``, and of chips."""

import contextlib
import re
from collections.abc import Iterator

from ascend_doctor.commands.matrix_show import describe_chosen
from ascend_doctor.errors import DataError
from ascend_doctor.language import say
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.queries import choose

_NAMED = re.compile(r"\b(?:import|from|install)\s+([\w-]+(?:==[\w.]+)?)")


def pages_of_package(text: str, rows: Catalog) -> Iterator[str]:
    """The page of a component of the matrix, or of one version; none for another text.

    Of a line of Python or of a shell: those of what it imports or installs.
    """
    if not text or " " in text:
        for name in _NAMED.findall(text):
            yield from pages_of_package(name, rows)
        return
    with contextlib.suppress(DataError):
        chosen = choose(rows, text)
        version = f"=={chosen.version}" if chosen.version else ""
        commands = ("show", "solve --with") if chosen.releases and version else ("show",)
        named = f"{chosen.component.id}{version}"
        more = [f"  ascend-doctor matrix {command} {named}" for command in commands]
        if chosen.component.obtain.kind == "pip":
            more.append(f"  ascend-doctor check -l 1  # {say('does it import here?')}")
        yield "\n".join((*describe_chosen(chosen, rows), "", say("More:"), *more))


def pages_of_chip(text: str, rows: Catalog) -> Iterator[str]:
    """Of a chip or server, as 910C or Atlas 800T A2."""
    if family := rows.family_called(text):
        yield f"{text}: {family.title}\nsoc {family.id}: {', '.join(family.names)}"
        if family.note:
            yield f"{say('note')}: {say(family.note)}"
        yield f"{say('Next')}: ascend-doctor matrix solve --framework ms-swift --on soc={family.id}"
