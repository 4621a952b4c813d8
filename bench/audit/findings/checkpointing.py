"""Gradient checkpointing: asked for, switched on in the layers, and seen to compute again."""

from __future__ import annotations

from collections.abc import Iterator

from bench.audit.finding import Finding, fine, look, wrong
from bench.audit.whole import Audit


def find(audit: Audit) -> Iterator[Finding]:
    seen = audit.first
    found = seen.checkpointing if seen is not None else None
    if found is None or not found.layers:
        return
    asked = bool(audit.asked("gradient_checkpointing")) or found.enabled > 0
    numbers = {"layers": found.layers, "switched_on": found.enabled, "recomputed": found.recomputed}
    layers = f"{found.layers} layers ({found.layer_class})" if found.layer_class else f"{found.layers} layers"
    if found.recomputed is None:
        if asked:
            yield look(
                "checkpointing",
                f"gradient checkpointing was asked for; whether the {layers} ran again could not be watched",
                **numbers,
            )
        return
    if asked and not found.recomputed:
        cache = "; use_cache is on in the model's configuration" if audit.configured("use_cache") else ""
        yield wrong(
            "checkpointing",
            f"gradient checkpointing was asked for, and 0 of {layers} computed their forward again{cache}",
            "model.train() and gradient_checkpointing_enable() on the model that is trained; with adapters enable_input_require_grads()",
            **numbers,
        )
    elif found.recomputed == found.layers:
        yield fine("checkpointing", f"all {layers} are checkpointed", **numbers)
    elif found.recomputed:
        yield look("checkpointing", f"{found.recomputed} of {layers} are checkpointed", **numbers)
    if found.recomputed and found.reentrant:
        yield look(
            "reentrant_checkpointing",
            "checkpointing is reentrant: it forgets hooks and frozen inputs, and torch advises against it",
            'gradient_checkpointing_kwargs={"use_reentrant": False}',
        )
