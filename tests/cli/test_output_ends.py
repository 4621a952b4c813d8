"""Output that takes no more: a full disk is the user's, a pipe that was closed nobody's, and neither is ever `worse`."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.cli import main
from bench.cli.terminal import progress_line
from bench.store import Store
from tests import factories
from tests.cli.conftest import Bench

FULL = Path("/dev/full")
needs_full = pytest.mark.skipif(not FULL.exists(), reason="there is no /dev/full here")
COMMANDS = (
    ("--help",),
    ("report", "--help"),
    ("list", "metrics"),
    ("compare", "first", "nightly"),
    ("compare", "first", "nightly", "--json"),
    ("report", "--format", "markdown", "-o", "-"),
    ("db", "export"),
    ("schema",),
)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one row."""
    path = tmp_path_factory.mktemp("ends") / "results.db"
    with Store.open(path) as store:
        for label in ("first", "nightly"):
            run = factories.run(label=label, planned_trials=1)
            store.add_run(run)
            store.add_result(factories.result(run.id, factories.case("eager", seq_len=128), time_s=1e-3))
    return path


@pytest.fixture
def typed(database: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """Runs a command with its stdout, or its stderr, at this file."""
    monkeypatch.setenv("BENCH_DB", str(database))

    def call(*arguments: str, to: int | Path, name: str = "stdout") -> int:
        with open(to, "w", encoding="utf-8") as stream, monkeypatch.context() as patched:
            patched.setattr(f"sys.{name}", stream)
            return main(arguments)

    return call


@needs_full
@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_full_disk_is_told_as_one_and_not_as_our_bug(
    typed: Callable[..., int], arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert typed(*arguments, to=FULL) == 2
    said = capsys.readouterr().err
    assert "No space left on device" in said
    assert "free some space" in said
    assert "bug in bench" not in said


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_a_reader_that_left_is_told_nothing(
    typed: Callable[..., int], arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    assert typed(*arguments, to=writing) == 141
    assert capsys.readouterr().err == ""


@needs_full
@pytest.mark.parametrize("arguments", [("show", "nothing"), ("shw",), ("list", "--nonsense")], ids=" ".join)
def test_a_mistake_that_cannot_be_told_ends_with_2_all_the_same(typed: Callable[..., int], arguments: tuple[str, ...]) -> None:
    assert typed(*arguments, to=FULL, name="stderr") == 2


@needs_full
def test_progress_that_nobody_can_read_ends_no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    with open(FULL, "w") as full, monkeypatch.context() as patched:
        patched.setattr("sys.stderr", full)
        progress_line("[1/4] rms_norm")
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, full.fileno())
        os.close(nowhere)


@needs_full
def test_a_disk_that_is_full_elsewhere_is_named(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.cli.schema import schema

    def fills() -> None:
        with open(FULL, "wb", buffering=0) as out:
            try:
                out.write(b"x")
            except OSError as error:
                raise OSError(error.errno, error.strerror, "/tmp/x") from error

    monkeypatch.setattr(schema, "callback", fills)
    said = bench("schema")
    assert (said.code, said.err) == (
        2,
        "bench: nothing more can be written to /tmp/x (No space left on device): free some space, or write elsewhere\n",
    )
