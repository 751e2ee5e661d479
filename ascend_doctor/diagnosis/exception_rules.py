"""What an exception says by its type: the rule that knows it, and the words for its sentences."""

import itertools
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ascend_doctor.diagnosis.exceptions import OTHER, Raised, TracebackFrame
from ascend_doctor.matrix.catalog import Catalog

OF_ENVIRONMENT = frozenset(
    {"python-missing-module", "python-missing-metadata", "python-import-name", "python-syntax"}
)
_BY_NAME = {
    "SyntaxError": "python-syntax",
    "IndentationError": "python-syntax",
    "TabError": "python-syntax",
    "NameError": "python-undefined-name",
    "UnboundLocalError": "python-undefined-name",
    "FileNotFoundError": "python-missing-file",
    "PermissionError": "python-permission",
    "IsADirectoryError": "python-not-a-file",
    "NotADirectoryError": "python-not-a-file",
    "PackageNotFoundError": "python-missing-metadata",
    "DistributionNotFound": "python-missing-metadata",
    "AssertionError": "python-assertion",
}
_DAMAGED = re.compile(
    r"JSONDecodeError|UnpicklingError|Bad\w+File|SafetensorError|UnicodeDecodeError|EOFError|"
    r"ScannerError|ParserError|LZMAError|TOMLDecodeError|ArrowInvalid|ReadError"
)
_STREAM = re.compile(
    r"PytorchStreamReader failed|Error while deserializing header|: file too short|: invalid ELF"
)
_LIBRARY = re.compile(r"lib(?P<stem>[a-z]+)\w*\.so[\w.]*: cannot open shared")
_CUDA = re.compile(
    r"Torch not compiled with CUDA|Megatron requires CUDA|Found no NVIDIA driver|"
    r"No CUDA GPUs are available|Invalid CUDA 'device=|Expected a cuda device|on a CUDA device|"
    r"\bCUDA_HOME\b|"
    r"has no attribute '_cuda_\w+'|Accelerator.? can not run on your system",
    re.IGNORECASE,
)
_MODULE = re.compile(r"No module named ['\"]?(?P<module>[\w.]+)")
_NAME = re.compile(
    r"cannot import name '(?P<name>[\w.]+)' from (?P<partly>partially initialized module )?"
    r"'(?P<module>[\w.]+)'(?: \((?P<file>unknown location|[\w./+-]+)\))?"
)
_ATTRIBUTE = re.compile(
    r"(?:(?P<partly>partially initialized )?module '(?P<module>[\w.]+)'|"
    r"(?:type object )?'(?P<owner>[\w.]+)'(?: object)?) has no attribute '(?P<name>\w+)'"
)
_ARGUMENT = re.compile(
    r"(?:(?P<function>[\w.<>]+)\(\) )?(?:(?:got an u|[Uu])nexpected keyword argument "
    r"'(?P<argument>\w+)'|got multiple values|[Mm]issing (?:\d+ )?required|takes [\w ]+ positional|"
    r"'\w+' is an invalid keyword argument|Extra keyword arguments)"
)
_REQUIRED = re.compile(
    r"(?P<wanted>[\w.-]+(?:[<>=!~]{1,2}[\w.*]+,?)+) is required .{0,80}"
    r"but found (?P<name>[\w.-]+)==|requires (?P<needed>[\w.-]+) (?P<least>\d[\d.]*) or newer"
)
_DIVIDES = re.compile(r"\bdivisible|\b(?:be|not) an? (?:\w+ )?multiple\b")
_OPTION = re.compile(r"(?<![\w-])--[a-z][\w-]{2,}")
_PATH = re.compile(r"['\"](?P<path>[\w.~/ -]*[\w-]\.[A-Za-z]\w{1,11}|/[\w./-]{2,})['\"]")
_NAMED = re.compile(
    r"(?:['\"]|^(?=/|lib))(?P<path>[^'\"]{1,300})(?:['\"]$|: (?:file|invalid ELF|cannot open))"
)
_DISTRIBUTION = re.compile(
    r"(?:The '|metadata was found for )?(?P<name>[A-Za-z][\w.-]*)"
    r"(?=[<>=!~\[ ].*distribution was|'|$)"
)
_IMPORTED = re.compile(r"(?:from|import) (\w[\w.]*|\.)")
_UNSET = re.compile(r"environment variable (?P<name>\w+) expected, but not set")
_REFUSALS = frozenset({"AssertionError", "NotImplementedError", "RuntimeError", "ValueError"})
_READ = re.compile(r"env\w*\W{1,3}['\"](?P<name>[A-Z][A-Z\d]*_[A-Z\d_]+)['\"]")
_REFUSED = re.compile(
    r"(?:variable |export |find |setting |try )(?P<named>[A-Z]\w*_\w+)|"
    r"\b(?P<name>[A-Z][A-Z\d]*_[A-Z\d_]+) (?:should|must|cannot|is not set|and \w+ have)\b"
)
# The exception, or "" for any; what its message says; the rule.
_BY_WORDS = (
    ("", _DIVIDES, "python-not-divisible"),
    ("AttributeError", _ATTRIBUTE, "python-attribute"),
    ("TypeError", _ARGUMENT, "python-argument"),
    ("", _STREAM, "python-damaged-file"),
    ("ImportError", _REQUIRED, "required-version-differs"),
)
_OBJECTS = re.compile(
    r"(not|n't|only)( \w+)? support|unsupported|not implemented for|not compatible with (?!input)|"
    r"(not|n't) (work|match)|must (be|have|equal|match)|should be",
    re.IGNORECASE,
)
_LAUNCH = frozenset({"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"})
_SHORT = 200
_ALIASES = {"np": "numpy", "F": "torch", "nn": "torch", "dist": "torch"}
_COMPILED = frozenset({"torch", "numpy", "torch_npu", "msgspec", *_ALIASES})
# Whose functions the matrix lists with the releases that take an argument.
_LISTED = ("megatron-core", "mindspeed", "mcore-bridge")


