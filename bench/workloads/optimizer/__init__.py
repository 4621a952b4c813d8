"""What one update of an optimizer is: parameters of decoder layers, their gradients, checks by algorithm, cost, state bytes.

The parameters are all matrices and norms of `layer_count` decoder layers of a model shape, in the case's dtype: large tensors and
small ones, as in training. Gradients are given. A call is one `step()`, in which no gradient is cleared. The states are made by the
first one, so the first call is the dearer, and the peak is that of a later step: temporaries alone (a copy of all parameters for
foreach, of some tensors for a loop, nothing for fused). What stays is in `state_bytes`.

Optimizers compute different things on purpose, so there is no one reference. What a builder returns names its algorithm
(`Recipe`; a plain function is held to AdamW), and each is checked against its own in float64: see `_checks.py`. Which of them
trains better is no question for a benchmark of one step; `update_error` says how far each walks from fp32 AdamW, rounding and
algorithm together.

bf16 parameters are updated without an fp32 copy, as pure bf16 training does, and then what is smaller than half a unit in a
weight's last place is lost. Libraries differ in what else they lose: torch's loop and foreach round after each operation and keep
moments in bf16, its fused kernel computes in fp32 between bf16 moments, bitsandbytes and torchao compute in fp32 and round on
write. All are right by the same rule, which grants what the loop in bf16 loses. On CUDA bitsandbytes' AdamW rounds twice, after the
update and after the decay: in bf16 a decay of less than 1/512 a step (lr * weight_decay, so in all usual training) rounds back and is
lost whole, where torch's fused kernel rounds the sum of both once. torch's foreach loses it on a CPU, where it rounds the factor
1 - lr * weight_decay itself to bf16. `update_error` has that in it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from bench.declare import Bound, Param, Pick, SlotKind, Workload, dtype_bytes, fill_normal, torch_dtype
from bench.records import Case, Check, Cost, Pass
from bench.workloads.optimizer._recipe import OptimizerSpec, Recipe
from bench.workloads.optimizer._update import Update

if TYPE_CHECKING:
    import torch

__all__ = ["WORKLOAD", "OptimizerSpec", "Recipe"]

SMALL_SHAPES = (("up_proj", (512, 256)), ("down_proj", (64, 128)), ("odd", (67, 65)), ("norm", (64,)))
"""Large enough to be paged, both orientations, a size that no block divides, and one that is left unquantized. Few shapes, since
some compile for each."""
FLOPS_PER_PARAMETER = 14
INITIAL_STD = 0.02


class OptimizerStep(Workload):
    name = "optimizer"
    version = 1
    slots: ClassVar[Mapping[str, SlotKind]] = {"optimizer": SlotKind.OPTIMIZER}
    params = (
        Param("layer_count", int, default=1, minimum=1, description="decoder layers whose parameters are updated"),
        Param("lr", float, default=1e-3, minimum=1e-8, description="learning rate, the same for every algorithm"),
    )
    dims = ("hidden_size", "intermediate_size", "heads", "kv_heads", "head_dim", "value_head_dim")
    passes = (Pass.STEP,)

    def spec(self, case: Case) -> OptimizerSpec:
        params: Mapping[str, Any] = case.params
        dims = {name: int(params[name]) for name in self.dims}
        shapes = tuple(
            (f"{layer}.{name}", shape) for layer in range(int(params["layer_count"])) for name, shape in layer_shapes(**dims)
        )
        return OptimizerSpec(case.dtype, float(params["lr"]), capturable=case.timer == "cuda_graph", shapes=shapes)

    def cost(self, spec: OptimizerSpec, pass_: Pass) -> Cost:
        """Bytes that no optimizer avoids: parameter and gradient read, parameter written.

        States are left out, since algorithms differ in them from nothing to 8 bytes a parameter, and one formula serves all:
        counting AdamW's would credit an 8-bit optimizer with bytes that it does not move, up to more than the memory can. fp32
        AdamW moves 28 bytes a parameter where this counts 12, so its share of the bandwidth is shown too low, and never too high.

        FLOPs are AdamW's, counted by hand: decay 1, first moment 3, second 4, denominator 3, quotient, step and sum 3.
        """
        parameters = spec.parameters
        return Cost(flops=FLOPS_PER_PARAMETER * parameters, bytes=3 * dtype_bytes(spec.dtype) * parameters)

    def small_spec(self, spec: OptimizerSpec) -> OptimizerSpec:
        return dataclasses.replace(spec, shapes=SMALL_SHAPES)

    def make_inputs(self, spec: OptimizerSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """The gradients, by `<parameter>.gradient`."""
        import torch

        dtype = torch_dtype(spec.dtype)
        return {
            f"{name}.gradient": fill_normal(torch.empty(shape, dtype=dtype, device=device), generator)
            for name, shape in spec.shapes
        }

    def redraw(self, spec: OptimizerSpec, inputs: Mapping[str, torch.Tensor], generator: torch.Generator) -> None:
        for gradient in inputs.values():
            fill_normal(gradient, generator)

    def make_parameters(self, spec: OptimizerSpec, device: str, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """Matrices as decoders begin with them, norms of ones."""
        import torch

        dtype = torch_dtype(spec.dtype)
        made = {}
        for name, shape in spec.shapes:
            tensor = torch.ones(shape, dtype=dtype, device=device)
            made[name] = fill_normal(tensor, generator).mul_(INITIAL_STD) if len(shape) > 1 else tensor
        return made

    def bind(self, spec: OptimizerSpec, built: Mapping[str, Any], parameters: Mapping[str, torch.Tensor]) -> Bound:
        return Update.of(spec, built["optimizer"], parameters)

    def reference(
        self, spec: OptimizerSpec, inputs: Mapping[str, torch.Tensor], parameters: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """Nothing: only what was built knows its algorithm, so the comparison is made in `property_checks`."""
        return {}

    def slice(self, spec: OptimizerSpec) -> tuple[OptimizerSpec, Pick] | None:
        """None: at the measured shape thousands of steps have gone into the states, and all that is asked is that all be finite."""
        return None

    def property_checks(
        self, spec: OptimizerSpec, bind: Callable[[Any], Bound], device: str, generator: torch.Generator
    ) -> list[Check]:
        from bench.workloads.optimizer._checks import checks_of

        def make(part: OptimizerSpec) -> Update:
            bound = bind(part)
            assert isinstance(bound, Update)
            return bound

        return checks_of(self.small_spec(spec), make, generator)

    def findings(self, spec: OptimizerSpec, bound: Bound) -> Mapping[str, float]:
        from bench.workloads.optimizer._checks import update_error
        from bench.workloads.optimizer._states import state_bytes

        assert isinstance(bound, Update)
        total, host = state_bytes(bound.optimizer)
        on_device = next(iter(bound.parameters.values())).device.type != "cpu"
        return {
            "state_bytes": float(total),
            **({"state_host_bytes": float(host)} if on_device else {}),
            "state_bytes_per_parameter": total / spec.parameters,
            "update_error": update_error(self, self.small_spec(spec), bound),
        }


def layer_shapes(
    hidden_size: int, intermediate_size: int, heads: int, kv_heads: int, head_dim: int, value_head_dim: int
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Names and shapes of the parameters of one Llama-like decoder layer: seven matrices without biases, two norms."""
    return (
        ("q_proj", (heads * head_dim, hidden_size)),
        ("k_proj", (kv_heads * head_dim, hidden_size)),
        ("v_proj", (kv_heads * value_head_dim, hidden_size)),
        ("o_proj", (hidden_size, heads * value_head_dim)),
        ("gate_proj", (intermediate_size, hidden_size)),
        ("up_proj", (intermediate_size, hidden_size)),
        ("down_proj", (hidden_size, intermediate_size)),
        ("input_norm", (hidden_size,)),
        ("post_attention_norm", (hidden_size,)),
    )


WORKLOAD = OptimizerStep()
