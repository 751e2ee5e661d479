"""The exit codes of the command line; scripts rely on them."""

from __future__ import annotations

EXIT_OK = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_UNKNOWN = 3
EXIT_BUG = 70
EXIT_INTERRUPTED = 130
