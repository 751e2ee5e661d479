"""Names of machines and people that somebody told us, as patterns that find them in any text."""

import re
from collections.abc import Iterable

from ascend_doctor.patterns import defer
from ascend_doctor.redact.vocabulary import SYNTAXES

_WORDS = frozenset(SYNTAXES["words"][0].split())
# Too many words contain two letters.
_SHORTEST = 3
_PLACEHOLDER = defer(r"[xX]{2,}|[A-Z]+(?:_[A-Z]+)+")
_SHORT = defer(r"[A-Za-z][0-9]")  # a node may be called n1


def compile_names(
    hosts: Iterable[str], logins: Iterable[str]
) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """(kind, pattern) of what to hide everywhere."""
    machines = {host for host in hosts if _tells(host)}
    short = {machine.partition(".")[0] for machine in machines}
    domains = {machine.partition(".")[2] for machine in machines}
    # A site's domain, as example.net; not one of every machine (localdomain).
    domains = {name for name in domains if "." in name and not name.replace(".", "").isdigit()}
    patterns = []
    if machines:
        # A colon may surround a name (a port), but belongs to an IPv6 address.
        listed = [
            rf"(?<!:){re.escape(host)}(?!:)" if ":" in host else re.escape(host)
            # Longest first: one name may begin another.
            for host in sorted({*machines, *filter(_tells, short)}, key=len, reverse=True)
        ]
        # A site's other machines share its domain.
        others = [rf"(?:[\w-]+\.)+{re.escape(domain)}" for domain in sorted(domains)]
        shape = "|".join((*others, *listed))
        # Letters alone may be a word elsewhere, in capitals above all (Ascend).
        exact = all(machine.isalpha() for machine in machines)
        patterns.append(("host", rf"(?<![\w.-])(?:{shape})(?![\w-])", exact))
    people = "|".join(sorted(map(re.escape, filter(_tells, logins)), key=len)[::-1])
    if people:
        patterns.append(("user", rf"(?<![A-Za-z0-9])(?:{people})(?![A-Za-z0-9])", True))
    return tuple(
        (kind, re.compile(pattern, 0 if exact else re.IGNORECASE))
        for kind, pattern, exact in patterns
    )


def is_word(name: str) -> bool:
    """A word of the field, or a manual's stand-in for a name: xxx, SERVER_NAME."""
    return name.lower() in _WORDS or _PLACEHOLDER.fullmatch(name) is not None


def _tells(name: str) -> bool:
    long = len(name) >= _SHORTEST or _SHORT.fullmatch(name) is not None
    return long and name.lower() not in _WORDS and not name.isdigit()
