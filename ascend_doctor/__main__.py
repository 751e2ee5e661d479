"""``python -m ascend_doctor``, or this file: where the installed script is not on PATH."""

import os
import sys

if __name__ == "__main__":
    if not __package__:  # started as a file by an isolated interpreter, which has no user's site
        sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    from ascend_doctor.entry import main

    main()
