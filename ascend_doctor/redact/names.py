"""Names of machines and people that somebody told us, as patterns that find them in any text."""

import re
from collections.abc import Iterable

# Words of our own field, and names that say nothing about anybody: hiding them would only make
# texts unreadable.
_WORDS = frozenset(
    """
    localhost localdomain host node nodes master worker head server ubuntu debian openeuler centos
    root user admin administrator nobody daemon test tests guest docker container default none
    hwhiaiuser ascend npu cann hccl torch python conda driver train training trainer model models
    data cache home work workspace tmp local megatron mindspeed swift verl git jenkins runner ray
    miniconda3 anaconda3 miniforge3 code users result byte unknown robot to
    slurm kube system service share public linux bin lib opt usr var dev null true false error
    """.split()  # noqa: SIM905 - a list of a hundred words is no more readable
)
# Two letters are part of too many words.
_SHORTEST = 3
_PLACEHOLDER = re.compile(r"[xX]{2,}|[A-Z]+(?:_[A-Z]+)+")
_SHORT = re.compile(r"[A-Za-z][0-9]")  # a node may be called n1


def compile_names(
    hosts: Iterable[str], logins: Iterable[str]
) -> tuple[tuple[str, re.Pattern[str]], ...]:
    """(kind, pattern) of what is to be hidden wherever it stands."""
    machines = {host for host in hosts if _tells(host)}
    short = {machine.partition(".")[0] for machine in machines}
    domains = {
        machine.partition(".")[2] for machine in machines if _is_domain(machine.partition(".")[2])
    }
    patterns = []
    if machines:
        # A colon may stand before and after a name (a port), but belongs to an IPv6 address.
        listed = [
            rf"(?<!:){re.escape(host)}(?!:)" if ":" in host else re.escape(host)
            # The longest first: a name may begin with another one.
            for host in sorted({*machines, *filter(_tells, short)}, key=len, reverse=True)
        ]
        # Other machines of the same site are named after it as well.
        others = [rf"(?:[\w-]+\.)+{re.escape(domain)}" for domain in sorted(domains)]
        shape = "|".join((*others, *listed))
        # Letters alone may be a word elsewhere, in capitals above all (Ascend, Alice).
        exact = all(machine.isalpha() for machine in machines)
        patterns.append(("host", rf"(?<![\w.-])(?:{shape})(?![\w-])", exact))
    people = "|".join(
        sorted((re.escape(login) for login in logins if _tells(login)), key=len)[::-1]
    )
    if people:
        patterns.append(("user", rf"(?<![A-Za-z0-9])(?:{people})(?![A-Za-z0-9])", True))
    return tuple(
        (kind, re.compile(pattern, 0 if exact else re.IGNORECASE))
        for kind, pattern, exact in patterns
    )


def is_word(name: str) -> bool:
    """A word of the field, or what a manual writes where a name belongs: xxx, SERVER_NAME."""
    return name.lower() in _WORDS or _PLACEHOLDER.fullmatch(name) is not None


def _tells(name: str) -> bool:
    long = len(name) >= _SHORTEST or _SHORT.fullmatch(name) is not None
    return long and name.lower() not in _WORDS and not name.isdigit()


def _is_domain(text: str) -> bool:
    """Of a site, as example.net; what every machine may have (localdomain) is none."""
    return "." in text and not text.replace(".", "").isdigit()
