"""A model's config.json made small; its weights are random."""

from typing import Any

from ascend_doctor.shrinking.sizes import MODEL

_LAYERS = {"num_hidden_layers", "n_layers", "num_layers", "max_window_layers"}
_BY_LAYER = {"layer_types", "mlp_layer_types"}


def shrink_config(config: dict[str, Any], layers: int) -> dict[str, Any]:
    """The config with at most so many layers and MODEL's sizes, also in its parts."""
    return {key: _shrink(key, value, layers) for key, value in config.items()}


def _shrink(key: str, value: Any, layers: int) -> Any:
    if isinstance(value, dict):
        return shrink_config(value, layers)
    if key in _BY_LAYER and isinstance(value, list):
        # The last layer may be of another kind, and every kind stays.
        return [*value[: layers - 1], value[-1]] if len(value) > layers else value
    limit = layers if key in _LAYERS else MODEL.get(key.replace("_", "-"))
    whole = isinstance(value, int) and not isinstance(value, bool)
    return min(value, limit) if whole and limit is not None else value
