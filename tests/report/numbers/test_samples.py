"""What `bench db gc` has thinned is not taken for a single sample."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

from bench import stats
from bench.records import Measurement
from bench.report import render_page
from bench.report.drawing.histogram import histogram
from bench.report.numbers.samples import note_in_units, taken
from bench.report.numbers.summary import gather
from bench.report.recompute.verify import verify_page
from bench.store.thinning import thinned_measurement
from tests.report.views_sample import crossing_run

NOW = "2026-01-02T04:00:00+00:00"


def thinned(whole: Measurement) -> Measurement:
    row = SimpleNamespace(
        **{name: getattr(whole, name) for name in ("metric", "unit", "scope", "calls_per_sample", "note")},
        n=len(whole.samples), median=stats.median(whole.samples), mean=stats.mean(whole.samples),
        p05=stats.quantile(whole.samples, 0.05), p95=stats.quantile(whole.samples, 0.95),
    )  # fmt: skip
    return thinned_measurement(row, "2026-11-30T00:00:00+00:00")


def test_a_thinned_measurement_has_the_count_and_the_spread_that_it_had() -> None:
    whole = Measurement("time_s", "s", tuple(0.001 + 0.00001 * place for place in range(77)), note="shaken")
    told, was = taken(thinned(whole)), taken(whole)
    assert (told.count, told.there) == (was.count, False) == (77, not was.there)
    assert told.low is not None
    assert told.high is not None
    assert f"{told.low:.6g} {told.high:.6g}" == f"{was.low:.6g} {was.high:.6g}"
    few = dataclasses.replace(thinned(whole), note="samples dropped by `bench db gc` on 2026-11-30: the median of 12")
    assert (taken(few).count, taken(few).low) == (12, None)
    mailed = dataclasses.replace(few, note="one number, the median of 30 samples, as a report tells it")
    assert taken(mailed).count == 30


def test_what_a_note_tells_in_bare_numbers_is_read_with_units() -> None:
    whole = Measurement("time_s", "s", (0.0111, 0.0115, 0.0119), note="n = 3 < 30: the time for sampling was over")
    assert note_in_units(thinned(whole)) == (
        "n = 3 < 30: the time for sampling was over; samples dropped by `bench db gc` on 2026-11-30: "
        "the median of 3, mean 11.5 ms, 5 % 11.1 ms, 95 % 11.9 ms"
    )
    clock = Measurement(
        "sm_clock_hz", "Hz", (1.9e9,), note="32 of 57 samples published: the median of 57, mean 1.9748e+09, 5 % 1.8e+09"
    )
    assert note_in_units(clock) == "32 of 57 samples published: the median of 57, mean 1.97 GHz, 5 % 1.80 GHz"
    imported = dataclasses.replace(whole, note="the rounds are not told: min 1e-06, stddev 2e-09, q1 0.5")
    assert note_in_units(imported) == "the rounds are not told: min 1.00 µs, stddev 2.00 ns, q1 500 ms"
    same = dataclasses.replace(whole, note="its 20 % and 80 % are the same number")
    assert note_in_units(same) == same.note
    assert note_in_units(dataclasses.replace(whole, note=None)) is None


def test_a_page_of_thinned_rows_doubts_no_number_of_samples_and_draws_none() -> None:
    run, rows = crossing_run()
    bare = [dataclasses.replace(row, measurements=tuple(map(thinned, row.measurements))) for row in rows]
    assert any(histogram(case) for case in gather(run, rows)[0])
    assert not any(histogram(case) for case in gather(run, bare)[0])
    first, second = (render_page([run], some, now=NOW, light=True) for some in (rows, bare))
    doubt = "samples</li>" in first or "fewer than 30 samples" in first
    assert ("fewer than 30 samples" in second) is doubt
    assert verify_page(second).agrees
