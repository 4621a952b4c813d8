"""Formulas of others give the numbers that they published."""

from __future__ import annotations

import pytest

from bench.plan.published import GB, GIB, deepspeed_estimate, founding_figures, real_code, zero_figures, zero_states
from bench.plan.spec import PlanError


def test_the_founding_figures_come_out_as_published() -> None:
    for figure in founding_figures():
        assert figure.published is not None
        assert figure.size_bytes / figure.unit == pytest.approx(figure.published, rel=0.01), figure.what


def test_real_code_at_that_shape_saves_more_than_the_formula_and_fused_kernels_a_twentieth() -> None:
    eager, math, flash, liger, full = (figure.size_bytes / GIB for figure in real_code())
    assert eager == pytest.approx(1640, abs=1)
    assert math == pytest.approx(1140, abs=1)
    assert flash == pytest.approx(98.1, abs=0.1)
    assert liger == pytest.approx(68.1, abs=0.1)
    assert full == pytest.approx(4.0 + 2.8, abs=0.1)


def test_zeros_example_of_64_gpus_comes_out_as_published() -> None:
    assert [round(figure.size_bytes / GB, 1) for figure in zero_figures()] == [120.0, 31.4, 16.6, 1.9]


@pytest.mark.parametrize(
    ("parameters", "ranks", "published"),
    [
        (7.5e9, 4, (52.5, 41.25, 30)),
        (7.5e9, 16, (35.6, 21.6, 7.5)),
        (7.5e9, 256, (30.4, 15.4, 0.47)),
        (7.5e9, 1024, (30.1, 15.1, 0.12)),
        (128e9, 64, (536, 284, 32)),
        (1e12, 1024, (4011, 2013, 15.6)),
    ],
)
def test_zeros_table_comes_out_as_published(parameters: float, ranks: int, published: tuple[float, float, float]) -> None:
    found = [zero_states(parameters, stage, ranks) / GB for stage in (1, 2, 3)]
    assert found == pytest.approx(published, rel=0.03)


def test_deepspeeds_estimator_says_what_its_documentation_prints() -> None:
    """t5-3b: 2851 M parameters, largest layer 32 M, 8 GPUs. Its stage 2 figure is of an older formula; the code gives 11.28."""
    assert deepspeed_estimate(2851e6, 32e6, 3, 8) / GIB == pytest.approx(6.10, abs=0.02)
    assert deepspeed_estimate(2851e6, 32e6, 3, 8, offload="optimizer") / GIB == pytest.approx(0.79, abs=0.01)
    assert deepspeed_estimate(2851e6, 32e6, 3, 8, offload="parameters") / GIB == pytest.approx(0.12, abs=0.01)
    assert deepspeed_estimate(2851e6, 32e6, 2, 8) / GIB == pytest.approx(11.28, abs=0.02)


def test_what_has_no_published_formula_is_refused() -> None:
    with pytest.raises(PlanError, match="stages 0 to 3"):
        zero_states(1e9, 4, 8)
    with pytest.raises(PlanError, match="stages 2 and 3"):
        deepspeed_estimate(1e9, 1e6, 1, 8)
