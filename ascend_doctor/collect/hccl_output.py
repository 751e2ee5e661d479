"""What hccl_test and ascend-dmi print, and what the error texts of CANN say.

Sources: the printf texts of hccl_test in CANN 8.1.RC1, the MindCluster ToolBox guide, and
hicann/hccl@09300b70:docs/zh/user_guide.
"""

from __future__ import annotations

import re

import msgspec

from ascend_doctor.collect.vendor_text import whole

_TEST_ROW = re.compile(
    r"(?:rank id ([0-9]{1,7}), check result failed, *)?"
    r"([0-9]{1,18}) *\| *([0-9.]{1,20}) *\| *([0-9.]{1,20}) *\| *(success|failed|NULL)"
)
_VERDICT = re.compile(r"(?:GENERAL_|IMPORTANT_|EMERGENCY_)?WARN|PASS|SKIP|FAIL")
_CODE = re.compile(r"(?<![A-Z0-9])(E[A-Z][0-9]{4})(?![0-9])")
_NUMBER = re.compile(r"error code is ([0-9]{6})(?![0-9])")
# What a text says, and the code that its document gives to it where the text has none.
_SAYINGS = tuple(
    (re.compile(pattern), code)
    for pattern, code in (
        (
            (
                r"Value (?P<value>\S+) for environment variable (?P<variable>\w+) is invalid\. "
                r"Expected value ?: (?P<wanted>[^\n]+)"
            ),
            "EE2002",
        ),
        (r"path (?P<path>\S+) is not a valid real path", "EI0004"),
        (
            (
                r"the IP address\((?P<in_table>[^()]+)\) in the ranktable is inconsistent with "
                r"the IP address\((?P<on_device>[^()]+)\)"
            ),
            "EI0014",
        ),
        (
            (
                r'for config "tls" is invalid[^\n]{0,500} enabled tls:\[(?P<enabled>[^\]]*)\]'
                r"[^\n]{0,9000} disabled tls:\[(?P<disabled>[^\]]*)\]"
            ),
            "EI0016",
        ),
        (r"valid device range is \[(?P<first>[0-9]+), (?P<end>[0-9]+)\)", "107001"),
        (r"ImportError: (?P<library>\S+): cannot open shared object file", None),
    )
)


class HcclTestRow(msgspec.Struct, frozen=True, kw_only=True):
    """One size of hccl_test. ``rank`` is the failing rank of its own line, None for the table.

    ``bytes`` is per rank for all_reduce and the total for all_gather and reduce_scatter; ``us``
    the mean time; ``gbytes_per_s`` the algorithm bandwidth in 10^9 bytes; ``ok`` None: unchecked.
    """

    bytes: int
    us: float
    gbytes_per_s: float
    ok: bool | None
    rank: int | None = None


def parse_hccl_test(text: str) -> tuple[HcclTestRow, ...]:
    """Rows in their order; lines of failing ranks come before the table."""
    rows = []
    for line in text.splitlines():
        match = _TEST_ROW.match(line.strip())
        if match is None:
            continue
        rank, size, time, bandwidth, verdict = match.groups()
        try:
            us, speed = float(time), float(bandwidth)
        except ValueError:
            continue
        rows.append(
            HcclTestRow(
                bytes=int(size),
                us=us,
                gbytes_per_s=speed,
                ok={"success": True, "failed": False}.get(verdict),
                rank=whole(rank),
            )
        )
    return tuple(rows)


def parse_diagnosis(text: str) -> dict[str, str]:
    """Verdict (PASS, SKIP, WARN ..., FAIL) of every item of ``ascend-dmi --dg``."""
    diagnosis: dict[str, str] = {}
    item = ""
    for line in text.splitlines():
        word = line.strip()
        if word.endswith(":"):
            item = word[:-1]
        elif item and _VERDICT.fullmatch(word):
            diagnosis[item] = word
    return diagnosis


class CannError(msgspec.Struct, frozen=True, kw_only=True):
    """``code`` as CANN names it (EI0001), else the number that the caller sees (107001).

    ``values`` are the parts of the text that differ from case to case, by their meaning.
    """

    code: str | None = None
    values: dict[str, str] = {}


def parse_cann_error(text: str) -> CannError:
    """Code and values of an error text. Where a text has both codes, the E code says more."""
    matches = [(match, code) for pattern, code in _SAYINGS if (match := pattern.search(text))]
    codes = [match.group(1) for pattern in (_CODE, _NUMBER) if (match := pattern.search(text))]
    codes += [code for _, code in matches if code]
    return CannError(
        code=codes[0] if codes else None,
        values={key: value for match, _ in matches for key, value in match.groupdict().items()},
    )
