import pytest

from tests.diagnosis.logs import of_text

SITE = "/opt/env/lib/python3.11/site-packages"


def traceback(last: str, *frames: tuple[str, str], prefix: str = "") -> str:
    rows = ["Traceback (most recent call last):"]
    for file, source in frames:
        rows += [f'  File "{file}", line 7, in <module>', f"    {source}"]
    return "".join(f"{prefix}{row}\n" for row in (*rows, *last.split("\n")))


YAML = traceback(
    "ModuleNotFoundError: No module named 'yaml'",
    ("train.py", "import mkdocs"),
    (f"{SITE}/mkdocs/config.py", "import yaml"),
    prefix="[rank2]: ",
)
KEY = traceback(
    "KeyError: 'DATA'", ("train.py", "os.environ['DATA']"), ("<frozen os>", "raise KeyError(key)")
).replace('<frozen os>", line 7, in <module>', '<frozen os>", line 7, in __getitem__')
CHAIN = (
    traceback("FileNotFoundError: [Errno 2] No such file or directory: 'a.json'",
              ("train.py", "open(path)"))
    + "\nThe above exception was the direct cause of the following exception:\n\n"
    + traceback("RuntimeError: no data", ("train.py", "load()"))
)  # fmt: skip
GROUP = (
    '  | Traceback (most recent call last):\n  |   File "t.py", line 7, in <module>\n'
    "  |     f(y=1)\n  | TypeError: f() got an unexpected keyword argument 'y'\n"
)


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        (YAML, "python-missing-module", "/opt/env/bin/python -m pip install PyYAML"),
        (KEY, "python-environment-variable", "export DATA=VALUE"),
        (CHAIN, "python-missing-file", "a.json is opened at train.py:7"),
        ("E   NameError: name 'x' is not defined\n\nt.py:3: NameError\n", "python-undefined-name",
         "at t.py:3"),
        (GROUP, "python-argument", "`f(y=1)` at t.py:7"),
        ("ImportError: cannot import name 'a' from 'jinja2.b'\n", "python-import-name", "Jinja2"),
    ],
)  # fmt: skip
def test_an_exception_is_answered_by_its_type(text: str, kind: str, says: str) -> None:
    cause = of_text(text).causes[0]
    assert cause.id == kind
    assert says.lower() in f"{cause.title} {cause.cause} {cause.fix}".lower()


def test_another_exception_says_where_it_was_raised() -> None:
    text = traceback("ValueError: odd", ("train.py", "f()"), (f"{SITE}/torch/a.py", "raise x"))
    assert of_text(text).unexplained[0].reading == (
        f"ValueError is raised in torch at {SITE}/torch/a.py:7, from train.py:7: odd."
    )


def test_a_logged_traceback_of_a_training_that_ends_well_accuses_nobody() -> None:
    steps = "".join(f"iteration {step}/ 20 | lm loss: 2.{step}\n" for step in range(1, 21))
    diagnosis = of_text(f"{YAML}{steps}training completed successfully\n")
    assert (diagnosis.causes, diagnosis.guilty) == ((), None)


def test_a_caught_exception_is_not_the_cause_of_another_that_ended_the_process() -> None:
    caught = YAML.replace("in <module>", "in probe")
    ended = traceback("ValueError: odd", ("train.py", "f()"), prefix="[rank2]: ")
    diagnosis = of_text(caught + ended)
    assert diagnosis.causes == ()
    assert any("ValueError" in error.reading for error in diagnosis.unexplained)


@pytest.mark.parametrize(
    "text",
    [
        YAML.replace("/opt/env", "/opt;reboot"),
        traceback("ImportError: cannot import name 'a' from 'jinja2.b'",
                  (f"{SITE}/$(reboot)/config.py", "from jinja2.b import a")),
        KEY.replace("KeyError: 'DATA'", "KeyError: 'A=1;reboot'"),
    ],
)  # fmt: skip
def test_nothing_of_a_log_becomes_part_of_a_command(text: str) -> None:
    diagnosis = of_text(text)
    assert not any("reboot" in cause.fix for cause in diagnosis.causes)
