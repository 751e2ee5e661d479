"""Coverage-guided fuzzing of whatever reads a text that others wrote.

    pip install . atheris && python -m tests.fuzz -max_total_time=300

The first byte of an input chooses the reader. Arguments are those of libFuzzer. Any exception but a
DoctorError ends it with the input that caused it; so does a reader that takes ten seconds.
"""

import contextlib
import importlib
import inspect
import pkgutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import atheris

from tests import samples

with atheris.instrument_imports(include=["ascend_doctor"]):
    from ascend_doctor import collect, fleet, judging, provision
    from ascend_doctor.errors import DoctorError
    from ascend_doctor.machine import parsing
    from ascend_doctor.redact import Redactor

    MODULES = [
        importlib.import_module(module.name)
        for package in (collect, fleet, judging, provision)
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
        if module.name != "ascend_doctor.fleet.ray_driver"  # is a program, and imports Ray
    ]

Reader = Callable[[str], object]


def readers() -> Iterator[Reader]:
    for module in MODULES:
        for name, function in sorted(inspect.getmembers(module, inspect.isfunction)):
            if name.startswith("parse_") and function.__module__ == module.__name__:
                expected = inspect.signature(function).parameters.values()
                if [str(parameter.annotation) for parameter in expected] == ["str"]:
                    yield function
    yield lambda text: parsing.yaml_of(text, "x")
    yield lambda text: parsing.json_of(text, "x")
    yield Redactor(host="node-7", logins=["chen"], key=b"k" * 16).text


READERS = tuple(readers())


def read(data: bytes) -> None:
    if data:
        with contextlib.suppress(DoctorError):
            READERS[data[0] % len(READERS)](data[1:].decode("utf-8", "replace"))


def main() -> None:
    print(f"{len(READERS)} readers", file=sys.stderr)  # noqa: T201
    with tempfile.TemporaryDirectory() as folder:
        texts = [text for text in map(samples.read, samples.names()) if len(text) < 4096]
        for number, text in enumerate(texts):
            for reader in range(len(READERS)):
                file = Path(folder) / f"{number}-{reader}"
                file.write_bytes(bytes([reader]) + text.encode())
        atheris.Setup([sys.argv[0], "-timeout=10", "-max_len=4096", *sys.argv[1:], folder], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
