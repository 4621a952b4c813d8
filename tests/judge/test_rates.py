"""A share names its denominator, and where the denominator would be wrong there is no share."""

from __future__ import annotations

import dataclasses

import pytest

from bench.judge.rates import ABOVE, ByGpu, Rates, Timed, ceilings, rates
from bench.records import Case, Cost, Environment, Pass
from bench.run.canaries import COPY_ELEMENTS, MATMUL_SIZE, canary_cases
from tests import factories

MIB = 2**20
NO_UUID: frozenset[str] = frozenset()
H200 = {"device": "cuda", "gpu_model": "NVIDIA H200", "mig": None}


def _timed(
    case: Case, seconds: float, *, flops: int | None = None, moved: int | None = None, tokens: int | None = None, **hard: object
) -> Timed:
    environment = Environment({**H200, **hard}, {"l2_bytes": 60 * MIB})
    return Timed(case, Cost(flops, moved, tokens), (seconds,), environment)


def _case(dtype: str = "bf16", **changes: object) -> Case:
    return dataclasses.replace(factories.case(), dtype=dtype, device="cuda", cache="cold", timer="events", **changes)


def _canaries(dtypes: tuple[str, ...] = ("bf16",)) -> list[Timed]:
    """A machine that reaches 700 TFLOP/s (350 in tf32) and 4 TB/s."""
    found = []
    for case in canary_cases([_case(dtype) for dtype in dtypes]):
        if case.workload == "matmul":
            flops = 2 * MATMUL_SIZE**3
            found.append(_timed(case, flops / (700e12 if case.dtype == "bf16" else 350e12), flops=flops, moved=400 * MIB))
        else:
            found.append(_timed(case, 4 * COPY_ELEMENTS / 4e12, flops=0, moved=4 * COPY_ELEMENTS))
    return found


def _rates(timed: Timed, measured: ByGpu | None = None) -> Rates:
    return rates(timed, ceilings(_canaries()) if measured is None else measured)


def test_the_canaries_of_a_run_are_its_ceilings_and_say_so() -> None:
    found = ceilings(_canaries(("bf16", "tf32")))[NO_UUID]
    assert found.flops["bf16"].per_s == pytest.approx(700e12)
    assert found.flops["tf32"].per_s == pytest.approx(350e12)
    assert found.bytes is not None
    assert found.bytes.per_s == pytest.approx(4e12)
    assert found.flops["bf16"].source == "matmul bf16 of this run, 8192 × 8192 × 8192, median of 1 trial"
    assert found.bytes.name == "copy of this run"


def test_another_shape_of_a_canary_is_no_ceiling() -> None:
    small = dataclasses.replace(_canaries()[0].case, params={"m": 64, "n": 64, "k": 64})
    backward = dataclasses.replace(_canaries()[0].case, pass_=Pass.BACKWARD)
    assert ceilings([_timed(case, 1.0, flops=10, moved=10) for case in (small, backward)]) == {}


def test_a_rate_has_a_share_of_what_was_measured_and_one_of_the_data_sheet() -> None:
    found = _rates(_timed(_case(), 1e-3, flops=350_000_000_000, moved=1000 * MIB, tokens=4096))
    assert found.flops is not None
    assert found.bytes is not None
    assert found.tokens is not None
    assert found.flops.measured is not None
    assert found.flops.data_sheet is not None
    assert found.flops.per_s == pytest.approx(350e12)
    assert found.flops.measured.value == pytest.approx(0.5)
    assert found.flops.data_sheet.value == pytest.approx(350 / 989.4)
    assert found.flops.data_sheet.ceiling.name == "H200 SXM data sheet"
    assert found.flops.data_sheet.ceiling.source == "NVIDIA H200 Tensor Core GPU data sheet"
    assert found.tokens.per_s == pytest.approx(4096e3)
    assert found.tokens.share is None
    assert found.intensity == pytest.approx(350e9 / (1000 * MIB))
    assert found.leading is found.flops


