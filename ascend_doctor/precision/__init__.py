"""Numbers of one job in two runs: recorded module by module, read, and compared."""

import os

from ascend_doctor.machine.hooks import STARTUP, prepend_path

_SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
# Folders, first on PYTHONPATH, that make an interpreter record a job.
RECORDER = prepend_path(STARTUP, _SITE)
