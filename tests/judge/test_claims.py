"""What is found of a claim: by the interval of our number, on hardware that it holds for, and otherwise with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bench.judge.claim_numbers import Row
from bench.judge.claim_records import Claim, Finding, Word
from bench.judge.claims import judge_claim
from bench.records import Cost, Environment, Status
from tests import factories

H200 = Environment({"device": "cuda", "gpu_model": "NVIDIA H200", "mig": None}, {})
RUN = factories.run(suite="attention")


def claim(**changes: Any) -> Claim:
    measured = {"suite": "attention", "profile": "published", "metric": "time_s", "of": "eager", "where": {"seq_len": 1024}}
    said = {
        "id": "one", "says": "10 ms", "source": "a page", "made_on": "H100 SXM", "configuration": "as there", "kind": "figure",
        "unit": "ms", "expected": 10.0, "carries_over_to": ["H100 SXM", "H200 SXM"], "measured_by": measured,
    }  # fmt: skip
    measured |= changes.pop("by", {})
    return Claim.model_validate({**said, **changes})


def rows(
    values: Sequence[float],
    subject: str = "eager",
    *,
    seq_len: int = 1024,
    metric: str = "time_s",
    gpu: str = "GPU-a",
    **changes: Any,
) -> list[Row]:
    case = factories.case(subject, seq_len=seq_len, device=changes.pop("device", "cuda"), dtype=changes.pop("dtype", "bf16"))
    environment = changes.pop("environment", H200)
    run = changes.pop("run", RUN)
    made = []
    for index, value in enumerate(values):
        measurements = (factories.measurement(metric, (value,)),)
        result = factories.result(
            run.id, case, index=index, environment=environment, measurements=measurements, conditions={"gpu_uuid": gpu}, **changes
        )
        made.append(Row(run, subject, result))
    return made


def found(of: Claim, *sides: list[Row]) -> Finding:
    return judge_claim(of, [row for side in sides for row in side])


def test_an_interval_within_the_tolerance_reproduces_and_one_outside_does_not() -> None:
    agrees = found(claim(), rows([0.0100, 0.0101, 0.0102]))
    assert agrees.word is Word.REPRODUCED
    assert agrees.ours is not None
    assert agrees.ours.low is not None
    assert agrees.ours.high is not None
    assert 0.009 < agrees.ours.low < agrees.ours.value < agrees.ours.high < 0.011
    assert (agrees.ours.n, agrees.ours.confidence, agrees.ours.device) == (3, 0.99, "H200 SXM")
    slower = found(claim(), rows([0.0150, 0.0151, 0.0152]))
    assert slower.word is Word.NOT_REPRODUCED
    assert not slower.more
    assert "51.0 % above the claim (-10 % to +10 % agree)" in slower.why


def test_an_interval_across_the_edge_can_not_be_told() -> None:
    finding = found(claim(), rows([0.0107, 0.0110, 0.0113]))
    assert finding.word is Word.CANNOT_TELL
    assert "across the edge" in finding.why


def test_what_is_better_than_claimed_is_not_reproduced_and_says_that_it_is_more() -> None:
    finding = found(claim(), rows([0.0050, 0.0050, 0.0051]))
    assert finding.word is Word.NOT_REPRODUCED
    assert finding.more
    assert finding.why.startswith("more than claimed")


def test_one_process_has_no_interval_and_says_what_was_taken_for_granted() -> None:
    finding = found(claim(), rows([0.0100]))
    assert finding.word is Word.REPRODUCED
    assert finding.ours is not None
    assert finding.ours.confidence is None
    assert "1 process and so no interval: taken as known within 2 %" in finding.why
    assert found(claim(), rows([0.0109])).word is Word.CANNOT_TELL


def test_a_number_of_other_hardware_is_shown_and_not_judged() -> None:
    finding = found(claim(carries_over_to=["A100 SXM 80GB"], made_on="A100 SXM 80GB"), rows([0.010, 0.010, 0.010]))
    assert finding.word is Word.NOT_COMPARABLE
    assert finding.why.startswith("other hardware: claimed for A100 SXM 80GB, measured on H200 SXM; judged all the same")
    assert finding.ours is not None
    assert finding.ours.value == 0.010


def test_bytes_may_carry_over_to_any_gpu_and_not_to_a_cpu() -> None:
    of = claim(unit="MiB", expected=64, carries_over_to=["cuda"], by={"metric": "peak_bytes"})
    assert found(of, rows([64 * 2**20], metric="peak_bytes")).word is Word.REPRODUCED
    on_cpu = rows([64 * 2**20], metric="peak_bytes", device="cpu", environment=factories.environment())
    assert found(of, on_cpu).word is Word.NOT_COMPARABLE
    assert found(claim(**{**of.model_dump(), "carries_over_to": ["any"]}), on_cpu).word is Word.REPRODUCED


def test_rows_of_hardware_that_a_claim_holds_for_come_before_newer_ones_of_other_hardware() -> None:
    newer = rows(
        [0.020] * 3, device="cuda", environment=Environment({"gpu_model": "NVIDIA A10"}, {}), started_at="2027-01-01T00:00:00Z"
    )
    finding = found(claim(), rows([0.010] * 3), newer)
    assert finding.ours is not None
    assert finding.ours.device == "H200 SXM"


def test_what_was_not_measured_says_so_with_the_command_that_measures_it() -> None:
    finding = found(claim(), rows([0.010], seq_len=2048))
    assert finding.word is Word.NOT_COMPARABLE
    assert finding.why == "not measured: no row of eager of suite attention at seq_len=1024"
    assert finding.measure == "bench run suites/attention.yaml --profile published --filter seq_len=1024"


def test_other_precision_is_told_apart_from_not_measured() -> None:
    of = claim(by={"where": {"seq_len": 1024, "dtype": "fp16"}})
    assert found(of, rows([0.010])).why == "other precision: claimed in fp16, and eager is measured in bf16 only"


def test_a_subject_that_did_not_run_is_told_with_its_status() -> None:
    case = factories.case(seq_len=1024, device="cuda", dtype="bf16")
    lost = factories.result(RUN.id, case, environment=H200, status=Status.OOM, reason="out of memory\nat length")
    assert found(claim(), [Row(RUN, "eager", lost)]).why == "eager did not run: oom: out of memory"


def test_a_ratio_never_spans_two_commits() -> None:
    of = claim(kind="ratio", unit="×", expected=2.0, by={"over": "sdpa_flash"})
    fast = rows([0.010] * 3, "sdpa_flash")
    assert found(of, rows([0.0200, 0.0201, 0.0202]), fast).word is Word.REPRODUCED
    apart = found(of, rows([0.020] * 3, harness_version="another"), fast)
    assert apart.word is Word.NOT_COMPARABLE
    assert apart.why.startswith("not measured in one go")


def test_a_ratio_has_the_interval_of_its_processes_on_one_gpu() -> None:
    of = claim(kind="ratio", unit="×", expected=2.0, by={"over": "sdpa_flash"})
    finding = found(of, rows([0.0200, 0.0201, 0.0203]), rows([0.0100, 0.0101, 0.0100], "sdpa_flash"))
    assert finding.ours is not None
    assert finding.ours.low is not None
    assert finding.ours.high is not None
    assert finding.ours.low < 2.0 < finding.ours.high
    elsewhere = found(of, rows([0.0200, 0.0201, 0.0203]), rows([0.0100, 0.0101, 0.0100], "sdpa_flash", gpu="GPU-b"))
    assert elsewhere.ours is not None
    assert elsewhere.ours.confidence is None


def test_a_ratio_farther_from_one_than_claimed_is_more_than_claimed() -> None:
    saves = claim(kind="ratio", unit="×", expected=0.4, carries_over_to=["cuda"], by={"metric": "peak_bytes", "over": "sdpa_flash"})
    whole = rows([1000.0] * 3, "sdpa_flash", metric="peak_bytes")
    assert found(saves, rows([100.0] * 3, metric="peak_bytes"), whole).more
    less = found(saves, rows([900.0] * 3, metric="peak_bytes"), whole)
    assert (less.word, less.more) == (Word.NOT_REPRODUCED, False)


def test_an_exponent_is_that_of_the_sizes_and_needs_three() -> None:
    of = claim(
        kind="exponent",
        expected=2.0,
        unit="×",
        by={"metric": "peak_bytes", "along": "seq_len", "where": {}},
        carries_over_to=["any"],
    )
    quadratic = [rows([float(size**2)], seq_len=size, metric="peak_bytes") for size in (128, 256, 512)]
    finding = found(of, *quadratic)
    assert finding.word is Word.REPRODUCED
    assert finding.ours is not None
    assert finding.ours.n == 3
    assert round(finding.ours.value, 9) == 2.0
    assert found(of, *quadratic[:2]).why == "fewer than three sizes of seq_len are measured"
    linear = [rows([float(size)], seq_len=size, metric="peak_bytes") for size in (128, 256, 512)]
    assert found(of, *linear).word is Word.NOT_REPRODUCED


def test_an_order_is_told_by_trials_that_saw_the_same_inputs() -> None:
    of = claim(kind="ordering", expected="higher", by={"metric": "accuracy", "over": "flex"}, carries_over_to=["any"])
    # Between seeds accuracies differ by more than between the two ways, and pair by pair the first is always ahead.
    better = rows([0.50, 0.71, 0.92], metric="accuracy"), rows([0.40, 0.60, 0.82], "flex", metric="accuracy")
    assert found(of, *better).word is Word.REPRODUCED
    assert found(of, rows([0.5, 0.7], metric="accuracy"), rows([0.4, 0.6], "flex", metric="accuracy")).word is Word.CANNOT_TELL
    worse = rows([0.40, 0.60, 0.82], metric="accuracy"), rows([0.50, 0.71, 0.92], "flex", metric="accuracy")
    assert found(of, *worse).word is Word.NOT_REPRODUCED
    mixed = rows([0.50, 0.60, 0.92], metric="accuracy"), rows([0.40, 0.71, 0.82], "flex", metric="accuracy")
    assert found(of, *mixed).word is Word.CANNOT_TELL


def test_a_rate_is_the_work_of_the_formula_over_the_time() -> None:
    of = claim(unit="TFLOP/s", expected=300, by={"metric": "flops_per_s"})
    finding = found(of, rows([0.01, 0.01, 0.01], cost=Cost(flops=3 * 10**12)))
    assert finding.word is Word.REPRODUCED
    assert finding.ours is not None
    assert round(finding.ours.value / 1e12, 6) == 300
    assert found(of, rows([0.01] * 3, cost=None)).why.startswith("the rows have no flops_per_s")


def test_model_states_are_the_sum_of_what_a_rank_holds_and_none_where_a_part_of_it_was_not_measured() -> None:
    of = claim(unit="GB", expected=16, by={"metric": "model_state_bytes"})
    (whole,) = rows([2e9], metric="weight_bytes")
    parts = [
        factories.measurement(name, (size,))
        for name, size in (("gradient_bytes", 2e9), ("master_bytes", 4e9), ("state_bytes", 8e9))
    ]
    result = replace(whole.result, measurements=(*whole.result.measurements, *parts))
    ours = found(of, [replace(whole, result=result)]).ours
    assert ours is not None
    assert ours.value == 16e9
    assert found(of, [replace(whole, result=replace(result, measurements=result.measurements[:-1]))]).ours is None


def test_a_time_with_launch_gaps_says_so_and_bytes_do_not() -> None:
    slow = rows([0.010] * 3)
    bound = [Row(row.run, row.label, replace(row.result, conditions={"gpu_uuid": "GPU-a", "launch_bound": True})) for row in slow]
    assert found(claim(), bound).why.endswith("launch gaps are in the time of some rows")
    assert "launch gaps" not in found(claim(), slow).why
    sized = rows([2.0**20] * 3, metric="peak_bytes")
    bound = [Row(row.run, row.label, replace(row.result, conditions={"launch_bound": True})) for row in sized]
    assert "launch gaps" not in found(claim(unit="MiB", expected=1, by={"metric": "peak_bytes"}), bound).why


def test_what_can_never_be_measured_here_keeps_its_reason_beside_a_number() -> None:
    of = claim(never_here="ours is another kernel")
    assert found(of).why == "ours is another kernel"
    finding = found(of, rows([0.010] * 3))
    assert finding.word is Word.NOT_COMPARABLE
    assert finding.why.startswith("ours is another kernel; judged all the same it would be: reproduced")
    assert finding.ours is not None
