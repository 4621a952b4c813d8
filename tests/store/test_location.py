"""Paths and URLs of databases, and passwords that nobody may see."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench.errors import StoreError
from bench.store import Store
from bench.store.location import locate


def test_a_path_and_its_url_are_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    assert locate(path).path == locate(str(path)).path == locate(f"sqlite:///{path}").path == path
    assert locate("results/x.db").path == Path(os.path.realpath("results/x.db"))


@pytest.mark.parametrize("name", ["we ird?#%41.db", "quo'te\".db", "🦙.db", "a&mode=ro.db", "ü" * 100 + ".db"])
def test_a_hostile_file_name_is_only_a_name(tmp_path: Path, name: str) -> None:
    with Store.open(tmp_path / name) as store:
        assert store.runs() == []
    assert (tmp_path / name).stat().st_size > 0
    with Store.open(tmp_path / name, read_only=True) as store:
        assert store.runs() == []


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("mysql://host/db", "'mysql' are not supported"),
        ("://", "cannot be read"),
        ("postgresql://bench:p@ss:word/@[::1/x", "cannot be read"),
        ("", "empty"),
        ("a\x00b", "NUL"),
    ],
)
def test_what_is_no_database_is_refused_in_words(url: str, words: str) -> None:
    with pytest.raises(StoreError, match=words):
        locate(url)


@pytest.mark.parametrize(
    "url", ["postgresql://ann:hunter22@127.0.0.1:1/bench", "postgresql://ann@127.0.0.1:1/bench?password=hunter22"]
)
def test_a_password_is_in_no_message(url: str) -> None:
    assert "hunter22" not in locate(url).shown
    with pytest.raises(StoreError, match=r"127\.0\.0\.1.*cannot be reached") as caught:
        Store.open(url)
    assert "hunter22" not in str(caught.value)


def test_a_server_without_the_database_is_a_clear_error(postgresql: str) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        Store.open(f"{postgresql}/nowhere")
