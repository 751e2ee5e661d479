"""The file of `--mm-model`, where MindSpeed-MM has the sizes of its models."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise

from ascend_doctor.facts import UNTOLD
from ascend_doctor.findings import Place
from ascend_doctor.linting.documents import leaves
from ascend_doctor.linting.sourcing import find_above, read_source

MODEL_FILE = re.compile(r"--mm-model(?:=|$)")
# What is judged; the rest of such a file are paths and choices.
_SIZES = re.compile(
    r"model_id|num_layers|num_attention_heads|num_heads|num_query_groups|hidden_size|num_experts|"
    r"num_moe_experts|pipeline_num_layers"
)
_MOST_VALUE = 60


def read_model_file(words: Sequence[str], script: str) -> dict[str, tuple[str, Place]]:
    """The sizes of the file that `--mm-model` names; none where it cannot be read.

    Their keys are those of the file: mm_model/text_decoder/num_layers.
    """
    name = ""
    for word, following in pairwise((*words, "")):
        if MODEL_FILE.match(word):
            name = word.partition("=")[2] or following
    file = find_above(script, name.strip("\"'")) if name and UNTOLD not in name else ""
    source = read_source(file) if file else None
    if source is None:
        return {}
    # JSON is YAML, but for tabs.
    documents = leaves(source.content.decode("utf-8", "replace").replace("\t", " ")) or ()
    # In YAML the model is one of several parts (mindspeed_mm/configs/config.py).
    inner = 0 if file.endswith(".json") else 1
    return {
        "/".join(("mm_model", *leaf.path[inner:])): (
            leaf.text[:_MOST_VALUE],
            Place(file=file, line=leaf.line, column=leaf.column),
        )
        for document in documents
        for leaf in document
        if any(_SIZES.fullmatch(key) for key in leaf.path)
    }
