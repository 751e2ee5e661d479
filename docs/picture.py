"""Draws what commands print on real terminals, each as one SVG that asks nobody for anything.

    python docs/picture.py    all of docs/pictures/

A command runs in a terminal of tmux of just that size, and what this then shows is drawn. The
machine is a recording of the tests. The log is from a run of 16 ranks on simulated NPUs. Chinese
pages show NAME-zh for NAME.
"""

from __future__ import annotations

import gzip
import html
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.machines.compose import build  # noqa: E402 - not installed

FOLDER = ROOT / "docs" / "pictures"
# Without rich's fonts, which lie on a server.
FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
# No row is wider than the window that would clip it.
CLIPS = re.compile(
    r'<clipPath id="terminal-line-\d+">.*?</clipPath>\s*| clip-path="url\(#terminal-line-\d+\)"',
    re.DOTALL,
)
# A column of rich's pictures, in their units.
COLUMN = 12.2
_LENGTH = re.compile(r'textLength="[\d.]+"([^>]*)>([^<\n]+)<')
_ROWS = 300  # of a terminal on which nothing scrolls
_DEADLINE = 60


class Picture(NamedTuple):
    """A command, and how many columns its terminal has."""

    command: str
    columns: int = 100


MACHINE = "cann-not-sourced"
_CHECK = f"ascend-doctor check -l 0 -q --replay {MACHINE}"
_DIAGNOSE = "ascend-doctor diagnose train.log"
PICTURES = {
    "check": Picture(_CHECK, 80),
    "check-zh": Picture(f"{_CHECK} --lang zh", 80),
    "diagnose": Picture(_DIAGNOSE),
    "diagnose-zh": Picture(f"{_DIAGNOSE} --lang zh"),
}


def capture(picture: Picture) -> str:
    """What a terminal shows once the command has ended, with its colours."""
    with tempfile.TemporaryDirectory() as folder:
        build(MACHINE, Path(folder, MACHINE))
        log = gzip.decompress((FOLDER / "train.log.gz").read_bytes())
        Path(folder, "train.log").write_bytes(log)
        tmux = ["tmux", "-S", f"{folder}/socket", "-f", "/dev/null"]
        env = {**os.environ, "LC_ALL": "C.UTF-8", "PATH": _path()}
        env.pop("TMUX", None)
        done = shlex.join([*tmux, "wait-for", "-S", "done"])
        line = f"{picture.command}; {done}; sleep {_DEADLINE}"
        size = ["-x", str(picture.columns), "-y", str(_ROWS)]
        try:
            for words in (
                ["-u", "new-session", "-d", *size, line],
                ["wait-for", "done"],
                ["capture-pane", "-p", "-e"],
            ):
                result = subprocess.run(
                    [*tmux, *words],
                    cwd=folder,
                    env=env,
                    check=True,
                    capture_output=True,
                    text=True,
                    timeout=_DEADLINE,
                )
        finally:
            subprocess.run([*tmux, "kill-server"], check=False, capture_output=True, timeout=10)
    return result.stdout.rstrip()


def _path() -> str:
    """The doctor beside this interpreter comes first."""
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


def draw(picture: Picture, shown: str) -> str:
    """The SVG of a terminal with a command and what it showed, colours included."""
    console = Console(
        record=True,
        width=picture.columns,
        file=io.StringIO(),
        force_terminal=True,
        color_system="standard",
    )
    prompt = f"$ {picture.command}"
    console.print(Text(prompt, style="bold"))
    console.print(Text.from_ansi(shown), soft_wrap=True)
    svg = console.export_svg(title="ascend-doctor", unique_id="terminal")
    svg = CLIPS.sub("", FONTS.sub("", svg)).replace("Fira Code", "ui-monospace")
    return _LENGTH.sub(_measure, svg)


def _measure(text: re.Match[str]) -> str:
    """A text's length by its columns; rich counts characters, and Chinese ones take two."""
    columns = cell_len(html.unescape(text[2]))
    return f'textLength="{round(COLUMN * columns, 1):g}"{text[1]}>{text[2]}<'


def main() -> None:
    for name, picture in PICTURES.items():
        (FOLDER / f"{name}.svg").write_text(draw(picture, capture(picture)), "utf-8")


if __name__ == "__main__":
    main()
