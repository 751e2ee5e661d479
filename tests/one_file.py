"""Builds ascend-doctor as one file with shiv, for this processor and Python.

usage: python -m tests.one_file FILE
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def build(file: Path) -> None:
    """Write the program with its packages from pip's indexes."""
    command = [sys.executable, "-m", "shiv", "--quiet", "--reproducible", "--compressed"]
    command += ["--console-script", "ascend-doctor", "--output-file", str(file)]
    command += ["--python", "/usr/bin/env python3", str(ROOT)]
    subprocess.run(command, check=True, timeout=600)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    build(parser.parse_args().file)


if __name__ == "__main__":
    main()
