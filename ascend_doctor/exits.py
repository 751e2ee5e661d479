"""The exit codes of the command line; scripts rely on them."""

from __future__ import annotations

EXIT_OK = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_UNKNOWN = 3
# EX_SOFTWARE of sysexits.h.
EXIT_BUG = 70
# Verdicts of `--exit-verdict`, by sysexits.h: EX_TEMPFAIL, EX_UNAVAILABLE and EX_CONFIG.
EXIT_RESTART = 75
EXIT_EXCLUDE = 69
EXIT_STOP = 78
# 128 and SIGINT, as shells have it.
EXIT_INTERRUPTED = 130
