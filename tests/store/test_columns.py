"""Rows as columns come back to the last character, travel in fewer bytes, and what does not fit together is refused."""

from __future__ import annotations

import hashlib
import json
import lzma
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.errors import StoreError
from bench.records import RECORD_VERSION, dump
from bench.store import Store, publish
from bench.store.columns import MOST_VALUES, in_columns, rows_of
from bench.store.exchange import export_jsonl
from tests import factories


def back(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [row for row, _ in rows_of(json.loads(json.dumps(in_columns(rows))))]


def drawn(source: random.Random, depth: int) -> Any:
    kind = source.randrange(6 if depth else 4)
    if kind == 4:
        return {key: drawn(source, depth - 1) for key in source.sample("abcd", source.randrange(4))}
    if kind == 5:
        return [drawn(source, depth - 1) for _ in range(source.randrange(4))]
    return source.choice([None, True, False, 1, 1.0, 0, 0.0, -0.5, "is", "", "metric"])


ODD: list[list[dict[str, Any]]] = [
    [{}, {}],
    [{"a": 1}, {"a": 1.0}, {"a": True}, {"a": None}, {}],
    [{"b": 1, "a": 2}, {"a": 2, "b": 1}],
    [{"a": {"is": 1}}, {"a": [1]}, {"a": []}, {"a": [[], {}]}],
    [{"m": [{"metric": "x", "n": 1}, {"metric": "y"}]}, {"m": [{"metric": "y"}, {"metric": "x", "n": 2}]}, {"m": [{"metric": 1}]}],
    [{"m": [{"metric": "x", "n": 1}, {"metric": "x", "n": 2}]}, {"m": [{"metric": "x"}, 1]}],
    [{"a": 0.0, "b": -0.0}, {"a": -0.0, "b": -0.0}],
]


@pytest.mark.parametrize("rows", ODD)
def test_rows_come_back_with_the_order_of_their_keys_and_the_kinds_of_their_numbers(rows: list[dict[str, Any]]) -> None:
    assert json.dumps(back(rows)) == json.dumps(rows)


def test_different_rows_of_any_kind_come_back() -> None:
    source = random.Random(3)
    rows = [{"row": drawn(source, 5), "metric": drawn(source, 3)} for _ in range(300)]
    assert json.dumps(back(rows)) == json.dumps(rows)


def changed(table: dict[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    copy = json.loads(json.dumps(table))
    place = copy
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return copy


ROWS = in_columns([{"a": [1, 2], "b": "x"}, {"a": [3], "b": "y"}])
OF = ["node", "object", "of"]
CASE = [*OF, "trial", "object", "of", "case", "object", "of"]


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["rows"], -1, "no number of rows"),
        (["rows"], 10**9, "no number of rows"),
        (["rows"], True, "no number of rows"),
        (["rows"], 3, "fewer values"),
        (["rows"], 1, "more than its rows"),
        (["shapes"], [["a", 1]], "shapes are no lists"),
        (["node"], {}, "a column is missing"),
        (["node"], {"value": {"is": 1}}, "a row is no object"),
        (["node", "object", "keys"], {"is": 7}, "a shape is not there"),
        (["node", "object", "of"], [], "no known kind"),
        ([*OF, "b"], {"thing": {}}, "no known kind"),
        ([*OF, "b"], {"kind": {"is": ["value"]}}, "no known kind"),
        ([*OF, "b", "value"], 5, "no values"),
        ([*OF, "b", "value"], {"is": {"deep": 1}}, "an object or a list"),
        ([*OF, "a", "list", "count"], {"is": True}, "no length"),
        ([*OF, "a", "list", "count"], [1, 1], "more than its rows"),
        ([*OF, "a", "list"], {"count": {"is": MOST_VALUES}, "items": {"value": {"is": 0}}}, "a row holds more than"),
        ([*OF, "b", "value"], {"is": "x" * 17 * MOST_VALUES}, "a row holds more than"),
        (["shapes"], [["a", "b", "b"]], "a key twice"),
        ([*OF, "c"], {"value": {"is": 1}}, "belongs to no row"),
        ([*OF, "a", "value"], {"is": 1}, "belongs to no row"),
        ([*OF, "a", "list", "items", "list"], {"count": {"is": 0}}, "belongs to no row"),
    ],
)  # fmt: skip
def test_columns_that_do_not_fit_together_or_grow_beyond_measure_are_refused(path: list[str], value: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        list(rows_of(changed(ROWS, path, value)))


def test_a_line_that_repeats_its_rows_until_a_disk_is_full_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.store.columns.MOST_TOGETHER", 5000)
    rows = in_columns([{"a": [0] * 1000}])
    assert len(list(rows_of({**rows, "rows": 4}))) == 4
    with pytest.raises(ValueError, match="more than 5000 values together"):
        list(rows_of({**rows, "rows": 100_000}))


def filled(store: Store, trials: int) -> None:
    run = factories.run()
    store.add_run(run)
    store.add_results([factories.result(run.id, index=index) for index in range(trials)])


def test_an_export_in_columns_holds_the_same_rows_in_fewer_bytes(new_url: Callable[[], str], tmp_path: Path) -> None:
    with Store.open(tmp_path / "here.db") as store:
        filled(store, 16)
        for name, columns in (("rows", False), ("columns", True)):
            export_jsonl(store, tmp_path / f"{name}.jsonl", as_columns=columns)
        assert (tmp_path / "columns.jsonl").stat().st_size < (tmp_path / "rows.jsonl").stat().st_size / 2
        assert store.import_file(tmp_path / "columns.jsonl").results_same == 16
        with Store.open(new_url()) as other:
            told = other.import_file(tmp_path / "columns.jsonl")
            assert (told.runs_new, told.results_new, told.conflicts) == (1, 16, ())
            ids = [run.id for run in store.runs()]
            assert list(map(dump, other.results(ids))) == list(map(dump, store.results(ids)))
        (file, _) = publish(store, store.runs(), tmp_path / "published").files
    text = lzma.decompress(file.read_bytes())
    (tmp_path / "cut.jsonl").write_bytes(text[:-300])
    with Store.open(tmp_path / "cut.db") as cut, pytest.raises(StoreError, match=r"line 3: .* is cut off here, take it anew"):
        cut.import_file(tmp_path / "cut.jsonl")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["kind"] for line in lines] == ["manifest", "run", "results"]
    assert lines[0]["format"] == 2


