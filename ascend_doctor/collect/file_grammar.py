"""Lines that the readers of a file do not take, by its whole grammar."""

from collections.abc import Iterator

from ascend_doctor.facts import OddLine
from ascend_doctor.machine.live import Machine, matches, read_or_none
from ascend_doctor.patterns import defer, patterns_of

CONF, _INSTALLED, _VERSIONS, _LOADER = patterns_of(__file__)
_OCTET = r"(25[0-5]|2[0-4]\d|1?\d?\d)"
_HOSTS = defer(
    rf"\s*(#.*|({_OCTET}(\.{_OCTET}){{3}}|[\da-fA-F:]*:[\da-fA-F:.]*(%\w+)?)\s+[^\s#].*)?"
)
_RESOLVER = defer(
    r"\s*([#;].*|nameserver\s+[\da-fA-F.:]+(%\w+)?\s*|(search|domain|options|sortlist)\b.*)?"
)
_FILES = (
    ("/etc", "hccn.conf", CONF),
    ("/etc", "ascend_install.info", _INSTALLED),
    ("/etc", "hosts", _HOSTS),
    ("/etc", "resolv.conf", _RESOLVER),
    ("/etc", "ld.so.conf", _LOADER),
    ("/etc/ld.so.conf.d", "*.conf", _LOADER),
    *((f"/usr/local/Ascend/{part}", "version.info", _VERSIONS) for part in ("driver", "firmware")),
)


def odd_lines(machine: Machine) -> Iterator[OddLine]:
    """Of /etc, the driver, and the parts of CANN."""
    cann = machine.env.get("ASCEND_HOME_PATH", "")
    parts = matches(machine, cann, "*") if cann else ()
    for folder, name, grammar in (
        *_FILES,
        *((part, "version.info", _VERSIONS) for part in parts),
    ):
        for path in matches(machine, folder, name) if "*" in name else (f"{folder}/{name}",):
            text = read_or_none(machine, path) or ""
            for number, line in enumerate(text.removesuffix("\n").split("\n"), 1):
                if grammar.fullmatch(line) is None:
                    yield OddLine(path=path, line=number, text=line[:80])
