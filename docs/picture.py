"""Draws what a command prints on a terminal, as one SVG that asks nobody for anything.

    python docs/picture.py docs/check.svg ascend-doctor check -l 0

The command is run as it stands; its standard output is drawn in 100 columns. The picture in the
README was drawn where torch_npu was installed and CANN was not.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

COLUMNS = 100
# Without rich's fonts, which lie on a server.
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def drawn(command: list[str], printed: str) -> str:
    """The SVG of a terminal with a command and what it printed, colours included."""
    console = Console(
        record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="standard"
    )
    console.print(Text(f"$ {' '.join(command)}", style="bold"))
    console.print(Text.from_ansi(printed.rstrip()))
    picture = console.export_svg(title=command[0], unique_id="terminal")
    return FONTS.sub("", picture).replace("Fira Code", "ui-monospace")


def main() -> None:
    target, *command = sys.argv[1:]
    env = {**os.environ, "FORCE_COLOR": "1", "COLUMNS": str(COLUMNS)}
    done = subprocess.run(
        command, check=False, stdout=subprocess.PIPE, env=env, timeout=600, text=True
    )
    Path(target).write_text(drawn(command, done.stdout), "utf-8")


if __name__ == "__main__":
    main()
