"""The command line: finds the command, and turns every ending into an exit code."""

import contextlib
import os
import shlex
import sys
import time
from collections.abc import Iterable

import click

from ascend_doctor import __version__, language
from ascend_doctor.commands.habits import ALIASES, HABITS
from ascend_doctor.commands.help_pages import speak
from ascend_doctor.commands.lazy import LazyGroup
from ascend_doctor.errors import DoctorError
from ascend_doctor.exits import (
    EXIT_BUG,
    EXIT_INTERRUPTED,
    EXIT_UNKNOWN,
    EXIT_USAGE,
    describe_exhaustion,
)
from ascend_doctor.machine import live, streams, watchdog
from ascend_doctor.machine.files import is_there
from ascend_doctor.patterns import defer
from ascend_doctor.render.plain import lines, one_line

# Of click's messages, and of commands that take a launch.
_REFUSED = defer(
    r"Got unexpected extra arguments? \((?P<word>\S+)(?: .*)?\)"
    r"|Invalid value for .*: '(?P<choice>\S+)' is not one of .*"
    r"|(?P<program>\S+): no such program; .*"
)
# What a command without its arguments is told to be typed as.
_EXAMPLES = {
    "merge": "The reports of the nodes, such as `ascend-doctor merge reports`.",
    "judge": "Such as `ascend-doctor judge node.json`, which `ascend-doctor snapshot` writes.",
    "diff": "Two snapshots or reports, such as `ascend-doctor diff good.json bad.json`.",
    "run": "Such as `ascend-doctor run -- torchrun --nproc-per-node 8 train.py`.",
    "matrix why": "Two components, such as `ascend-doctor matrix why megatron-lm cann`.",
}
# Commands that read files and compute; one of them that does neither waits for a dead mount.
_READING = frozenset(
    {"judge", "diff", "merge", "lint", "explain", "list", "env", "plan", "schema", "diagnose"}
)
# What click calls the type of a value.
_KINDS = {
    "integer range": "a whole number",
    "integer": "a whole number",
    "float range": "a number",
    "float": "a number",
}

# Name and one line of help; the module of a command is imported when it is called.
SECTIONS = {
    "Every day": {
        "check": "Check whether this machine is able to train.",
        "fix": "Apply the remedies of a check where that is safe, and check again.",
        "setup": "Build a stack for a Megatron-LM release, pinned, locked and proven.",
        "env": "Print the variables of a stack for a shell to source, or take them back.",
        "run": "Check, run a launch, and diagnose its log where it fails.",
        "diagnose": "Find the root cause of a failure in logs, and the guilty rank.",
        "hang": "Name the rank that a hanging job waits for.",
        "rehearse": "Run the check, or a command of yours, on simulated NPUs.",
        "compare": "Name the first module where a job's CPU and NPU runs part.",
    },
    "Before a run": {
        "lint": "Check a launch script, configuration or command without running it.",
        "plan": "Rank the parallel layouts of a model, with the memory that each NPU needs.",
        "matrix": "Show which versions go together and why, and find a stack that fits.",
        "stack": "List and remove the stacks that setup has built.",
        "report": "Pack what a helper needs into one redacted archive.",
        "explain": "Explain a check, an error code, a variable or a line of a log.",
        "list": "List every check and probe.",
    },
    "Many machines": {
        "fleet": "Check many machines by Ray, Slurm, Kubernetes or torchrun.",
        "merge": "Give one verdict on the reports of many machines.",
        "snapshot": "Write the facts about this machine as redacted JSON.",
        "judge": "Judge a saved snapshot as check -l 0 would have done there.",
        "diff": "Show in what two machines differ, what matters most first.",
    },
    "For other programs": {
        "schema": "Print the JSON Schema of the JSON report.",
        "completion": "Print what makes a shell complete commands, options and ids.",
        "help": "Show the help of a command.",
    },
}


@click.group(
    cls=LazyGroup,
    sections=SECTIONS,
    modules="ascend_doctor.commands.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    help=__doc__,
)
@click.version_option(__version__, "-V", "--version", prog_name="ascend-doctor")
def doctor() -> None:
    """Environment doctor for Megatron-LM + MindSpeed training on Ascend NPUs.

    \b
    Exit codes: 0 nothing found, 1 findings at or above --fail-on, 2 bad usage or bad data,
    3 nothing worse than "could not tell", 70 a bug in the doctor, 130 interrupted.
    """  # noqa: D301 - \b is click's mark for a block that is not to be rewrapped


speak(doctor)
doctor.help = doctor.callback.__doc__ if doctor.callback else None


def main(began: float | None = None) -> None:
    """Run the command line and exit with its code. ``began``: the clock at the start of it all."""
    streams.hold()
    code = EXIT_INTERRUPTED
    with contextlib.suppress(KeyboardInterrupt):  # also before and behind the command
        code = _run_watched(time.monotonic() if began is None else began)
    sys.exit(code)


def _reads_a_stream(words: list[str]) -> bool:
    """Whether a command may wait for what somebody else writes, or for a check that it starts."""
    return any(word in {"-", "--check"} or word.startswith(("/dev/", "/proc/")) for word in words)


def _run_watched(began: float) -> int:
    # A scheduler's SIGTERM and a lost terminal end a run as Ctrl-C does: children are ended, the
    # report is written.
    watchdog.start(began)
    live.be_alone()
    if sys.argv[1:2] and sys.argv[1] in _READING and not _reads_a_stream(sys.argv):
        watchdog.expect_work()
    code = run(sys.argv[1:])
    if lost := streams.failure():
        _say(lost)
        return EXIT_USAGE
    return code


