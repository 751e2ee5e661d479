"""`ascend-doctor env` against `python -c "import click"`, in pairs.

    python benchmarks/env.py [--prefix DIR] [--pairs N] [--smoke]

Prints the median seconds of both and their ratio. Without --prefix it makes a prefix with the lock
of a stack of a hundred wheels, and a CANN toolkit for it.
"""

from __future__ import annotations

import argparse
import compileall
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import ascend_doctor
from ascend_doctor.provision import lock as locks


def seconds(argv: list[str], env: dict[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(argv, env=env, check=True, capture_output=True, timeout=300)
    return time.perf_counter() - start


def stack(prefix: Path) -> None:
    folder = prefix / "stacks" / "s"
    for name in ("src/megatron-lm/megatron/core", "src/mindspeed/mindspeed", "venv/bin"):
        (folder / name).mkdir(parents=True)
    lock = locks.Lock(
        tool_version="0",
        id="s",
        created_at="2026-11-21T00:00:00Z",
        wish={"megatron": "0.15.3"},
        python=locks.BasePython(version="3.11.2", tag="cp311", arch="x86_64"),
        checkouts=tuple(
            locks.Checkout(
                name=name, version="v", ref="v", commit="0" * 40, url=f"https://example.org/{name}"
            )
            for name in ("megatron-lm", "mindspeed")
        ),
        wheels=tuple(
            locks.Wheel(name=f"w{i}", version="1", file=f"w{i}-1-py3-none-any.whl", sha256="0" * 64)
            for i in range(100)
        ),
        pythonpath=("src/megatron-lm", "src/mindspeed"),
        system={"cann": "9.0.0"},
    )
    locks.write(folder / locks.FILE, lock)
    locks.Prefix(prefix).switch("s")


def toolkit(root: Path) -> None:
    for name in ("runtime", "lib64/plugin/opskernel", "python/site-packages", "bin", "devlib"):
        (root / name).mkdir(parents=True)
    (root / "set_env.sh").write_text("")
    info = root / f"{os.uname().machine}-linux"
    info.mkdir()
    (info / "ascend_toolkit_install.info").write_text("version=9.0.0\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prefix")
    parser.add_argument("--pairs", type=int, default=25)
    parser.add_argument("--smoke", action="store_true", help="the smallest run")
    options = parser.parse_args()
    # An installed package is compiled by pip; a checkout is compiled here.
    compileall.compile_dir(str(Path(ascend_doctor.__file__).parent), quiet=1)
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ)
        if not options.prefix:
            stack(Path(folder))
            toolkit(Path(folder) / "cann")
            env["ASCEND_HOME_PATH"] = f"{folder}/cann"
        doctor = str(Path(sys.executable).with_name("ascend-doctor"))
        ours = [doctor, "env", "--prefix", options.prefix or folder]
        theirs = [sys.executable, "-c", "import click"]
        count = 1 if options.smoke else options.pairs
        seconds(ours, env), seconds(theirs, env)  # both from files that the kernel has read
        pairs = [(seconds(ours, env), seconds(theirs, env)) for _ in range(count)]
    mine, other = zip(*pairs, strict=True)
    print(f"env                      {statistics.median(mine):.3f} s")
    print(f"import click             {statistics.median(other):.3f} s")
    print(f"ratio of the medians     {statistics.median(mine) / statistics.median(other):.2f}")


if __name__ == "__main__":
    main()
