"""Has the loss diverged at the measured size? All calls of a trial train on one batch, over and over, so it can only get easier.

A model that has learned nothing says ln(vocab_size), and a random one begins near it. A step has diverged that ends a whole nat above both
that and its own first loss: right answers are then less than a third as likely as by guessing. Noise, dropout and an overshooting first
update stay far below. The loss is that of a call which is looked at anyway, after the samples, so nothing waits for it meanwhile.
"""

from __future__ import annotations

import math

from bench.records import Check

FEWEST_STEPS = 10
"""Before that a loss may still swing: a probe makes two."""
MARGIN_NATS = 1.0


def diverged(first: float | None, last: float, vocab_size: int, steps: int) -> list[Check]:
    """A failed check of the loss `last` of step `steps`, the first having been `first`; nothing where all is well or not finite."""
    if first is None or steps < FEWEST_STEPS or not (math.isfinite(first) and math.isfinite(last)):
        return []
    ignorance = math.log(vocab_size)
    if last <= max(first, ignorance) + MARGIN_NATS:
        return []
    detail = (
        f"diverged at the measured shape: {first:.3g} nats in step 1 and {last:.3g} in step {steps} on the same batch, where a model that"
        f" has learned nothing has {ignorance:.3g} (ln {vocab_size}); take a lower lr, or hold it against an arm that learns"
    )
    return [Check("loss", "course", None, None, None, False, detail)]