class Reading(NamedTuple):
    title: str
    cause: str
    fix: str
    raised: str


def classify(raised: Raised) -> str:
    name, message = raised.name, raised.message
    source = raised.frames[-1].source if raised.frames else ""
    if _CUDA.search(message) or "assert torch.cuda.is_available()" in source:
        return "python-cuda"
    if _UNSET.search(message) or (name == "KeyError" and _reads_environment(raised)):
        return "python-environment-variable"
    for of, words, kind in _BY_WORDS:
        if of in {"", name} and words.search(message):
            return kind
    if name in {"ValueError", "JSONDecodeError"} and _find_variable(raised):
        return "python-environment-variable"
    if _lacks_own_library(raised) or (_DAMAGED.fullmatch(name) and find_file(raised)):
        return "python-damaged-file"
    refused = _classify_refusal(name, message) if name in _REFUSALS else ""
    return refused or _BY_NAME.get(name) or _classify_import(message)


def _classify_refusal(name: str, message: str) -> str:
    if "Command '" in message:
        return ""
    if _REFUSED.search(message):
        return "python-environment-variable"
    if _OPTION.search(first_line(message)):
        return "python-options"
    return "python-refused" if name != "AssertionError" and _OBJECTS.search(message) else ""


def _classify_import(message: str) -> str:
    if _NAME.search(message):
        return "python-import-name"
    if _MODULE.search(message) or "attempted relative import" in message:
        return "python-missing-module"
    return "python-attribute" if "module '" in message and _ATTRIBUTE.search(message) else OTHER


def _reads_environment(raised: Raised) -> bool:
    name = raised.message.strip("'\"")
    if not (raised.frames and name.isidentifier()):
        return name in _LAUNCH
    last = raised.frames[-1]
    own = last.function == "__getitem__" and re.search(r"(?:^|[/ <])os(?:\.py|>)$", last.file)
    return bool(own) or "environ[" in last.source


def _lacks_own_library(raised: Raised) -> bool:
    package = next((frame.package for frame in reversed(raised.frames) if frame.package), "")
    match = _LIBRARY.search(raised.message)
    return match is not None and match["stem"] in package


def _find_variable(raised: Raised) -> str:
    """The variable that the innermost line of a program, or its caller, reads."""
    own = [frame.source for frame in raised.frames if not frame.passes_on][:-3:-1]
    return next((match["name"] for source in own if (match := _READ.search(source))), "")


def find_file(raised: Raised) -> str:
    """The file that was read: named by the message, else by the innermost source line with one."""
    if raised.name != "UnicodeDecodeError" and (match := _NAMED.search(raised.message)):
        return match["path"]
    texts = [raised.message, *(frame.source for frame in reversed(raised.frames)), raised.outer]
    return next((match["path"] for text in texts if (match := _PATH.search(text))), "")


