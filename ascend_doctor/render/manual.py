"""Where a check's page of the documentation is, for who has built the site."""

import os
import re

from ascend_doctor.language import current

BASE = "ASCEND_DOCTOR_DOCS"
# It goes into the escape sequence of a link: nothing but letters that print may be in it.
_ADDRESS = re.compile(r"https?://[\x21-\x7e]+")
_ONE_CHECK = re.compile(r"[a-z0-9-]{1,64}")


def page_of(check: str) -> str:
    """The address of a check's page below ``ASCEND_DOCTOR_DOCS``, "" where that is unset.

    Every page is in Chinese at the same address below ``zh/``.
    """
    base = os.environ.get(BASE, "").rstrip("/")
    known = _ADDRESS.fullmatch(base) and _ONE_CHECK.fullmatch(check)
    folder = "" if current() == "en" else f"/{current()}"
    return f"{base}{folder}/check/{check}/" if known else ""


def link(text: str, address: str) -> str:
    """A text as a link of terminals (OSC 8), which others show as the text; "" is no link."""
    return f"\x1b]8;;{address}\x1b\\{text}\x1b]8;;\x1b\\" if address else text
