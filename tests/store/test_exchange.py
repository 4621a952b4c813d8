"""Export and import: nothing is lost on the way, nothing doubtful gets in."""

from __future__ import annotations

import dataclasses
import gzip
import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.errors import StoreError
from bench.records import Run, RunState
from bench.store import Store, intake, source
from tests import factories


def fill(store: Store, *, trials: int = 3, **changes: Any) -> Run:
    run = factories.run(**changes)
    store.add_run(run)
    store.add_results([factories.result(run.id, index=index) for index in range(trials)])
    return run


def exported(store: Store, run_ids: list[str] | None = None) -> list[dict[str, Any]]:
    buffer = io.BytesIO()
    store.export_jsonl(buffer, run_ids)
    return [json.loads(line) for line in buffer.getvalue().splitlines()]


def written(path: Path, lines: list[Any], *, honest: bool = True) -> Path:
    """A file of these lines (data or raw bytes); `honest` gives it a manifest that fits."""
    body = [line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n" for line in lines[1:]]
    manifest = dict(lines[0])
    if honest:
        kinds = [line.get("kind") for line in lines[1:] if isinstance(line, dict)]
        manifest |= {
            "sha256": hashlib.sha256(b"".join(body)).hexdigest(),
            "runs": kinds.count("run"),
            "results": kinds.count("result"),
        }
    path.write_bytes(json.dumps(manifest).encode() + b"\n" + b"".join(body))
    return path


@pytest.mark.parametrize("name", ["out.jsonl", "out.jsonl.gz", "out.jsonl.xz"])
def test_what_was_exported_comes_back_equal(store: Store, new_url: Callable[[], str], tmp_path: Path, name: str) -> None:
    first, second = fill(store, started_at="2026-02-01T00:00:00+00:00"), fill(store, suite="🦙 <b>")
    out = store.results([first.id])[0]
    store.exclude(out.id, "too warm")
    report = store.export_jsonl(tmp_path / "new" / name)
    assert (report.runs, report.results) == (2, 6)
    with Store.open(new_url()) as other:
        got = other.import_file(tmp_path / "new" / name)
        assert (got.runs_new, got.runs_same, got.results_new, got.results_same, got.conflicts) == (2, 0, 6, 0, ())
        assert other.runs() == store.runs() == [first, second]
        both = [first.id, second.id]
        assert other.results(both, include_excluded=True) == store.results(both, include_excluded=True)
        assert other.check() == []
        again = other.import_file(tmp_path / "new" / name)
        assert (again.runs_new, again.runs_same, again.results_new, again.results_same, again.conflicts) == (0, 2, 0, 6, ())
        other.export_jsonl(tmp_path / ("again-" + name))
    assert (tmp_path / ("again-" + name)).read_bytes() == (tmp_path / "new" / name).read_bytes()
    assert sorted(entry.name for entry in (tmp_path / "new").iterdir()) == [name]


def test_one_run_can_be_exported_alone(store: Store) -> None:
    fill(store)
    wanted = fill(store)
    lines = exported(store, [wanted.id])
    assert [line["kind"] for line in lines] == ["manifest", "run", "result", "result", "result"]
    assert lines[1]["id"] == wanted.id
    with pytest.raises(StoreError, match="no run nowhere"):
        exported(store, ["nowhere"])


def test_a_part_is_completed_by_the_whole(store: Store, tmp_path: Path) -> None:
    run = fill(store, state=RunState.RUNNING, finished_at=None)
    store.export_jsonl(tmp_path / "part.jsonl")
    store.add_result(factories.result(run.id, index=9))
    store.finish_run(run.id, RunState.FINISHED, "2026-01-02T04:00:00+00:00")
    store.exclude(store.results([run.id])[0].id, "too warm")
    store.export_jsonl(tmp_path / "whole.jsonl")
    with Store.open(tmp_path / "other.db") as other:
        other.import_file(tmp_path / "part.jsonl")
        report = other.import_file(tmp_path / "whole.jsonl")
        assert (report.runs_same, report.results_new, report.results_same, report.conflicts) == (1, 1, 3, ())
        assert other.runs() == store.runs()
        assert other.results([run.id], include_excluded=True) == store.results([run.id], include_excluded=True)
        # The older file takes nothing back.
        assert other.import_file(tmp_path / "part.jsonl").conflicts == ()
        assert other.runs() == store.runs()


def test_other_content_under_the_same_id_is_reported_and_kept_out(store: Store, tmp_path: Path) -> None:
    run = fill(store)
    before = store.results([run.id])
    lines = exported(store)
    lines[2]["duration_s"] = 99.0
    report = store.import_file(written(tmp_path / "a.jsonl", lines))
    assert (report.results_new, report.results_same) == (0, 2)
    assert report.conflicts == (f"line 3: result {before[0].id} is stored with other content",)
    assert store.results([run.id]) == before


def test_the_same_trial_under_another_id_is_reported_and_kept_out(store: Store, tmp_path: Path) -> None:
    run = fill(store)
    lines = exported(store)
    lines.append({**lines[2], "id": "other"})
    lines.append({**lines[2], "id": "third", "trial": {**lines[2]["trial"], "index": 77}})
    report = store.import_file(written(tmp_path / "a.jsonl", lines))
    assert (report.results_new, report.results_same) == (1, 3)
    assert len(report.conflicts) == 1
    assert "line 6: the trial of result other is stored as result" in report.conflicts[0]
    assert len(store.results([run.id])) == 4


def test_another_run_under_the_same_id_keeps_its_results_out(store: Store, tmp_path: Path) -> None:
    run = fill(store)
    lines = exported(store)
    lines[1]["seed"] = 8
    lines.append({**lines[2], "id": "new", "trial": {**lines[2]["trial"], "index": 77}})
    report = store.import_file(written(tmp_path / "a.jsonl", lines))
    assert (report.runs_same, report.results_new, report.results_same) == (0, 0, 0)
    assert report.conflicts == (f"line 2: run {run.id} is stored with other content; its results are kept out too",)
    assert len(store.results([run.id])) == 3


def _deep(levels: int) -> Any:
    data: Any = 1
    for _ in range(levels):
        data = [data]
    return data


DAMAGES: dict[str, tuple[Callable[[list[Any]], None], str]] = {
    "no manifest": (lambda lines: lines.pop(0), r"line 1: not a manifest"),
    "newer format": (lambda lines: lines[0].update(format=99), r"line 1: format 99 is newer .*install a newer bench"),
    "newer records": (lambda lines: lines[0].update(record_version=99), r"line 1: record_version 99 is newer"),
    "no version": (lambda lines: lines[0].pop("format"), r"line 1: the manifest lacks format"),
    "unknown kind": (lambda lines: lines[2].update(kind="virus"), r"line 3: a line of the unknown kind 'virus'"),
    "not json": (lambda lines: lines.insert(3, b"{nope\n"), r"line 4: not valid JSON"),
    "not utf-8": (lambda lines: lines.insert(3, b'{"kind": "\xff"}\n'), r"line 4: not valid JSON"),
    "not an object": (lambda lines: lines.insert(3, b"[1]\n"), r"line 4: not a JSON object"),
    "nan": (lambda lines: lines.insert(3, b'{"a": NaN}\n'), r"line 4: not valid JSON \(NaN is no number"),
    "infinite": (lambda lines: lines[2].update(duration_s="1e999"), r"cannot be stored \(duration_s is inf"),
    "infinite sample": (lambda lines: lines[2]["measurements"][0]["samples"].append("1e999"), r"line 3: not a valid result .*finite"),
    "negative time": (lambda lines: lines[2]["measurements"][0]["samples"].append(-1e-3), r"line 3: not a valid result .*negative"),
    "negative bytes": (lambda lines: lines[2]["measurements"][1].update(samples=[-1]), r"line 3: not a valid result .*negative"),
    "huge integer": (lambda lines: lines.insert(3, b'{"a": ' + b"9" * 5000 + b"}\n"), r"line 4: not valid JSON"),
    "deep": (lambda lines: lines[2].update(conditions={"a": _deep(70)}), r"line 3: nested deeper than 64"),
    "very deep": (lambda lines: lines.insert(3, b'{"a":' + b"[" * 200_000 + b"]" * 200_000 + b"}\n"), r"line 4: nested too deep"),
    "missing field": (lambda lines: lines[2].pop("trial"), r"line 3: not a valid result \(trial"),
    "wrong type": (lambda lines: lines[1].update(seed="many"), r"line 2: not a valid run \(seed"),
    "unknown status": (lambda lines: lines[2].update(status="splendid"), r"line 3: not a valid result \(status"),
    "no reason": (lambda lines: lines[2].update(status="oom"), r"line 3: not a valid result"),
    "too large for sql": (lambda lines: lines[2].update(seed=2**70), r"a result from line 3 on cannot be stored \(seed"),
    "surrogate": (lambda lines: lines[2].update(command="\ud800"), r"cannot be stored"),
    "doubled measurement": (lambda lines: lines[2]["measurements"].append(lines[2]["measurements"][0]), r"two measurements"),
    "unknown run": (lambda lines: lines[4].update(run_id="nowhere"), r"line 5: a result of run nowhere, which is neither"),
    "cut off": (lambda lines: lines.pop(), None),
    "changed": (lambda lines: lines[2].update(command="rm -rf /"), None),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The lines of an export, as JSON: each test makes its own of them."""
    with Store.open(tmp_path_factory.mktemp("sound") / "bench.db") as store:
        fill(store)
        return json.dumps(exported(store))


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_file_that_is_not_as_it_should_be_is_refused_whole(store: Store, sound: str, tmp_path: Path, damage: str) -> None:
    lines = json.loads(sound)
    harm, words = DAMAGES[damage]
    harm(lines)
    path = written(tmp_path / "a.jsonl", lines, honest=words is not None)
    with pytest.raises(StoreError, match=words or "line 1") as caught:
        store.import_file(path, "stepbench")
    assert str(path) in str(caught.value)
    assert store.runs() == []
    assert store.check() == []


def test_a_line_without_end_is_refused_before_it_fills_the_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(source, "MAX_LINE_BYTES", 1000)
    (tmp_path / "a.jsonl").write_bytes(b"x" * 5000)
    with Store.open(tmp_path / "bench.db") as store, pytest.raises(StoreError, match="line 1: longer than 1000 bytes"):
        store.import_file(tmp_path / "a.jsonl", "stepbench")


@pytest.mark.parametrize("kind", ["gz", "xz"])
@pytest.mark.parametrize("kept", [0, 1, 7, 30, -10])
def test_a_compressed_file_that_was_cut_off_is_refused(tmp_path: Path, kept: int, kind: str) -> None:
    with Store.open(tmp_path / "bench.db") as store:
        fill(store)
        store.export_jsonl(tmp_path / f"a.jsonl.{kind}")
        whole = (tmp_path / f"a.jsonl.{kind}").read_bytes()
        (tmp_path / f"b.jsonl.{kind}").write_bytes(whole[:kept])
        with pytest.raises(StoreError, match=rf"b\.jsonl\.{kind}"):
            store.import_file(tmp_path / f"b.jsonl.{kind}")
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 0xFF
        (tmp_path / f"c.jsonl.{kind}").write_bytes(bytes(flipped))
        with pytest.raises(StoreError, match=rf"c\.jsonl\.{kind}"):
            store.import_file(tmp_path / f"c.jsonl.{kind}")


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with Store.open(tmp_path / "bench.db") as store:
        with pytest.raises(StoreError, match=r"absent\.jsonl cannot be read: No such file"):
            store.import_file(tmp_path / "absent.jsonl")
        (tmp_path / "file").touch()
        with pytest.raises(StoreError, match="cannot be written"):
            store.export_jsonl(tmp_path / "file" / "a.jsonl")


def test_a_compressed_export_holds_neither_name_nor_time(tmp_path: Path) -> None:
    with Store.open(tmp_path / "bench.db") as store:
        fill(store)
        store.export_jsonl(tmp_path / "a.gz")
        store.export_jsonl(tmp_path / "b.gz")
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()).startswith(b'{"kind":"manifest"')


def test_more_results_than_one_batch_arrive(store: Store, new_url: Callable[[], str], tmp_path: Path) -> None:
    run = fill(store, trials=intake._BATCH_RESULTS + 7)
    store.export_jsonl(tmp_path / "a.jsonl")
    with Store.open(new_url()) as other:
        assert other.import_file(tmp_path / "a.jsonl").results_new == intake._BATCH_RESULTS + 7
        assert other.results([run.id]) == store.results([run.id])


def test_a_result_that_is_stored_twice_over_is_only_counted(store: Store, tmp_path: Path) -> None:
    fill(store)
    lines = exported(store)
    lines.append(lines[2])
    path = written(tmp_path / "a.jsonl", lines)
    with Store.open(tmp_path / "other.db") as other:
        report = other.import_file(path)
    assert (report.results_new, report.results_same, report.conflicts) == (3, 1, ())


def test_an_export_equals_what_dataclasses_say(store: Store) -> None:
    run = fill(store)
    line = exported(store)[2]
    assert line["kind"] == "result"
    assert set(line) - {"kind"} == {field.name for field in dataclasses.fields(store.results([run.id])[0])}


def test_a_growth_may_be_negative_where_others_give_memory_back(store: Store) -> None:
    run = factories.run()
    store.add_run(run)
    shrunk = factories.measurement("device_used_bytes", (-4096.0,))
    store.add_result(factories.result(run.id, measurements=(shrunk,)))
    assert store.results([run.id])[0].measurements == (shrunk,)


@pytest.mark.parametrize("metric", ["time_s", "peak_bytes", "cycles", "sm_clock_hz", "kernels_per_call"])
def test_no_other_number_may_be_negative(metric: str) -> None:
    with pytest.raises(ValueError, match=f"{metric}: a sample of -1 .* is negative"):
        factories.measurement(metric, (1.0, -1.0))
