"""Puts what the slots' builders return into a decoder: attention, norms, mlp, rotation, linear layers, loss.

Each builder gets its slot's own spec, made from where the part stands in the model: so the file that is measured alone is the one that
trains. What a slot cannot be put into, because the family has a part of another kind there, is refused in words.

The dtype of a spec is that of what the part really gets. Under autocast products compute in 16 bits, and so do attention and whatever
lies between two products; norms come in the weights' fp32. The loss gets the last hidden states and weight as autocast would cast them for
the product, and runs outside of it: fused losses choose their dtypes themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bench.declare import Implementation, NormSpec, Unsupported, torch_dtype
from bench.workloads.linear import LinearSpec
from bench.workloads.linear_cross_entropy import LinearCrossEntropySpec
from bench.workloads.precision import Numerics
from bench.workloads.rope import RopeSpec
from bench.workloads.swiglu._gated import PROJECTIONS, MlpSpec
from bench.workloads.train_step._architectures import Architecture, architecture_of
from bench.workloads.train_step._spec import TrainStepSpec

if TYPE_CHECKING:
    import torch

UNTOUCHED = {"rms_norm": "eager", "swiglu": "eager", "rope": "eager", "linear": "plain"}
"""What fills a slot with the family's own part, whatever that is."""


class Filler:
    """Builds for one model; each builder runs once for each spec, and what it returned serves all places with that spec."""

    def __init__(self, spec: TrainStepSpec, numerics: Numerics, implementations: Mapping[str, Implementation], model: Any) -> None:
        self._spec = spec
        self._numerics = numerics
        self._implementations = implementations
        self._model = model
        self._family: Architecture = architecture_of(spec.shape)
        self._built: dict[tuple[str, Any], Any] = {}

    def _build(self, slot: str, spec: Any) -> Any:
        if (slot, spec) not in self._built:
            self._built[slot, spec] = self._implementations[slot].builder(spec)
        return self._built[slot, spec]

    def _own_part(self, slot: str) -> bool:
        return self._implementations[slot].name == UNTOUCHED[slot]

    def attention(self) -> None:
        """Gives each layer the attention that `INTERFACE` calls.

        Where layers are compiled its mask is there before they are traced. A mask that the first call makes and keeps would make graphs
        of two kinds: a layer that made it in the forward finds it when a checkpoint runs it again, and saves other tensors than it did.
        """
        import torch

        traced = self._implementations["compile"].name != "none"
        for layer in self._model.model.layers:
            module = layer.self_attn
            if getattr(module, "attn_logit_softcapping", None) is not None:
                raise Unsupported("the model caps its attention logits, which no implementation of the slot attention computes")
            window = getattr(module, "sliding_window", None) or (
                self._spec.shape.sliding_window if self._spec.shape.architecture in ("mistral", "phi3") else None
            )
            try:
                spec = self._spec.attention(window, float(module.scaling), self._numerics.compute)
            except ValueError as error:
                raise Unsupported(str(error)) from error
            function, dtype = self._build("attention", spec), torch_dtype(self._numerics.compute)
            if traced and (make_mask := getattr(function, "make_mask", None)) is not None:
                make_mask(torch.empty(0, dtype=dtype, device=self._model.device))
            module.stepbench_attention = _in_dtype(function, dtype) if self._numerics.autocast else function

    def norms(self) -> None:
        name = f"{self._family.prefix}RMSNorm"
        if not self._family.plain_norm and not self._own_part("rms_norm"):
            raise Unsupported(f"{name} multiplies by 1 + weight; the slot rms_norm multiplies by the weight")
        if not self._family.plain_norm:
            return
        for parent, child, norm in self._parts(name):
            spec = NormSpec(
                batch=self._spec.batch,
                seq_len=self._spec.seq_len,
                hidden_size=norm.weight.numel(),
                eps=norm.variance_epsilon,
                dtype=self._numerics.weights,
            )
            setattr(parent, child, self._build("rms_norm", spec)(norm))

    def mlps(self) -> None:
        name = f"{self._family.prefix}MLP"
        if not self._family.gated_by_silu and not self._own_part("swiglu"):
            raise Unsupported(f"{name} has {self._family.other_mlp}; the slot swiglu is a SwiGLU with {', '.join(PROJECTIONS)}")
        if not self._family.gated_by_silu:
            return
        spec = MlpSpec(
            batch=self._spec.batch,
            seq_len=self._spec.seq_len,
            hidden_size=self._spec.shape.hidden_size,
            intermediate_size=self._spec.shape.intermediate_size,
            part="mlp",
            dtype=self._numerics.compute,
        )
        for parent, child, mlp in self._parts(name):
            setattr(parent, child, self._build("swiglu", spec)(mlp))

    def rotation(self, *, kept_apart: bool) -> Callable[..., Any] | None:
        """What stands for the module's `apply_rotary_pos_emb` while the step runs; None where the family's own does.

        `kept_apart`: a checkpoint keeps results of products. One that is written over is handed out again as if it had not been, and
        would be turned twice; autograd's own guard does not see what a kernel writes. So that is refused.
        """
        if self._own_part("rope"):
            return None
        shape = self._spec.shape
        spec = RopeSpec(
            batch=self._spec.batch,
            heads=shape.heads,
            kv_heads=shape.kv_heads,
            head_dim=shape.head_dim,
            seq_len=self._spec.seq_len,
            theta=shape.rope_theta,
            dtype=self._numerics.compute,
        )
        rope = self._build("rope", spec)
        if kept_apart and getattr(rope, "overwrites_inputs", False):
            name = self._implementations["rope"].name
            raise Unsupported(f"rope={name} writes over queries and keys, which selective checkpointing keeps and hands out again")

        def rotate(q: torch.Tensor, k: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, unsqueeze_dim: int = 1) -> Any:
            if cos.shape[-1] != q.shape[-1]:
                raise Unsupported(f"the model turns {cos.shape[-1]} of {q.shape[-1]} dimensions; the slot rope turns all of them")
            return rope(q, k, cos.to(q.dtype), sin.to(q.dtype))

        return rotate

    def linears(self) -> None:
        """The linear layers of the blocks, those below adapters too; embedding and last layer stay as they are."""
        import torch

        if self._own_part("linear"):
            return
        layers = [
            (parent, child, module)
            for parent in self._model.model.layers.modules()
            for child, module in parent.named_children()
            if type(module) is torch.nn.Linear
        ]
        while layers:
            # Popped, since a list would keep all plain weights beside all converted ones.
            parent, child, linear = layers.pop()
            spec = LinearSpec(
                batch=self._spec.batch,
                seq_len=self._spec.seq_len,
                in_features=linear.in_features,
                out_features=linear.out_features,
                bias=linear.bias is not None,
                dtype=self._numerics.compute,
                weight_grad=linear.weight.requires_grad,
            )
            setattr(parent, child, self._build("linear", spec)(linear))

    def loss(self) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """fn(hidden states of a micro-batch, labels) -> mean over its labels, fp32 at least."""
        import torch

        spec = LinearCrossEntropySpec(
            tokens=self._spec.batch * self._spec.seq_len,
            hidden_size=self._spec.shape.hidden_size,
            vocab_size=self._spec.shape.vocab_size,
            ignored_tokens=self._spec.batch * self._spec.seq_len - self._spec.labels_per_micro_batch,
            dtype=self._numerics.compute,
        )
        if self._model.lm_head.bias is not None or getattr(self._model.config, "final_logit_softcapping", None) is not None:
            raise Unsupported("the model's last layer has a bias or caps its logits, which linear_cross_entropy does not compute")
        function, head = self._build("linear_cross_entropy", spec), self._model.lm_head
        dtype = torch_dtype(self._numerics.compute)

        def loss(hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
            mean = function(hidden.flatten(0, 1).to(dtype), head.weight.to(dtype), labels.flatten())
            return mean.to(torch.promote_types(mean.dtype, torch.float32))

        return loss

    def _parts(self, name: str) -> list[tuple[Any, str, Any]]:
        """(parent, name within it, module) of every part of that class."""
        return [
            (parent, child, module)
            for parent in self._model.modules()
            for child, module in parent.named_children()
            if type(module).__name__ == name
        ]


def _in_dtype(attention: Callable[..., torch.Tensor], dtype: torch.dtype) -> Callable[..., torch.Tensor]:
    """Under autocast the rotation leaves queries and keys in fp32; they are rounded, as transformers does before FlashAttention."""

    def rounded(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return attention(q.to(dtype), k.to(dtype), v.to(dtype))

    return rounded