def run(arguments: list[str]) -> int:
    """Run the command line and give its exit code; nothing is raised."""
    language.choose(language.of_locale(os.environ))
    if arguments and arguments[0] in ALIASES:
        arguments = [HABITS[arguments[0]], *arguments[1:]]
    try:
        code = doctor.main(arguments, prog_name="ascend-doctor", standalone_mode=False)
    except click.ClickException as error:
        # A group that is called alone shows its help, which is no message about a mistake.
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
        else:
            named = _explain_files(arguments, error) or _split_launch(arguments, error)
            _say(named or _suggest(error, _describe(error)), hint=_usage(error))
        return EXIT_USAGE
    except DoctorError as error:
        _say(str(error))
        return EXIT_USAGE
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted")
        return EXIT_INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last handler
        if why := describe_exhaustion(error):
            _say(why)
            return EXIT_UNKNOWN
        return _bug(arguments)
    return code if isinstance(code, int) else 0


def _explain_files(arguments: list[str], error: click.ClickException) -> str:
    """What the file is that a message is about where no file has a place."""
    from ascend_doctor.machine.kinds import explain, recognise

    text = error.format_message()
    for word in arguments:
        if word in text and (kind := recognise(word)):
            return f"{word}: {explain(kind, word)}"
    return ""


def _split_launch(arguments: list[str], error: click.ClickException) -> str:
    """The line with `--` before the launch that an unknown option belongs to."""
    ctx = error.ctx if isinstance(error, click.NoSuchOption) else None
    taken = [each for each in ctx.command.params if each.type is click.UNPROCESSED] if ctx else ()
    if ctx is None or not taken or "--" in arguments:
        return ""
    import shutil

    parser = ctx.command.make_parser(ctx)
    parser.allow_interspersed_args = False
    with contextlib.suppress(click.UsageError):
        values, *_ = parser.parse_args(arguments[arguments.index(str(ctx.info_name)) + 1 :])
        launch = values.get(str(taken[0].name))
        habit = any(HABITS.get(vars(error)["option_name"]) in p.opts for p in ctx.command.params)
        if launch and not is_there(launch[0]) and (not habit or shutil.which(launch[0])):
            line = shlex.join([*arguments[: -len(launch)], "--", *launch])
            return language.say(f"append the launch after `--`: `ascend-doctor {line}`")
    return ""


def _describe(error: click.ClickException) -> str:
    """What click says, with no option that is far from what was typed, and what is missing."""
    if isinstance(error, click.NoSuchOption) and error.ctx is not None:
        # Newer releases of click declare it final, and choose among what the constructor gets.
        vars(error)["possibilities"] = list(_near_options(error.option_name, error.ctx))
    text = " ".join(error.format_message().split())
    for kind, plain in _KINDS.items():
        text = text.replace(f"is not a valid {kind}", f"is not {plain}")
    if isinstance(error, click.MissingParameter) and isinstance(error.param, click.Option):
        return f"{language.say(text)} {language.say(error.param.help or '')}".strip()
    if isinstance(error, click.MissingParameter) and error.ctx is not None:
        path = error.ctx.command_path.removeprefix("ascend-doctor ")
        return f"{language.say(text)} {language.say(_EXAMPLES.get(path, ''))}".strip()
    return text


def _near_options(name: str, ctx: click.Context) -> Iterable[str]:
    """Options of a command that one may mean; the dashes that all have bring none nearer."""
    known = [name for each in ctx.command.params for name in each.opts if name[0] == "-"]
    path = ctx.command_path.removeprefix("ascend-doctor ")
    if elsewhere := HABITS.get(f"{path} {name}"):
        return (elsewhere,)
    if (habit := HABITS.get(name)) in known:
        return (habit,)
    import difflib

    words = {option.lstrip("-"): option for option in known}
    return (words[word] for word in difflib.get_close_matches(name.lstrip("-"), words))


def _suggest(error: click.ClickException, text: str) -> str:
    """A message, with what takes the word that a command refused."""
    refused = _REFUSED.fullmatch(error.format_message())
    if refused is None or not isinstance(error, click.UsageError) or error.ctx is None:
        return text
    from ascend_doctor.commands.names import find_taker

    taker = find_taker(refused[str(refused.lastgroup)], error.ctx)
    return f"{text.rstrip('.')}; did you mean `{taker}`?" if taker else text


def _usage(error: click.ClickException) -> str:
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f" ({language.say(f'see {error.ctx.command_path} --help')})"
    return ""


def _say(message: str, *, hint: str = "") -> None:
    from ascend_doctor.redact import Redactor

    text = Redactor().secrets(language.say(message))  # a URL with a password, as it was typed
    click.echo(f"ascend-doctor: {one_line(text)}{hint}", err=True)


def _bug(arguments: list[str]) -> int:
    """Write the traceback to a file and say what to paste."""
    import tempfile
    import traceback

    from ascend_doctor.redact import ours

    clean = ours().text
    text = clean(
        f"ascend-doctor {__version__}, Python {sys.version.split()[0]}\n"
        f"arguments: {arguments}\n\n{traceback.format_exc()}"
    )
    location = ""
    # The disk may be full, or the folder for temporary files read-only.
    with (
        contextlib.suppress(OSError),
        tempfile.NamedTemporaryFile(
            "w", prefix="ascend-doctor-bug-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file,
    ):
        file.write("\n".join(lines(text)))
        location = file.name
    last = clean(traceback.format_exc().strip().splitlines()[-1])
    _say(f"a bug in ascend-doctor: {last}")
    if not location:
        click.echo("\n".join(lines(text)), err=True)
    where = f"in {location}" if location else "above"
    click.echo(f"Please report it with the text {where} (names are redacted).", err=True)
    return EXIT_BUG
