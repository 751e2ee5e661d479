"""The sizes of a model, from a row of the matrix or from a Hugging Face config.json."""

import functools
import re
from pathlib import Path
from typing import Any

from ascend_doctor.errors import DataError
from ascend_doctor.machine.parsing import read_json
from ascend_doctor.matrix.catalog import Catalog
from ascend_doctor.matrix.loading import load
from ascend_doctor.matrix.schema import Row, Source

# A config.json has some KiB; weights named by mistake must not be read.
_CONFIG_BYTES = 16 << 20
# Layouts are tried for each divisor of these.
_MOST = {
    "num_hidden_layers": 10_000,
    "num_attention_heads": 100_000,
    "num_key_value_heads": 100_000,
    "n_routed_experts": 100_000,
    "num_routed_experts": 100_000,
    "num_experts": 100_000,
    "num_local_experts": 100_000,
}
# How many similar names are looked at, and shown: those with most words in common.
_MOST_LIKE, _MOST_NEAR = 12, 3
# Endings of converted and quantised weights, whose sizes are the model's (Ascend/MindSpeed-LLM:
# qwen3_hf, qwen3_mcore; THUDM/slime: Qwen3-4B_torch_dist, Qwen3-4B-FP8; modelscope/ms-swift:
# Qwen2.5-7B-Instruct-AWQ, Qwen2.5-VL-72B-Instruct-GPTQ-Int4).
_COPY = r"-(?:hf|mcore|megatron|torch-dist|bf16|fp16|fp8|mxfp[48]|w8a8|awq|gptq|int[48])$"


class Latent(Row, frozen=True, kw_only=True):
    """Multi-latent attention (DeepSeek): ranks and sizes of a head in elements."""

    kv_rank: int
    q_rank: int = 0
    nope_dim: int
    rope_dim: int
    value_dim: int


class Delta(Row, frozen=True, kw_only=True):
    """Gated delta nets in all layers but every ``interval``-th; sizes of a head in elements.

    ``whole``: on every rank of TP.
    """

    interval: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int
    whole: bool = False


class Model(Row, frozen=True, kw_only=True):
    """``matrices/models/<id>.yaml``. Sizes are elements; ``names`` are those of model hubs.

    ``experts`` 0 is a dense model; ``dense_layers`` first layers have no experts.
    ``gated_attention`` doubles the query projection, ``tied`` shares the two embeddings.
    """

    schema: int
    id: str
    title: str
    names: tuple[str, ...] = ()
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    vocabulary: int
    tied: bool = False
    qk_norm: bool = False
    gated_attention: bool = False
    experts: int = 0
    top_k: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    shared_gate: bool = False
    dense_layers: int = 0
    latent: Latent | None = None
    delta: Delta | None = None
    note: str = ""
    sources: tuple[Source, ...] = ()

    def has_experts(self, layer: int) -> bool:
        """Whether the layer (from 0) has experts."""
        return bool(self.experts) and layer >= self.dense_layers

    def is_delta(self, layer: int) -> bool:
        """Whether the layer (from 0) is a gated delta net."""
        return self.delta is not None and (layer + 1) % self.delta.interval != 0


def find(catalog: Catalog, name: str) -> Model:
    """A row by id or hub name, or as the last part of a path, or a config.json.

    Raises DataError if neither is there, or if the file lacks a size.
    """
    if Path(name).is_file():
        return _read(Path(name))
    named = find_named(catalog, name)
    if named is not None:
        return named
    near = find_near(catalog, name)
    hint = f"did you mean {', '.join(near)}?" if near else "give its config.json instead"
    raise DataError(f"no model is called {name}, and it is no file; {hint}")


def find_named(catalog: Catalog, name: str) -> Model | None:
    """The row with this name, of a hub or as the last part of a path; else None.

    Case and `_` or `.` for `-` do not matter, nor do endings of converted and quantised weights if
    only one row fits. A folder with a config.json is read. Raises DataError if that lacks a size.
    """
    path = Path(name)
    if (path / "config.json").is_file():
        return _read(path / "config.json")
    rows = _rows_by_name(catalog)
    return rows.get(_spell(name)) or rows.get(_strip_copy(name))


def find_near(catalog: Catalog, name: str) -> tuple[str, ...]:
    """Known names that an unknown one may mean, nearest first."""
    import difflib

    known = names_by_spelling(catalog)
    plain = _plain(name)
    begun = sorted(each for each in known if each.startswith(plain))
    # Of Qwen3-8B and Qwen3-8B-Base the first.
    if short := [each for each in begun if not any(map(each.startswith, {*begun} - {each}))]:
        return tuple(known[each] for each in short[:_MOST_LIKE])
    near = difflib.get_close_matches(plain, known, n=_MOST_LIKE)
    near.sort(key=lambda each: len({*plain.split("-")} ^ {*each.split("-")}))
    return tuple(known[each] for each in near[:_MOST_NEAR])


def names_by_spelling(catalog: Catalog) -> dict[str, str]:
    return {_plain(each): _last(each) for row in every(catalog) for each in (row.id, *row.names)}


