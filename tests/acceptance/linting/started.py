"""What a launch script starts: it is run with stand-ins for all programs, which record their calls.

Nothing but its own folder can be written to, no other process and no network be reached.
"""

import re
import shutil
import subprocess
from pathlib import Path

from tests.programs import run_bytes, run_program

# What has no effect but its output; all other programs are not there, and bash asks the function.
HARMLESS = ("basename", "dirname", "seq", "expr", "tr", "cut")
STAND_INS = r"""
command_not_found_handle() {
  local call variables; printf -v call '%q ' "$@"; variables=$(export -p)
  # One line is written at once, also by programs of a pipe.
  printf '%s\n' "${call//$'\n'/ } ${variables//$'\n'/ }" >> "$RECORD"
}
trap wait EXIT
source() { if [ -r "$1" ]; then builtin source "$@"; fi; }
function . { source "$@"; }
exec() { [ $# = 0 ] || { "$@"; exit; }; }
kill() { :; }
"""
ALONE = ("unshare", "--map-root-user", "--mount", "--pid", "--net", "--fork", "--kill-child")
# Bound, so that it can still be written to when nothing else can.
INSIDE = 'mount --bind "$1" "$1" && mount -o remount,bind,ro / && cd "$1" && exec env -i "${@:2}"'
LAUNCH = re.compile(r"(?:^|.* )(?:\S*\.py|-m \S+|torchrun|msrun|megatron|swift) ")


def can_be_alone() -> bool:
    """Whether this machine lets a process have its own mounts."""
    return run_program([*ALONE, "true"], check=False).returncode == 0


def starts(script: str, home: Path) -> list[str]:
    """The launches that it comes to, each with its arguments and exported variables, sorted."""
    folder, tools, record = home / "job", home / "tools", home / "job" / "record"
    shutil.rmtree(home, ignore_errors=True)
    folder.mkdir(parents=True)
    tools.mkdir()
    for name in HARMLESS:
        (tools / name).symlink_to(shutil.which(name) or "")
    (home / "stand-ins").write_text(STAND_INS)
    (folder / "train.sh").write_text(script)
    variables = (f"PATH={tools}", f"BASH_ENV={home}/stand-ins", f"RECORD={record}", "HOME=/none")
    bash = shutil.which("bash") or "bash"
    command = [*ALONE, bash, "-c", INSIDE, "-", str(folder), *variables, bash, "train.sh"]
    try:
        run_bytes(command, check=False, timeout=20)
    except subprocess.TimeoutExpired:
        return []
    recorded = record.read_text("utf-8", "replace").splitlines() if record.is_file() else []
    return sorted(call for call in recorded if LAUNCH.match(call))
