"""The page of a judged run: what moved, what to do about it, what was not judged; whole, without a network, and harmless."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.cli import main
from bench.judge.verdict import Interval, Kind, Ratio, Series, SideReading, Threshold, Verdict, Word
from bench.records import Status
from bench.report.drawing.svg_marks import WIDTH, Forest, dots, forest_row, sparkline
from bench.store import Store
from tests import factories

HOSTILE = "<img src=x onerror=alert(1)>"


def page(tmp_path: Path, *, nights: int = 14, older: int = 0) -> str:
    """A night after others: one case slower for the second time, one out of memory, one as it was, one that was filtered away.

    So many of the first nights were measured in an older way.
    """
    cases = [factories.case(subject) for subject in ("eager", HOSTILE, "sdpa_flash")]
    tmp_path.mkdir(exist_ok=True)
    path, target = tmp_path / "nights.db", tmp_path / "night.html"
    with Store.open(path) as store:
        for night in range(nights):
            run = factories.run(started_at=f"2026-02-{night + 1:02}T03:00:00+00:00", label=f"night {night}", reason="nightly")
            store.add_run(run)
            for case in cases:
                slow = 1.2 if case is cases[0] and night >= nights - 2 else 1.0
                changes = {"status": Status.OOM} if case is cases[1] and night == nights - 1 else {}
                store.add_results(
                    factories.result(
                        run.id, case, index=index, time_s=1e-3 * slow * (1 + 0.001 * ((7 * night + index) % 5)),
                        method_version=1 if night < older else 2, **changes,
                    )
                    for index in range(3)
                )  # fmt: skip
    assert main(["regress", "--no-confirm", "--format", "html", "-o", str(target), "--db", str(path)]) == 1
    return target.read_text()


def verdict(ratio: float, low: float, high: float) -> Verdict:
    case = factories.case()
    series = Series(case, case.key, "time_s", "0" * 64, 1)
    side = SideReading(5, 1e-3, "5 ok")
    return Verdict(
        series, Word.WORSE, Kind.VALUE, "", side, side, Ratio(ratio, Interval(low, high, 0.99)), Threshold(0.02, "floor")
    )


def test_the_page_holds_what_moved_what_to_do_and_what_was_not_judged(tmp_path: Path) -> None:
    text = page(tmp_path)
    for words in (
        "What to do",
        "What moved, or may have",
        "Not judged, and why",
        "eager",
        "1.2",
        "3 oom",
        "bench accept run-",
        "--until 30d",
    ):
        assert words in text
    assert text.count("<svg") >= 3
    assert "last good night" in text


def test_the_page_loads_nothing_runs_nothing_and_hostile_names_stay_text(tmp_path: Path) -> None:
    text = page(tmp_path)
    assert "default-src 'none'" in text
    assert text.count("<script") == text.count('<script type="application/zlib" id="verdicts">') == 1
    assert not re.search(r"https?://|\son\w+=\"|<img", text.replace("&lt;img", ""))
    assert "&lt;img src=x onerror=alert(1)&gt;" in text


def test_what_was_measured_in_another_way_is_in_no_picture(tmp_path: Path) -> None:
    drawn = [page(tmp_path / str(older), nights=older + 14, older=older).count('class="old"') for older in (0, 7)]
    assert drawn[0] == drawn[1] > 0


def test_the_same_night_gives_the_same_page(tmp_path: Path) -> None:
    text = page(tmp_path)
    again = tmp_path / "again.html"
    assert main(["regress", "--no-confirm", "--format", "html", "-o", str(again), "--db", str(tmp_path / "nights.db")]) == 1
    assert again.read_text() == text


def test_an_interval_is_drawn_where_it_lies_and_what_is_too_far_at_the_edge() -> None:
    near, far = verdict(1.1, 1.05, 1.15), verdict(50.0, 20.0, 100.0)
    scale = Forest.of([near])
    assert scale.x(1 / 1.1) < scale.x(1.0) < scale.x(1.05) < scale.x(1.15) < WIDTH
    assert scale.x(1.0) == pytest.approx(WIDTH / 2)
    assert Forest.of([near, far]).x(50.0) == WIDTH - 8
    for drawn in (forest_row(scale, near), forest_row(scale, far), scale.scale(), dots([1, 2], [3]), sparkline([1, 1, 2], [2])):
        assert ElementTree.fromstring(drawn).get("aria-label")
    assert forest_row(scale, dataclasses.replace(near, ratio=None)) == ""
    assert ElementTree.fromstring(dots([1.0, 1.0], [1.0])).findall("circle")
