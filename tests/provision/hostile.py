"""Texts that a shell would do something with, were they not quoted."""

import os

from hypothesis import strategies as st

# Each leaves a file if a shell runs it.
TRAPS = (
    "$(>ran)",
    "`>ran`",
    ";>ran;",
    "\n>ran\n",
    "&&>ran",
    "|>ran",
    "(>ran)",
    "'\n>ran\n'",
    "'; >ran; '",
    '"; >ran; "',
    "\\'; >ran; '",
    "' && >ran\n}\n>ran\n{ '",
    "'\nend\n>ran\nbegin\n'",
    "$HOME",
    "${PATH}",
    "~",
    "~root",
    "*",
    "?[a-z]",
    "{a,b}",
    "!!",
    "!$",
    "#",
    "=ls",
    "%1",
    "-n",
    "--",
    "-e ",
    "\\",
    "\\n",
    "\\x41",
    "''",
    "'",
    '"',
    " ",
    "\t",
    "\r",
    "\x01",
    "\x1b[31m",
    "\x7f",
    "路径",
    "é",
    "e\u0301",
    "\u202e",
    "\u2028",
    "\ufeff",
    "\uf600",
    "\U0001f600",
    os.fsdecode(b"\xff"),
    os.fsdecode(b"\xe8\xb7"),
    os.fsdecode(b"\x80'"),
)
VALUES = st.lists(
    st.one_of(
        st.sampled_from(TRAPS),
        st.characters(min_codepoint=1, exclude_categories=["Cs"]),
        st.binary(min_size=1, max_size=3).filter(lambda data: 0 not in data).map(os.fsdecode),
        st.sampled_from(["/", "/opt", "a", ":"]),
    ),
    max_size=8,
).map(lambda parts: os.fsdecode(os.fsencode("".join(parts))))

_LONGEST = 200
# Folder names; a list of folders cannot hold a colon.
NAMES = VALUES.map(lambda text: text.replace("/", "|").replace(":", ";")).filter(
    lambda name: name not in {"", ".", ".."} and len(os.fsencode(name)) <= _LONGEST
)
