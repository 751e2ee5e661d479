"""What an exception says: the rule that knows it, and words for its sentences."""

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import dropwhile, takewhile
from operator import not_
from typing import NamedTuple, TypeAlias

from ascend_doctor.diagnosis.exceptions import IS, OTHER, Raised, TracebackFrame
from ascend_doctor.diagnosis.site import Site
from ascend_doctor.facts import Distribution
from ascend_doctor.machine.live import Machine, matches
from ascend_doctor.matrix.catalog import Catalog

_BY_NAME = {kind: names for kind, names in IS.items() if "-" in kind}
OF_ENVIRONMENT = IS["environment"]
# The exception or "", what its message says, the rule.
_BY_WORDS = (
    ("", IS["divides"], "python-not-divisible"),
    ("AttributeError", IS["attribute"], "python-attribute"),
    ("TypeError", IS["argument"], "python-argument"),
    ("", IS["stream"], "python-damaged-file"),
    ("ImportError", IS["required"], "required-version-differs"),
)
_SHORT = 200
_ALIASES = {"np": "numpy", "F": "torch", "nn": "torch", "dist": "torch"}
# Whose functions the matrix lists.
_LISTED = ("megatron-core", "mindspeed", "mcore-bridge")
# A rule's case, and words; the same with its kind.
_Case: TypeAlias = tuple[str, dict[str, str]]
_Seen: TypeAlias = tuple[str, str, dict[str, str]]


class Reading(NamedTuple):
    title: str
    cause: str
    fix: str
    raised: str


def classify(raised: Raised) -> str:
    name, message = raised.name, raised.message
    source = raised.frames[-1].source if raised.frames else ""
    words = (kind for of, says, kind in _BY_WORDS if of in {"", name} and says.search(message))
    kind, of_python = next(words, ""), _is_of_python(raised)
    unset = IS["unset"].search(message) or (name == "KeyError" and _reads_environment(raised))
    if _starts_anew(raised):
        return "python-unguarded-main"
    if IS["cuda"].search(message) or "assert torch.cuda.is_available()" in source:
        return "python-cuda"
    read = not kind and name in {"ValueError", "JSONDecodeError"} and _find_variable(raised)
    if unset or read:
        return "python-environment-variable"
    if kind and not of_python:
        return kind
    damaged = _is_of_bytecode(raised) or _lacks_own_library(raised)
    if damaged or (IS["damaged"].fullmatch(name) and find_file(raised)):
        return "python-damaged-file"
    refused = _classify_refusal(name, message) if IS["refusals"].fullmatch(name) else ""
    kind = refused or _classify_name(name) or _classify_import(message)
    if kind == OTHER and IS["broken"].search(message):
        reads = any(IS["reads"].search(frame.source) for frame in raised.frames)
        kind = "python-damaged-file" if reads else kind
    of_body = of_python or (IS["bodies"].fullmatch(kind) and ".so" not in message)
    return "python-import-failed" if of_body and raised.body else kind


def _classify_refusal(name: str, message: str) -> str:
    if "Command '" in message:
        return ""
    if IS["refused"].search(message):
        return "python-environment-variable"
    if IS["option"].search(first_line(message)):
        return "python-options"
    return "python-refused" if name != "AssertionError" and IS["objects"].search(message) else ""


def _classify_name(name: str) -> str:
    return next((kind for kind, names in _BY_NAME.items() if names.fullmatch(name)), "")


def _classify_import(message: str) -> str:
    if IS["name"].search(message):
        return "python-import-name"
    if any(IS[name].search(message) for name in ("module", "needs")) or "ed relative im" in message:
        return "python-missing-module"
    return (
        "python-attribute" if "module '" in message and IS["attribute"].search(message) else OTHER
    )


def _is_of_python(raised: Raised) -> bool:
    """Whether Python's own modules lack a name."""
    match = IS["name"].search(raised.message) or IS["attribute"].search(raised.message)
    module = match["module"] or "" if match and not match["partly"] else ""
    file = (match and match.groupdict().get("file")) or ""
    own = not file or IS["packages"].match(file) is not None
    has = match and hasattr(sys.modules.get(module), match["name"])
    return own and not has and module.partition(".")[0] in sys.stdlib_module_names


