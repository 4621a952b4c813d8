"""What can be switched on in a training step, one row a switch: for whom, what it fills, and the words to paste without a Trainer.

Slots and names are those of the workload `train_step`, so that a prediction and a measured pair can be found for each. What a switch costs
in time by rule is `bench.plan.fits`' own table. Adding a switch is adding a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

Filled = Mapping[str, str]
"""Slot to what fills it in the script, of those that were recognised."""

SIXTEEN_BITS = (
    "bf16_pure",
    "bf16_amp",
    "bf16_master",
    "fp16_pure",
    "fp16_amp_unscaled",
    "fp16_amp_static",
    "fp16_amp_dynamic",
    "fp16_master",
)
FAMILY = "<family>"
"""In words to paste: transformers' name of the model's family."""
SLOW_ATTENTION = ("eager", "sdpa_math")
PLAIN_ADAMW = ("adamw_foreach", "adamw_forloop")
HEAVY_ADAMW = (*PLAIN_ADAMW, "adamw_fused")


@dataclass(frozen=True, slots=True)
class Switch:
    """One thing to switch on."""

    name: str
    title: str
    off: Callable[[Filled], bool]
    """Whether it is off in this script, and could be on."""
    change: Callable[[Filled], Mapping[str, str]]
    """Slot to what would fill it."""
    by_hand: str
    """For a loop of one's own, where no Trainer reads settings."""
    modelled: bool = True
    """Whether the memory model has formulas for it."""
    caution: str | None = None
    """What else it changes."""


def _eager_slots(filled: Filled) -> Mapping[str, str]:
    slots = ("rms_norm", "rope", "swiglu", "linear_cross_entropy")
    return {slot: "liger" for slot in slots if filled.get(slot) == "eager"}


SWITCHES: tuple[Switch, ...] = (
    Switch(
        "flash_attention",
        "a fused attention kernel",
        off=lambda filled: filled.get("attention") in SLOW_ATTENTION,
        change=lambda filled: {"attention": "sdpa_flash" if filled.get("precision") in SIXTEEN_BITS else "sdpa_efficient"},
        by_hand='AutoModelForCausalLM.from_pretrained(..., attn_implementation="sdpa")',
    ),
    Switch(
        "flash_attn2",
        "FlashAttention-2 from its own package",
        off=lambda filled: (
            filled.get("attention") in ("sdpa_flash", "sdpa_efficient", "flex") and filled.get("precision") in SIXTEEN_BITS
        ),
        change=lambda filled: {"attention": "flash_attn2"},
        by_hand='AutoModelForCausalLM.from_pretrained(..., attn_implementation="flash_attention_2")',
    ),
    Switch(
        "liger",
        "Liger's fused layers and loss",
        off=lambda filled: bool(_eager_slots(filled)) and filled.get("compile", "none") == "none",
        change=_eager_slots,
        by_hand=f"liger_kernel.transformers.apply_liger_kernel_to_{FAMILY}()  # before the model is made",
    ),
    Switch(
        "fused_optimizer",
        "one fused kernel for the update",
        off=lambda filled: filled.get("optimizer") in PLAIN_ADAMW,
        change=lambda filled: {"optimizer": "adamw_fused"},
        by_hand="torch.optim.AdamW(parameters, ..., fused=True)",
    ),
    Switch(
        "optimizer_8bit",
        "8-bit optimizer states",
        off=lambda filled: filled.get("optimizer") in HEAVY_ADAMW,
        change=lambda filled: {"optimizer": "adamw8bit_bnb"},
        by_hand="bitsandbytes.optim.AdamW8bit(parameters, ...)",
        caution="states are rounded to 8 bits in blocks",
    ),
    Switch(
        "checkpointing",
        "gradient checkpointing of all layers",
        off=lambda filled: filled.get("checkpointing") == "none",
        change=lambda filled: {"checkpointing": "full"},
        by_hand='model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})',
        caution="each layer's forward runs twice",
    ),
    Switch(
        "autocast",
        "bf16 by autocast",
        off=lambda filled: filled.get("precision") in ("fp32", "tf32"),
        change=lambda filled: {"precision": "bf16_amp"},
        by_hand='with torch.autocast("cuda", torch.bfloat16): ...  # around the forward and the loss',
        caution="products are computed in 16 bits",
    ),
    Switch(
        "tf32",
        "TF32 for products in fp32",
        off=lambda filled: filled.get("precision") == "fp32",
        change=lambda filled: {"precision": "tf32"},
        by_hand='torch.backends.cuda.matmul.fp32_precision = "tf32"',
        caution="products keep 10 bits of the mantissa instead of 23",
    ),
    Switch(
        "compiled_layers",
        "torch.compile",
        off=lambda filled: filled.get("compile") == "none",
        change=lambda filled: {"compile": "layer"},
        by_hand="for layer in model.model.layers: layer.compile()",
        modelled=False,
        caution="the first steps compile",
    ),
    Switch(
        "quantized_base",
        "frozen weights in 4 bits (nf4)",
        off=lambda filled: filled.get("adaptation") == "lora" and filled.get("linear") == "plain",
        change=lambda filled: {"linear": "nf4_bnb"},
        by_hand='BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.bfloat16)',
        caution="the frozen weights lose accuracy",
    ),
)
