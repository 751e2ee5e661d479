import random

import pytest

from tests.diagnosis.logs import of_text

SITE = "/opt/env/lib/python3.11/site-packages"


def traceback(last: str, *frames: tuple[str, ...], prefix: str = "") -> str:
    rows = ["Traceback (most recent call last):"]
    for file, source, *name in frames:
        rows += [f'  File "{file}", line 7, in {(*name, "<module>")[0]}', f"    {source}"]
    return "".join(f"{prefix}{row}\n" for row in (*rows, *last.split("\n")))


YAML = traceback(
    "ModuleNotFoundError: No module named 'yaml'",
    ("train.py", "import mkdocs"),
    (f"{SITE}/mkdocs/config.py", "import yaml"),
    prefix="[rank2]: ",
)
KEY = traceback("KeyError: 'DATA'", ("train.py", "os.environ['DATA']"),
                ("<frozen os>", "raise KeyError(key)", "__getitem__"))  # fmt: skip
CHAIN = (
    traceback("FileNotFoundError: [Errno 2] No such file or directory: 'a.json'",
              ("train.py", "open(path)"))
    + "\nThe above exception was the direct cause of the following exception:\n\n"
    + traceback("RuntimeError: no data", ("train.py", "load()"))
)  # fmt: skip
GROUP = traceback("TypeError: f() got an unexpected keyword argument 'y'", ("t.py", "f(y=1)"),
                  prefix="  | ")  # fmt: skip
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
THREAD = 'Thread 0x1 (most recent call first):\n  File "t.py", line 4 in main\n'


@pytest.mark.parametrize(
    ("text", "kind", "says"),
    [
        (YAML, "missing-module", "/opt/env/bin/python -m pip install PyYAML"),
        (KEY, "environment-variable", "export DATA=VALUE"),
        (CHAIN, "file", "opened at train.py:7"),
        ("E   NameError: name 'x' is not defined\n\nt.py:3: NameError\n", "name", "at t.py:3"),
        (GROUP, "argument", "`f(y=1)`"),
        ("ImportError: cannot import name 'a' from 'jinja2.b'\n", "import-name", "Jinja2"),
        ("AssertionError: --a-b requires --c-d\n", "options", "refuses"),
        ("AssertionError: Please set it.\n", "assertion", "message says"),
        ("RuntimeError: Both A_B and C_D have been set\n", "environment-variable",
         "or unset it"),
        ("RuntimeError: Could not find ASCEND_HOME_PATH in env\n", "environment-variable",
         "explain ASCEND_HOME_PATH"),
        ("RuntimeError: A only supports heads up to 2\n", "refused", "supports it"),
        ("ValueError: 7 is not divisible by 2\n", "not-divisible", "lint SCRIPT"),
        ("ImportError: a-b>=1.2,<3 is required for this, but found a-b==4\n", "differs",
         "install 'a-b>=1.2,<3'"),
        ("ImportError: cannot import name 'LLM' from 'vllm' (unknown location)\n",
         "import-name", "that has the folder vllm"),
        (traceback("ImportError: cannot import name 'h' from 'a.b' (/w/src/a/b/__init__.py)",
                   (f"{SITE}/a/c.py", "from a.b import h")),
         "name", "extensions of /w/src"),
        (traceback("SyntaxError: odd", (f"{SITE}/a/b.py", "(")), "syntax", "-deps a"),
        (traceback("ImportError: No module named 'a.b'", (f"{SITE}/a/c.py", "import a")),
         "module", "-deps a"),
        ("No module named 'a.b'; 'a' is not a package\n", "module", "Rename the file a.py"),
        ("ImportError: cannot import name 'x' from 'a' (/w/a.py)\n", "name", "Rename /w/a.py"),
        ("AssertionError: x\nOriginal " + traceback("AssertionError", ("t.py", "assert x")),
         "assertion", "assert x"),
        (traceback("ValueError: x", ("t.py", "int(getenv('A_B'))")), "variable", "Give A_B"),
        ("ImportError: x requires Y 2.0 or newer, found 1\n", "differs", "'Y>=2.0'"),
        (traceback("ImportError: liba.so: cannot open shared object", (f"{SITE}/a.py", "x")),
         "file", "-deps a"),
        (traceback("TypeError: f() takes 0 positional", (f"{SITE}/a.py", "f(x)")), "argument",
         "that a passes"),
        (traceback("RuntimeError: x", ("t.py", "import a"), (f"{SITE}/a/b.py", "torch.f()")),
         "import-failed", "the installed torch"),
        (traceback("ImportError: No module named 'x'", ("t.py", "f()", "g"), ("u.py", "import x"))
         + DURING + traceback("RuntimeError: failed", ("t.py", "raise")), "module", "at u.py:7"),
        (("____ test_x ____\nt.py:3: in test_x\n    f(y=1)\nu.py:9: in f\n    g(y)\n"
         "E   NameError: name 'y'\n"), "name", "at u.py:9"),
        ("ImportError: No module named '_ctypes'\n", "module", "unset pythonhome"),
        ("RuntimeError: no ops (pip install -U 'ninja')\n", "module", "pip install ninja"),
        ("ImportError: x requires `a>=2`\n", "differs", "install 'a>=2'"),
        ("RuntimeError: Environment variable 'A_B' not found\n", "variable", "export A_B"),
        ("AttributeError: module trl has no attribute Old\n", "attribute", "installed trl"),
        ("AttributeError: module 're' has no attribute 'match'\n", "attribute", "file re.py"),
        ("ImportError: cannot import name 'a' from \n'jinja2.b' \n", "import-name", "Jinja2"),
        (traceback("Exception: EOF while parsing", ("t.py", "read('a.json')")), "damaged-file",
         "a.json"),
        (traceback("TypeError: f() got an unexpected keyword argument 'y'", ("t.py", "a(y=1)"),
                   (f"{SITE}/a/b.py", "f(**more)", "wrap")), "argument", "call `a(y=1)`"),
        (traceback("ImportError: No module named 'a.b'", ("t.py", "from a import B"),
                   (f"{SITE}/a/c.py", "import_module(x)", "__getattr__")), "module", "-deps a"),
    ],
)  # fmt: skip
def test_an_exception_is_answered_by_its_type(text: str, kind: str, says: str) -> None:
    cause = of_text(text).causes[0]
    assert cause.id.endswith(kind)
    assert says.lower() in f"{cause.title} {cause.cause} {cause.fix}".lower()


