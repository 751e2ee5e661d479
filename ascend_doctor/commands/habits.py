"""What people type out of habit, by what it is called here: commands, options, stray words."""

from pathlib import Path

from ascend_doctor.patterns import read_patterns

COMPLETION = "_ASCEND_DOCTOR_COMPLETE"  # of click
_TYPED = read_patterns(Path(__file__).with_suffix(".txt"))
HABITS = {word: meant for meant, (words,) in _TYPED.items() for word in words.split(", ")}
# These are taken as what they mean.
ALIASES = frozenset({"doctor", "version"})
