"""The search by halves: every culprit is found, in few looks, and what cannot be judged is stepped round and never guessed."""

from __future__ import annotations

import itertools
import math
import subprocess
from pathlib import Path

import pytest

from bench.errors import SelectionError
from bench.run.bisecting import Side, commits, first_bad, full_commit, releases


def test_every_culprit_is_found_in_about_the_logarithm_of_looks() -> None:
    for count in range(1, 20):
        names = [str(place) for place in range(count)]
        for culprit in range(count):
            found = first_bad(names, lambda name, culprit=culprit: (Side.BAD if int(name) >= culprit else Side.GOOD, ""))  # type: ignore[misc]
            assert found.culprits == (str(culprit),)
            assert len(found.steps) <= math.ceil(math.log2(count)) if count > 1 else not found.steps


def test_with_candidates_that_cannot_be_judged_the_culprit_is_among_what_is_left() -> None:
    for count in range(2, 8):
        names = [str(place) for place in range(count)]
        for culprit, hidden in itertools.product(range(count), itertools.product([False, True], repeat=count - 1)):

            def look(name: str, culprit: int = culprit, hidden: tuple[bool, ...] = hidden) -> tuple[Side, str]:
                place = int(name)
                return (Side.UNKNOWN if hidden[place] else Side.BAD if place >= culprit else Side.GOOD), ""

            found = first_bad(names, look)
            assert str(culprit) in found.culprits
            # All but the last of several are those that could not be judged.
            assert all(hidden[int(name)] for name in found.culprits[:-1])


def test_commits_are_those_of_the_path_on_the_main_line(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        author = ("-c", "user.name=lab", "-c", "user.email=lab@example.org", "-c", "commit.gpgsign=false")
        return subprocess.run(["git", *author, *words], cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "--quiet")
    hashes = []
    for number, name in enumerate(("kernel", "kernel", "other", "kernel", "other")):
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "file").write_text(str(number))
        git("add", "--all")
        git("commit", "--quiet", "--message", str(number))
        hashes.append(git("rev-parse", "HEAD"))
    kernel = tmp_path / "kernel"
    assert commits(kernel, hashes[0], hashes[4]) == [hashes[1], hashes[3]]
    assert commits(tmp_path, hashes[0], hashes[4]) == hashes[1:]
    assert full_commit(kernel, hashes[2][:8]) == hashes[2]
    assert full_commit(kernel, "--all") is None
    with pytest.raises(SelectionError, match="no ancestor"):
        commits(kernel, hashes[4], hashes[0])


def test_releases_lie_between_good_and_bad_in_the_order_of_versions() -> None:
    known = ["0.10.0", "0.9.1", "1.0.0rc1", "0.9.0", "0.8"]
    assert releases("liger-kernel", "0.9.0", "1.0.0", known) == ["0.9.1", "0.10.0", "1.0.0rc1", "1.0.0"]
    for good, bad in (("1.0", "0.9"), ("1.0", "1.0"), ("one", "two")):
        with pytest.raises(SelectionError):
            releases("liger-kernel", good, bad, known)
