"""What to switch on next: each switch that is off, what it is predicted to save, what it was measured to gain, and what to paste.

The order is by the share of the step's time that was measured to go, plus the share of the peak that is predicted to go, less what the
plan's rule expects to be paid in time where nothing was measured. A switch that promises neither is not told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.audit.gains import MeasuredGain, gain_of, load_measured
from bench.audit.modelled import Modelled, NotModelled, batch_shape, modelled, with_change
from bench.audit.pasted import pasted
from bench.audit.recognised import Recognised, recognise
from bench.audit.switches import SWITCHES, Switch
from bench.audit.whole import Audit
from bench.plan.fits import rule_cost
from bench.plan.predict import peak_bytes
from bench.plan.spec import PlanError
from bench.records import Scalar

if TYPE_CHECKING:
    from bench.store import Store

LEAST_SHARE = 0.01
"""Of the peak: less is no reason to change a setting."""
FAR_OFF = 0.2
"""From which on a prediction is so far from what was measured that its differences are doubtful too."""


@dataclass(frozen=True, slots=True)
class Next:
    """One switch with what it promises."""

    switch: Switch
    change: Mapping[str, str]
    saved_bytes: int | None
    """Of the predicted peak; None where it is not modelled."""
    saved_share: float | None
    rule_ratio: float
    """Time of a step with it over that without, by the plan's rule; 1 where it is not modelled."""
    why_not_predicted: str | None
    gain: MeasuredGain | None
    setting: str

    @property
    def worth(self) -> float:
        """By which they are ordered."""
        faster = 1 - self.gain.ratio.value if self.gain is not None else 1 - self.rule_ratio
        return faster + (self.saved_share or 0.0)


@dataclass(frozen=True, slots=True)
class Advice:
    """All of it."""

    recognised: Recognised
    steps: tuple[Next, ...]
    predicted: Modelled | None
    why_not_predicted: str | None
    """Why nothing is predicted."""
    measured_here: bool
    """Whether the database holds training steps of this GPU model at all."""
    off: float | None = None
    """By how much of what was measured the prediction of what runs now is higher; None without a prediction or on a CPU."""


def advise(audit: Audit, store: Store | None) -> Advice:
    """Of an audit that saw an update. Without a store nothing is said to be measured."""
    found = recognise(audit)
    try:
        plan, why = modelled(audit, found), None
    except NotModelled as error:
        plan, why = None, str(error)
    measured = load_measured(store, audit.gpu) if store is not None else None
    now: dict[str, Scalar] = {**found.filled, **_sizes(audit)}
    steps = []
    for switch in SWITCHES:
        if not switch.off(found.filled):
            continue
        change = switch.change(found.filled)
        saved, rule, why_not = _predicted(switch, change, plan, why)
        gain = gain_of(measured, now, change) if measured is not None else None
        share = saved / plan.peak_bytes if saved is not None and plan is not None else None
        step = Next(switch, change, saved, share, rule, why_not, gain, pasted(switch, change, found.filled, plan, audit))
        if (share or 0.0) >= LEAST_SHARE or (gain is not None and gain.promised):
            steps.append(step)
    steps.sort(key=lambda step: -step.worth)
    off = plan.peak_bytes / audit.peak_bytes - 1 if plan is not None and audit.peak_bytes and audit.on_cuda else None
    return Advice(found, tuple(steps), plan, why, measured is not None and bool(measured.points), off)


def _predicted(
    switch: Switch, change: Mapping[str, str], plan: Modelled | None, why: str | None
) -> tuple[int | None, float, str | None]:
    """Bytes that go from the peak, the rule's ratio of times, and why there are none."""
    if plan is None:
        return None, 1.0, why
    if not switch.modelled:
        return None, 1.0, f"the memory model has no formulas for {switch.title}"
    try:
        after = with_change(plan.train, change)
        return plan.peak_bytes - peak_bytes(plan.model, after), rule_cost(after) / rule_cost(plan.train), None
    except PlanError as error:
        return None, 1.0, str(error)


def _sizes(audit: Audit) -> dict[str, Scalar]:
    """As far as the model's configuration and the inputs tell."""
    shape = batch_shape(audit)
    known = {"hidden_size": audit.configured("hidden_size"), "layers": audit.configured("num_hidden_layers")}
    found: dict[str, Scalar] = {name: value for name, value in known.items() if isinstance(value, int)}
    return found if shape is None else {**found, "batch": shape[0], "seq_len": shape[1]}
