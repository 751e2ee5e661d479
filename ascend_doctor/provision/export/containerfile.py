"""A lock as a Containerfile on an image of CANN, beside its requirements.txt."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ascend_doctor.errors import DataError
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.images import BaseImage, System
from ascend_doctor.provision.lock import Checkout, Lock
from ascend_doctor.provision.solution_plan import indexes_of

_ROOT = "/opt/stack"
# What a distribution has of a compiler changes with its updates, and nobody needs an old one.
_INSTALL = {
    "openeuler": (
        "# hadolint ignore=DL3033",
        "RUN yum install -y {} && yum clean all && rm -rf /var/cache/yum/*",
    ),
    "ubuntu": (
        "# hadolint ignore=DL3008",
        (
            "RUN apt-get update && apt-get install -y --no-install-recommends {} \\\n"
            " && rm -rf /var/lib/apt/lists/*"
        ),
    ),
}


def render_containerfile(lock: Lock, catalog: Catalog, *, system: System, family: str) -> str:
    """Raises DataError where no document names an image for the lock's CANN, Python and chip."""
    image = _image(lock, catalog, system, family)
    return "\n".join(_lines(lock, catalog, image)) + "\n"


def _image(lock: Lock, catalog: Catalog, system: System, family: str) -> BaseImage:
    python = ".".join(lock.python.version.split(".")[:2])
    cann = lock.system.get("cann", "")
    image = catalog.images.of(system, cann=cann, python=python, family=family)
    if image is None:
        near = "; ".join(catalog.images.near(system, family)) or "none"
        raise DataError(
            f"no document names an {system} image with CANN {cann} and Python {python} for "
            f"{family}; there are: {near}"
        )
    return image


def _lines(lock: Lock, catalog: Catalog, image: BaseImage) -> Iterator[str]:
    ignore, install = _INSTALL[image.os]
    yield f"# The stack {lock.id}, written by ascend-doctor stack export."
    yield f"# Base: {image.sources[0].url}, read on {image.sources[0].date}."
    yield "# requirements.txt is the same lock's: ascend-doctor stack export --format requirements"
    yield f"FROM {image.name}"
    yield 'SHELL ["/bin/bash", "-o", "pipefail", "-c"]'
    yield f'RUN test "$(uname -m)" = {shlex.quote(lock.python.arch)}'
    yield ignore
    yield install.format(" ".join(catalog.images.packages[image.os]))
    yield f"WORKDIR {_ROOT}"
    yield "COPY requirements.txt ./"
    unlisted = [wheel.file for wheel in lock.wheels if not wheel.is_listed]
    for name in unlisted:
        yield "# Of the folder that requirements.txt names with --find-links."
        yield f"COPY {shlex.quote(name)} ./"
    yield (
        "RUN python3 -m pip install --no-cache-dir --no-deps --require-hashes "
        f"{'--find-links . ' if unlisted else ''}{_indexes(lock, catalog)}-r requirements.txt"
    )
    for checkout in lock.checkouts:
        yield _fetch(checkout)
    if paths := [part.path for part in lock.checkouts if part.editable or part.provides]:
        editable = " ".join(f"-e {shlex.quote(path)}" for path in paths)
        options = "--no-cache-dir --no-deps --no-build-isolation"
        yield f"RUN python3 -m pip install {options} {editable}"
    if lock.pythonpath:
        search = ":".join(f"{_ROOT}/{path}" for path in lock.pythonpath)
        yield f"ENV PYTHONPATH={_value(search)}"
    for setting in lock.settings:
        yield f"ENV {setting.name}={_value(setting.value)}"
    yield 'CMD ["/bin/bash"]'


def _indexes(lock: Lock, catalog: Catalog) -> str:
    """Those that documents name for versions of the lock."""
    parts = (catalog.component(name) for name in lock.rows if name in catalog.component_ids)
    urls = dict.fromkeys(
        url for part in parts if part.obtain.kind == "pip" for url in indexes_of(part, lock)
    )
    return "".join(f"--extra-index-url {shlex.quote(url)} " for url in urls)


def _fetch(checkout: Checkout) -> str:
    """One commit without history, compared with the hash of its files."""
    path, url = shlex.quote(checkout.path), shlex.quote(checkout.url)
    steps = [
        f"git init -q {path}",
        f"git -C {path} fetch -q --depth 1 {url} {checkout.commit}",
        f"git -C {path} checkout -q --detach FETCH_HEAD",
    ]
    if checkout.tree:
        head = f'"$(git -C {path} rev-parse "HEAD^{{tree}}")"'
        steps.append(f"test {head} = {checkout.tree}")
    return "RUN " + " \\\n && ".join(steps)


def _value(text: str) -> str:
    """A value as ENV takes it, with nothing to expand. Raises DataError for more than a line."""
    if not text.isprintable():
        raise DataError(f"the value {text!r} of a variable fits no Containerfile")
    marks = str.maketrans({mark: f"\\{mark}" for mark in '\\"$'})
    return f'"{text.translate(marks)}"'
