from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import bench
from bench.records import Case, Pass, Status
from bench.stats import median
from tests.worker.trials import answer, only

SUBJECTS = Path(bench.__file__).parent / "worker" / "selftest_subjects.py"


def case(subject: str, **params: Any) -> Case:
    known = {"elements": 1024, "seconds": 0.0, "first_bytes": 0, "second_bytes": 0, "third_bytes": 0, **params}
    return Case("selftest", 1, {"selftest": subject}, Pass.FORWARD, "fp32", "cpu", "warm", "wall", known)


def test_the_peak_of_known_allocations_is_exact_and_no_sum(tmp_path: Path) -> None:
    reply = answer(tmp_path, case("allocate", first_bytes=3001, second_bytes=5003, third_bytes=1009), plugins=(SUBJECTS,))
    assert reply.status is Status.OK, reply.reason
    assert only(reply, "peak_bytes").samples == (3001 + 5003,)


def test_a_spin_never_ends_before_its_time(tmp_path: Path) -> None:
    reply = answer(tmp_path, case("spin", seconds=300e-6), plugins=(SUBJECTS,))
    assert reply.status is Status.OK, reply.reason
    # The clocks differ by what a time service slews, at most 500 parts in a million.
    assert min(only(reply, "time_s").samples) > 300e-6 * 0.999


def test_nothing_is_far_shorter_than_a_short_spin(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    nothing = answer(tmp_path / "a", case("nothing"), plugins=(SUBJECTS,))
    spin = answer(tmp_path / "b", case("spin", seconds=100e-6), plugins=(SUBJECTS,))
    assert median(only(nothing, "time_s").samples) < median(only(spin, "time_s").samples) / 5


@pytest.mark.parametrize("subject", ["empty", "copy_and_spin"])
def test_what_needs_a_gpu_is_unsupported_on_a_cpu(tmp_path: Path, subject: str) -> None:
    assert answer(tmp_path, case(subject), plugins=(SUBJECTS,)).status is Status.UNSUPPORTED