def test_a_memory_bound_case_is_led_by_its_bandwidth() -> None:
    found = _rates(_timed(_case(), 1e-3, flops=1_000_000_000, moved=2_000_000_000))
    assert found.bytes is not None
    assert found.bytes.measured is not None
    assert found.leading is found.bytes
    assert found.bytes.measured.value == pytest.approx(0.5)


def test_what_the_cache_may_have_served_has_a_rate_but_no_share_of_bandwidth() -> None:
    below = _rates(_timed(_case(), 1e-3, flops=1, moved=240 * MIB - 1)).bytes
    at = _rates(_timed(_case(), 1e-3, flops=1, moved=240 * MIB)).bytes
    assert below is not None
    assert below.per_s > 0
    assert below.share is None
    assert below.withheld is not None
    assert "L2 of 60 MiB" in below.withheld
    assert at is not None
    assert at.measured is not None


def test_an_unknown_l2_gives_no_share_of_bandwidth() -> None:
    timed = dataclasses.replace(_timed(_case(), 1e-3, moved=2**40), environment=Environment(H200, {}))
    found = _rates(timed).bytes
    assert found is not None
    assert found.share is None


@pytest.mark.parametrize("dtype", ["fp32", "tf32", "fp16"])
def test_a_dtype_whose_product_was_not_measured_has_no_measured_share(dtype: str) -> None:
    found = _rates(_timed(_case(dtype), 1e-3, flops=10**9)).flops
    assert found is not None
    assert found.measured is None
    assert found.data_sheet is not None


def test_above_the_measured_ceiling_is_flagged() -> None:
    found = _rates(_timed(_case(), 1e-3, flops=770_000_000_000))
    assert found.above_measured == (found.flops,)
    assert _rates(_timed(_case(), 1e-3, flops=690_000_000_000)).above_measured == ()


def test_a_share_that_prints_as_the_whole_ceiling_is_not_above_it() -> None:
    near, above = (_rates(_timed(_case(), 1e-3, flops=int(700e9 * share))) for share in (ABOVE - 0.001, ABOVE + 0.001))
    assert near.above_measured == ()
    assert above.above_measured == (above.flops,)


def test_what_computes_in_a_format_that_is_not_known_has_rates_and_no_share_of_the_ceilings() -> None:
    timed = _timed(_case(), 1e-3, flops=940_000_000_000, moved=2_000 * MIB)
    found = _rates(dataclasses.replace(timed, in_its_dtype=False, multiplies_in=None))
    assert found.flops is not None
    assert found.bytes is not None
    assert found.flops.per_s == pytest.approx(940e12)
    assert (found.flops.share, found.bytes.share) == (None, None)
    assert found.flops.withheld is not None
    assert "another format than the bf16" in found.flops.withheld
    assert found.above_measured == ()
    assert _rates(timed).above_measured == (_rates(timed).flops,)


def test_what_unpacks_its_weights_and_multiplies_in_the_dtype_has_a_share_of_work_and_none_of_bandwidth() -> None:
    timed = _timed(_case(), 1e-3, flops=350_000_000_000, moved=2_000 * MIB)
    found = _rates(dataclasses.replace(timed, in_its_dtype=False))
    assert found.flops == _rates(timed).flops
    assert found.flops is not None
    assert found.flops.share is not None
    assert found.flops.share.value == pytest.approx(0.5)
    assert found.bytes is not None
    assert found.bytes.share is None
    assert "another format than the bf16" in str(found.bytes.withheld)


def test_what_multiplies_in_fp8_is_held_against_the_data_sheets_fp8_alone_and_int8_against_nothing() -> None:
    timed = dataclasses.replace(_timed(_case(), 1e-3, flops=989_450_000_000), in_its_dtype=False)
    (fp8, int8) = (_rates(dataclasses.replace(timed, multiplies_in=format_)).flops for format_ in ("fp8", "int8"))
    assert fp8 is not None
    assert fp8.measured is None
    assert fp8.data_sheet is not None
    assert fp8.data_sheet.value == pytest.approx(0.5)
    assert fp8.data_sheet.ceiling.name == "H200 SXM data sheet for fp8"
    assert int8 is not None
    assert int8.share is None
    assert int8.withheld == "no share: it multiplies in int8, of which neither this run nor the data sheet has a ceiling"


