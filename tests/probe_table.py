"""Writes the table of probes in docs/probes.md: ``python -m tests.probe_table``."""

import re
from pathlib import Path

from ascend_doctor.probing.manifest import manifests

PAGE = Path(__file__).parent.parent / "docs/probes.md"
_TABLE = re.compile(r"(?<=\| probe \| level \| what it does \| on the CPU \|\n)(\|.*\n)+")


def with_table(page: str) -> str:
    rows = "".join(
        f"| `{probe}` | {manifest.level} | {manifest.does} | {manifest.on_cpu} |\n"
        for probe, manifest in manifests().items()
    )
    return _TABLE.sub(lambda _: "| --- | --- | --- | --- |\n" + rows, page, count=1)


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text("utf-8")), "utf-8")
