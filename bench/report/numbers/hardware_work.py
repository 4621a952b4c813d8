"""How much of its peak a GPU works at in a training step, what checkpointing computes again included: hardware FLOP/s utilisation."""

from __future__ import annotations

from dataclasses import dataclass

from bench.records import Case
from bench.report.numbers import units
from bench.report.numbers.rates import utilisation
from bench.report.numbers.summary import CaseSummary

NAME = "hardware FLOP/s utilisation"


@dataclass(frozen=True, slots=True)
class HardwareUtilisation:
    """HFU of a training step."""

    share: float
    formula: str | None
    """None where nothing is computed again: then the share is the MFU, which has a formula of its own."""


def hardware_utilisation(summary: CaseSummary) -> HardwareUtilisation | None:
    """None where there is no MFU, and where it cannot be told what is computed again."""
    of_model, timed = utilisation(summary), summary.timed
    if of_model is None or timed is None or not timed.cost.flops:
        return None
    flops = again_flops(summary.case)
    if not flops:
        return None if flops is None else HardwareUtilisation(of_model.share, None)
    share = of_model.share * (timed.cost.flops + flops) / timed.cost.flops
    work, more = (units.rate(float(count), "FLOP") for count in (timed.cost.flops, flops))
    quotient = f"({work} + {more} that checkpointing computes again) / {units.seconds(timed.median_s)} / {of_model.denominator}"
    return HardwareUtilisation(share, f"HFU {units.percent(share)} = {quotient}")


def again_flops(case: Case) -> int | None:
    """FLOPs of the layers' forward that a step computes a second time; None for a case or a way of checkpointing that is not ours."""
    from bench.workloads.checkpointing import recomputed_share
    from bench.workloads.train_step import WORKLOAD
    from bench.workloads.train_step._architectures import windows
    from bench.workloads.train_step._flops import again_flops as counted

    try:
        spec = WORKLOAD.spec(case)
        share = recomputed_share(spec)
        return None if share is None else counted(spec, windows(spec.shape), share)
    except (KeyError, TypeError, ValueError, ArithmeticError, MemoryError):
        return None  # rows of other tools, and of versions with other parameters
