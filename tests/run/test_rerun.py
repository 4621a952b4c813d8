"""Old and new medians of a row that is measured again."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from bench.errors import DeviceError
from bench.records import Status
from bench.run import rerun
from bench.run.rerun import trial_medians
from bench.store import Store
from tests import factories
from tests.run.laboratory import Laboratory


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


def test_a_gpu_that_only_the_run_was_told_of_is_named_with_what_to_say_instead(tmp_path: Path) -> None:
    laboratory = Laboratory(tmp_path, ["flash_attn2"])
    (row,) = laboratory.run(dataclasses.replace(laboratory.options, device="cuda:63")).results
    with (
        Store.open(laboratory.database) as store,
        pytest.raises(DeviceError, match="was told --device cuda:63: say --device cpu for"),
    ):
        rerun(row.id, store)