def _reads_environment(raised: Raised) -> bool:
    name = raised.message.strip("'\"")
    if not (raised.frames and name.isidentifier()):
        return IS["launch"].fullmatch(name) is not None
    last = raised.frames[-1]
    own = last.function == "__getitem__" and re.search(r"(?:^|[/ <])os(?:\.py|>)$", last.file)
    return bool(own) or "environ[" in last.source


def _starts_anew(raised: Raised) -> bool:
    """Whether the main module starts processes while a spawned one imports it again."""
    again = any(frame.function == "_fixup_main_from_path" for frame in raised.frames)
    within = again and "/multiprocessing/" in raised.frames[-1].file
    return within or raised.message.startswith("An attempt has been made to start a new process")


def _lacks_own_library(raised: Raised) -> bool:
    package = next((frame.package for frame in reversed(raised.frames) if frame.package), "")
    match = IS["library"].search(raised.message)
    there = ".so: cannot open" in raised.message and IS["site"].match(find_file(raised))
    return bool(there) or (match is not None and match["stem"] in package)


def _is_of_bytecode(raised: Raised) -> bool:
    return bool(raised.frames) and raised.frames[-1].function == "_compile_bytecode"


def _find_variable(raised: Raised) -> str:
    """The variable that the innermost line or its caller reads."""
    read = (IS["read"].search(frame.source) for frame in raised.own[:-3:-1])
    return next((match["name"] for match in read if match), "")


def find_file(raised: Raised) -> str:
    """The file that the message names, else the innermost source line."""
    if _is_of_bytecode(raised) and raised.own:
        return raised.own[-1].file.rpartition("/")[0] + "/__pycache__"
    for text in (raised.message.partition("\n")[0], raised.message):
        if raised.name != "UnicodeDecodeError" and (match := IS["named"].search(text)):
            return match["path"]
    texts = [raised.message, *(frame.source for frame in reversed(raised.frames)), raised.outer]
    return next((match["path"] for text in texts if (match := IS["path"].search(text))), "")


