"""The words of a launch as its launcher, its program and the program's options."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import msgspec

TORCH_MODULES = {"torch.distributed.run", "torch.distributed.launch"}
_MODULE = {"-m", "--module"}
# What says where the ranks are; one node of a few ranks has its own.
_PLACES = {
    *("nnodes", "node-rank", "nproc-per-node", "master-addr", "master-port", "standalone"),
    *("rdzv-backend", "rdzv-endpoint", "rdzv-id", "rdzv-conf", "local-addr"),
}


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
        """Its value as a whole number; None where it has none."""
        text = self.arguments[0] if len(self.arguments) == 1 else ""
        return int(text) if text.isascii() and text.isdigit() else None

    def words(self) -> tuple[str, ...]:
        return (self.typed, *self.arguments) if self.typed else self.arguments


class LaunchWords(msgspec.Struct, frozen=True, kw_only=True):
    """``launcher`` is how torchrun is called after Python; ``program`` is what Python runs."""

    starts_ranks: bool = False
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
        """Ranks that the launcher starts on all nodes; None where it does not say."""
        numbers = {option.name: option.number for option in self.places}
        each = numbers.get("nproc-per-node")
        nodes = numbers.get("nnodes", 1)
        return each * nodes if each and nodes else None

    def on_one_node(self, ranks: int) -> LaunchWords:
        """The same, with so many ranks on this machine."""
        if not self.starts_ranks:
            return self
        others = tuple(option for option in self.places if option.name not in _PLACES)
        here = (Option("--standalone"), Option(f"--nproc-per-node={ranks}"))
        return msgspec.structs.replace(self, places=(*here, *others))


def split_launch(program: str, words: Sequence[str]) -> LaunchWords:
    """What a program, as torchrun or python, is started with."""
    rest = list(words)
    launcher: tuple[str, ...] = ()
    if program != "torchrun":
        if rest[:1] != ["-m"] or rest[1:2] == [] or rest[1] not in TORCH_MODULES:
            start = _program_start(rest) if program.startswith("python") else 0
            end = start + (2 if rest[start : start + 1] == ["-m"] else 1)
            return LaunchWords(program=tuple(rest[:end]), options=tuple(_options(rest[end:])))
        launcher, rest = tuple(rest[:2]), rest[2:]
    start = _program_start(rest)
    end = start + (2 if rest[start : start + 1] and rest[start] in _MODULE else 1)
    return LaunchWords(
        starts_ranks=True,
        launcher=launcher,
        places=tuple(_options(rest[:start])),
        program=tuple(rest[start:end]),
        options=tuple(_options(rest[end:])),
    )


def _program_start(words: Sequence[str]) -> int:
    for at, word in enumerate(words):
        if word in _MODULE or os.path.splitext(word)[1] == ".py":
            return at
    return len(words)


def _options(words: Sequence[str]) -> Iterator[Option]:
    """``--name=value`` is split; words before the first option are one without a name."""
    typed, values = "", list[str]()
    for word in words:
        # A negative number is a value, so that one dash begins no option.
        if not word.startswith("--"):
            values.append(word)
            continue
        if typed or values:
            yield Option(typed, tuple(values))
        typed, equals, value = word.partition("=")
        values = [value] if equals else []
    if typed or values:
        yield Option(typed, tuple(values))
