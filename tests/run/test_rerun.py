"""Old and new medians of a row that is measured again."""

from __future__ import annotations

from bench.records import Status
from bench.run.rerun import trial_medians
from tests import factories


def test_only_ok_rows_give_medians() -> None:
    slow = (factories.measurement("time_s", (9.0,)),)
    rows = [
        factories.result(index=0, measurements=(factories.measurement("time_s", (1.0,)),)),
        factories.result(index=1, status=Status.INVALID, measurements=slow),
        factories.result(index=2, status=Status.TIMEOUT, measurements=slow),
    ]
    assert trial_medians(rows) == {"time_s": 1.0}


def test_a_case_with_a_wrong_trial_shows_neither_time_nor_cycles_nor_phases_of_the_others() -> None:
    measured = tuple(factories.measurement(name, (2.0,)) for name in ("time_s", "cycles", "backward_s", "peak_bytes"))
    rows = [factories.result(index=0, measurements=measured), factories.result(index=1, status=Status.INCORRECT)]
    assert trial_medians(rows) == {"peak_bytes": 2.0}
