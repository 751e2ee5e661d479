"""Runs npu-smi and hccn_tool within a sum of seconds, and names what they say on failure.

Sources of the error texts: hicann/driver@ef377e95:src/custom/dev_prod/user/npucli and
.../network/hccn, and the samples in tests/samples (err-*.txt).
"""

import re
from collections.abc import Sequence

import msgspec

from ascend_doctor.collect.program_folders import list_paths
from ascend_doctor.facts import ToolError
from ascend_doctor.machine.live import Completed, Machine, ProgramMissing
from ascend_doctor.patterns import defer

_TEXT_LIMIT = 500

# The first match, with its group, is the kind; most match at a line's start: answers quote errors.
_KINDS = tuple(
    (defer(pattern, re.MULTILINE), kind)
    for pattern, kind in (
        (r"^npu get board type failed\. ret is -(9[0-9]{3})", "board-type-{}"),
        (r"^dcmi mod\w{1,8} initiali\w{1,8} failed.{0,80} ret is -([0-9]{1,6})", "dcmi-{}"),
        (r"^There is no NPU card on this server", "no-card"),
        (r"error while loading shared libraries: libc_sec\.so", "libc-sec-missing"),
        (r"error while loading shared libraries: ", "library-missing"),
        (r"^Invalid card id", "invalid-card-id"),
        (r"^Error parameter of -t", "bad-type"),
        (r"^Error parameter of -", "bad-parameter"),
        (r"^The VM does not support this command", "unsupported-vm"),
        (r"does not support querying|^The command is not supported on this product", "unsupported"),
        (r": command not found$", "not-found"),
        (r"^The device is not exist", "device-not-exist"),
        (r"pls check (?:this )?cmd run permission", "permission"),
        (r"^hccn_tool is busy", "busy"),
        (r"^Optical module is not present", "optical-not-present"),
        (r"^Control link unreachable", "control-link-unreachable"),
        (r"^Execute failed: Link status is down", "link-down"),
        (r"^The cmd line execute timeout", "tool-timeout"),
        (r"^Get \w{1,20} failed, because no \w{1,20} was preset", "not-preset"),
        (r"^(?:Cmd|Command) execute failed", "failed"),
        (r"^[\w ]{1,60} ret is -([0-9]{1,6})", "ret-{}"),
    )
)


def parse_error(text: str) -> ToolError | None:
    for pattern, kind in _KINDS:
        if match := pattern.search(text):
            return ToolError(kind=kind.format(*match.groups()), text=text.strip()[:_TEXT_LIMIT])
    return None


def error_of(done: Completed, command: str, deadline: float) -> ToolError | None:
    """Why a finished command is not an answer: time-out, known error, signal, bad exit status."""
    if done.timed_out:
        busy = f" (machine busy, {done.load})" if done.load else ""
        text = f"{command} did not answer within {deadline:g} s{busy}"
        return ToolError(kind="timeout", text=text)
    output = f"{done.stdout}\n{done.stderr}"
    if error := parse_error(output):
        return ToolError(kind=error.kind, text=error.text, exit_code=done.exit_code)
    if not done.exit_code:
        return None
    kind = "crashed" if done.exit_code < 0 else "unrecognised"
    text = output.strip()[:_TEXT_LIMIT] or f"{command} said nothing"
    return ToolError(kind=kind, text=text, exit_code=done.exit_code)


def tool_path(machine: Machine, name: str, folders: Sequence[str]) -> str:
    """Path of a tool on PATH or in its usual folders, else its bare name."""
    paths = list_paths(machine, (name,), folders)
    return next((path for path in paths if _is_file(machine, path)), name)


def _is_file(machine: Machine, path: str) -> bool:
    try:
        return machine.status(path).kind == "file"
    except OSError:
        return False


class Tool(msgspec.Struct, kw_only=True):
    """A tool with ``left`` seconds for all its calls, ``call`` for one.

    A sick card blocks every call: the first time-out ends all use of the tool and is kept in
    ``hung``. A program that ``answered`` and then is missing was recorded in part.
    """

    machine: Machine
    path: str
    name: str
    left: float
    call: float
    hung: ToolError | None = None
    answered: bool = False

    @property
    def spent(self) -> bool:
        return self.hung is not None or self.left <= 0

    def ask(self, *arguments: str) -> tuple[str, ToolError | None]:
        """(output, None), or ("", the error). Recorded as ``name`` and arguments."""
        command = " ".join((self.name, *arguments))
        if self.spent:
            return "", ToolError(kind="not-asked", text=f"{command} was not asked: no time left")
        limit = min(self.call, self.left)
        try:
            done = self.machine.run([self.path, *arguments], deadline=limit, name=command)
        except ProgramMissing as missing:
            kind = "not-recorded" if self.answered else "not-found"
            return "", ToolError(kind=kind, text=str(missing))
        self.answered = True
        self.left -= done.seconds
        error = error_of(done, command, limit)
        if error is not None and error.kind == "timeout":
            self.hung = error
        return ("", error) if error else (done.stdout, None)
