"""What a linear layer is: inputs, weights with or without outliers, semantics, reference, cost.

    out = x W^T + bias

x is (batch, seq_len, in_features), W (out_features, in_features). The slot is a module: a builder takes the plain `torch.nn.Linear` and
returns the layer that replaces it. Quantized layers compute something else on purpose: they declare a tolerance, and their error is a
finding (`output_error`) beside time and what the converted layer holds (`weight_bytes`). The pass `quantize` measures the conversion;
what the converted layer computes is checked as well, untimed.

Which numbers, since they decide what quantization costs. The weights are normal with standard deviation 1 / sqrt(in_features), and x is
standard normal. That flatters: NF4 was made for normal weights (QLoRA, arXiv 2305.14314, section 3), and a block or row without outliers
loses nothing to its scale. So outliers can be planted, in whole input features as trained models have them: LLM.int8() (arXiv
2208.07339, section 4) finds activations up to 20 times as large as the others in about 0.1 % of the features, the same features in every
token. `activation_outliers: 0.001` with the default `outlier_factor: 20` is that. `weight_outliers` is harsher than what trained weights
are said to be (QLoRA, appendix F, calls most of them normal) and shows how a format breaks; `bench run --weights DIR` takes real ones.

A declared tolerance is the format's error on normal numbers, so the small problem is always made of those: a wrong scale shows there.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal, torch_dtype
from bench.records import Case, Cost, Pass
from bench.workloads.linear._calls import Conversion, Forward, plain_linear
from bench.workloads.linear._held import held_bytes

if TYPE_CHECKING:
    import torch

RANDOM = "random"
NOT_COMPILED = "none"
COMPILE_MODES = (NOT_COMPILED, "default", "max-autotune")
SMALL_TOKENS, SMALL_IN, SMALL_OUT = 33, 256, 128
"""More than 16 rows, and sides of which 128 and 32 are divisors: fewer do not suit the int8 and 4-bit kernels."""
SMALL_TOKENS_SUMMED = 48
"""Where the weight learns its gradient sums over the tokens, and float8 products on a GPU sum over multiples of 16 only."""
SLICE_TOKENS, SLICE_OUT = 128, 512
WIDE_TOLERANCE = 0.5
"""For numbers that no format is made for, planted outliers or real weights: their error is what is asked, within reason."""

LAYERS: Mapping[str, tuple[str, tuple[str, str], tuple[str, str]]] = {
    "q_proj": ("self_attn", ("heads", "head_dim"), ("hidden_size", "")),
    "k_proj": ("self_attn", ("kv_heads", "head_dim"), ("hidden_size", "")),
    "v_proj": ("self_attn", ("kv_heads", "value_head_dim"), ("hidden_size", "")),
    "o_proj": ("self_attn", ("hidden_size", ""), ("heads", "value_head_dim")),
    "gate_proj": ("mlp", ("intermediate_size", ""), ("hidden_size", "")),
    "up_proj": ("mlp", ("intermediate_size", ""), ("hidden_size", "")),
    "down_proj": ("mlp", ("hidden_size", ""), ("intermediate_size", "")),
    "lm_head": ("", ("vocab_size", ""), ("hidden_size", "")),
}
"""Layer to the block that it belongs to, and the dimensions of a model shape whose product are its outputs and its inputs."""


@dataclass(frozen=True, slots=True)
class LinearSpec:
    """One linear layer. x is (batch, seq_len, in_features), contiguous; W is (out_features, in_features)."""

    batch: int
    seq_len: int
    in_features: int
    out_features: int
    bias: bool
    dtype: str
    training: bool = True
    """False where no gradient will be asked for."""
    weight_grad: bool = False
    """True where weight and bias learn; False where they are frozen (after quantization, under LoRA)."""
    compile: str = NOT_COMPILED
    """Mode of `torch.compile` for the whole layer, or `none`."""
    converting: bool = False
    """True where the conversion is what is measured."""
    weight_outliers: float = 0.0
    """Share of input features whose weights are `outlier_factor` times as large; at least one feature where it is above 0."""
    activation_outliers: float = 0.0
    """The same of x, in other features."""
    outlier_factor: float = 20.0
    weights: str = RANDOM
    """`random`, or the name and hash of the folder that they come from."""
    tensor: str | None = None
    """Name of the weight in that folder, as Hugging Face names it; None for random weights."""

    @property
    def normal(self) -> bool:
        """Whether x and W are plain normal numbers."""
        return not (self.weight_outliers or self.activation_outliers) and self.weights == RANDOM


class Linear(Workload):
    name = "linear"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"linear": SlotKind.MODULE}
    params = (
        Param("layer", str, default="gate_proj", choices=tuple(LAYERS), description="which layer of the model's shape"),
        Param("tokens", int, minimum=1, description="rows of x; 16 is like decoding, thousands like training"),
        Param("bias", bool, default=False, description="whether the layer has one"),
        Param(
            "compile", str, default=NOT_COMPILED, choices=COMPILE_MODES, description="mode of torch.compile for the layer, or none"
        ),
        Param("weight_grad", bool, default=False, description="whether the weight learns; false: frozen, as after quantization"),
        Param("weight_outliers", float, default=0.0, minimum=0.0, below=1.0, description="share of features with large weights"),
        Param("activation_outliers", float, default=0.0, minimum=0.0, below=1.0, description="share of features with large inputs"),
        Param("outlier_factor", float, default=20.0, minimum=1.0, description="how many times as large these are"),
        Param("weights", str, default=RANDOM, description="random, or name@hash of the folder given by --weights"),
        Param("layer_index", int, default=0, minimum=0, description="which decoder layer of that folder"),
    )
    dims = ("hidden_size", "intermediate_size", "heads", "kv_heads", "head_dim", "value_head_dim", "vocab_size")
    passes = (Pass.FORWARD, Pass.BACKWARD, Pass.FORWARD_BACKWARD, Pass.QUANTIZE)
    error_of = "out"

    def __init__(self) -> None:
        self._stored: Callable[[str], torch.Tensor] | None = None

    def spec(self, case: Case) -> LinearSpec:
        params: Mapping[str, Any] = case.params
        out_features, in_features = _shape(params)
        return LinearSpec(
            batch=1,
            seq_len=int(params["tokens"]),
            in_features=in_features,
            out_features=out_features,
            bias=bool(params["bias"]),
            dtype=case.dtype,
            training=case.pass_.differentiates,
            weight_grad=bool(params["weight_grad"]),
            compile=str(params["compile"]),
            converting=case.pass_ is Pass.QUANTIZE,
            weight_outliers=float(params["weight_outliers"]),
            activation_outliers=float(params["activation_outliers"]),
            outlier_factor=float(params["outlier_factor"]),
            weights=str(params["weights"]),
            tensor=next(iter(self.stored_tensors(case)), None),
        )

    def stored_tensors(self, case: Case) -> dict[str, tuple[int, ...]]:
        """Names and shapes of the tensors that the case takes from a folder of weights; none where its weights are random."""
        params: Mapping[str, Any] = case.params
        if params["weights"] == RANDOM:
            return {}
        block, layer = LAYERS[params["layer"]][0], params["layer"]
        name = f"model.layers.{params['layer_index']}.{block}.{layer}.weight" if block else f"{layer}.weight"
        return {name: _shape(params)}

    def with_weights(self, stored: Callable[[str], torch.Tensor]) -> Linear:
        """The same workload, which takes real weights from `stored(name)`, a tensor on the CPU."""
        bound = copy.copy(self)
        bound._stored = stored
        return bound

    def cost(self, spec: LinearSpec, pass_: Pass) -> Cost:
        """2 x tokens x in x out for each product: out, the gradient of x, and that of the weight where it learns.

        Bytes, all in the case's dtype: x, W and out forward; the outer gradient, W and the gradient of x backward, and x and the
        gradient of W where it learns. A conversion reads W, and has no FLOPs that one could compare.
        """
        tokens, size = spec.batch * spec.seq_len, dtype_bytes(spec.dtype)
        x, weight, out = tokens * spec.in_features, spec.in_features * spec.out_features, tokens * spec.out_features
        if pass_ is Pass.QUANTIZE:
            return Cost(bytes=weight * size)
        product = 2 * tokens * weight
        forward = (product, (x + weight + out) * size)
        backward = (product * (1 + spec.weight_grad), (out + weight + x + (x + weight) * spec.weight_grad) * size)
        parts = {Pass.FORWARD: [forward], Pass.BACKWARD: [backward], Pass.FORWARD_BACKWARD: [forward, backward]}[pass_]
        return Cost(flops=sum(part[0] for part in parts), bytes=sum(part[1] for part in parts), tokens=tokens)

    def small_spec(self, spec: LinearSpec) -> LinearSpec:
        return dataclasses.replace(
            spec,
            batch=1,
            seq_len=min(spec.seq_len, SMALL_TOKENS_SUMMED if spec.weight_grad else SMALL_TOKENS),
            in_features=min(spec.in_features, SMALL_IN),
            out_features=min(spec.out_features, SMALL_OUT),
            weight_outliers=0.0,
            activation_outliers=0.0,
            weights=RANDOM,
            tensor=None,
        )

    def make_inputs(self, spec: LinearSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        inputs = {"x": torch.empty(spec.batch, spec.seq_len, spec.in_features, dtype=torch_dtype(spec.dtype), device=device)}
        self.redraw(spec, inputs, generator)
        return inputs

    def redraw(self, spec: LinearSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        x = fill_normal(inputs["x"], generator)
        _plant(x, spec.activation_outliers, spec.outlier_factor, 0.75)

    def make_parameters(self, spec: LinearSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Raises ValueError where real weights are asked for and no folder is at hand, or have another shape."""
        import torch

        dtype = torch_dtype(spec.dtype)
        shape = (spec.out_features, spec.in_features)
        if spec.tensor is None:
            weight = fill_normal(torch.empty(shape, dtype=dtype, device=device), generator).mul_(1 / math.sqrt(spec.in_features))
        elif self._stored is None:
            raise ValueError(f"weights: {spec.weights} are read from a folder: say which one with --weights DIR")
        else:
            weight = self._stored(spec.tensor).to(device=device, dtype=dtype, copy=True)
            if tuple(weight.shape) != shape:
                raise ValueError(f"{spec.tensor} of {spec.weights} has the shape {tuple(weight.shape)}, not {shape}")
        parameters = {"weight": _plant(weight, spec.weight_outliers, spec.outlier_factor, 0.25)}
        if spec.bias:
            parameters["bias"] = fill_normal(torch.empty(spec.out_features, dtype=dtype, device=device), generator)
        return parameters

    def frozen(self, spec: LinearSpec) -> frozenset[str]:
        return frozenset() if spec.weight_grad else frozenset({"weight", "bias"})

    def tolerance(self, spec: LinearSpec, declared: float) -> float:
        """What an implementation's tolerance is for the numbers of this spec."""
        return declared if spec.normal else max(declared, WIDE_TOLERANCE)

    def bind(self, spec: LinearSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        convert = built["linear"]
        if spec.converting:
            conversion = Conversion(convert, parameters)
            return Bound(conversion, parameters, prepare=conversion.prepare, observe=conversion.observe)
        layer = convert(plain_linear(parameters, learns=spec.weight_grad)).train(spec.training)
        own = {name: getattr(layer, name) for name in parameters} if spec.weight_grad else parameters
        return Bound(Forward(layer, None if spec.compile == NOT_COMPILED else spec.compile), own)

    def findings(self, spec: LinearSpec, bound: Bound) -> dict[str, float]:
        """`weight_bytes` as they lie in memory after the timed calls: a library may repack its weights at the first of them."""
        call: Any = bound.forward
        return {"weight_bytes": float(held_bytes(call.layer))}

    def reference(
        self, spec: LinearSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        import torch

        return {"out": torch.nn.functional.linear(inputs["x"], parameters["weight"], parameters.get("bias"))}

    def slice(self, spec: LinearSpec) -> tuple[LinearSpec, Pick] | None:
        """Evenly spread tokens of the last sequence and output features; every input feature, since each output sums over them."""
        tokens, outputs = _spread(spec.seq_len, SLICE_TOKENS), _spread(spec.out_features, SLICE_OUT)
        part = dataclasses.replace(
            spec,
            batch=1,
            seq_len=len(range(spec.seq_len)[tokens]),
            out_features=len(range(spec.out_features)[outputs]),
        )

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            kind = name.removeprefix("grad_")
            if kind in ("weight", "bias"):
                return tensor[outputs]
            return tensor[-1:, tokens] if kind == "x" else tensor[-1:, tokens, outputs]

        return part, pick


def _shape(params: Mapping[str, Any]) -> tuple[int, int]:
    """(out_features, in_features) of the layer that the parameters name."""
    _, outputs, inputs = LAYERS[params["layer"]]
    out_features, in_features = (math.prod(int(params[name]) for name in names if name) for names in (outputs, inputs))
    return out_features, in_features


def _plant(tensor: torch.Tensor, share: float, factor: float, offset: float) -> torch.Tensor:
    """Makes evenly spread features (of the last dimension) `factor` times as large, in place. `offset`: where in each stretch they lie."""
    if share:
        count = max(1, round(share * tensor.shape[-1]))
        stretch = tensor.shape[-1] / count
        tensor[..., [int((index + offset) * stretch) for index in range(count)]] *= factor
    return tensor


def _spread(size: int, wanted: int) -> slice:
    return slice(None, None, math.ceil(size / wanted))


WORKLOAD = Linear()
