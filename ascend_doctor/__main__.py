"""``python -m ascend_doctor``: the command line where the installed script is not on PATH."""

from ascend_doctor.cli import main

if __name__ == "__main__":
    main()
