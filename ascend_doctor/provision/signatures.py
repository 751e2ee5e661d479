"""Signatures of locks and bundles, made and checked by ssh-keygen (OpenSSH 8.1 and newer).

ssh-keygen -Y sign -f KEY -n ascend-doctor ascend-doctor.lock    writes ascend-doctor.lock.sig
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from ascend_doctor.errors import DataError
from ascend_doctor.machine.files import read_bytes
from ascend_doctor.machine.scratch import temporary
from ascend_doctor.provision.running import CommandError, Runner

NAMESPACE = "ascend-doctor"
SUFFIX = ".sig"
_BYTES = 1 << 20
_DEADLINE = 30.0
# Without options before it and comments after it: this becomes a line of allowed_signers.
_KEY = re.compile(r"((?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[\w.@-]+ +[A-Za-z0-9+/=]+)(?: [^\r\n]*)?")


@dataclass(frozen=True, kw_only=True)
class Signers:
    """Public keys whose signatures count, one a line."""

    keys: tuple[str, ...]
    runner: Runner = field(default_factory=Runner)

    @classmethod
    def of(cls, path: str) -> Signers:
        """Keys of a file that ssh-keygen wrote (id_ed25519.pub). Raises DataError."""
        lines = read_bytes(path, _BYTES).decode("utf-8", "replace").splitlines()
        keys = []
        for number, line in enumerate(lines, 1):
            text = line.strip()
            if text and not text.startswith("#"):
                key = _KEY.fullmatch(text)
                if key is None:
                    raise DataError(f"{path}:{number}: no public key of OpenSSH")
                keys.append(key[1])
        if not keys:
            raise DataError(f"{path}: no public key of OpenSSH in it")
        return cls(keys=tuple(keys))

    def verify(self, data: bytes, file: Path) -> None:
        """Raises DataError unless ``file``.sig is a signature of ``data`` by one of the keys."""
        signature = read_bytes(f"{file}{SUFFIX}", _BYTES)
        with temporary() as folder:
            allowed, signed = Path(folder, "allowed"), Path(folder, "signature")
            allowed.write_text(
                "".join(f'signer namespaces="{NAMESPACE}" {key}\n' for key in self.keys), "utf-8"
            )
            signed.write_bytes(signature)
            command = ["ssh-keygen", "-Y", "verify", "-f", str(allowed), "-I", "signer"]
            try:
                self.runner.run(
                    [*command, "-n", NAMESPACE, "-s", str(signed)],
                    title="ssh-keygen -Y verify",
                    deadline=_DEADLINE,
                    data=data,
                )
            except CommandError as error:
                raise DataError(f"{file}: not signed by a key of --require-signed ({error})") from (
                    error
                )
