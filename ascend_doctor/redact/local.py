"""What this process knows about the machine and the user that it runs for."""

import functools
import os
from _blake2 import blake2b  # hashlib loads OpenSSL
from collections.abc import Iterable, Mapping

from ascend_doctor.redact.redactor import Redactor

_PERSON = b"redaction"
# machine-id(5): "should be considered confidential"; derived values must be keyed.
_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/random/boot_id")
_LOGINS = ("USER", "LOGNAME", "SUDO_USER", "USERNAME")
_HOSTS = ("HOSTNAME", "SLURMD_NODENAME", "NODE_NAME", "MY_NODE_NAME", "HOST")


@functools.cache
def local_key() -> bytes:
    """The key of this machine's pseudonyms. It never leaves the machine.

    From the machine's id; in a container without one, from this boot; else new for this process.
    """
    for path in _IDS:
        try:
            # A pipe here would never answer; its end is read at once.
            number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            with os.fdopen(number, "rb") as file:
                content = (file.read(64) or b"").strip()
        except OSError:
            continue
        if len(content) >= 32:  # noqa: PLR2004 - "uninitialized" is none
            return blake2b(content, person=_PERSON, digest_size=16).digest()
    return os.urandom(16)


def logins(env: Mapping[str, str], home: str) -> tuple[str, ...]:
    """Names of an environment's user."""
    folder = os.path.basename(home.rstrip("/"))
    return (*(env.get(name, "") for name in _LOGINS), folder)


def hosts(env: Mapping[str, str]) -> tuple[str, ...]:
    """Names of the machine in an environment's variables."""
    return tuple(env.get(name, "") for name in _HOSTS)


def ours(*, others: Iterable[str] = (), visible: Iterable[str] = ()) -> Redactor:
    """Hides this process's host and user, and ``others`` that it read about."""
    home = os.path.expanduser("~")
    return Redactor(
        host=os.uname().nodename,
        hosts=(*hosts(os.environ), *others),
        home=home,
        logins=logins(os.environ, home),
        visible=visible,
        key=local_key(),
    )
