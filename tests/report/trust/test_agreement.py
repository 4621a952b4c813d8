"""Arms of a training step that compute in the same dtypes are held against each other by the gradients of their first update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from bench.records import Json, Measurement, Result, Run
from bench.report.numbers.summary import CaseSummary, summarize
from bench.report.recompute.evidence import told_conditions
from bench.report.trust.agreement import gradients_apart
from bench.report.trust.doubts import doubts
from tests.report.views.sharding_sample import shared_run

NORMS = {"none": 12.51, "ddp": 12.52, "zero1": 12.50}
DTYPES: Mapping[str, Json] = {
    "gradients_of_step": 1, "numerics_weights": "bf16", "numerics_compute": "bf16", "numerics_loss_scaling": "none",
    "learned_parameters": 1000,
}  # fmt: skip


def stepped(norms: Mapping[str, float], dtypes: Mapping[str, Mapping[str, Json]] | None = None) -> tuple[Run, list[Result]]:
    """One rank's steps of each sharding, with these norms; `dtypes` changes what a sharding says of itself."""
    run, rows = shared_run(tuple(norms), ranks=(1,))

    def with_norm(row: Result) -> Result:
        way = row.case.subject["sharding"]
        measured = Measurement("gradient_norm", "L2", (norms[way] * (1 + row.trial.index / 10),))
        told = {**row.conditions, **DTYPES, **(dtypes or {}).get(way, {})}
        return replace(row, measurements=(*row.measurements, measured), conditions=told)

    return run, [with_norm(row) for row in rows]


def cases(norms: Mapping[str, float], dtypes: Mapping[str, Mapping[str, Json]] | None = None) -> list[CaseSummary]:
    return list(summarize(*stepped(norms, dtypes)))


def test_arms_that_differ_by_rounding_agree() -> None:
    assert gradients_apart(cases(NORMS)) is None


def test_an_arm_whose_gradients_are_others_is_told_with_how_far_it_is() -> None:
    run, rows = stepped({**NORMS, "zero1": 13.75})
    summaries = summarize(run, rows)
    apart = gradients_apart(summaries)
    assert apart is not None
    assert (apart.trials, apart.of) == (3, 9)
    assert "zero1" in apart.label
    assert apart.share == pytest.approx(13.75 / 12.52 - 1)
    (doubt,) = [doubt for doubt in doubts(run, summaries) if "gradients at the first update" in doubt.text]
    assert doubt.count == 3


@pytest.mark.parametrize(
    ("norms", "trials", "furthest"),
    [
        ({"none": 12.50, "ddp": 12.80}, 6, "ddp"),
        ({"none": 12.80, "ddp": 12.50}, 6, "none"),
        ({"none": 12.50, "ddp": 12.50, "zero1": 12.80}, 3, "zero1"),
        ({"none": 12.50, "ddp": 12.50, "zero1": 12.80, "zero2": 12.80}, 12, "zero"),
        ({"none": 12.50, "ddp": 12.50, "zero1": 12.50, "zero2": 12.80, "zero3": 12.80}, 6, "zero"),
    ],
)
def test_an_arm_is_held_against_the_others_and_not_against_itself(norms: dict[str, float], trials: int, furthest: str) -> None:
    apart = gradients_apart(cases(norms))
    assert apart is not None
    assert (apart.trials, apart.of) == (trials, 3 * len(norms))
    assert furthest in apart.label
    assert apart.share == pytest.approx(12.80 / 12.50 - 1)


def test_two_arms_within_the_limit_agree() -> None:
    assert gradients_apart(cases({"none": 12.50, "ddp": 12.74})) is None


def test_an_arm_that_was_measured_more_than_once_is_one_arm() -> None:
    run, rows = stepped({"none": 12.5, "ddp": 12.5, "zero1": 13.75})
    first = {row.case.subject["sharding"]: row for row in rows if row.trial.index == 0}
    again = [replace(first["zero1"], id=f"again-{count}") for count in range(3)]
    apart = gradients_apart(summarize(run, [*first.values(), *again]))
    assert apart is not None
    assert (apart.trials, apart.of) == (4, 6)
    assert "zero1" in apart.label
    other = replace(again[0], measurements=(Measurement("gradient_norm", "L2", (99.0,)),))
    assert gradients_apart(summarize(run, [first["zero1"], other])) is None, "no other arm says what is right"


@pytest.mark.parametrize(
    "other",
    [
        {"numerics_compute": "bf16+float8"},
        {"numerics_weights": "Params4bit+bf16"},
        {"learned_parameters": 10},
        {"numerics_loss_scaling": "dynamic"},
        {"gradients_of_step": None},
    ],
)
def test_who_computes_in_other_dtypes_or_learns_other_weights_or_looked_later_is_held_against_nobody(
    other: dict[str, Json],
) -> None:
    assert gradients_apart(cases({**NORMS, "zero1": 99.0}, {"zero1": other})) is None


def test_shards_are_held_against_whole_weights() -> None:
    assert (
        gradients_apart(cases({"none": 12.5, "ddp": 12.5, "fsdp2": 15.0}, {"fsdp2": {"numerics_weights": "bf16 shards"}}))
        is not None
    )


def test_trials_of_other_seeds_are_other_batches() -> None:
    run, rows = stepped({**NORMS, "zero1": 13.75})
    other = [replace(row, seed=8) if row.case.subject["sharding"] == "zero1" else row for row in rows]
    assert gradients_apart(summarize(run, other)) is None


def test_what_a_page_repeats_of_a_trial_says_the_same() -> None:
    run, rows = stepped({**NORMS, "zero1": 13.75})
    told = [replace(row, seed=None, conditions=told_conditions(row)) for row in rows]
    assert gradients_apart(summarize(run, told)) == gradients_apart(summarize(run, rows))
