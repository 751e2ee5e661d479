"""What an exception says by its type: the rule that has its cause, and what to type."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ascend_doctor.diagnosis.exceptions import Frame, Raised
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.schema import ImportNames

OTHER = "python-exception"
# What every rank with these packages and files raises.
OF_ENVIRONMENT = frozenset(
    {"python-missing-module", "python-missing-metadata", "python-import-name", "python-syntax"}
)
_SYNTAX = frozenset({"SyntaxError", "IndentationError", "TabError"})
_DAMAGED = frozenset(
    {"JSONDecodeError", "UnpicklingError", "BadZipFile", "BadGzipFile", "SafetensorError",
     "UnicodeDecodeError", "ScannerError", "ParserError", "LZMAError", "TOMLDecodeError",
     "ArrowInvalid", "EOFError", "ReadError"}
)  # fmt: skip
_BY_NAME = {
    "NameError": "python-undefined-name",
    "UnboundLocalError": "python-undefined-name",
    "FileNotFoundError": "python-missing-file",
    "PermissionError": "python-permission",
    "IsADirectoryError": "python-not-a-file",
    "NotADirectoryError": "python-not-a-file",
    "PackageNotFoundError": "python-missing-metadata",
    "DistributionNotFound": "python-missing-metadata",
}
_CUDA = re.compile(
    r"Torch not compiled with CUDA|Megatron requires CUDA|Found no NVIDIA driver|No CUDA GPUs are available|"
    r"Invalid CUDA 'device=|Expected a cuda device|Cuda\w*Accelerator.? can not run|"
    r"has no attribute '_cuda_\w+'|Accelerator.? can not run on your system",
    re.IGNORECASE,
)
_MODULE = re.compile(r"No module named ['\"]?(?P<module>[\w.]+)")
_NAME = re.compile(r"cannot import name '(?P<name>[\w.]+)' from (?P<partly>partially initialized module )?'(?P<module>[\w.]+)'(?: \((?P<path>[^)]+)\))?")  # fmt: skip
_ATTRIBUTE = re.compile(
    r"(?:(?P<partly>partially initialized )?module '(?P<module>[\w.]+)'|(?:type object )?'(?P<owner>[\w.]+)' object|type object '(?P<kind>[\w.]+)')"
    r" has no attribute '(?P<name>\w+)'"
)  # fmt: skip
_ARGUMENT = re.compile(
    r"(?P<function>[\w.<>]+)\(\) (?:got (?:an unexpected keyword argument '(?P<unexpected>\w+)'|multiple values)|"
    r"missing \d+ required|takes [\w ]+ positional)|[Uu]nexpected keyword argument '(?P<other>\w+)'|"
    r"'(?P<native>\w+)' is an invalid keyword argument|Extra keyword arguments|[Mm]issing (?:\d+ )?required (?:positional )?argument"
)  # fmt: skip
_PATH = re.compile(r"['\"](?P<path>[\w.~/ -]*[\w-]\.[A-Za-z]\w{1,11}|/[\w./-]{2,})['\"]")
_DISTRIBUTION = re.compile(r"(?:The ')?(?P<name>[A-Za-z][\w.-]*?)(?:[<>=!~\[ ].*)?'? distribution was not|No package metadata was found for (?P<plain>[\w.-]+)|^(?P<bare>[\w.-]+)$")  # fmt: skip
_UNSET = re.compile(r"environment variable (?P<name>\w+) expected, but not set")
_STREAM = re.compile(r"PytorchStreamReader failed|Error while deserializing header")
_LAUNCH = frozenset({"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"})
_SHORT = 200
# As programs call packages whose functions are compiled.
_ALIASES = {"np": "numpy", "numpy": "numpy", "F": "torch", "nn": "torch", "dist": "torch",
            "torch": "torch", "torch_npu": "torch_npu", "msgspec": "msgspec"}  # fmt: skip


class Reading(NamedTuple):
    title: str
    cause: str
    fix: str


def classify(raised: Raised) -> str:
    """The rule for an exception, by its type."""
    name, message = raised.name, raised.message
    if name in _SYNTAX:
        return "python-syntax"
    source = raised.frames[-1].source if raised.frames else ""
    if _CUDA.search(message) or re.search(r"assert torch\.cuda\.is_available\(\)", source):
        return "python-cuda"
    if name in {"ModuleNotFoundError", "ImportError"}:
        return _classify_import(message)
    if _UNSET.search(message) or (name == "KeyError" and _reads_environment(raised)):
        return "python-environment-variable"
    if name == "AssertionError":
        return "python-assertion"
    if name == "AttributeError" and _ATTRIBUTE.search(message):
        return "python-attribute"
    if name == "TypeError" and _ARGUMENT.search(message):
        return "python-argument"
    if _STREAM.search(message) or (name in _DAMAGED and _file_of(raised)):
        return "python-damaged-file"
    return _BY_NAME.get(name) or _classify_import(message)


def _classify_import(message: str) -> str:
    """The rule for a message of an import, which other exceptions repeat."""
    if _NAME.search(message):
        return "python-import-name"
    if _MODULE.search(message) or "attempted relative import" in message:
        return "python-missing-module"
    return "python-attribute" if "module '" in message and _ATTRIBUTE.search(message) else OTHER


def _reads_environment(raised: Raised) -> bool:
    last = raised.frames[-1] if raised.frames else None
    if last is None:
        return raised.message.strip("'") in _LAUNCH
    own = last.function == "__getitem__" and re.search(r"(?:^|[/ <])os(?:\.py|>)$", last.file)
    return bool(own) or "environ[" in last.source


def _file_of(raised: Raised) -> str:
    """The file that was read: named by the message, else by the innermost source line with one."""
    texts = [raised.message, *(frame.source for frame in reversed(raised.frames))]
    return next((match["path"] for text in texts if (match := _PATH.search(text))), "")


@dataclass
class Describer:
    """Says what an exception means, in whole sentences; ``matrix`` knows packages and releases."""

    matrix: Catalog

    @property
    def _names(self) -> ImportNames:
        return self.matrix.import_names

    def describe(self, raised: Raised) -> Reading:
        """The reading of an exception by its rule."""
        rules: dict[str, Callable[[Raised], Reading]] = {
            "python-missing-module": self._missing_module,
            "python-missing-metadata": self._missing_metadata,
            "python-import-name": self._import_name,
            "python-environment-variable": self._variable,
            "python-argument": self._argument,
            "python-attribute": self._attribute,
            "python-damaged-file": self._damaged_file,
            "python-cuda": self._cuda,
            "python-assertion": self._assertion,
        }
        return rules.get(classify(raised), self._other)(raised)

    def package_of(self, frame: Frame) -> str:
        """The distribution of a frame, or the framework whose source tree has it; "" for a user's."""
        if frame.package:
            return self.distribution(self._module_of(frame))
        folders = frame.file.split("/")[:-1]
        tree = next((name for name in folders if name in self._names.frameworks), "")
        return self.distribution(tree) if tree else ""

    def _module_of(self, frame: Frame) -> str:
        """The module of a file, as far as it says whose it is: megatron is of several."""
        path = frame.file.partition("-packages/")[2].removesuffix(".py")
        return path.replace("/", ".")

    def distribution(self, module: str) -> str:
        return _longest(self._names.distributions, module) or module.partition(".")[0]

    def where(self, raised: Raised) -> str:
        """The place of an exception: the user's line, and the innermost line of a package."""
        own = [frame for frame in raised.frames if not frame.of_python]
        user = [frame for frame in own if not self.package_of(frame)]
        last = own[-1] if own else None
        if last is None:
            return ""
        package = self.package_of(last)
        if not package:
            called = self._called(last)
            return f" at {last.place}" + (f", in a call of {called}" if called else "")
        called = f", which {user[-1].place} calls" if user else ""
        return f" in {package} at {last.place}{called}"

    def _called(self, frame: Frame) -> str:
        """The package whose compiled function a line calls, which has no frame."""
        root = next(
            (name for name in re.findall(r"\b([A-Za-z]\w*)\.", frame.source) if name in _ALIASES),
            "",
        )
        return self.distribution(_ALIASES[root]) if root else ""

    def _missing_module(self, raised: Raised) -> Reading:
        match = _MODULE.search(raised.message)
        where, python = self.where(raised), raised.python
        if match is None:
            name = raised.frames[-1].source if raised.frames else "a relative import"
            return Reading(
                "A relative import is outside a package",
                f"`{name}`{where} is in a file that Python started as a script.",
                "Start it as a module with python -m PACKAGE.MODULE, in the folder above the package, "
                "or add that folder to PYTHONPATH and import by the full name.",
            )
        module = match["module"]
        fix = "" if module in self._names.distributions else _longest(self._names.trees, module)
        if fix:
            return Reading(f"The Python module {module} is missing",
                           f"{python} does not find {module}, imported{where}.", f"{fix}.")  # fmt: skip
        return self._missing_distribution(raised, module)

    def _missing_distribution(self, raised: Raised, module: str) -> Reading:
        where, python = self.where(raised), raised.python
        package, root = self.distribution(module), module.partition(".")[0]
        own = [frame for frame in raised.frames if not frame.of_python]
        if "." in module and module not in self._names.distributions:
            return Reading(
                f"The installed {package} does not have the module {module}",
                f"Python finds {root}, but not {module}, imported{where}. The installed release of "
                f"{package} does not have it, or a folder called {root} hides the package.",
                f"{python} -m pip show {package} shows the release. Install the one that the "
                "importing package names.",
            )
        install = f"{python} -m pip install {package}"
        cause = f"{python} does not have the module {module}, imported{where}."
        title = f"The Python module {module} is not installed"
        named = package != module
        if own and not self.package_of(own[-1]) and not named:
            return Reading(title, cause, f"{install}. If {module} is a file or folder of the project, "
                           "add the folder above it to PYTHONPATH instead.")  # fmt: skip
        return Reading(title, f"{cause} It belongs to the package {package}.", install)

    def _missing_metadata(self, raised: Raised) -> Reading:
        match = _DISTRIBUTION.search(raised.message)
        name = match["name"] or match["plain"] or match["bare"] if match else raised.message
        return Reading(
            f"The Python package {name} is not installed, or its metadata is missing",
            f"{raised.python} finds no metadata of {name}, read{self.where(raised)}.",
            f"{raised.python} -m pip install {name}",
        )

    def _import_name(self, raised: Raised) -> Reading:
        match = _NAME.search(raised.message)
        assert match is not None  # noqa: S101 - classified by it
        name, module = match["name"], match["module"]
        package, where = self.distribution(module), self.where(raised)
        own = [frame for frame in raised.frames if not frame.of_python]
        importer = self.package_of(own[-1]) if own else ""
        if match["partly"]:
            return Reading(
                f"{module} is imported while it is still being imported",
                f"{name} is imported from {module}{where} before {module} defines it. Two modules "
                f"import each other, or a file of the project is called like {module}.",
                f"Rename the project's file if {match['path'] or module} is one, or move the "
                "import into the function that needs it.",
            )
        if importer == package:
            return Reading(
                f"The files of {package} are of different releases",
                f"{package} imports {name} from its own module {module}{where}, which does not have "
                "it. An installation was interrupted, or another package wrote over its files.",
                f"{raised.python} -m pip install --force-reinstall --no-deps {package}",
            )
        if importer:
            cause = (f"{importer} imports {name} from {module}{where}. The installed {package} does not "
                     f"have it: one of the two packages is too old or too new for the other.")  # fmt: skip
        else:
            cause = f"{name} is imported from {module}{where}. The installed {package} does not have it."
        both = " ".join(dict.fromkeys(filter(None, (package, importer))))
        return Reading(
            f"{package} does not have the name {name}" + (f" that {importer} imports" if importer else ""),
            cause,
            f"{raised.python} -m pip show {both} shows the releases and their requirements. Install "
            f"the release of {package} that {importer or 'the program'} requires.",
        )  # fmt: skip

    def _variable(self, raised: Raised) -> Reading:
        match = _UNSET.search(raised.message)
        name = match["name"] if match else raised.message.strip("'\"")
        launch = name in _LAUNCH
        fix = f"export {name}=VALUE before the program starts."
        return Reading(
            f"The environment variable {name} is not set",
            f"The program reads {name}{self.where(raised)}, and it is not set.",
            f"Start the program with torchrun, which sets {name}, or type {fix}" if launch else fix,
        )

    def _argument(self, raised: Raised) -> Reading:
        match = _ARGUMENT.search(raised.message)
        assert match is not None  # noqa: S101 - classified by it
        source = raised.frames[-1].source if raised.frames else ""
        called = (match["function"] or "").removesuffix(".__init__")
        argument = match["unexpected"] or match["other"] or match["native"] or ""
        owner, releases = self._owner_of(raised, called, source, argument)
        subject = f"{called} of {owner}" if owner and called else called or owner or "the function"
        fix = f"Correct the call{self.where(raised)}."
        if owner:
            fix = (f"{raised.python} -m pip show {owner} shows the release. Correct the call, or "
                   f"install the release of {owner} that it was written for.")  # fmt: skip
        says = raised.message.split("\n")[0][:_SHORT]
        return Reading(
            f"The call of {subject} does not match its parameters",
            f"The call `{_first(source)}`{self.where(raised)} fails: {says}.{releases}"
            if source
            else f"The call{self.where(raised)} fails: {says}.{releases}",
            fix,
        )

    def _owner_of(self, raised: Raised, called: str, source: str, argument: str) -> tuple[str, str]:
        """Whose a function is, and the releases that take an argument, by the matrix."""
        last = called.rpartition(".")[2]
        for component in ("megatron-core", "mindspeed", "mcore-bridge") if last else ():
            functions = self.matrix.component(component).functions
            row = next((row for row in functions if row.name.rpartition(".")[2] == last), None)
            if row is None:
                continue
            ranges = [text for text, names in row.takes.items() if argument in names]
            said = f" {component} {' and '.join(ranges)} has {argument}." if any(ranges) else ""
            return component, said
        root = (
            re.search(rf"(?P<root>[A-Za-z_]\w*)\.(?:\w+\.)*{re.escape(last)}\(", source)
            if last
            else None
        )
        root = root or re.search(r"(?P<root>[A-Za-z_]\w*)\.\w+(?:\.\w+)*\(", source)
        name = _ALIASES.get(root["root"], root["root"]) if root else ""
        started = source.startswith(name) and name != "self"
        return (self.distribution(name) if name and started else ""), ""

    def _attribute(self, raised: Raised) -> Reading:
        match = _ATTRIBUTE.search(raised.message)
        assert match is not None  # noqa: S101 - classified by it
        module, name, where = match["module"], match["name"], self.where(raised)
        owner = match["owner"] or match["kind"]
        own = [frame for frame in raised.frames if not frame.of_python]
        if module and not match["partly"]:
            package = self.distribution(module)
            return Reading(
                f"The installed {package} does not have {module}.{name}",
                f"{module}.{name} is used{where}. The installed release of {package} does not have it.",
                f"{raised.python} -m pip show {package} shows the release. Install the release that "
                "the program was written for, or correct the name.",
            )
        if module:
            return Reading(
                f"{module} is used while it is still being imported",
                f"{module}.{name} is used{where} before {module} defines it.",
                f"Rename the project's file that is called {module}.py, or remove the circular import.",
            )
        if owner == "NoneType":
            return Reading(
                f"A value is None where its {name} is used",
                f"{name} is used of a value that is None{where}.",
                "Find the call that returned None above that line.",
            )
        package = self.package_of(own[-1]) if own else ""
        of = f" of {package}" if package else ""
        return Reading(
            f"An object of the class {owner} has no attribute {name}",
            f"{name} is used of an object of {owner}{of}{where}, which does not have it.",
            f"{raised.python} -m pip show {package} shows the release. Install the release that the "
            "program was written for, or correct the name." if package else
            f"Correct the name, or define {name} in {owner}.",
        )  # fmt: skip

    def _damaged_file(self, raised: Raised) -> Reading:
        file = _file_of(raised)
        what = file or "A file"
        return Reading(
            f"{what} is damaged, incomplete, or not of the expected format",
            f"{what} cannot be read{self.where(raised)}: {raised.name}: {_first(raised.message)}.",
            f"Compare the size and checksum of {file or 'the file'} with the source. Copy, download or "
            "save it again. A file of a few hundred bytes may be a pointer of Git LFS: git lfs pull.",
        )

    def _cuda(self, raised: Raised) -> Reading:
        return Reading(
            "The program uses CUDA on a machine with NPUs",
            f"torch.cuda is used{self.where(raised)}, and this torch has no usable CUDA.",
            "Use the device npu instead of cuda. As a stopgap, add `from torch_npu.contrib import "
            "transfer_to_npu` at the top of the program.",
        )

    def _assertion(self, raised: Raised) -> Reading:
        last = raised.frames[-1] if raised.frames else None
        condition = last.source if last and last.source.startswith("assert") else ""
        said = f" It says: {_first(raised.message)}." if raised.message else ""
        shown = f"`{condition}`" if condition else "The condition"
        return Reading(
            f"An assertion fails: {_first(raised.message)}"
            if raised.message
            else "An assertion fails",
            f"{shown} is false{self.where(raised)}.{said}",
            "Correct the value that the assertion checks.",
        )

    def _other(self, raised: Raised) -> Reading:
        kind, where = classify(raised), self.where(raised)
        message = _first(raised.message)
        if kind == "python-syntax":
            place = raised.frames[-1] if raised.frames else None
            at = f" at {place.place}" if place else ""
            return Reading(f"A Python file has a syntax error{at}",
                           f"Python cannot read `{place.source if place else ''}`{at}: {message}.",
                           f"Correct the line{at}, and check the lines above it. python -m py_compile FILE checks it.")  # fmt: skip
        file = _file_of(raised)
        texts = {
            "python-undefined-name": Reading(
                f"A name is used before it is defined: {message}", f"{message}{where}.",
                f"Define or import the name before its use{where}."),
            "python-missing-file": Reading(
                f"{file or 'A file'} does not exist", f"{file or message} is opened{where}, and it does not exist.",
                f"Correct the path, or create {file or 'the file'}. On several nodes, check that each node has it."),
            "python-permission": Reading(
                f"The user may not use {file or 'a file'}", f"{message}{where}.",
                f"ls -ld {file or 'PATH'} shows owner and mode. Change them, or use another path."),
            "python-not-a-file": Reading(
                f"{file or 'A path'} is a directory where a file is expected, or the reverse",
                f"{message}{where}.", f"Correct the path {file}."),
        }  # fmt: skip
        if kind in texts:
            return texts[kind]
        return Reading(f"{raised.name} is raised{where}",
                       f"{raised.name} is raised{where}" + (f": {message}." if message else "."), "")  # fmt: skip


def _longest(rows: Mapping[str, str], module: str) -> str:
    """The row of a module, or of the nearest module above it."""
    parts = module.split(".")
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((rows[name] for name in names if name in rows), "")


def _first(message: str) -> str:
    """The first line of a message, as a part of a sentence."""
    text = next((row.strip() for row in message.split("\n") if row.strip()), "")
    return (text if len(text) <= _SHORT else f"{text[:_SHORT]}...").rstrip(".")
