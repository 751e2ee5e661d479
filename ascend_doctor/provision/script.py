"""A plan as a shell script that a human can read and run, without this program."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from ascend_doctor.provision.lock import Checkout
from ascend_doctor.provision.plan import Plan

_HEAD = """#!/bin/sh
# {title}
# Written by ascend-doctor setup --dry-run --script. It keeps no lock, repairs nothing and shares
# nothing with other stacks; ascend-doctor setup does.
set -eu
STACK=${{1:-{stack}}}
mkdir -p "$STACK/src"
"""
_CHECKOUT = """
# {title}
git init -q "$STACK/{path}"
git -C "$STACK/{path}" fetch -q --depth 1 {url} {what}
git -C "$STACK/{path}" -c advice.detachedHead=false checkout -q --detach FETCH_HEAD
"""
_VENV = """
# The environment
{python} -m venv "$STACK/venv"
pip() {{ "$STACK/venv/bin/python" -m pip "$@"; }}
SITE=$("$STACK/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cat > "$STACK/constraints.txt" <<'END'
{constraints}
END
"""
_PROVIDED = """
# {name} comes with {checkout}: pip must not bring a second one
mkdir "$SITE/{stem}-{version}.dist-info"
printf 'Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n' \\
  > "$SITE/{stem}-{version}.dist-info/METADATA"
printf '%s\\n' "$STACK/{path}" > "$SITE/{stem}.pth"
"""
_NEEDS = """for file in requirements-npu.txt requirements.txt; do
  [ -f "$STACK/{path}/$file" ] && set -- "$@" -r "$STACK/{path}/$file" && break
done
[ -f "$STACK/{path}/pyproject.toml" ] || set -- "$@" 'setuptools>=64' wheel
"""
_INSTALL = """pip install -q -c "$STACK/constraints.txt" "$@"
"""
_EDITABLE = """pip install -q --no-index --no-deps --no-build-isolation -e "$STACK/{path}"
"""


def script(plan: Plan, stack: Path, urls: dict[str, str]) -> str:
    """The script for a plan into the folder ``stack``; ``urls`` by component."""
    return "".join(_parts(plan, stack, urls))


def _parts(plan: Plan, stack: Path, urls: dict[str, str]) -> Iterator[str]:
    title = " ".join(f"{name} {value}" for name, value in plan.wish.items())
    yield _HEAD.format(title=title.replace("\n", " "), stack=shlex.quote(str(stack)))
    yield "".join(f"# {one}\n" for one in plan.missing)
    for one in plan.checkouts:
        yield _CHECKOUT.format(
            title=f"{one.name} {one.ref}",
            path=one.path,
            url=shlex.quote(urls[one.name]),
            what=one.commit or shlex.quote(one.ref),
        )
    yield _VENV.format(
        python=shlex.quote(plan.base.executable), constraints="\n".join(plan.constraints)
    )
    yield from _provided(plan.checkouts)
    editable = [one for one in plan.checkouts if one.editable]
    wanted = " ".join(shlex.quote(one) for one in plan.requirements)
    yield f"\nset -- {wanted}\n"
    yield from (_NEEDS.format(path=one.path) for one in editable)
    yield _INSTALL
    yield from (_EDITABLE.format(path=one.path) for one in editable)
    yield from _told(plan)


def _provided(checkouts: tuple[Checkout, ...]) -> Iterator[str]:
    for one in checkouts:
        for name, version in one.provides.items():
            yield _PROVIDED.format(
                name=name,
                version=version,
                stem=name.replace("-", "_"),
                checkout=one.name,
                path=one.path,
            )


def _told(plan: Plan) -> Iterator[str]:
    yield "\n# What a shell needs to use it\ncat <<END\n"
    path = ":".join(f"$STACK/{one}" for one in plan.pythonpath)
    if path:
        yield f'export PYTHONPATH="{path}\\${{PYTHONPATH:+:\\$PYTHONPATH}}"\n'
    for one in plan.settings:
        value = f'"$STACK/{one.value}"' if one.path else shlex.quote(one.value)
        yield f"export {one.name}={value}\n"
    yield '. "$STACK/venv/bin/activate"\nEND\n'