@functools.lru_cache(maxsize=4)
def _rows_by_name(catalog: Catalog) -> dict[str, Model]:
    rows = every(catalog)
    whole = {_spell(known): row for row in reversed(rows) for known in (row.id, *row.names)}
    bare: dict[str, set[str]] = {}
    for known, row in whole.items():
        bare.setdefault(_strip_copy(known), set()).add(row.id)
    alone = {known: ids.pop() for known, ids in bare.items() if len(ids) == 1}
    by_id = {row.id: row for row in rows}
    return {known: by_id[row_id] for known, row_id in alone.items()} | whole


def _last(name: str) -> str:
    return name.rstrip("/").rpartition("/")[2]


def _plain(name: str) -> str:
    return _last(name).lower().replace("_", "-")


def _spell(name: str) -> str:
    return _plain(name).replace(".", "-")


def _strip_copy(name: str) -> str:
    spelt, before = _spell(name), ""
    # Endings may follow each other, as in Qwen3-4B-bf16-hf.
    while spelt != before:
        before, spelt = spelt, re.sub(_COPY, "", spelt)
    return spelt


def sizes_of(model: Model) -> dict[str, int]:
    """What splits a model: layers, heads, experts, and gated delta nets' heads."""
    sizes = {
        "layers": model.layers,
        "heads": model.heads,
        "kv_heads": model.heads if model.latent is not None else model.kv_heads,
        "experts": model.experts,
        "expert_ffn": model.expert_ffn,
    }
    if model.delta is not None:
        sizes |= {"key_heads": model.delta.key_heads, "value_heads": model.delta.value_heads}
    return sizes


def every(catalog: Catalog) -> tuple[Model, ...]:
    return tuple(load(paths[-1], Model) for paths in catalog.files("models").values())


def _read(path: Path) -> Model:
    json = read_json(path, limit=_CONFIG_BYTES)
    try:
        return from_config(json, title=str(path))
    except DataError as error:
        raise DataError(f"{path}: {error}") from error


def from_config(config: Any, *, title: str) -> Model:
    """The sizes in a Hugging Face configuration. Raises DataError that names a missing one."""
    if not isinstance(config, dict):
        raise DataError("this is no model configuration")
    outer = config
    # Models that see or hear keep their language model's sizes there.
    config = config.get("text_config", config)
    if not isinstance(config, dict):
        raise DataError("text_config is no object")
    for name, most in _MOST.items():
        if isinstance(number := config.get(name), int) and number > most:
            raise DataError(f"{name} is {number}; no model has more than {most}")
    size = _Sizes(config)
    heads, hidden = size.need("num_attention_heads"), size.need("hidden_size")
    kind = str(config.get("model_type", ""))
    experts = size.first("n_routed_experts", "num_routed_experts", "num_experts") or size.first(
        "num_local_experts"
    )
    expert_ffn = size.first("moe_intermediate_size") or size.first("intermediate_size")
    shared = size.first("shared_expert_intermediate_size") or (
        size.first("n_shared_experts", "num_shared_experts") * expert_ffn
    )
    return Model(
        schema=1,
        id="config",
        title=title,
        layers=size.need("num_hidden_layers"),
        hidden=hidden,
        heads=heads,
        kv_heads=size.first("num_key_value_heads") or heads,
        head_dim=size.first("head_dim", "v_head_dim") or hidden // heads,
        ffn=size.first("intermediate_size") or expert_ffn,
        vocabulary=size.need("vocab_size"),
        tied=bool(outer.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
        qk_norm=kind.startswith("qwen3"),
        gated_attention=bool(config.get("attn_output_gate")) or kind == "qwen3_next",
        experts=experts,
        top_k=size.need("num_experts_per_tok") if experts else 0,
        expert_ffn=expert_ffn if experts else 0,
        shared_ffn=shared if experts else 0,
        shared_gate=bool(experts and size.first("shared_expert_intermediate_size")),
        dense_layers=size.first("first_k_dense_replace") if experts else 0,
        latent=_latent(size),
        delta=_delta(size),
    )


class _Sizes:
    def __init__(self, config: dict[str, Any]) -> None:
        self._config = config

    def need(self, name: str) -> int:
        first = self.first(name)
        if not first:
            raise DataError(f"{name} is missing or no size")
        return first

    def first(self, *names: str) -> int:
        """The first of these that is a positive number, else 0."""
        for name in names:
            value = self._config.get(name)
            if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 1 << 40:
                return value
        return 0


def _latent(size: _Sizes) -> Latent | None:
    if not size.first("kv_lora_rank"):
        return None
    return Latent(
        kv_rank=size.need("kv_lora_rank"),
        q_rank=size.first("q_lora_rank"),
        nope_dim=size.need("qk_nope_head_dim"),
        rope_dim=size.need("qk_rope_head_dim"),
        value_dim=size.need("v_head_dim"),
    )


def _delta(size: _Sizes) -> Delta | None:
    if not size.first("linear_num_value_heads"):
        return None
    return Delta(
        interval=size.need("full_attention_interval"),
        key_heads=size.need("linear_num_key_heads"),
        value_heads=size.need("linear_num_value_heads"),
        key_dim=size.need("linear_key_head_dim"),
        value_dim=size.need("linear_value_head_dim"),
        conv_kernel=size.need("linear_conv_kernel_dim"),
    )