@dataclass
class Describer:
    """Says what an exception means; ``matrix`` has the sentences, the packages and releases."""

    matrix: Catalog

    def describe(self, raised: Raised) -> Reading:
        kind = classify(raised)
        rule = {
            "python-syntax": self._reinstall,
            "python-damaged-file": self._reinstall,
            "python-missing-module": self._missing_module,
            "python-import-name": self._import_name,
            "python-environment-variable": self._variable,
            "python-argument": self._argument,
            "python-attribute": self._attribute,
            "required-version-differs": self._version,
        }.get(kind, self._plain)
        words = {
            "type": raised.name,
            "message": first_line(raised.message),
            "where": self.where(raised),
            "python": raised.python,
            "importer": self._importer(raised),
            "source": first_line(raised.frames[-1].source) if raised.frames else "",
            "file": find_file(raised) or "the file",
        }
        variant, more = rule(raised)
        words["newer"] = more.get("package", "")
        stack = self.matrix.files("components")
        if words["newer"].replace("_", "-") in stack:
            words["newer"] = words["importer"]
            variant += "-stack" if words["importer"].replace("_", "-") in {"", *stack} else ""
        where = f"{raised.name} is raised{words['where']}"
        if kind == OTHER:
            message = f": {words['message']}" if raised.message else ""
            return Reading(where, f"{where}{message}.", "", where)
        variants = self.matrix.failures[kind].variants
        names = (variant, variant.partition("-")[0], "usual")
        texts = next(variants[name] for name in names if name in variants)
        title, cause, fix = (text.format_map(words | more) for text in texts)
        return Reading(title, cause, fix, where)

    def package_of(self, frame: TracebackFrame) -> str:
        """The distribution of a frame, or the framework whose source tree has it; "": the user."""
        if frame.package:
            path = frame.file.partition("-packages/")[2].removesuffix(".py") or frame.package
            return self.distribution(path.replace("/", "."))
        folders = frame.file.split("/")[:-1]
        trees = self.matrix.import_names.frameworks
        return self.distribution(next((name for name in folders if name in trees), ""))

    def distribution(self, module: str) -> str:
        known = _longest(self.matrix.import_names.distributions, module)
        return known or module.partition(".")[0]

    def where(self, raised: Raised) -> str:
        """The place of an exception: the user's line, and the innermost line of a package."""
        own = [frame for frame in raised.frames if not frame.passes_on]
        if not own:
            return ""
        package = self.package_of(own[-1])
        if not package:
            called = self._callee_package(own[-1])
            return f" at {own[-1].location}" + (f", in a call of {called}" if called else "")
        around = (*(frame for frame in raised.callers if not frame.passes_on), *own)
        user = [frame.location for frame in around if not self.package_of(frame)]
        return f" in {package} at {own[-1].location}" + (f", from {user[-1]}" if user else "")

    def _callee_package(self, frame: TracebackFrame) -> str:
        """The package whose compiled function a line calls, which has no frame."""
        roots = re.findall(r"\b([A-Za-z]\w*)\.", frame.source)
        root = next((name for name in roots if name in _COMPILED), "")
        return self.distribution(_ALIASES.get(root, root))

    def _importer(self, raised: Raised) -> str:
        own = [frame for frame in raised.frames if not frame.passes_on]
        return self.package_of(own[-1]) if own else ""

    def _plain(self, raised: Raised) -> tuple[str, dict[str, str]]:
        last = raised.frames[-1].location if raised.frames else ""
        match = _DISTRIBUTION.search(raised.message)
        words = {"name": match["name"] if match else "", "at": f" at {last}" if last else ""}
        variant = "usual" if raised.message else "silent"
        if re.search(r"\b[Pp]lease\b", raised.message):
            variant = "advice"
        elif raised.frames and raised.frames[-1].source.startswith("assert"):
            variant = f"{variant}-condition"
        return variant, words

    def _reinstall(self, raised: Raised) -> tuple[str, dict[str, str]]:
        variant, words = self._plain(raised)
        frames = [*raised.frames[-1:], _frame(find_file(raised))]
        library = _LIBRARY.search(raised.message)
        frame = frames[0 if library or raised.name in _BY_NAME else -1]
        imported = _IMPORTED.match(frame.source) if "null bytes" in raised.message else None
        other = imported[1].strip(".") if imported else ""
        package = self.distribution(other) if other else self.package_of(frame)
        return ("package" if frame.package else variant), words | {"package": package}

    def _missing_module(self, raised: Raised) -> tuple[str, dict[str, str]]:
        match = _MODULE.search(raised.message)
        if match is None:
            return "relative", {}
        module, names = match["module"], self.matrix.import_names
        package = self.distribution(module)
        words = {"module": module, "package": package, "root": module.partition(".")[0]}
        listed = module in names.distributions
        if not listed and (fix := _longest(names.trees, module)):
            return "tree", words | {"fix": fix}
        if "is not a package" in raised.message:
            return "hidden", words
        # A module that a package imports by its name is of the caller.
        stated = raised.frames and _IMPORTED.match(raised.frames[-1].source)
        importer = self._importer(raised) if stated else ""
        if "." in module and not listed:
            cut = importer == package and raised.frames[-1].package
            return ("cut" if cut else "between" if importer else "release"), words
        own = raised.frames and not importer and package == module
        return ("own" if own else "usual"), words

    def _import_name(self, raised: Raised) -> tuple[str, dict[str, str]]:
        match = _NAME.search(raised.message)
        if match is None:
            return "usual", {}
        package, importer = self.distribution(match["module"]), self._importer(raised)
        file = match["file"] or ""
        folder = file.removesuffix("/" + match["module"].replace(".", "/") + "/__init__.py")
        words = {**match.groupdict(""), "package": package, "folder": folder}
        variant = "usual" if importer else "own"
        source = _frame(file)
        if file == "unknown location":
            variant = "namespace"
        elif importer == package and not self._is_through_project(raised):
            variant = "mixed" if folder == file or source.package else "tree"
        elif match["partly"]:
            variant = "partly"
        elif match["module"].partition(".")[0] == importer:
            variant = "trees"
        elif file and not (source.passes_on or self.package_of(source)):
            variant = "project"
        return variant, words

    def _is_through_project(self, raised: Raised) -> bool:
        """Whether a package imports a file of the project."""
        packages = [self.package_of(frame) for frame in raised.frames if not frame.passes_on]
        return "" in itertools.dropwhile(operator.not_, packages)

    def _version(self, raised: Raised) -> tuple[str, dict[str, str]]:
        if (match := _REQUIRED.search(raised.message)) is None or match["name"]:
            return "usual", match.groupdict() if match else {}
        return "usual", {"name": match["needed"], "wanted": f"{match['needed']}>={match['least']}"}

    def _variable(self, raised: Raised) -> tuple[str, dict[str, str]]:
        refused = _REFUSED.search(raised.message)
        read = "" if raised.name == "KeyError" else _find_variable(raised)
        if name := refused["named"] or refused["name"] if refused else read:
            known = self.matrix.variables.find(name)
            more = f" ascend-doctor explain {name} shows its values." if known else ""
            return "value", {"name": name, "more": more}
        match = _UNSET.search(raised.message)
        name = match["name"] if match else raised.message.strip("'\"")
        return ("launch" if name in _LAUNCH else "usual"), {"name": name}

    def _argument(self, raised: Raised) -> tuple[str, dict[str, str]]:
        match = _ARGUMENT.search(raised.message)
        source = raised.frames[-1].source if raised.frames else ""
        called = ((match and match["function"]) or "").removesuffix(".__init__")
        owner, releases = self._find_owner(called, (match and match["argument"]) or "")
        root = re.match(r"(?:\w+ = )?([A-Za-z]\w*)\.", source)
        if not owner and root and root[1] != "self":
            owner = self.distribution(_ALIASES.get(root[1], root[1]))
        words = {"owner": owner, "called": called or "the function", "releases": releases}
        bare = "usual" if source else "bare"
        return ("package" if owner else "passed" if self._importer(raised) else bare), words

    def _find_owner(self, called: str, argument: str) -> tuple[str, str]:
        last = called.rpartition(".")[2]
        for component in _LISTED if last else ():
            for function in self.matrix.component(component).functions:
                if function.name.rpartition(".")[2] == last:
                    which = " and ".join(filter(None, function.releases_with(argument)))
                    return component, f" {component} {which} has {argument}." if which else ""
        return "", ""

    def _attribute(self, raised: Raised) -> tuple[str, dict[str, str]]:
        match = _ATTRIBUTE.search(raised.message)
        if match is None:
            return "module", {}
        words = match.groupdict("")
        if match["module"]:
            words["package"] = self.distribution(match["module"])
            between = "between" if self._importer(raised) else "module"
            return ("partly" if match["partly"] else between), words
        if match["owner"] == "NoneType":
            return "none", words
        words["package"] = self._importer(raised)
        return ("object" if words["package"] else "own"), words


def _frame(file: str) -> TracebackFrame:
    return TracebackFrame(file=file, location="", function="", source="")


def _longest(rows: Mapping[str, str], module: str) -> str:
    parts = module.split(".")
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((rows[name] for name in names if name in rows), "")


def first_line(message: str) -> str:
    # A sentence may go on in the next row.
    text = next(filter(str.strip, re.sub(r"\n(?=[a-z])", " ", message).split("\n")), "").strip()
    return (text if len(text) <= _SHORT else f"{text[:_SHORT]}...").rstrip(".")