def test_where_there_is_no_ceiling_no_share_is_withheld() -> None:
    timed = _timed(_case(), 1e-3, flops=10**9, moved=2**40, gpu_model="Some New GPU")
    found = rates(dataclasses.replace(timed, in_its_dtype=False, multiplies_in=None), {})
    assert found.flops is not None
    assert found.flops.withheld is None


@pytest.mark.parametrize("hard", [{"gpu_model": "Some New GPU"}, {"mig": "1g.18gb"}])
def test_an_unknown_gpu_and_a_part_of_a_gpu_have_no_data_sheet(hard: dict[str, object]) -> None:
    found = _rates(_timed(_case(), 1e-3, flops=10**9, **hard)).flops
    assert found is not None
    assert found.data_sheet is None
    assert found.measured is not None


def test_a_cpu_has_rates_without_shares() -> None:
    timed = Timed(factories.case(), Cost(10**9, 2**32, 128), (1e-3,), factories.environment())
    found = rates(timed, ceilings([timed]))
    assert found.flops is not None
    assert found.flops.per_s == pytest.approx(1e12)
    assert found.bytes is not None
    assert found.flops.share is None
    assert found.bytes.share is None
    assert found.bytes.withheld is None
    assert found.leading is found.flops


def test_a_canary_is_not_held_against_itself() -> None:
    found = _rates(_canaries()[0]).flops
    assert found is not None
    assert found.measured is None
    assert found.data_sheet is not None


def test_the_work_of_all_ranks_counts() -> None:
    one, two = (_rates(_timed(_case(world_size=ranks), 1e-3, flops=10**9, moved=2**40)) for ranks in (1, 2))
    assert one.flops is not None
    assert two.flops is not None
    assert two.flops.per_s == 2 * one.flops.per_s == 2e12


def test_several_ranks_have_no_share() -> None:
    found = _rates(_timed(_case(world_size=2), 1e-3, flops=10**9, moved=2**40))
    assert found.flops is not None
    assert found.flops.share is None
    assert found.bytes is not None
    assert found.bytes.share is None


def _on(timed: Timed, *gpus: str) -> Timed:
    return dataclasses.replace(timed, gpus=frozenset(gpus))


def test_a_share_needs_a_canary_of_the_same_physical_gpu() -> None:
    measured = ceilings([_on(canary, "GPU-a") for canary in _canaries()])
    subject = _timed(_case(), 1e-3, flops=350_000_000_000, moved=1000 * MIB)
    same = rates(_on(subject, "GPU-a"), measured)
    assert same.flops is not None
    assert same.flops.measured is not None
    for other in (_on(subject, "GPU-b"), _on(subject, "GPU-a", "GPU-b"), subject):
        found = rates(other, measured)
        assert found.flops is not None
        assert found.bytes is not None
        assert (found.flops.measured, found.bytes.measured) == (None, None)
        assert found.flops.data_sheet is not None


def test_each_gpu_of_a_run_has_the_ceilings_that_it_measured_itself() -> None:
    slow = [dataclasses.replace(canary, seconds=(canary.median_s * 2,)) for canary in _canaries()]
    measured = ceilings([_on(c, "GPU-a") for c in _canaries()] + [_on(c, "GPU-b") for c in slow])
    found = rates(_on(_timed(_case(), 1e-3, flops=350_000_000_000), "GPU-b"), measured).flops
    assert found is not None
    assert found.measured is not None
    assert found.measured.value == pytest.approx(1.0)


def test_a_canary_whose_trials_ran_on_two_gpus_is_no_ceiling() -> None:
    assert ceilings([_on(canary, "GPU-a", "GPU-b") for canary in _canaries()]) == {}
