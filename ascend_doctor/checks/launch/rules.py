"""Relations between the options of a launch: rows of matrices/launch-rules.yaml."""

import ast
import functools
import math
import operator
import re
from collections.abc import Callable, Iterator
from itertools import chain

from ascend_doctor.checks.launch.options import (
    ENCODER,
    MEGATRON,
    NODE_SIZES,
    is_given,
    nodes,
    number,
    options,
    trains_roles,
    version,
    world,
)
from ascend_doctor.errors import NotApplicable, Unknown, Unresolved
from ascend_doctor.facts import UNTOLD, Launch
from ascend_doctor.findings import Finding, Place, Remedy
from ascend_doctor.judging import Case, Findings, error, layout_rules, warning
from ascend_doctor.judging.value_bounds import pairs, ports
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import LaunchRule, Validation
from ascend_doctor.matrix.versions import satisfies
from ascend_doctor.patterns import patterns_of

# The answer to a question whose values only the running shell knows.
UNKNOWN = object()
# The answer where an option that it needs is not given.
ABSENT = object()
_INT, _FLOAT, _LISTED, _WORD, _EXCLUDED, _BRACES, _COLOCATED, APART = patterns_of(__file__)
_WORDS = {"true": True, "false": False, "none": None, "null": None}
# The check of a framework's whole validation.
VALIDATED = "run-arguments"
_TRAINER, OF_TRAINER = "Transformers", {"per_device_train_batch_size"}
# Sizes are multiples of these; other numbers of more than one need only be even.
_GRAINS = {"seq_length": 64, "num_experts": 4, "hidden_size": 64, "moe_ffn_hidden_size": 32}
_LEAST_UNEVEN = 2
_NODE_SIZE_NAMES = ("nproc_per_node", "trainer.n_gpus_per_node")
_OPERATORS: dict[type[ast.AST], Callable[..., object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.In: lambda value, several: value in several,
    ast.NotIn: lambda value, several: value not in several,
}
# Those that a value of None answers, too.
_OF_ANY = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
_UNEVEN = (
    *("pipeline_model_parallel_layout", "num_layer_list", "spec", "noop_layers"),
    *("pipeline_num_transformer_layers", "hybrid_layer_pattern", "hybrid_override_pattern"),
    *("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"),
)
_MOVED = ("num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage")
_PARTS_OF_MODEL = ("heads", "kv_heads", "key_heads", "value_heads", "experts", "layers")
_PARTS = ("tensor_model", "pipeline_model", "context")


def is_colocated(module: str) -> bool:
    """Whether trainer and rollout share their devices: verl's trainer, and what wraps it."""
    return bool(_COLOCATED.fullmatch(module)) and not APART.search(module)


def _total(listed: object) -> int | None:
    """The sum of `4,8,4`; None for another text."""
    text = str(listed)
    return sum(map(int, text.split(","))) if _LISTED.fullmatch(text) else None


FUNCTIONS: dict[str, Callable[..., object]] = {
    "splits_layers": lambda layers, stages, *ends: (
        ABSENT if layers is None else layout_rules.splits_layers(layers, stages, *ends)
    ),
    "total": _total,
    "count": lambda listed: str(listed).count(",") + 1,
    "starts": lambda text, start: str(text).startswith(start),
    "either": lambda value, default: default if value is None else value,
    "lower": lambda text: str(text).lower(),
    "part": lambda text, key: (pairs(str(text)) or {}).get(key),
    "highest": lambda text, of: max(map(int, re.findall(of, str(text))), default=None),
    "overlap": lambda *texts: _overlap(*(ports(str(text)) or [] for text in texts)),
}


def _overlap(some: list[range], others: list[range]) -> bool:
    return any(set(left) & set(right) for left in some for right in others)


class LaunchNames:
    """What the names of rules mean for one launch."""

    def __init__(self, case: Case, table: Validation | None = None) -> None:
        launch = case.need(Launch)
        self.case = case
        self.launch = launch
        self._values = {plain_name(key): value for key, value in launch.values.items()}
        own = {plain_name(key): value for key, value in launch.launcher_options.items()}
        self._values |= {**own, **launch.options}
        self.present = {*self._values, *map(plain_name, (*launch.flags, *launch.keys))}
        self._rules = case.catalog.rules
        self._defaults = table.defaults if table else self._rules.defaults
        self._open = table.open if table else ()
        self.unknown: dict[str, None] = {}

    def has(self, name: str) -> object:
        """Whether an option is given; UNKNOWN where options may come from elsewhere."""
        name = self._rules.key(name)
        return True if name in self.present else self._absent(name, otherwise=False)

    def value(self, name: str) -> object:
        """The value of an option, its default, or None; ABSENT for one that was not kept."""
        name = self._rules.key(name)
        if name in DERIVED:
            try:
                return DERIVED[name](self)
            except Unresolved:
                return self._note(name)
            except (Unknown, NotApplicable):
                return ABSENT
        if name in self._values:
            return self._parse(name, self._values[name])
        if name in self.present:
            return True if self._is_switch(name) else ABSENT
        default = ABSENT if name in self._open else self._defaults.get(name)
        return self._absent(name, otherwise=default)

    def _is_switch(self, name: str) -> bool:
        kinds = self.case.catalog.option_kinds
        return kinds.get(name.replace("_", "-"), "flag") == "flag"

    def _absent(self, name: str, *, otherwise: object) -> object:
        if "." in name and name in self._defaults:
            return otherwise
        try:
            is_given(self.case, name)
        except Unresolved:
            return self._note(name)
        return otherwise

    def _note(self, name: str) -> object:
        self.unknown[name] = None
        return UNKNOWN

    def _parse(self, name: str, text: str) -> object:
        bare = text.strip("\"'")
        # What a file leaves null may be given elsewhere.
        if UNTOLD in text or (bare == "null" and self.launch.partial):
            return self._note(name)
        if not bare or bare.lower() in _WORDS:
            return _WORDS.get(bare.lower(), True)
        if _INT.fullmatch(bare):
            return int(bare)
        return float(bare) if _FLOAT.fullmatch(bare) else bare

    def locate(self, name: str, *, option: bool = False) -> Place | None:
        """Where the value of an option or a key stands, or the ``option`` itself."""
        name = self._rules.key(name)
        dashed = f"--{name.replace('_', '-')}"
        own = (dashed, f"--{name}")
        values = (name, f"{dashed}=", f"--{name}=")
        spelt = (*(() if option else values), *own, *values, f"+{name}", f"++{name}")
        return next(
            (self.launch.places[each] for each in spelt if each in self.launch.places), None
        )


def plain_name(name: str) -> str:
    """An option as argparse keeps it, a key of Hydra without its plus."""
    return name.lstrip("+").replace("-", "_")


def _divide_ranks(names: LaunchNames) -> int:
    sizes = [number(names.case, f"{each}_parallel_size", 1) for each in _PARTS]
    ranks, rest = divmod(world(names.case), math.prod(sizes))
    if rest:
        raise NotApplicable("the sizes do not divide the ranks")
    return ranks


def _is_colocated(names: LaunchNames) -> bool:
    """Whether verl's trainer and rollout share their devices."""
    module = names.launch.module
    if is_colocated(module):
        return True
    if APART.search(module) or module.startswith("verl."):
        return False
    raise Unresolved("whether trainer and rollout share their devices")


def _is_uneven(names: LaunchNames) -> object:
    """Whether stages get their layers another way than by dividing."""
    answers = [names.has(name) for name in _UNEVEN]
    return True if True in answers else UNKNOWN if UNKNOWN in answers else False


def _is_sharded(names: LaunchNames) -> bool:
    """Whether every device has samples of its own: by FSDP, not by Megatron."""
    strategy = names.value("actor_rollout_ref.actor.strategy")
    megatron = any(".megatron." in key for key in names.launch.keys)
    return str(strategy).startswith("fsdp") and not megatron


def _of_model(part: str) -> Callable[[LaunchNames], object]:
    """A size of the model that the launch names; None if its kind has no such part."""
    return lambda names: names.launch.model_sizes.get(part)


DERIVED: dict[str, Callable[[LaunchNames], object]] = {
    "world": lambda names: world(names.case),
    "launcher": lambda names: names.launch.launcher,
    "nodes": lambda names: nodes(names.case),
    "uneven_stages": _is_uneven,
    "roles": lambda names: trains_roles(names.launch),
    "data_parallel_size": _divide_ranks,
    "colocated": _is_colocated,
    "sharded": _is_sharded,
    "moved_layers": lambda names: any(key.endswith(_MOVED) for key in names.launch.values),
    "model.path": lambda names: names.launch.model_name,
    "model.name": lambda names: names.launch.model_name.rstrip("/").rpartition("/")[2],
    **{f"model.{part}": _of_model(part) for part in _PARTS_OF_MODEL},
}


@functools.cache
def _parse_rule(expression: str) -> ast.expr:
    return ast.parse(expression, mode="eval").body


def evaluate(expression: str, names: LaunchNames) -> object:
    """The value of an expression; ABSENT without the options that it computes with, or UNKNOWN.

    Raises ValueError for an expression of another form.
    """
    return _Evaluation(names).visit(_parse_rule(expression))


class _Evaluation(ast.NodeVisitor):
    def __init__(self, names: LaunchNames) -> None:
        self._names = names

    def visit_Constant(self, node: ast.Constant) -> object:
        return node.value

    def visit_Tuple(self, node: ast.Tuple) -> object:
        return tuple(map(self.visit, node.elts))

    def visit_Name(self, node: ast.Name) -> object:
        return self._names.value(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> object:
        return self._names.value(ast.unparse(node))

    def visit_Call(self, node: ast.Call) -> object:
        function = ast.unparse(node.func)
        if function == "given":
            return self._names.has(ast.unparse(node.args[0]))
        values = list(map(self.visit, node.args))
        for missing in (UNKNOWN, ABSENT):
            if missing in values:
                return missing
        return FUNCTIONS[function](*values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> object:
        value = self.visit(node.operand)
        return value if value in (UNKNOWN, ABSENT) else not value

    def visit_BoolOp(self, node: ast.BoolOp) -> object:
        """One known value may decide, whatever the others are."""
        decides = isinstance(node.op, ast.Or)
        values = []
        _, *operands = ast.iter_child_nodes(node)
        for value in map(self.visit, operands):
            if value not in (UNKNOWN, ABSENT) and bool(value) is decides:
                return decides
            values.append(value)
        return next((each for each in (UNKNOWN, ABSENT) if each in values), not decides)

    def visit_BinOp(self, node: ast.BinOp) -> object:
        return self._combine(type(node.op), self.visit(node.left), self.visit(node.right))

    def visit_Compare(self, node: ast.Compare) -> object:
        values = self.visit(node.left), self.visit(node.comparators[0])
        return self._combine(type(node.ops[0]), *values)

    def _combine(self, kind: type[ast.AST], left: object, right: object) -> object:
        if UNKNOWN in (left, right):
            return UNKNOWN
        if ABSENT in (left, right) or (kind not in _OF_ANY and None in (left, right)):
            return ABSENT
        try:
            return _OPERATORS[kind](left, right)
        except (TypeError, ZeroDivisionError):  # a word where a number belongs is another finding
            return ABSENT

    def generic_visit(self, node: ast.AST) -> object:
        raise ValueError(f"{ast.unparse(node)} has no place in a rule")


def judge_rules(case: Case, check: str, *, of_fork: bool = False) -> Findings:
    """The findings of the rules of a check. A fork has not all validations of its origin.

    Raises NotApplicable for another program, Unresolved for values of the running shell.
    """
    options(case)
    program = case.need(Launch).program
    groups = [
        group
        for group in case.catalog.rules.groups
        if group.check == check and program in group.programs
    ]
    if not groups and (program or check != VALIDATED):
        raise NotApplicable("the launch command starts another program")
    if program in MEGATRON and any(name in case.need(Launch).options for name in ENCODER):
        raise NotApplicable("the encoder has parallel sizes of its own")
    seen: set[Place | None] = set()
    unknown: dict[str, None] = {}
    names = LaunchNames(case)
    for rule in chain(*(group.rules for group in groups)):
        names.unknown = {}
        broken = _is_broken(case, rule, names)
        if broken is UNKNOWN:
            unknown |= names.unknown
        elif broken:
            finding = _finding(case, rule, names)
            if finding.location is None or finding.location not in seen:
                yield finding
            seen.add(finding.location)
    for finding in _judge_validations(case, check, unknown, of_fork=of_fork):
        if finding.location not in seen:
            yield finding
        seen.add(finding.location)
    if unknown and not seen:
        raise Unresolved(f"{', '.join(unknown)} is known when the launch runs")


def _judge_validations(
    case: Case, check: str, unknown: dict[str, None], *, of_fork: bool
) -> Findings:
    """What sources refuse; ``unknown`` gets the names."""
    for table in case.catalog.validations if check == VALIDATED else ():
        names = LaunchNames(case, table)
        if (table.forks or not of_fork) and _is_of(table, names):
            yield from _judge_validation(table, names, unknown)


def _judge_validation(table: Validation, names: LaunchNames, unknown: dict[str, None]) -> Findings:
    known: set[frozenset[str]] = set()
    for source, condition in table.rules():
        names.unknown = {}
        refused = evaluate(condition, names)
        if refused is UNKNOWN:
            unknown |= names.unknown
        before, _, last = condition.rpartition(" and ")
        words = dict.fromkeys((*_WORD.findall(last), *_WORD.findall(before)[::-1]))
        at = tuple(word for word in words if word in names.present)
        if {*at} not in (*known, set()) and refused not in (UNKNOWN, ABSENT) and refused:
            known.add(frozenset(at))
            typed = [_spell(name, names) for name in at]
            yield error(
                f"{table.name} refuses {' with '.join(typed[:2])}",
                observed=" ".join(typed),
                required=f"options for which this is false: {condition}",
                because="Its validation raises an error before the first step.",
                refs=(source,),
                location=_locate(at, names, _EXCLUDED.sub(r"given(\1)", condition)),
            )


def _is_of(table: Validation, names: LaunchNames) -> bool:
    catalog = names.case.catalog
    if not names.launch.program or table.name == _TRAINER:
        return table.name == _TRAINER and names.present >= OF_TRAINER
    if table.name.startswith("MindSpeed"):
        own = _own_options(catalog, table.name)
        other = _own_options(catalog, table.unless) if table.unless else frozenset()
        return bool(own & names.present) and not other & names.present
    # Options that only newer releases have.
    known = (catalog.flags.versions_with(name.replace("_", "-")) for name in names.present)
    return not any(has and not set(has) & set(table.releases) for has in known)


@functools.cache
def _own_options(catalog: Catalog, name: str) -> frozenset[str]:
    others = [each for each in ("MindSpeed", "MindSpeed-LLM") if each < name]
    megatron = frozenset().union(catalog.flags.every, *catalog.flags.some.values())
    own = catalog.options.of(name) - megatron - catalog.options.of(*others)
    return frozenset(map(plain_name, own))


def _show(name: str, names: LaunchNames) -> str:
    value = names.value(name)
    return name if value in (True, ABSENT) else f"{name} {value}"


def _spell(name: str, names: LaunchNames) -> str:
    words = (*names.launch.flags, *names.launch.keys)
    option = next((word for word in words if plain_name(word) == name), name.replace("_", "-"))
    return _show(name, names).replace(name, f"--{option}", 1)


def _is_broken(case: Case, rule: LaunchRule, names: LaunchNames) -> object:
    release = version(case) if rule.megatron else ""
    # What depends on a release is not judged where that is not known.
    if rule.megatron and not (release and satisfies("pep440", release, rule.megatron)):
        return False
    applies = evaluate(rule.when, names) if rule.when else True
    holds = evaluate(_condition(rule), names) if applies and applies is not ABSENT else ABSENT
    if holds is ABSENT or (holds and holds is not UNKNOWN):
        return False
    return UNKNOWN if UNKNOWN in (holds, applies) else True


def _condition(rule: LaunchRule) -> str:
    if rule.needs or rule.divides is None:
        return rule.needs
    _, size, whole = rule.divides
    return f"{whole} % ({size}) == 0"


def _finding(case: Case, rule: LaunchRule, names: LaunchNames) -> Finding:
    if rule.divides is not None:
        return _report_rest(rule, *rule.divides, names)
    shown = [case.catalog.rules.key(name) for name in rule.at if names.has(name) is True]
    return (warning if rule.level == "warning" else error)(
        fill(rule.title, names),
        observed=", ".join(_show(name, names) for name in shown),
        required=fill(rule.required, names),
        because=fill(rule.because, names),
        remedy=Remedy(summary=fill(rule.remedy, names)) if rule.remedy else None,
        refs=(names.case.catalog.rules.source(rule),),
        location=_locate(rule.at, names, rule.needs),
    )


def _report_rest(rule: LaunchRule, what: str, size: str, whole: str, names: LaunchNames) -> Finding:
    by, of = evaluate(size, names), names.value(whole)
    option = size.rpartition(" ")[2]
    return error(
        f"{what} {by} does not divide {whole.replace('_', ' ')} {of}",
        observed=f"{whole} {of}, {option} {names.value(option)}",
        required=f"{whole} as a multiple of {by}",
        because="Megatron splits it evenly and stops otherwise.",
        remedy=Remedy(summary=f"Change {option}"),
        refs=(names.case.catalog.rules.source(rule),),
        location=_locate((option, whole), names),
    )


def _locate(at: tuple[str, ...], names: LaunchNames, needs: str = "") -> Place | None:
    """The first place; of an option that must not be given its own, else that of its value."""
    order = _order_suspects(at, names)
    places = (names.locate(name, option=f"given({name})" in needs) for name in order)
    return next(filter(None, places), None)


def _order_suspects(at: tuple[str, ...], names: LaunchNames) -> Iterator[str]:
    """An uneven number beside a power of two is the slip, so it comes first."""
    first = names.value(at[0])
    if isinstance(first, int) and first > 0 and first & (first - 1) == 0:
        yield from (name for name in at[1:] if _is_uneven_number(name, names.value(name)))
    yield from at


def _is_uneven_number(name: str, value: object) -> bool:
    if name in _NODE_SIZE_NAMES:
        return value is not UNKNOWN and value not in NODE_SIZES
    if not isinstance(value, int) or value < _LEAST_UNEVEN or name == "num_layers":
        return False
    return value % _GRAINS.get(name, 2) != 0


def fill(text: str, names: LaunchNames) -> str:
    return _BRACES.sub(lambda match: str(evaluate(match[1], names)), text)