def test_rows_too_many_for_one_line_are_told_in_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.store.exchange._ROWS_TOGETHER", 3)
    with Store.open(tmp_path / "here.db") as store, Store.open(tmp_path / "there.db") as other:
        filled(store, 7)
        export_jsonl(store, tmp_path / "rows.jsonl", as_columns=True)
        assert [json.loads(line).get("rows") for line in (tmp_path / "rows.jsonl").read_bytes().splitlines()[2:]] == [3, 3, 1]
        assert other.import_file(tmp_path / "rows.jsonl").results_new == 7


def test_what_columns_would_make_longer_or_too_large_to_be_read_stays_a_line_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.store.exchange._ALONE_BYTES", 20_000)
    run = factories.run()
    huge = {"many": [0] * 15_000}
    unlike = ({f"{index}-{key}": key for key in range(1000)} for index in range(1, 4))
    with Store.open(tmp_path / "here.db") as store, Store.open(tmp_path / "there.db") as other:
        store.add_run(run)
        store.add_results([factories.result(run.id, index=index, conditions=told) for index, told in enumerate((huge, *unlike))])
        export_jsonl(store, tmp_path / "rows.jsonl", as_columns=True)
        lines = (tmp_path / "rows.jsonl").read_bytes().splitlines()
        assert [json.loads(line)["kind"] for line in lines[2:]] == ["result"] * 4
        assert other.import_file(tmp_path / "rows.jsonl").results_new == 4
        assert other.results([run.id]) == store.results([run.id])


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: changed(table, ["rows"], 3), "line 3: results that cannot be read .a column holds fewer.*take it anew"),
        (lambda table: changed(table, [*OF, "status", "value"], {"is": "splendid"}), "line 3, row 1: not a valid result"),
        (lambda table: changed(table, [*CASE, "params", "object", "of", "seq_len", "value"], {"is": math.inf}), "is too large"),
        (lambda table: changed(table, ["rows"], 1), "a column holds more than its rows"),
        (lambda table: {**table, "node": json.loads('{"object":' * 300 + "{}" + "}" * 300)}, "nested deeper than"),
    ],
)  # fmt: skip
def test_a_file_with_damaged_columns_leaves_the_database_as_it_was(
    tmp_path: Path, change: Callable[[dict[str, Any]], dict[str, Any]], words: str
) -> None:
    with Store.open(tmp_path / "here.db") as store:
        filled(store, 2)
        export_jsonl(store, tmp_path / "rows.jsonl", as_columns=True)
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_bytes().splitlines()]
    body = b"".join(json.dumps(line).encode() + b"\n" for line in (lines[1], change(lines[2]))).replace(b"Infinity", b"1e999")
    manifest = {**lines[0], "sha256": hashlib.sha256(body).hexdigest(), "record_version": RECORD_VERSION}
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(json.dumps(manifest).encode() + b"\n" + body)
    with Store.open(tmp_path / "there.db") as other:
        with pytest.raises(StoreError, match=words):
            other.import_file(damaged)
        assert other.runs() == []
