"""The words of a launch as its launcher, its program and the program's options."""

import os
from collections.abc import Iterable, Iterator, Sequence

import msgspec

TORCH_MODULES = {"torch.distributed.run", "torch.distributed.launch"}
_ACCELERATE = "accelerate.commands.launch"
_MODULE = {"-m", "--module"}
_FLAGS = {"-u", "-B", "-I", "-s", "-E", "-O"}
_PLACES = {
    *("nnodes", "node-rank", "nproc-per-node", "master-addr", "master-port", "standalone"),
    *("rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "local-addr"),
}
# The same of accelerate, whose configuration may differ. Port 0 is a free one.
_HERE = {
    "num-machines": "1", "machine-rank": "0", "main-process-ip": "127.0.0.1",
    "main-process-port": "0", "gpu-ids": "all",
}  # fmt: skip


class Option(msgspec.Struct, frozen=True):
    """An option as it was typed, with all words up to the next one."""

    typed: str
    arguments: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Without dashes before it, and with dashes in it."""
        return self.typed.lstrip("-").replace("_", "-")

    @property
    def number(self) -> int | None:
        text = self.arguments[0] if len(self.arguments) == 1 else ""
        return int(text) if text.isascii() and text.isdigit() else None

    def words(self) -> tuple[str, ...]:
        return (self.typed, *self.arguments) if self.typed else self.arguments


def replace_options(
    options: Sequence[Option], words: Sequence[str], without: Iterable[str]
) -> tuple[Option, ...]:
    """The options with those in ``words`` for the ones of the same names, ``without`` others."""
    new = tuple(_options(words))
    gone = {*without, *(option.name for option in new)}
    return (*(option for option in options if option.name not in gone), *new)


def add_missing(options: Sequence[Option], added: Iterable[Option]) -> list[Option]:
    names = {option.name for option in options}
    return [*options, *(option for option in added if option.name not in names)]


class LaunchWords(msgspec.Struct, frozen=True, kw_only=True):
    """``launcher`` is torchrun's command after Python; ``program`` is what Python runs.

    ``accelerate``: accelerate starts the ranks, and ``places`` are its own options.
    """

    starts_ranks: bool = False
    accelerate: bool = False
    launcher: tuple[str, ...] = ()
    places: tuple[Option, ...] = ()
    program: tuple[str, ...] = ()
    options: tuple[Option, ...] = ()

    def words(self) -> list[str]:
        options = (word for option in self.options for word in option.words())
        places = (word for option in self.places for word in option.words())
        return [*self.launcher, *places, *self.program, *options]

    @property
    def ranks(self) -> int | None:
        """Ranks that the launcher starts on all nodes; None if it does not say."""
        numbers = {option.name: option.number for option in self.places}
        if self.accelerate:
            return numbers.get("num-processes")
        each = numbers.get("nproc-per-node")
        nodes = numbers.get("nnodes", 1)
        return each * nodes if each and nodes else None

    def on_one_node(self, ranks: int) -> "LaunchWords":
        if not self.starts_ranks:
            return self
        if self.accelerate:
            return msgspec.structs.replace(self, places=self._on_this_machine(ranks))
        others = tuple(option for option in self.places if option.name not in _PLACES)
        here = (Option("--standalone"), Option(f"--nproc-per-node={ranks}"))
        return msgspec.structs.replace(self, places=(*here, *others))

    def _on_this_machine(self, ranks: int) -> tuple[Option, ...]:
        values = {**_HERE, "num-processes": str(ranks)}
        others = [option for option in self.places if not option.name.startswith("rdzv")]
        here = [
            Option(option.typed, (values[option.name],)) if option.name in values else option
            for option in others
        ]
        counted = any(option.name == "num-processes" for option in here)
        return tuple(here if counted else [*here, Option("--num_processes", (str(ranks),))])


def split_launch(program: str, words: Sequence[str]) -> LaunchWords:
    rest = list(words)
    launcher = _launcher_end(program, rest)
    if launcher is None:
        start = _program_start(rest) if program.startswith("python") else 0
        end = start + (2 if rest[start : start + 1] == ["-m"] else 1)
        return LaunchWords(program=tuple(rest[:end]), options=tuple(_options(rest[end:])))
    accelerate = program.startswith("accelerate") or _ACCELERATE in rest[:launcher]
    before, rest = tuple(rest[:launcher]), rest[launcher:]
    start = _program_start(rest)
    end = start + (2 if rest[start : start + 1] and rest[start] in _MODULE else 1)
    return LaunchWords(
        starts_ranks=True,
        accelerate=accelerate,
        launcher=before,
        places=tuple(_options(rest[:start])),
        program=tuple(rest[start:end]),
        options=tuple(_options(rest[end:])),
    )


def _launcher_end(program: str, words: Sequence[str]) -> int | None:
    if program in {"torchrun", "accelerate-launch"}:
        return 0
    if program == "accelerate":
        return 1 if words[:1] == ["launch"] else None
    # As -u, which some scripts give Python itself.
    flags = next((at for at, word in enumerate(words) if word not in _FLAGS), len(words))
    if list(words[flags : flags + 1]) != ["-m"]:
        return None
    module = "".join(words[flags + 1 : flags + 2])
    return flags + 2 if module in {*TORCH_MODULES, _ACCELERATE} else None


def _program_start(words: Sequence[str]) -> int:
    for at, word in enumerate(words):
        if word in _MODULE or os.path.splitext(word)[1] == ".py":
            return at
    return len(words)


def _options(words: Sequence[str]) -> Iterator[Option]:
    typed, values = "", list[str]()
    for word in words:
        # A negative number is a value, so one dash begins no option.
        if not word.startswith("--"):
            values.append(word)
            continue
        if typed or values:
            yield Option(typed, tuple(values))
        typed, equals, value = word.partition("=")
        values = [value] if equals else []
    if typed or values:
        yield Option(typed, tuple(values))
