"""Texts of checks as data: every check is registered, every text is used, and every value known."""

import ast
import inspect
import re
import sys
from collections import Counter
from string import Formatter

import pytest

from ascend_doctor.checks import all_checks
from ascend_doctor.checks.launch.rules import FUNCTIONS
from ascend_doctor.linting import allocations, inputs, shell_marks, shellcheck, workloads
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.check_texts import CheckTexts, read_texts
from ascend_doctor.matrix.schema import Family
from tests.naming import ROOT

FILES = sorted(path.stem for path in (ROOT / "matrices" / "checks").glob("*.yaml"))
CHECKS = {check.id: check for check in all_checks()}


def code_of(texts: CheckTexts) -> str:
    """The code of the checks, and of what marks scripts for them."""
    modules = {CHECKS[name].run.__module__ for name in texts.checks if name in CHECKS}
    marks = {"shell-read", "pod-fields"} & {*texts.checks}
    marking = (inputs, shell_marks, shellcheck, allocations, workloads) if marks else ()
    return "".join(inspect.getsource(each) for each in (*map(sys.modules.get, modules), *marking))


@pytest.mark.parametrize("file", FILES)
def test_each_text_is_used(file: str) -> None:
    texts = read_texts(file)
    rows = [row for check in texts.checks.values() for row in check.by_name.items()]
    names = Counter(name for name, _ in rows)
    assert max(names.values(), default=1) == 1
    code = code_of(texts)
    own = [name for name, row in rows if not (row.when or re.fullmatch(r"SC\d+", name))]
    assert [name for name in own if f'"{name}"' not in code] == []


@pytest.mark.parametrize("file", FILES)
def test_each_value_is_a_name_of_the_file_or_of_the_code(file: str) -> None:
    texts = read_texts(file)
    code = code_of(texts)
    for check in texts.checks.values():
        for row in (row for row in check.findings.values() if not row.when):
            parts = (row.title, row.observed, row.required, row.because, row.remedy)
            for text in (*parts, *row.commands, *row.refs):
                fields = {re.split(r"[.\[]", f)[0] for _, f, _, _ in Formatter().parse(text) if f}
                assert all(f in texts.names or f"{f}=" in code for f in fields), text


def list_names(expression: str) -> set[str]:
    tree = ast.walk(ast.parse(expression, mode="eval"))
    return {ast.unparse(node) for node in tree if isinstance(node, ast.Name | ast.Attribute)}


def test_each_name_of_a_condition_is_a_variable_an_option_or_of_the_chip() -> None:
    catalog = Catalog()
    options = {name.replace("-", "_") for name in (*catalog.option_kinds, *catalog.flags.every)}
    chip = {f"chip.{field}" for field in Family.__struct_fields__}
    for file in FILES:
        texts = read_texts(file)
        own = {*texts.names, *catalog.variables.list_names(), *options, *chip, "chip"}
        own |= {"program", "shown", "cores", "devices"}
        for check in texts.checks.values():
            for row in (row for row in check.findings.values() if row.when):
                parts = (row.title, row.observed, row.required, row.because, row.remedy)
                listed = "".join((*parts, *row.commands, *row.refs))
                expressions = [row.when, *(f for _, f, _, _ in Formatter().parse(listed) if f)]
                used = set().union(*map(list_names, expressions))
                assert used - own - {"given", *FUNCTIONS} == set(), row.title