@dataclass
class Describer:
    """Says what an exception means; ``matrix`` has the sentences and packages.

    ``binary`` is what torchrun started, ``launcher`` its Python; ``machine`` has the packages.
    """

    matrix: Catalog
    binary: str = ""
    launcher: str = ""
    machine: Machine | None = None
    _sites: dict[str, Site] = field(default_factory=dict)

    def describe(self, raised: Raised) -> Reading:
        kind, call = classify(raised), first_line(self._user(raised).source)
        rule = {
            "python-syntax": self._reinstall, "python-damaged-file": self._reinstall,
            "python-missing-module": self._missing_module, "python-attribute": self._attribute,
            "python-import-name": self._import_name, "python-argument": self._argument,
            "python-environment-variable": self._variable,
            "python-import-failed": self._import_failed,
            "required-version-differs": self._version, "python-unguarded-main": self._name_start,
        }.get(kind, self._plain)  # fmt: skip
        words = {
            "type": raised.name, "message": first_line(raised.message),
            "where": self.where(raised), "python": self._python(raised),
            "importer": self._importer(raised),
            "source": first_line(raised.frames[-1].source) if raised.frames else "",
            "file": find_file(raised) or (f"the file of `{call}`" if call else "the file"),
        }  # fmt: skip
        variant, more = rule(raised)
        known = kind != OTHER
        if seen := next(self._look(raised, kind, words | more), None):
            kind, variant, more = seen
        words["newer"] = more.get("package", "")
        stack = self.matrix.files("components")
        if words["newer"].partition(".")[0] in sys.stdlib_module_names:
            words["newer"] = words["importer"]
        elif words["newer"].replace("_", "-") in stack:
            words["newer"] = words["importer"]
            variant += "-stack" if words["importer"].replace("_", "-") in {"", *stack} else ""
        where = f"{raised.name} is raised{words['where']}"
        stated = f"{where}, in `{call}`" if call else where
        if kind == OTHER:
            message = f": {words['message']}" if raised.message else ""
            then = f" The call is `{call}`." if call else ""
            then += f" It leads to {first_line(raised.outer)}." if raised.outer else ""
            if "::" in raised.type and not raised.frames:
                then += " PYTHONFAULTHANDLER=1 shows the line of Python."
            return Reading(where, f"{where}{message}.{then}", "", stated)
        variants = self.matrix.failures[kind].variants
        whole = variant.removesuffix("-stack")
        names = (variant, whole, whole.partition("-")[0], "usual")
        texts = next(variants[name] for name in names if name in variants)
        title, cause, fix = (text.format_map(words | more) for text in texts)
        cause += self._name_release(raised, kind, more) if known else f" {fix}"
        return Reading(title, cause, fix, stated)

    def _python(self, raised: Raised) -> str:
        return self.binary if raised.python == "python" and self.binary else raised.python

    def _site(self, raised: Raised) -> Site | None:
        """The packages beside the innermost frames, else of what torchrun started."""
        if self.machine is None:
            return None
        files = [frame.file for frame in (*raised.callers, *raised.frames) if frame.package]
        folder = files[-1].rpartition("-packages/")[0] if files else ""
        for library in () if folder else self._libraries(self.machine):
            folder = f"{library}/site"
        folder += "-packages"
        return self._sites.setdefault(folder, Site(self.machine, folder))

    def _libraries(self, machine: Machine) -> tuple[str, ...]:
        folder = self.binary.rpartition("/bin/")[0]
        return matches(machine, f"{folder}/lib", self.launcher or "python3*") if folder else ()

    def _look(self, raised: Raised, kind: str, words: Mapping[str, str]) -> Iterator[_Seen]:
        if IS["packaged"].fullmatch(kind):
            yield from _find_mixture(raised, self.launcher, self.package_of)
            if site := self._site(raised):
                yield from self._look_around(raised, kind, words, site)
                yield from self._look_within(raised, words, site)

    def _look_around(
        self, raised: Raised, kind: str, words: Mapping[str, str], site: Site
    ) -> Iterator[_Seen]:
        """A file or a copy in front of a package, a folder that is gone."""
        package, module = words.get("package", ""), words.get("module", "")
        folder = raised.frames[0].file.rpartition("/")[0] if raised.frames else ""
        root = module.partition(".")[0]
        known = root in sys.stdlib_module_names or site.find(package)
        file = site.find_module(folder, root) if root and folder else ""
        named = {"root": root, "module": module, "package": self.distribution(module)}
        if file.endswith(f"/{root}.py") and known:
            yield "python-missing-module", "hidden", named
        elif file and kind == "python-attribute" and not known:
            yield kind, "project", {**words, "file": file}
        last = raised.own[-1].file if raised.own and not raised.own[-1].package else ""
        for copy in site.find_copies(file, last) if IS["copied"].fullmatch(kind) else ():
            name = copy.rpartition("/")[2]
            yield "python-missing-module", "copy", {"folder": copy, "package": name}
        if kind == "python-missing-module":
            for gone, source in site.find_moved(root, package):
                yield kind, "moved", {**named, "package": gone, "folder": source}
            if "." in module and site.find_module(site.folder, module.replace(".", "/")):
                yield kind, "covered", named

    def _look_within(self, raised: Raised, words: Mapping[str, str], site: Site) -> Iterator[_Seen]:
        """Damage of a package, a requirement that is not met."""
        names = dict.fromkeys((words.get("package", ""), words["importer"], words.get("other", "")))
        owners = [each for each in map(site.find, filter(None, names)) if each]
        stated = filter(None, map(site.find, IS["stated"].findall(raised.message)))
        for each in (*owners, *stated):
            if file := site.find_damage(each):
                yield _describe_damage(file, each)
        # What the program's own function raised in a package is none of that package's callers.
        inner = takewhile(lambda frame: frame.package or frame.passes_on, reversed(raised.frames))
        involved = [site.find(self.package_of(frame)) for frame in inner if frame.package]
        for each in owners:
            for asked, other in site.find_unmet(each):
                if other in (*owners, *involved):
                    more = {"name": asked.name, "wanted": f"{asked.name}{asked.specifier}",
                            "owner": each.name, "version": other.version}  # fmt: skip
                    yield "required-version-differs", "declared", more

    def _name_release(self, raised: Raised, kind: str, words: Mapping[str, str]) -> str:
        """Which release of the owner is there, where this decides."""
        site = self._site(raised) if IS["released"].fullmatch(kind) else None
        owner = site and site.find(words.get("package") or words.get("owner", ""))
        return f" {owner.name} {owner.version} is installed." if owner else ""

    def describe_death(self) -> str:
        """A library that is cut short: the loader dies of it."""
        if site := self._site(Raised(type="", message="")):
            for each in site.python.distributions:
                if file := site.find_damage(each, ".so"):
                    kind, variant, words = _describe_damage(file, each)
                    title, _, fix = self.matrix.failures[kind].variants[variant]
                    return f"{title}. {fix}".format_map(words | {"python": self.binary})
        return ""

    def package_of(self, frame: TracebackFrame) -> str:
        """The distribution or framework of a frame; "": the user."""
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
        """The lines of the user and of a package."""
        if not raised.own:
            user = self._user(raised)
            return f" at {user.location}" if user.file else ""
        last = raised.own[-1]
        if package := self.package_of(last):
            return f" in {package} at {last.location}{self._user(raised).origin}"
        called = self._callee_package(last)
        return f" at {last.location}" + (f", in a call of {called}" if called else "")

    def _user(self, raised: Raised) -> TracebackFrame:
        """The user's innermost line, or one of no file."""
        around = (frame for frame in (*raised.callers, *raised.frames) if not frame.passes_on)
        user = [frame for frame in around if not self.package_of(frame)]
        return user[-1] if user else TracebackFrame(file="")

    def _callee_package(self, frame: TracebackFrame) -> str:
        """Of the compiled function that a line calls."""
        roots = re.findall(r"\b([A-Za-z]\w*)\.", frame.source)
        root = next((name for name in roots if IS["compiled"].fullmatch(name)), "")
        return self.distribution(_ALIASES.get(root, root))

    def _importer(self, raised: Raised) -> str:
        return self.package_of(raised.own[-1]) if raised.own else ""

    def _plain(self, raised: Raised) -> _Case:
        last = raised.frames[-1].location if raised.frames else ""
        match = IS["distribution"].search(raised.message)
        words = {"name": match["name"] if match else "", "at": f" at {last}" if last else ""}
        variant = "usual" if raised.message else "silent"
        if raised.frames and IS["starting"].fullmatch(raised.frames[-1].function):
            variant = "program" if re.fullmatch("[^/]+", find_file(raised)) else "usual"
        elif re.search(r"\b[Pp]lease\b", raised.message):
            variant = "advice"
        elif raised.frames and raised.frames[-1].source.startswith("assert"):
            variant = f"{variant}-condition"
        return variant, words

    def _reinstall(self, raised: Raised) -> _Case:
        variant, words = self._plain(raised)
        frames = [*raised.frames[-1:], TracebackFrame(file=find_file(raised))]
        library = IS["library"].search(raised.message)
        frame = frames[0 if library or _classify_name(raised.name) else -1]
        imported = IS["imported"].match(frame.source) if "null bytes" in raised.message else None
        other = imported[1].strip(".") if imported else ""
        package = self.distribution(other) if other else self.package_of(frame)
        return ("package" if frame.package else variant), words | {"package": package}

    def _missing_module(self, raised: Raised) -> _Case:
        match = IS["module"].search(raised.message)
        if match is None:
            needed = IS["needs"].search(raised.message)
            package = (needed["name"] or needed["lacking"]).rstrip(".") if needed else ""
            return ("usual" if needed else "relative"), {"module": package, "package": package}
        module, names = match["module"], self.matrix.import_names
        package = self.distribution(module)
        words = {"module": module, "package": package, "root": module.partition(".")[0]}
        if words["root"] in sys.stdlib_module_names:
            return "standard", words
        listed = module in names.distributions
        if not listed and (fix := _longest(names.trees, module)):
            return "tree", words | {"fix": fix}
        if "is not a package" in raised.message or "__path__" in raised.message:
            return "hidden", words
        # A module that a package imports by its name is of the caller.
        stated = raised.frames and IS["imported"].match(raised.frames[-1].source)
        looked = [row for row in raised.frames if not (row.is_standard or row.file[:1] == "<")]
        within = self.package_of(looked[-1]) if looked and looked[-1].passes_on else ""
        importer = self._importer(raised) if stated else within
        if "." in module and not listed:
            cut = importer == package and raised.frames[-1].package
            return ("cut" if cut else "between" if importer else "release"), words
        own = raised.frames and not importer and package == module
        return ("own" if own else "usual"), words

    def _import_name(self, raised: Raised) -> _Case:
        match = IS["name"].search(raised.message)
        if match is None:
            return "usual", {}
        package, importer = self.distribution(match["module"]), self._importer(raised)
        file = match["file"] or ""
        folder = file.removesuffix("/" + match["module"].replace(".", "/") + "/__init__.py")
        words = {**match.groupdict(""), "package": package, "folder": folder}
        variant = "usual" if importer else "own"
        source = TracebackFrame(file=file)
        if _is_of_python(raised):
            return "standard", words
        if file == "unknown location":
            variant = "namespace"
        # A file of the project may be between.
        elif importer == package and "" not in dropwhile(not_, map(self.package_of, raised.own)):
            variant = "mixed" if folder == file or source.package else "tree"
        elif match["partly"]:
            variant = "partly"
        elif match["module"].partition(".")[0] == importer:
            variant = "trees"
        elif file and not (source.passes_on or self.package_of(source)):
            variant = "project"
        return variant, words

    def _import_failed(self, raised: Raised) -> _Case:
        body = raised.body or raised.frames[-1]
        package, standard = self.package_of(body), raised.frames[-1].is_standard
        others = ("Python" if standard or _is_of_python(raised) else "", self._importer(raised),
                  self._callee_package(raised.frames[-1]))  # fmt: skip
        other = next((name for name in others if name not in {"", package}), "")
        words = {"package": package, "at": body.location, "user": self._user(raised).origin}
        return ("between" if other else "usual"), words | {"other": other}

    def _name_start(self, raised: Raised) -> _Case:
        return "usual", {"source": first_line(self._user(raised).source)}

    def _version(self, raised: Raised) -> _Case:
        if (match := IS["required"].search(raised.message)) is None or match["name"]:
            return "usual", match.groupdict() if match else {}
        spec = match["spec"] or f"{match['needed']}>={match['least']}"
        return "usual", {"name": re.split("[<>=!~]", spec)[0], "wanted": spec}

    def _variable(self, raised: Raised) -> _Case:
        unset, refused = IS["unset"].search(raised.message), IS["refused"].search(raised.message)
        name = "" if raised.name == "KeyError" else _find_variable(raised)
        name = refused["named"] or refused["name"] if refused else name
        if name and not unset:
            known = self.matrix.variables.find(name)
            more = f" ascend-doctor explain {name} shows its values." if known else ""
            return "value", {"name": name, "more": more}
        name = unset["name"] if unset else raised.message.strip("'\"")
        return ("launch" if IS["launch"].fullmatch(name) else "usual"), {"name": name}

    def _argument(self, raised: Raised) -> _Case:
        match = IS["argument"].search(raised.message)
        groups = match.groupdict("") if match else {}
        argument = groups.get("argument", "")
        called = re.sub(r"\.__\w+__$", "", groups.get("function", "") or groups.get("bound", ""))
        owner, releases = self._find_owner(called, argument)
        call = self._find_call(raised, argument)
        within = self.package_of(call)
        if not owner and not within:
            owner = self._importer(raised) or self._find_import(raised, called, call.source)
        root = IS["root"].match(call.source)
        if not owner and root and root[1] != "self":
            owner = self.distribution(_ALIASES.get(root[1], root[1]))
        words = {"owner": owner, "called": called or "the function", "releases": releases,
                 "source": first_line(call.source)}  # fmt: skip
        bare = "usual" if call.source else "bare"
        return ("package" if owner else "passed" if within else bare), words

    def _find_call(self, raised: Raised, argument: str) -> TracebackFrame:
        """The innermost line that names the argument, else that passes on none."""
        own = raised.own[::-1]
        named = [row for row in own if argument and re.search(rf"\b{argument}\b", row.source)]
        giving = [row for row in own if "**" not in row.source]
        return [*named, *giving, *own, TracebackFrame(file="")][0]

    def _find_import(self, raised: Raised, *texts: str) -> str:
        """The distribution from which the innermost file imports one of the names."""
        if raised.own and (site := self._site(raised)):
            for name in re.findall(r"(?<![\w.'\"])[A-Za-z_]\w*", " ".join(texts)):
                if module := site.find_import(raised.own[-1].file, name):
                    known, root = self.distribution(module), module.partition(".")[0]
                    return known if site.find(known) else site.find_owner(root)
        return ""

    def _find_owner(self, called: str, argument: str) -> tuple[str, str]:
        last = called.rpartition(".")[2]
        for component in _LISTED if last else ():
            for function in self.matrix.component(component).functions:
                if function.name.rpartition(".")[2] == last:
                    which = " and ".join(filter(None, function.releases_with(argument)))
                    return component, f" {component} {which} has {argument}." if which else ""
        return "", ""

    def _attribute(self, raised: Raised) -> _Case:
        match = IS["attribute"].search(raised.message)
        if match is None:
            return "module", {}
        words = match.groupdict("")
        if match["module"]:
            words["package"] = self.distribution(match["module"])
            between = "between" if self._importer(raised) else "module"
            root = match["module"].partition(".")[0]
            between = "hidden" if root in sys.stdlib_module_names else between
            return ("partly" if match["partly"] else between), words
        if match["owner"] == "NoneType":
            return "none", words
        within = [self.package_of(frame) for frame in raised.frames if not frame.is_standard]
        owner = match["owner"]
        dotted = self.distribution(owner) if "." in owner else ""
        words["package"] = (within and within[-1]) or dotted or self._find_import(raised, owner)
        return ("object" if words["package"] else "own"), words