def test_a_lookup_is_the_line_of_who_looks_up() -> None:
    text = traceback("AttributeError: 'C' object has no attribute 'cap'",
                     (f"{SITE}/liger_kernel/gemma.py", "self.config.cap"),
                     (f"{SITE}/transformers/configuration_utils.py", "return super().x",
                      "__getattribute__"))  # fmt: skip
    assert f"in liger_kernel at {SITE}/liger_kernel/gemma.py:7" in of_text(text).causes[0].cause


def test_an_exception_of_the_launch_script_is_not_that_of_a_rank() -> None:
    later = traceback(
        "FileNotFoundError: [Errno 2] No such file or directory: 'i.npy'",
        ("train.py", "np.load(path)"),
        prefix="192.0.2.7: [rank4]: ",
    )
    diagnosis = of_text(KEY + "launching\n" + later)
    assert (diagnosis.causes[0].id, diagnosis.causes[0].ranks) == ("python-missing-file", (4,))


def test_an_exception_that_ends_a_run_outranks_a_sign() -> None:
    skipped = " iteration 9/ 10 | loss scale: 64.0 | number of skipped iterations: 1 |\n"
    assert of_text(skipped).causes[0].severity == "degraded"
    ended = of_text(skipped + traceback("ZeroDivisionError: division by zero", ("t.py", "a / b")))
    assert (ended.causes, ended.outcome) == ((), "unknown error")


@pytest.mark.parametrize("text", ["Command '['cmake', '--build']' failed", "FILE_A is odd"])
def test_what_refuses_no_setting_stays_unknown(text: str) -> None:
    assert of_text(f"RuntimeError: {text}\n").outcome == "unknown error"


def test_what_python_ignores_is_no_cause() -> None:
    ignored = traceback("NameError: x", ("a.py", "del x")).replace("<module>", "__del__")
    assert of_text(f"{CHAIN}{ignored}").causes[0].id == "python-missing-file"
    assert of_text(ignored).causes == ()


