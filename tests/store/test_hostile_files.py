"""Files that were made to do harm: each is refused in a sentence, quickly, in little memory, and nothing of it is kept."""

from __future__ import annotations

import gzip
import json
import lzma
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.errors import StoreError
from bench.report import render_page
from bench.store import Store, foreign, source
from tests import factories
from tests.store.conftest import file_without_rows
from tests.store.test_importers import (
    COLUMNS,
    FILES,
    liger_file,
    liger_line,
    nvbench_file,
    nvbench_state,
    pytest_benchmark_file,
)

MOST_BYTES = 700 * 2**20
"""Of address space that an import may need beside what the interpreter and its libraries take."""

IMPORT = """
import resource, sys
from pathlib import Path
from bench.errors import StoreError
from bench.store import Store
from bench.store.importers import importers
importers()
most, *files = sys.argv[1:]
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(most), used + int(most)))
for format_, path in zip(files[::2], files[1::2]):
    with Store.open(Path(path).with_suffix(".imported.db")) as store:
        try:
            store.import_file(Path(path), format_)
        except StoreError as error:
            print(error)
        else:
            print("taken in")
        assert store.runs() == []
"""


def imported_elsewhere(files: Sequence[tuple[str, Path]]) -> list[str]:
    """What imports (format and file) say, a line each, in one process with a limit on its memory: what one leaves counts for the next."""
    command = [sys.executable, "-c", IMPORT, str(MOST_BYTES), *(str(word) for file in files for word in file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2], timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    said = done.stdout.splitlines()
    assert len(said) == len(files), done.stdout
    return said


def export_of_one_run(folder: Path) -> Path:
    with Store.open(folder / "made.db") as store:
        run = factories.run()
        store.add_run(run)
        store.add_result(factories.result(run.id))
        store.export_jsonl(folder / "made.jsonl")
    return folder / "made.jsonl"


@cache
def page_of_one_run() -> str:
    run = factories.run()
    return render_page([run], [factories.result(run.id)], now="2026-01-02T04:00:00+00:00")


def page_file(folder: Path) -> Path:
    path = folder / "page.html"
    path.write_text(page_of_one_run(), encoding="utf-8")
    return path


ALL_FILES: dict[str, Callable[[Path], Path]] = {**FILES, "report": page_file, "stepbench": export_of_one_run}


def bomb(folder: Path, name: str) -> Path:
    """A few megabytes that unpack to more than may be read."""
    honest = ALL_FILES[name](folder).read_bytes()
    filling = b" " * 2**20
    if name == "liger":
        filling = b",".join([b'"x"'] * 200_000) + b"\n"
    elif name == "stepbench":
        filling += b"\n"
    path = folder / f"bomb-{name}.gz"
    # Parts of a compressed file may be compressed apart, so one part is enough for all.
    part = gzip.compress(filling, compresslevel=1)
    beginning = honest.rstrip(b"\n}") if name in ("nvbench", "pytest-benchmark") else honest
    path.write_bytes(gzip.compress(beginning) + part * 300)
    assert path.stat().st_size < 8 * 2**20
    return path


def test_a_compressed_bomb_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    smaller = tmp_path / "bomb.xz"
    smaller.write_bytes(
        lzma.compress(export_of_one_run(tmp_path).read_bytes()) + lzma.compress((b" " * 2**20 + b"\n"), preset=1) * 300
    )
    for said in imported_elsewhere([*((name, bomb(tmp_path, name)) for name in ALL_FILES), ("stepbench", smaller)]):
        assert "Nothing was imported" in said


def test_a_line_of_a_gigabyte_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    files = []
    for name in ALL_FILES:
        (tmp_path / name).mkdir()
        path = ALL_FILES[name](tmp_path / name)
        with path.open("r+b") as file:
            # A hole: the file takes no disk.
            file.truncate(2**30)
        files.append((name, path))
    for said in imported_elsewhere(files):
        assert "Nothing was imported" in said


def test_a_million_levels_are_refused(tmp_path: Path) -> None:
    files = []
    for kind, (opening, closing) in {"lists": ("[", "]"), "objects": ('{"a":', "}")}.items():
        path = tmp_path / f"{kind}.json"
        path.write_text(opening * 10**6 + "1" + closing * 10**6)
        files += [(name, path) for name in ("nvbench", "pytest-benchmark", "stepbench")]
    for said in imported_elsewhere(files):
        assert "nested too deep. Nothing was imported" in said


def many(folder: Path, name: str, count: int) -> Path:
    if name == "liger":
        return liger_file(folder / "many.csv", *(liger_line(x_value=n) for n in range(count)))
    if name == "nvbench":
        return nvbench_file(folder / "many.json", *(nvbench_state(f"state {n}", summaries=None) for n in range(count)))
    path = pytest_benchmark_file(folder / "many.json")
    data = json.loads(path.read_text())
    data["benchmarks"] = [{**data["benchmarks"][0], "name": f"test_{n}"} for n in range(count)]
    path.write_text(json.dumps(data))
    return path


@pytest.mark.parametrize("name", FILES)
def test_more_rows_than_anybody_measures_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    from bench.store.importers import liger

    monkeypatch.setattr(foreign, "MAX_ROWS", 5)
    monkeypatch.setattr(liger, "MAX_ROWS", 5)
    with Store.open(tmp_path / "bench.db") as store:
        with pytest.raises(StoreError, match=r"holds more than 5 (results|lines): split it"):
            store.import_file(many(tmp_path, name, 6), name)
        assert store.runs() == []


@pytest.mark.parametrize("name", ALL_FILES)
def test_a_file_that_takes_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(source, "MAX_SECONDS", -1.0)
    with Store.open(tmp_path / "bench.db") as store, pytest.raises(StoreError, match=r"takes longer than .* split the file"):
        store.import_file(ALL_FILES[name](tmp_path), name)


@pytest.mark.parametrize("name", ["nvbench", "pytest-benchmark"])
@pytest.mark.parametrize(
    ("evil", "words"),
    [
        ("NaN", "NaN is no number"),
        ("-Infinity", "-Infinity is no number"),
        ("1e999", "1e999 is too large"),
        ("9" * 5000, "not valid JSON"),
        ('"\\ud800"', "surrogates not allowed"),
        ("[" * 70 + "]" * 70, "nested deeper than 64"),
    ],
    ids=["nan", "infinite", "too large", "a huge integer", "half a character", "deep"],
)
def test_what_no_number_or_text_is_refuses_the_file(tmp_path: Path, name: str, evil: str, words: str) -> None:
    path = FILES[name](tmp_path)
    spot = '"argv": ["./toy"' if name == "nvbench" else '"node": "toy"'
    assert spot in path.read_text()
    path.write_text(path.read_text().replace(spot, spot + (", " if name == "nvbench" else ', "evil": ') + evil))
    with Store.open(tmp_path / "bench.db") as store:
        with pytest.raises(StoreError, match=words):
            store.import_file(path)
        assert store.runs() == []


@pytest.mark.parametrize("name", ["nvbench", "pytest-benchmark"])
def test_an_integer_beyond_64_bits_is_kept_as_text(store: Store, tmp_path: Path, name: str) -> None:
    path = FILES[name](tmp_path)
    huge = "9" * 4000
    text = path.read_text()
    path.write_text(text.replace('"sm_version": 900', f'"sm_version": {huge}').replace('"size": 10', f'"size": {huge}'))
    store.import_file(path)
    (run,) = store.runs()
    row = store.results([run.id])[0]
    assert huge in (row.environment.hard.get("sm_version"), row.case.params.get("size"))
    assert store.check() == []


@pytest.mark.parametrize("name", FILES)
def test_a_name_that_no_index_holds_refuses_the_file(store: Store, tmp_path: Path, name: str) -> None:
    path = FILES[name](tmp_path)
    path.write_text(
        path.read_text().replace("swish", "s" * 600).replace('"spin"', f'"{"s" * 600}"').replace("test_sort", "s" * 600)
    )
    with pytest.raises(StoreError, match=r"a name of \d+ characters, where 500 are the most"):
        store.import_file(path)
    assert store.runs() == []


def test_a_csv_field_without_end_is_refused(tmp_path: Path) -> None:
    path = liger_file(tmp_path / "a.csv", liger_line())
    with path.open("a") as out:
        out.write('"' + "x\n" * 200_000)
    with (
        Store.open(tmp_path / "bench.db") as store,
        pytest.raises(StoreError, match=r"not valid CSV .field larger than field limit"),
    ):
        store.import_file(path)


def test_a_pickle_is_not_opened(tmp_path: Path) -> None:
    import pickle

    (tmp_path / "a.json").write_bytes(pickle.dumps({"benchmarks": []}))
    with Store.open(tmp_path / "bench.db") as store:
        for name in (None, *ALL_FILES):
            with pytest.raises(StoreError, match="Nothing was imported"):
                store.import_file(tmp_path / "a.json", name)


# --- fuzzing: whatever the file holds, it is refused in a sentence or taken in whole --------------------------------------------

anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@st.composite
def mangled(draw: st.DrawFn, data: Any) -> Any:
    """The same data with some parts replaced by anything, or taken away."""
    if draw(st.integers(0, 30)) == 0:
        return draw(anything)
    if isinstance(data, dict):
        return {key: draw(mangled(value)) for key, value in data.items() if draw(st.integers(0, 40)) > 0}
    if isinstance(data, list):
        return [draw(mangled(value)) for value in data]
    return data


def taken_or_refused(folder: Path, text: bytes, format_: str | None) -> None:
    path = folder / "fuzzed"
    path.write_bytes(text)
    database = folder / "fuzzed.db"
    # Each example begins without the rows of those before.
    database.write_bytes(file_without_rows())
    with Store.open(database) as store:
        try:
            store.import_file(path, format_)
        except StoreError:
            assert store.runs() == []
            return
        assert store.check() == []
        again = store.import_file(path, format_)
        assert (again.results_new, again.conflicts) == (0, ())
        store.export_jsonl(folder / "fuzzed.out")


fuzzed = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["nvbench", "pytest-benchmark"])
@fuzzed
@given(data=st.data())
def test_mangled_json_is_refused_or_taken_whole(tmp_path: Path, name: str, data: st.DataObject) -> None:
    whole = json.loads(FILES[name](tmp_path).read_text())
    taken_or_refused(tmp_path, json.dumps(data.draw(mangled(whole))).encode(), name)


@pytest.mark.slow
@fuzzed
@given(
    values=st.lists(
        st.dictionaries(st.sampled_from(COLUMNS), st.text(max_size=12) | st.floats() | st.integers(), max_size=5), max_size=4
    )
)
def test_mangled_csv_is_refused_or_taken_whole(tmp_path: Path, values: list[dict[str, Any]]) -> None:
    lines = [{key: str(value).encode("utf-8", "replace").decode() for key, value in liger_line(**one).items()} for one in values]
    taken_or_refused(tmp_path, liger_file(tmp_path / "a.csv", *lines).read_bytes(), "liger")


@pytest.mark.slow
@fuzzed
@given(name=st.none() | st.sampled_from(sorted(ALL_FILES)), data=st.data())
def test_bytes_are_refused_or_taken_whole(tmp_path: Path, name: str | None, data: st.DataObject) -> None:
    honest = FILES[data.draw(st.sampled_from(sorted(FILES)))](tmp_path).read_bytes()
    start, stop = sorted((data.draw(st.integers(0, len(honest))), data.draw(st.integers(0, len(honest)))))
    taken_or_refused(tmp_path, honest[:start] + data.draw(st.binary(max_size=30)) + honest[stop:], name)
