"""Numbers of one job in two runs: recorded module by module, read, and compared."""

from __future__ import annotations

import os

# The folder that makes an interpreter record a job, first on its PYTHONPATH.
RECORDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
