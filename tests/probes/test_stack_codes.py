import re
from pathlib import Path

from ascend_doctor.checks import all_checks

TEXT = (Path(__file__).parent.parent.parent / "docs" / "probes.md").read_text("utf-8")
CODES = TEXT.partition("## Codes")[2]
SPECIFIED = {
    "S": "ORIGIN TRAINING PAIR ARGV SIG PEFT GDN FLA VERLACTOR REGISTRY SCHED PORT "
    "TORCHPAIR MOEPLAN",
    "R": "ORDER ARGS FIRSTPATCH REPATCH AUTOLOAD SINGLEPG BOUND SOFTMAX BOOL ETP "
    "GDNMASK TYPESTR USEFLASH CPRING",
    "D": "DEVICE ALLREDUCE GROUPS OBJ TIEDNONE EXPERTLORA LORASP",
    "W": "BENIGN",
    "V": "STATELESS",
    "F": "NVSHMEM DUP LOGPROB INPLACE SPGATHER GATHERMASK FP8",
    "T": "METRIC CKPT SMOKE DOCS",
}
WANTED = [f"{kind}-{name}" for kind, names in SPECIFIED.items() for name in names.split()]


def test_every_code_has_a_row() -> None:
    rows = re.findall(r"^\| ([A-Z]-[A-Z0-9, -]+) \|", CODES, re.MULTILINE)
    assert sorted(", ".join(rows).split(", ")) == sorted(WANTED)


def test_every_check_in_the_table_exists_at_its_level() -> None:
    checks = {check.id: check.level for check in all_checks()}
    for row in re.findall(r"^\| [A-Z]-.*$", CODES, re.MULTILINE):
        _, _, named, levels, _ = (cell.strip() for cell in row.split("|"))
        if not levels:
            assert named.startswith("no probe"), row
        parts = named.split(";")
        for part, level in zip(parts, levels.split(";"), strict=False):
            for identity in re.findall(r"`([a-z0-9-]+)`", part if levels else ""):
                assert checks[identity] == int(level), identity
