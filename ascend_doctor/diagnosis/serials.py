"""Serial numbers of cards, from what npu-smi printed: `info -t board -i N` and `info -l`."""

import re

MARK = b"Serial Number"
_ROW = re.compile(r"^\s*(NPU ID|Serial Number|Chip Count)\s*:\s*([\w-]{1,64})\s*$", re.MULTILINE)
_NONE = frozenset({"NA", "-", "xxx"})


def parse_serials(text: str) -> dict[int, str]:
    """By NPU ID, the device's number for cards with one chip; others are left out."""
    cards: list[dict[str, str]] = []
    for name, value in _ROW.findall(text):
        if name == "NPU ID":
            cards.append({})
        if cards:
            cards[-1].setdefault(name, value)
    return {
        int(card["NPU ID"]): card["Serial Number"]
        for card in cards
        if card.get("Chip Count") == "1"
        and card["NPU ID"].isdecimal()
        and len(card["NPU ID"]) <= 4  # noqa: PLR2004 - no machine has more
        and card.get("Serial Number", "NA") not in _NONE
    }
