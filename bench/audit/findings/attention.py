"""The attention that was asked for against the kernels that ran, layer by layer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from bench.audit.finding import Finding, fine, look, wrong
from bench.audit.switches import SLOW_ATTENTION
from bench.audit.whole import Audit
from bench.audited import ATTENTION_KINDS

ANSWERS: Mapping[str, tuple[str, ...]] = {
    "eager": ("eager",),
    "sdpa": ("sdpa_flash", "sdpa_cudnn", "sdpa_efficient", "sdpa_math"),
    "flash_attention_2": ("flash_attn2",),
    "flash_attention_3": ("flash_attn3",),
    "flash_attention_4": ("flash_attn4",),
    "flex_attention": ("flex",),
}
"""Word of transformers to what it means, as a probe names it."""


def find(audit: Audit) -> Iterator[Finding]:
    seen = audit.first
    if seen is None or not seen.attention:
        return
    asked = audit.configured("attn_implementation")
    ran = {one.kind: one for one in seen.attention}
    layers = sum(one.modules for one in seen.attention)
    shown = ", ".join(f"{ATTENTION_KINDS.get(kind, kind)} ({one.modules or one.calls})" for kind, one in ran.items())
    if asked in ANSWERS:
        meant = [one for kind, one in ran.items() if kind in ANSWERS[asked]]
        right = sum(one.modules for one in meant)
        numbers = {"layers": layers, "layers_as_asked": right, "calls": sum(one.calls for one in seen.attention)}
        if len(meant) == len(ran):
            where = f"{right} of {layers} layers" if layers else f"all {numbers['calls']} calls"
            yield fine("attention", f"{asked} requested, {where} ran it: {shown}", **numbers)
        else:
            where = f"{layers - right} of {layers} layers" if layers else "a part of the calls"
            why = "output_attentions needs the weights themselves" if audit.configured("output_attentions") else None
            yield wrong(
                "attention",
                f"{asked} requested, and {where} ran something else: {shown}" + (f"; {why}" if why else ""),
                "look for a class of one's own, output_attentions=True, a head mask, or a warning of transformers at loading",
                **numbers,
            )
    slow = [one for kind, one in ran.items() if kind in SLOW_ATTENTION]
    if slow and asked != "eager":
        share = sum(one.share for one in slow)
        yield look(
            "attention_without_a_fused_kernel",
            f"{' and '.join(ATTENTION_KINDS[one.kind] for one in slow)} computed attention: scores grow with the square of the sequence",
            "give torch what its fused kernels take: 16 bits, or a mask that is causal or none" if "sdpa_math" in ran else None,
            device_time_share=share,
        )
