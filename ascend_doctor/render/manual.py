"""Where an id's page of the documentation is, for who has built the site."""

import os
import re

from ascend_doctor.language import current

BASE = "ASCEND_DOCTOR_DOCS"
# For a link's escape sequence: only printable letters.
_ADDRESS = re.compile(r"https?://[\x21-\x7e]+")
_ONE_CHECK = re.compile(r"[a-z0-9-]{1,64}")


def page_of(check: str, kind: str = "check") -> str:
    """The page of a check or ``failure`` below ``ASCEND_DOCTOR_DOCS`` (Chinese: ``zh/``), or ""."""
    base = os.environ.get(BASE, "").rstrip("/")
    known = _ADDRESS.fullmatch(base) and _ONE_CHECK.fullmatch(check)
    folder = "" if current() == "en" else f"/{current()}"
    return f"{base}{folder}/{kind}/{check}/" if known else ""


def link(text: str, address: str) -> str:
    """A text as a terminal link (OSC 8), which others show as the text; "" is not a link."""
    return f"\x1b]8;;{address}\x1b\\{text}\x1b]8;;\x1b\\" if address else text
