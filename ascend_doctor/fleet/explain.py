"""The manual of what a merged report can say, for ``ascend-doctor explain``."""

from ascend_doctor.matrix.check_texts import read_texts

TOPICS = read_texts("merged-reports").checks