def _longest(rows: Mapping[str, str], module: str) -> str:
    parts = module.split(".")
    names = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((rows[name] for name in names if name in rows), "")


def first_line(message: str) -> str:
    # A sentence may go on in the next row.
    text = next(
        filter(str.strip, re.sub(r"(?<=:)\n\s*|\n(?=[a-z])", " ", message).split("\n")), ""
    ).strip()
    return (text if len(text) <= _SHORT else f"{text[:_SHORT]}...").rstrip(".")


def _describe_damage(file: str, package: Distribution) -> _Seen:
    words = {"file": file, "package": f"{package.name}=={package.version}"}
    return "python-damaged-file", "package", words


def _find_mixture(
    raised: Raised, own: str, package_of: Callable[[TracebackFrame], str]
) -> Iterator[_Seen]:
    """A package for one Python in front of another one, ``own`` if no frame says more."""
    theirs, last = "", TracebackFrame(file="")
    for frame in (*raised.callers, *raised.frames):
        if match := IS["packages"].match(frame.file):
            theirs, last = (match["python"], frame) if frame.package else (theirs, last)
            own = (own if frame.package else "") or match["python"]
    if "." in theirs and "." in own and theirs != own:
        folder = last.file.partition("-packages/")[0] + "-packages"
        words = {"package": package_of(last), "theirs": theirs, "own": own, "folder": folder}
        yield "python-import-failed", "other-python", words
