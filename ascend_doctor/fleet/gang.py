"""Where this node stands in a launch over several, and the variables that say so."""

import re
from collections.abc import Mapping

import msgspec

from ascend_doctor.errors import DataError
from ascend_doctor.judging.value_bounds import LAST_PORT


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """A launch over ``count`` nodes, of which this is ``rank``, by the variables ``names``."""

    names: tuple[str, ...]
    count: int
    rank: int
    host: str
    port: int

    @property
    def endpoint(self) -> str:
        return endpoint(self.host, self.port)


def endpoint(host: str, port: int) -> str:
    """As ``--rdzv-endpoint`` takes it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class GangVariables:
    """Reads strictly, as a wrong rank hangs every node. Methods raise DataError with the names."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.env = env

    def any(self, *names: str) -> bool:
        return any(name in self.env for name in names)

    def need(self, *names: str, hint: str = "") -> None:
        """Require all or none: a launcher sets them together."""
        lacking = [name for name in names if not self.env.get(name)]
        if lacking:
            having = [name for name in names if self.env.get(name)]
            reason = f"--gang: {' and '.join(lacking)} not set"
            reason += f", though {' and '.join(having)} set" if having else ""
            raise DataError(reason + (f"; {hint}" if hint else ""))

    def number(self, name: str) -> int:
        text = self.env.get(name, "")
        # int() would take signs, blanks, underscores and digits of other scripts.
        if not re.fullmatch(r"[0-9]{1,9}", text):
            raise DataError(f"--gang: {name}={text!r} is no number")
        return int(text)

    def once(self, name: str, how: str) -> None:
        """Every node checks itself once, not once a rank."""
        if self.env.get(name) and self.number(name) != 1:
            raise DataError(f"--gang: {name}={self.env[name]}; a node checks itself once: {how}")

    def meeting(
        self, host: str, port: str, *, plus: int = 0, default: tuple[str, int] | None = None
    ) -> tuple[str, int]:
        """The host and the port, ``plus`` if the launcher listens on that itself."""
        if default is None:
            self.need(host, port)
            default = ("", 0)
        number = (self.number(port) if self.env.get(port) else default[1]) + plus
        if not 0 < number <= LAST_PORT:
            raise DataError(f"--gang: {port}={self.env.get(port)!r} gives no port")
        return self.env.get(host) or default[0], number


def check_gang(names: tuple[str, ...], count: int, rank: int, meeting: tuple[str, int]) -> Gang:
    """The launch with a valid rank. Raises DataError."""
    if rank >= count:
        raise DataError(f"--gang: {' and '.join(names)} give rank {rank} of {count} nodes")
    return Gang(names=names, count=count, rank=rank, host=meeting[0], port=meeting[1])
