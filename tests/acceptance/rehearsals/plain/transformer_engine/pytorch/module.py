"""Linear layers and norms. Of arguments that tune CUDA's kernels nothing is taken."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.nn import Parameter, functional

from .distributed import enter, leave


class _Layer(torch.nn.Module):
    """What Megatron asks every layer of Transformer Engine."""

    fp8 = fp8_calibration = False

    def __init__(self) -> None:
        super().__init__()
        self.fp8_meta: dict[str, Any] = {"fp8_checkpoint": False, "recipe": None}

    def init_fp8_metadata(self, **_: Any) -> None:
        """There is none."""

    def get_extra_state(self) -> torch.Tensor:
        """Empty, as of layers without FP8."""
        return torch.empty(0, dtype=torch.uint8)

    def set_extra_state(self, _: Any) -> None:
        """Nothing of it is read."""

    def set_tensor_parallel_group(self, group: Any) -> None:
        """Megatron gives it later if it had none at first."""
        self.tp_group = group


def _normalized(
    tensor: torch.Tensor, weight: Any, bias: Any, eps: float, zero_centered: bool
) -> torch.Tensor:
    """LayerNorm with a bias, else RMSNorm; in single precision."""
    numbers, scale = tensor.float(), weight.float() + (1 if zero_centered else 0)
    if bias is not None:
        numbers = numbers - numbers.mean(-1, keepdim=True)
    numbers = numbers * torch.rsqrt(numbers.square().mean(-1, keepdim=True) + eps) * scale
    return (numbers if bias is None else numbers + bias.float()).to(tensor.dtype)


class RMSNorm(_Layer):
    biased = False

    def __init__(
        self,
        hidden_size: int,
        eps: float = 1e-5,
        sequence_parallel: bool = False,
        params_dtype: Any = None,
        zero_centered_gamma: bool = False,
        device: Any = None,
        **_: Any,
    ) -> None:
        super().__init__()
        self.eps, self.zero_centered_gamma = eps, zero_centered_gamma
        fill = torch.zeros if zero_centered_gamma else torch.ones
        self.weight = Parameter(fill(hidden_size, dtype=params_dtype, device=device))
        bias = torch.zeros(hidden_size, dtype=params_dtype, device=device)
        self.bias = Parameter(bias) if self.biased else None
        for parameter in self.parameters():
            parameter.sequence_parallel = sequence_parallel

    def forward(self, tensor: torch.Tensor) -> torch.Tensor:
        return _normalized(tensor, self.weight, self.bias, self.eps, self.zero_centered_gamma)


class LayerNorm(RMSNorm):
    biased = True


class _Weights(_Layer):
    """Weights of one or several layers, divided over ranks by ``parallel_mode``."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        sequence_parallel: bool = False,
        tp_group: Any = None,
        tp_size: int = 1,
        get_rng_state_tracker: Any = None,
        init_method: Any = None,
        bias: bool = True,
        return_bias: bool = False,
        params_dtype: Any = None,
        parallel_mode: Any = None,
        device: Any = None,
        rng_tracker_name: Any = None,
        **_: Any,
    ) -> None:
        super().__init__()
        self.in_features = in_features // (tp_size if parallel_mode == "row" else 1)
        self.out_features = out_features // (tp_size if parallel_mode == "column" else 1)
        self.use_bias, self.return_bias = bias, return_bias
        self.parallel_mode, self.tp_group, self.tp_size = parallel_mode, tp_group, tp_size
        self.sequence_parallel = sequence_parallel and tp_size > 1
        self._options = {"dtype": params_dtype, "device": device}
        self._draw = (get_rng_state_tracker, rng_tracker_name, init_method or (lambda _: None))

    def _add_weight(self, name: str, bias_name: str) -> None:
        tracker, tracker_name, draw = self._draw
        weight = Parameter(torch.empty(self.out_features, self.in_features, **self._options))
        fork = (tracker_name,) if tracker_name else ()
        with tracker().fork(*fork) if tracker else contextlib.nullcontext(), torch.no_grad():
            draw(weight)
        weight.tensor_model_parallel = self.parallel_mode is not None
        weight.partition_dim, weight.partition_stride = int(self.parallel_mode == "row"), 1
        self.register_parameter(name, weight)
        bias = torch.zeros(self.out_features, **self._options) if self.use_bias else None
        self.register_parameter(bias_name, None if bias is None else Parameter(bias))
        if bias is not None and self.parallel_mode == "row":
            getattr(self, bias_name).sequence_parallel = self.sequence_parallel

    def _product(self, tensor: torch.Tensor, weight: Any, bias: Any) -> Any:
        if self.parallel_mode == "column" and self.tp_size > 1:
            tensor = enter(tensor, self.tp_group, self.sequence_parallel)
        product = functional.linear(tensor, weight)
        if self.parallel_mode == "row" and self.tp_size > 1:
            product = leave(product, self.tp_group, self.sequence_parallel)
        if self.return_bias:
            return product, bias
        return product if bias is None else product + bias


class Linear(_Weights):
    """Ranks may hold rows (column) or columns (row) of the weight."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._add_weight("weight", "bias")

    def forward(self, tensor: torch.Tensor, **_: Any) -> Any:
        return self._product(tensor, self.weight, self.bias)


class LayerNormLinear(Linear):
    def __init__(
        self,
        in_features: int,
        out_features: int,
        eps: float = 1e-5,
        normalization: str = "LayerNorm",
        return_layernorm_output: bool = False,
        zero_centered_gamma: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(in_features, out_features, **options)
        self.eps, self.zero_centered_gamma = eps, zero_centered_gamma
        self.return_layernorm_output = return_layernorm_output
        fill = torch.zeros if zero_centered_gamma else torch.ones
        self.layer_norm_weight = Parameter(fill(in_features, **self._options))
        self.register_parameter("layer_norm_bias", None)
        if normalization == "LayerNorm":
            self.layer_norm_bias = Parameter(torch.zeros(in_features, **self._options))
        for parameter in (self.layer_norm_weight, self.layer_norm_bias):
            if parameter is not None:
                parameter.sequence_parallel = self.sequence_parallel

    def forward(self, tensor: torch.Tensor, **_: Any) -> Any:
        norm = (self.layer_norm_weight, self.layer_norm_bias, self.eps, self.zero_centered_gamma)
        tensor = _normalized(tensor, *norm)
        product = self._product(tensor, self.weight, self.bias)
        if not self.return_layernorm_output:
            return product
        return (*product, tensor) if self.return_bias else (product, tensor)


class GroupedLinear(_Weights):
    """A product for each expert, of rows sorted by expert."""

    def __init__(self, num_gemms: int, in_features: int, out_features: int, **options: Any) -> None:
        super().__init__(in_features, out_features, **options)
        self.num_gemms = num_gemms
        for index in range(num_gemms):
            self._add_weight(f"weight{index}", f"bias{index}")

    def forward(self, tensor: torch.Tensor, m_splits: Any, **_: Any) -> Any:
        parts = tensor.split([int(rows) for rows in m_splits])
        weights = [getattr(self, f"weight{index}") for index in range(self.num_gemms)]
        biases = [getattr(self, f"bias{index}") for index in range(self.num_gemms)]
        if self.return_bias:
            return torch.cat(
                [functional.linear(*pair) for pair in zip(parts, weights, strict=True)]
            ), biases
        return torch.cat(
            [functional.linear(*each) for each in zip(parts, weights, biases, strict=True)]
        )
