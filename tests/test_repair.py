import pytest

from ascend_doctor.findings import Finding, Level, Remedy
from ascend_doctor.judging.repair import change, classify, steps

PYTHON = "/opt/venv/bin/python"


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        (f"{PYTHON} -m pip uninstall -y mindspeed", "packages"),
        (f"{PYTHON} -m pip install 'numpy<2'", "packages"),
        (f"{PYTHON} -m pip install numpy<2", "hand"),
        (f"{PYTHON} -m pip install x&&reboot", "hand"),
        (f"{PYTHON} -m pip install $X", "hand"),
        (f"{PYTHON} -m pip install --no-deps torch==2.7.1", "packages"),
        (f"{PYTHON} -m pip install x; rm -rf /", "hand"),
        (f"{PYTHON} -m pip install $(evil)", "hand"),
        (f"{PYTHON} -m pip download x", "hand"),
        ("/usr/bin/python -m pip install x", "hand"),
        ("pip install x", "hand"),
        ("export A=1", "shell"),
        ("unset A B", "shell"),
        ("source /usr/local/Ascend/cann/set_env.sh", "shell"),
        ("sudo reboot", "root"),
        ("kill 1 2", "root"),
        ("npu-smi info", "look"),
        ("lspci -d 19e5: | grep -i accelerators", "look"),
        ("npu-smi info && sudo reboot", "root"),
        ("ascend-doctor matrix list", "look"),
        ("ascend-doctor setup --megatron 0.15.3", "hand"),
        ("git -C /x checkout main", "hand"),
        ("export A='1", "hand"),
        ("", "hand"),
    ],
)
def test_what_a_line_does(line: str, kind: str) -> None:
    assert classify(line, python=PYTHON).kind == kind


@pytest.mark.parametrize(
    ("line", "after"),
    [
        ("export B=2 C='a b'", {"A": "1", "B": "2", "C": "a b"}),
        ("export A=x${A:+:$A}", {"A": "x:1"}),
        ("export B=x${B:+:$B}", {"A": "1", "B": "x"}),
        ('export B="$A"', {"A": "1", "B": "1"}),
        ("unset A", {}),
        ("unset A B", {}),
        ("export B='$A'", None),
        ("export B=${A%x}", None),
        ("export A", None),
        ("unset -f A", None),
        ("source x", None),
    ],
)
def test_what_a_line_makes_of_the_environment(line: str, after: dict[str, str] | None) -> None:
    assert change({"A": "1"}, classify(line, python=PYTHON)) == after


def test_a_step_is_applicable_where_all_that_changes_something_is() -> None:
    def finding(check: str, *commands: str) -> Finding:
        remedy = Remedy(summary="do it", commands=commands)
        return Finding(check=check, level=Level.ERROR, title="t", remedy=remedy)

    rows = steps(
        [
            finding("a", "unset A"),
            finding("b", "unset A"),  # the same again
            finding("c", "npu-smi info", "unset B"),
            finding("d", "npu-smi info"),
            finding("e", "unset C", "sudo reboot"),
            finding("f"),
            Finding(check="g", level=Level.ERROR, title="t"),
        ],
        python=PYTHON,
    )
    assert [(step.number, step.check, step.applicable) for step in rows] == [
        (1, "a", True),
        (2, "c", True),
        (3, "d", False),
        (4, "e", False),
        (5, "f", False),
    ]
