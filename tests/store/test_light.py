"""Published rows in fewer bytes: what stays, what is left out, and that both forms are one row."""

from __future__ import annotations

import dataclasses
import lzma
import random
from pathlib import Path

import pytest

from bench import stats
from bench.records import Check, Measurement
from bench.report.numbers.samples import taken
from bench.store import Retention, Store, publish
from bench.store.light import MOST_SAMPLES, equally_light, light_result
from bench.store.thinning import samples_before
from tests import factories

NOW = "2027-06-01T00:00:00+00:00"


def drawn(count: int) -> tuple[float, ...]:
    source = random.Random(count)
    return tuple(0.001 + source.gauss(0, 1e-5) for _ in range(count))


@pytest.mark.parametrize("count", [33, 34, 57, 1000, 1417])
def test_some_samples_of_many_keep_the_median_the_extremes_and_their_order(count: int) -> None:
    every = drawn(count)
    row = factories.result(factories.run().id, measurements=(factories.measurement("time_s", every),))
    (found,) = light_result(row).measurements
    assert len(found.samples) in (MOST_SAMPLES - 1, MOST_SAMPLES)
    assert stats.median(found.samples) == pytest.approx(stats.median(every), rel=1e-8)
    assert min(found.samples) == pytest.approx(min(every), rel=1e-8)
    assert max(found.samples) == pytest.approx(max(every), rel=1e-8)
    places = [min(range(count), key=lambda place, sample=sample: abs(every[place] - sample)) for sample in found.samples]
    assert places == sorted(places)
    told, was = taken(found), taken(Measurement("time_s", "s", every))
    assert (told.count, samples_before(found.note)) == (count, count)
    assert told.low == pytest.approx(was.low, rel=1e-4)
    assert told.high == pytest.approx(was.high, rel=1e-4)
    assert told.there


def test_few_samples_whole_numbers_and_a_light_row_stay_as_they_are() -> None:
    exact = (123_456_789_012.0, 3.0)
    whole = factories.result(
        factories.run().id,
        measurements=(factories.measurement("peak_bytes", exact), factories.measurement("time_s", drawn(MOST_SAMPLES))),
        conditions={"power_w": {"min": 1 / 3}, "gpus": [{"share": 2 / 3}], "readings": 150_323_855_361},
    )
    row = light_result(whole)
    assert row.measurements[0].samples == exact
    assert (len(row.measurements[1].samples), row.measurements[1].note) == (MOST_SAMPLES, None)
    assert row.conditions == {"power_w": {"min": 0.333333}, "gpus": [{"share": 0.666667}], "readings": 150_323_855_361}
    assert light_result(row) == row


def test_what_was_measured_keeps_nine_digits_what_it_cost_us_four_and_moments_a_thousandth_of_their_step() -> None:
    moments = [{"at_s": at, "bytes": {"parameters": 1_048_577}, "phase": "forward"} for at in (0.0, 0.123456, 2.345678)]
    whole = factories.result(
        factories.run().id,
        measurements=(factories.measurement("time_s", (1 / 3,)), factories.measurement("fork_s", (1 / 3,))),
        checks=(Check("out", "small", 1 / 3, 2 / 3, 1.0, True),),
        conditions={"ranks": {"0": {"memory_explained": {"timeline": moments}}}},
        duration_s=1234.56789,
    )
    row = light_result(whole)
    assert [one.samples for one in row.measurements] == [(0.333333333,), (0.3333,)]
    assert row.checks == (Check("out", "small", 0.333333333, 0.666666667, 1.0, True),)
    told = row.conditions["ranks"]["0"]["memory_explained"]["timeline"]
    assert [one["at_s"] for one in told] == [0.0, 0.123, 2.346]
    assert [one["bytes"] for one in told] == [{"parameters": 1_048_577}] * 3
    assert row.duration_s == 1234.57
    assert light_result(row) == row
    mine, yours = equally_light(whole, row)
    assert mine == yours


@pytest.mark.parametrize("last", [1.79e308, 1e12])
def test_what_is_no_moment_of_a_step_stays_as_it_was_told(last: float) -> None:
    moments = [{"at_s": 0.123456789, "bytes": {}}, {"at_s": last, "bytes": {}}]
    row = factories.result(factories.run().id, conditions={"memory_explained": {"timeline": moments}})
    assert light_result(row).conditions["memory_explained"]["timeline"] == [{"at_s": 0.123457, "bytes": {}}, moments[1]]
    mine, yours = equally_light(row, light_result(row))
    assert mine == yours


def test_a_row_as_older_versions_published_it_is_the_same_row_even_with_whole_numbers_of_many_digits() -> None:
    older = factories.result(
        factories.run().id,
        measurements=(factories.measurement("peak_bytes", (13_897_695_232.0,)), factories.measurement("exit_s", (0.123456789,))),
        checks=(Check("out", "small", 0.01570431502018399, 0.024510476735585707, 0.06465924530695633, True),),
        conditions={"power_w": {"min": 135.492123}},
        duration_s=2.393151420999999,
    )
    for ours, theirs in ((older, light_result(older)), (light_result(older), older)):
        assert ours != theirs
        mine, yours = equally_light(ours, theirs)
        assert mine == yours
    mine, yours = equally_light(older, light_result(dataclasses.replace(older, duration_s=2.394)))
    assert mine != yours


@pytest.mark.parametrize("thinned_first", [True, False])
def test_a_whole_row_a_thinned_one_and_a_published_one_are_the_same(tmp_path: Path, *, thinned_first: bool) -> None:
    run = factories.run()
    row = factories.result(
        run.id, measurements=(factories.measurement("time_s", drawn(78)), factories.measurement("cycles", drawn(9)))
    )
    with Store.open(tmp_path / "whole.db") as store:
        store.add_run(run)
        store.add_result(row)
        if thinned_first:
            store.collect(Retention(90, 90), now=NOW)
        (file, _) = publish(store, store.runs(), tmp_path / "published").files
        assert store.import_file(file).conflicts == ()
        with Store.open(tmp_path / "published.db") as other:
            other.import_file(file)
            assert other.merge(store).conflicts == ()
            other.collect(Retention(90, 90), now=NOW)
            assert other.merge(store).conflicts == ()
            assert samples_before(other.results([run.id])[0].measurements[0].note) == 78


def test_another_number_is_another_row_and_two_whole_rows_must_agree_in_every_digit() -> None:
    row = factories.result(factories.run().id, measurements=(factories.measurement("time_s", drawn(9)),))

    def shifted(by: float) -> Measurement:
        return dataclasses.replace(row.measurements[0], samples=tuple(sample * (1 + by) for sample in row.measurements[0].samples))

    slightly, more = (dataclasses.replace(row, measurements=(shifted(by),)) for by in (1e-12, 1e-6))
    mine, yours = equally_light(row, light_result(slightly))
    assert mine == yours
    for other in (slightly, more, light_result(more)):
        mine, yours = equally_light(row, other)
        assert mine != yours


def test_what_is_published_holds_no_more_samples_than_it_says(tmp_path: Path) -> None:
    run = factories.run()
    with Store.open(tmp_path / "whole.db") as store:
        store.add_run(run)
        store.add_result(factories.result(run.id, measurements=(factories.measurement("time_s", drawn(1000)),)))
        (file, _) = publish(store, store.runs(), tmp_path / "published").files
    assert "32 of 1000 samples published: the median of 1000, mean " in lzma.decompress(file.read_bytes()).decode()
