"""What a gated MLP is, whichever its activation: inputs, plain module, cost. `swiglu` and `geglu` differ in one function.

    out = (act(x Wg^T) * (x Wu^T)) Wd^T          part `mlp`: the whole block, three products
    out = act(gate) * up                         part `activation`: what stands between the products, alone

x and out are (batch, seq_len, hidden_size); gate and up (batch, seq_len, intermediate_size). The products take most of the time of the
whole, and hide what a fused activation gains; what it saves in memory shows in the whole: autograd keeps gate, up and both products of
the activation unless they are made again. So each part answers its own question.

The slot is a module. For `mlp` a builder takes the plain module with `gate_proj`, `up_proj` and `down_proj` (linear layers without
bias, as transformers names them) and returns one with the same three; for `activation` one without parameters, called with (gate, up).
A backward may write its gradients over gate and up: the projections have just made them. For `activation`, where they are inputs, such
an implementation says so and works on copies that are made before the clock starts, and are in no peak (`rope/_lending.py`).
"""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, Param, Pick, Workload, dtype_bytes, fill_normal, torch_dtype
from bench.records import Case, Check, Cost, Pass
from bench.workloads.rms_norm._spread import spread
from bench.workloads.rope._lending import lending

if TYPE_CHECKING:
    import torch

    Activation = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]

PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
SMALL_ROWS = 33
SMALL_HIDDEN = 128
SLICE_ELEMENTS = 2**20
TAIL = (-3.0, -2.0)
TAIL_LIMIT = 0.05


@dataclass(frozen=True, slots=True)
class MlpSpec:
    """A gated MLP on (batch, seq_len, hidden_size), or the activation alone on (batch, seq_len, intermediate_size)."""

    batch: int
    seq_len: int
    hidden_size: int
    intermediate_size: int
    part: str
    """`mlp` or `activation`."""
    dtype: str
    training: bool = True