def test_a_compiler_note_is_no_exception() -> None:
    steps = "iteration 1/ 1 | lm loss: 2.1\n"
    marks = "   49 |   int64_t error_argmax;\n      |           ^~~~~~~~~~~~\n"
    noted = f"{marks}helpers.cpp:49:13: note: 'error_argmax' was declared here\n{marks}{steps}"
    assert of_text(noted).unexplained == ()


@pytest.mark.parametrize(
    ("text", "reading"),
    [
        (traceback("ValueError: odd", ("t.py", "f()"), (f"{SITE}/torch/a.py", "raise x", "f")),
         (f"ValueError is raised in torch at {SITE}/torch/a.py:7, from t.py:7: odd. "
         "The call is `f()`.")),
        (f"Fatal Python error: Aborted\n\n{THREAD}",
         "Fatal Python error is raised at t.py:4: Aborted."),
        ("terminate called after throwing an instance of 'std::x'\n  what():  full\n",
         "std::x is raised: full. PYTHONFAULTHANDLER=1 shows the line of Python."),
    ],
)  # fmt: skip
def test_another_exception_says_where_it_was_raised(text: str, reading: str) -> None:
    assert of_text(text).unexplained[0].reading == reading


def test_a_logged_traceback_in_a_good_training_accuses_nobody() -> None:
    steps = "".join(f"iteration {step}/ 20 | lm loss: 2.{step}\n" for step in range(1, 21))
    diagnosis = of_text(f"{YAML}{steps}training completed successfully\n")
    assert (diagnosis.causes, diagnosis.guilty) == ((), None)


def test_a_caught_exception_is_no_cause_of_a_later_one() -> None:
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


def test_what_a_rank_raised_stands_before_who_lost_it() -> None:
    gone = "RuntimeError: [gloo/transport/tcp/pair.cc:9] Connection closed by peer [::1]:1"
    own = traceback("IndexError: out of range", ("t.py", "a[4]"), prefix="[rank1]: ")
    text = "".join(traceback(gone, ("t.py", "f()"), prefix=f"[rank{rank}]: ") for rank in (0, 2))
    cause = of_text(own + text).causes[0]
    assert (cause.id, "IndexError is raised at t.py:7" in cause.cause) == ("gloo-peer-gone", True)


def test_a_file_of_bytecode_that_is_cut_short_is_one_of_its_package() -> None:
    frames = ((f"{SITE}/mkdocs/config.py", "from . import a"),
              ("<frozen importlib._bootstrap_external>", "", "_compile_bytecode"))  # fmt: skip
    cause = of_text(traceback("EOFError: marshal data too short", *frames)).causes[0]
    assert (cause.id, "--no-deps mkdocs" in cause.fix) == ("python-damaged-file", True)


def test_an_exception_without_frames_is_raised_where_the_next_one_is() -> None:
    direct = "\nThe above exception was the direct cause of the following exception:\n\n"
    text = "ValueError: odd\n" + direct + traceback("TypeError: x", ("t.py", "load(1)"))
    assert "ValueError is raised at t.py:7" in of_text(text).unexplained[0].reading


def test_a_traceback_behind_a_progress_bar_is_whole() -> None:
    frames = ("t.py", "f()"), *[(f"{SITE}/x/a.py", f"g{n}()") for n in range(6)]
    last = "TypeError: g() got an unexpected keyword argument 'a'"
    text = "  0%|   | 0/2 [00:00<?, ?it/s]" + traceback(last, *frames, prefix="[rank3]: ")
    assert "from t.py:7" in of_text(text).causes[0].cause


def test_a_program_that_is_not_installed_is_no_path_to_create() -> None:
    frames = (("t.py", "run(['sox'])"), ("/usr/lib/python3.11/subprocess.py", "", "_execute_child"))
    cause = of_text(traceback("FileNotFoundError: [Errno 2] No such: 'sox'", *frames)).causes[0]
    assert "Install sox, or add the folder" in cause.fix


@pytest.mark.parametrize("seed", range(20))
def test_tracebacks_of_four_ranks_are_told_apart_row_by_row(seed: int) -> None:
    draw, lacks = random.Random(seed), YAML.replace("[rank2]: ", "")
    lanes = [f"{text}\n".splitlines(keepends=True)[::-1] for text in [lacks] * 4]
    mixed = ""
    while lanes := [lane for lane in lanes if lane]:
        mixed += draw.choice(lanes).pop()
    assert of_text(mixed).causes[0].cause == of_text(lacks).causes[0].cause
