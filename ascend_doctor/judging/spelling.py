"""Names that differ from a known one by a slip of the hand."""

from collections import Counter
from collections.abc import Collection

# Too many other names are a letter away from a shorter one.
_SHORTEST, _LONG = 5, 10
# Between hyphens: to the first length a letter makes another word, from the second two may slip.
_SHORT, _LONG_WORD = 3, 7
_FEW_SLIPS = 2
_PREFIXES = ("HCCL_", "P2P_HCCL_", "ASCEND_", "TORCH_NPU_", "TORCH_HCCL_", "PYTORCH_NPU_")
# Differing letters if two slips are the most: each replaces one by another.
_MOST_LETTERS = 4
# Names of so many words have too many relatives.
_MOST_WORDS = 2


def slip_of(name: str, known: Collection[str], most: int = 2) -> str:
    """The known name that was probably meant; "" if none is close.

    A slip is a letter more, less, other, or exchanged with its neighbour. A name of ten letters
    may have ``most``, a shorter one one, a short one none. Other first letters, other capitals,
    a number at the end or another word between hyphens make another name: tp is not a slip of
    pp, nor HOST one of PORT.
    """
    if len(name) < _SHORTEST:
        return ""
    hyphens = {each.replace("_", "-"): each for each in sorted(known)}
    plain = name.replace("_", "-")
    if plain in hyphens:
        return hyphens[plain]
    most = most if len(name) >= _LONG else 1
    letters = Counter(plain)
    near = [
        (distance, each)
        for each in hyphens
        if abs(len(each) - len(plain)) <= most
        and len(each) >= _SHORTEST
        and each[0] == plain[0]
        and each.lower() != plain.lower()
        and each.rstrip("0123456789") != plain.rstrip("0123456789")
        and sum(((letters - Counter(each)) + (Counter(each) - letters)).values()) <= _MOST_LETTERS
        and (distance := edit_distance(plain, each)) <= most
        and _is_same_words(plain, each)
    ]
    return hyphens[min(near)[1]] if near else ""


def variable_meant(name: str, known: Collection[str]) -> str:
    """The HCCL, CANN or torch_npu variable probably meant: by a slip, other words or lengths."""
    if meant := slip_of(name, known):
        return meant
    words = name.split("_")
    forms = [each for each in known if _is_form(words, each.split("_"))]
    # Users have names of their own that begin with a known one, and ones like ASCEND_HOME.
    if name.startswith(_PREFIXES):
        longer = [each for each in known if each.startswith(f"{name}_")]
        if len(longer) == 1 and len(words) > 1 and words[0] != "ASCEND":
            return longer[0]
        known_words = "_".join(words[:-1])
        forms += [known_words] if known_words in known and len(words) > _MOST_WORDS else []
        forms += [each for each in known if _is_near_joined(name, each)]
    return max(forms, key=len, default="")


def _is_form(words: list[str], known: list[str]) -> bool:
    """Three words or more, one of which is shortened or lengthened."""
    pairs = [
        sorted(pair, key=len) for pair in zip(words, known, strict=False) if pair[0] != pair[1]
    ]
    return (
        len(words) == len(known) > _MOST_WORDS
        and words[0] == known[0]
        and all(_abbreviates(*pair) for pair in pairs)
    )


def _abbreviates(short: str, word: str) -> bool:
    """MEM is MEMORY, SZ is SIZE: the first letter, and others in their order."""
    letters = iter(word)
    return short[0] == word[0] and all(letter in letters for letter in short)


def _is_near_joined(name: str, known: str) -> bool:
    pair = name.replace("_", ""), known.replace("_", "")
    shortest, longest = sorted(map(len, pair))
    digits = {each.rstrip("0123456789") for each in pair}
    return (
        longest - shortest <= _FEW_SLIPS <= shortest - _LONG
        and len(digits) > 1
        and edit_distance(*pair) <= _FEW_SLIPS
    )


def _is_same_words(name: str, known: str) -> bool:
    if name.replace("-", "") == known.replace("-", ""):
        return True
    pairs = list(zip(name.split("-"), known.split("-"), strict=False))
    if name.count("-") != known.count("-"):
        return False
    return all(_is_same_word(*pair) for pair in pairs if pair[0] != pair[1])


def _is_same_word(word: str, known: str) -> bool:
    if len(word) == len(known) <= _SHORT:
        return sorted(word) == sorted(known)
    return edit_distance(word, known) <= (1 if len(known) < _LONG_WORD else 2)


def edit_distance(first: str, second: str) -> int:
    """Letters to insert, delete, replace or exchange with the next (optimal string alignment)."""
    before: list[int] = []
    row = list(range(len(second) + 1))
    for i, letter in enumerate(first, 1):
        earlier, before, row = before, row, [i]
        for j, target in enumerate(second, 1):
            best = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != target))
            if i > 1 and j > 1 and letter == second[j - 2] and first[i - 2] == target:
                best = min(best, earlier[j - 2] + 1)
            row.append(best)
    return row[-1]