class GatedMlp(Workload):
    """A workload of one slot, which has its name."""

    params = (
        Param("seq_len", int, minimum=1, description="tokens per sequence"),
        Param("batch", int, default=1, minimum=1, description="sequences"),
        Param(
            "part",
            str,
            default="mlp",
            choices=("mlp", "activation"),
            description="the whole block with its three products, or what stands between them alone",
        ),
    )
    dims = ("hidden_size", "intermediate_size")
    activation_flops: ClassVar[tuple[int, int]]
    """Forward and backward of the activation, for each element of gate; counted in the subclass's docstring."""

    @abstractmethod
    def activate(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        """act(gate) * up in plain PyTorch."""

    def spec(self, case: Case) -> MlpSpec:
        params: Mapping[str, Any] = case.params
        return MlpSpec(
            batch=int(params["batch"]),
            seq_len=int(params["seq_len"]),
            hidden_size=int(params["hidden_size"]),
            intermediate_size=int(params["intermediate_size"]),
            part=str(params["part"]),
            dtype=case.dtype,
            training=case.pass_.differentiates,
        )

    def cost(self, spec: MlpSpec, pass_: Pass) -> Cost:
        """Three products of 2 * tokens * hidden * intermediate forward, six backward, and the activation's own count.

        Bytes of the whole: x, out and the weights once forward; x, grad_out, grad_x, the weights and their gradients backward. What lies
        between need not leave the chip. Of the activation: gate, up and out forward; gate, up, grad_out and two gradients backward.
        """
        tokens = spec.batch * spec.seq_len
        between, outside = tokens * spec.intermediate_size, tokens * spec.hidden_size
        flops = tuple(per_element * between for per_element in self.activation_flops)
        moved = (3 * between, 5 * between)
        if spec.part == "mlp":
            weights = 3 * spec.hidden_size * spec.intermediate_size
            flops = (flops[0] + 2 * tokens * weights, flops[1] + 4 * tokens * weights)
            moved = (2 * outside + weights, 3 * outside + 2 * weights)
        directions = {Pass.FORWARD: (0,), Pass.BACKWARD: (1,), Pass.FORWARD_BACKWARD: (0, 1)}[pass_]
        return Cost(
            flops=sum(flops[way] for way in directions),
            bytes=sum(moved[way] for way in directions) * dtype_bytes(spec.dtype),
            tokens=tokens,
        )

    def small_spec(self, spec: MlpSpec) -> MlpSpec:
        """Rows as wide as they are, since kernels differ by that; but few of them, and projected from few numbers."""
        hidden = min(spec.hidden_size, SMALL_HIDDEN)
        return dataclasses.replace(spec, batch=min(spec.batch, 2), seq_len=min(spec.seq_len, SMALL_ROWS), hidden_size=hidden)

    def make_inputs(self, spec: MlpSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        import torch

        names, width = (("x",), spec.hidden_size) if spec.part == "mlp" else (("gate", "up"), spec.intermediate_size)
        shape = (spec.batch, spec.seq_len, width)
        return {name: fill_normal(torch.empty(shape, dtype=torch_dtype(spec.dtype), device=device), generator) for name in names}

    def make_parameters(self, spec: MlpSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Weights of a size that keeps numbers near 1: normal, divided by the root of the numbers that are added up."""
        import torch

        if spec.part != "mlp":
            return {}
        wide, narrow = spec.intermediate_size, spec.hidden_size
        shapes = {"gate_proj": (wide, narrow), "up_proj": (wide, narrow), "down_proj": (narrow, wide)}
        return {
            f"{name}.weight": fill_normal(torch.empty(shape, dtype=torch_dtype(spec.dtype), device=device), generator).mul_(
                shape[1] ** -0.5
            )
            for name, shape in shapes.items()
        }

    def redraw(self, spec: MlpSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        for tensor in inputs.values():
            fill_normal(tensor, generator)

    def bind(self, spec: MlpSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        (replace,) = built.values()
        if spec.part == "mlp":
            module = replace(plain_mlp(spec, self.activate, parameters))
            return Bound(
                lambda inputs: {"out": module(inputs["x"])},
                {f"{name}.weight": getattr(module, name).weight for name in PROJECTIONS},
            )
        alone = replace(activation_module(self.activate))
        gated, prepare = lending(alone, alone)
        return Bound(lambda inputs: {"out": gated(inputs["gate"], inputs["up"])}, prepare=prepare)

    def reference(
        self, spec: MlpSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        if spec.part != "mlp":
            return {"out": self.activate(inputs["gate"], inputs["up"])}
        import torch

        gate, up, down = (parameters[f"{name}.weight"] for name in PROJECTIONS)
        linear = torch.nn.functional.linear
        return {"out": linear(self.activate(linear(inputs["x"], gate), linear(inputs["x"], up)), down)}

    def slice(self, spec: MlpSpec) -> tuple[MlpSpec, Pick] | None:
        """Evenly spread rows of every sequence, with about `SLICE_ELEMENTS` numbers between the products; weights are whole."""
        rows, count = spread(spec.seq_len, SLICE_ELEMENTS // (spec.batch * spec.intermediate_size))

        def pick(name: str, tensor: torch.Tensor) -> torch.Tensor | None:
            return tensor if name.endswith(".weight") else tensor[:, rows]

        return dataclasses.replace(spec, seq_len=count), pick

    def property_checks(self, spec: MlpSpec, bind: Callable[[Any], Bound], device: str, generator: torch.Generator) -> list[Check]:
        """Which activation it is, told by its tail, where up is 1: other forms of it are off by a tenth there, and elsewhere by nothing
        that 16 bits show. The products of a whole block pass the numbers on as they are.
        """
        import torch

        part = self.small_spec(spec)
        bound = bind(part)
        inputs = self.make_inputs(part, device, generator)
        dtype, wide = torch_dtype(part.dtype), part.intermediate_size
        tail = torch.linspace(*TAIL, wide, device=device).to(dtype)
        with torch.no_grad():
            if part.part == "mlp":
                passed = torch.arange(part.hidden_size, device=device) * wide // part.hidden_size
                gate, up, down = (bound.parameters[f"{name}.weight"].zero_() for name in PROJECTIONS)
                gate[:, 0], up[:, 0] = tail, 1.0
                down[torch.arange(part.hidden_size, device=device), passed] = 1.0
                inputs["x"].zero_()[..., 0] = 1.0
                tail = tail[passed]
            else:
                inputs["gate"].copy_(tail.expand_as(inputs["gate"]))
                inputs["up"].fill_(1.0)
            exact = self.activate(tail.double(), torch.ones_like(tail).double())
            got = bound.forward(inputs)["out"].double()
        error = float(((got - exact) / exact).abs().max())
        words = f"largest relative difference, where gate lies between {TAIL[0]:g} and {TAIL[1]:g}"
        return [Check("activation's tail", "small", error, None, TAIL_LIMIT, error <= TAIL_LIMIT, words)]


def activation_module(activate: Activation) -> Any:
    """A module without parameters that is called with (gate, up)."""
    import torch

    class Gated(torch.nn.Module):
        def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
            return activate(gate, up)

    return Gated()


def with_activation(module: Any, activate: Activation) -> Any:
    """A module with the three projections of `module` and another activation between them. It keeps nothing else of `module` alive."""
    import torch

    class Mlp(torch.nn.Module):
        gate_proj: torch.nn.Module
        up_proj: torch.nn.Module
        down_proj: torch.nn.Module

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            out: torch.Tensor = self.down_proj(activate(self.gate_proj(x), self.up_proj(x)))
            return out

    mlp = Mlp()
    for name in PROJECTIONS:
        setattr(mlp, name, getattr(module, name))
    return mlp


def overwriting(spec: MlpSpec, activate: Activation) -> Callable[[Any], Any]:
    """What a builder returns whose activation writes its gradients over gate and up."""

    def replace(module: Any) -> Any:
        if spec.part == "mlp":
            return with_activation(module, activate)
        alone = activation_module(activate)
        alone.overwrites_inputs = True
        return alone

    return replace


def plain_mlp(spec: MlpSpec, activate: Activation, parameters: Mapping[str, torch.Tensor]) -> Any:
    """The plain module, operation by operation as transformers' LlamaMLP, with these weights."""
    import torch

    widths = (spec.hidden_size, spec.intermediate_size)
    holder = torch.nn.Module()
    for name in PROJECTIONS:
        narrow, wide = widths if name != "down_proj" else reversed(widths)
        projection = torch.nn.Linear(narrow, wide, bias=False, device="meta")
        projection.weight = torch.nn.Parameter(parameters[f"{name}.weight"])
        setattr(holder, name, projection)
    return with_activation(holder, activate)
