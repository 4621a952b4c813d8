"""Earlier versions beside today's: from the index alone and without what they depend on, from git without touching the repository."""

from __future__ import annotations

import base64
import hashlib
import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from bench.machine.revision import UnderTest, path_revision, things_under_test
from bench.records import RevisionItem
from bench.run.versions import (
    SPARED_S,
    VERSIONS_DIR_VARIABLE,
    CannotRebuild,
    at_commit,
    at_release,
    current,
    rebuilt,
    sweep,
    with_packages,
)


@pytest.fixture(autouse=True)
def versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "versions"
    monkeypatch.setenv(VERSIONS_DIR_VARIABLE, str(folder))
    return folder


def git(folder: Path, *words: str) -> str:
    author = ("-c", "user.name=lab", "-c", "user.email=lab@example.org", "-c", "commit.gpgsign=false")
    return subprocess.run(["git", *author, *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Two commits of a module and a plug-in; the second is checked out."""
    folder = tmp_path / "kernels"
    (folder / "src").mkdir(parents=True)
    git(tmp_path, "init", "--quiet", "kernels")
    for number in (1, 2):
        (folder / "src" / "norms.py").write_text(f"NUMBER = {number}\n")
        (folder / "plugin.py").write_text(f"# {number}\n")
        git(folder, "add", "--all")
        git(folder, "commit", "--quiet", "--message", f"number {number}")
    return folder


def wheel(folder: Path, version: str) -> None:
    """A wheel of one module that asks for a package which is nowhere to be had."""
    files = {
        "tuned_norms.py": f"VERSION = {version!r}\n",
        f"tuned_norms-{version}.dist-info/METADATA": (
            f"Metadata-Version: 2.1\nName: tuned-norms\nVersion: {version}\nRequires-Dist: is-not-there\n"
        ),
        f"tuned_norms-{version}.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text)}\n"
        for name, text in files.items()
    )
    with zipfile.ZipFile(folder / f"tuned_norms-{version}-py3-none-any.whl", "w") as archive:
        for name, text in {**files, f"tuned_norms-{version}.dist-info/RECORD": record}.items():
            archive.writestr(name, text)


def imported(path: tuple[str, ...], expression: str, module: str) -> str:
    code = f"import sys; sys.path[:0] = {list(path)!r}; import {module}; print({module}.{expression})"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_an_older_release_is_installed_alone_and_once(tmp_path: Path, versions: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = tmp_path / "shelf"
    shelf.mkdir()
    wheel(shelf, "1.0")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(shelf))
    now = (UnderTest(RevisionItem("tuned-norms", "package", "2.0")), UnderTest(RevisionItem("torch", "package", "2.13.0")))
    old = rebuilt("good", at_release(now, "tuned-norms", "1.0"), now, [])
    assert imported(old.import_path, "VERSION", "tuned_norms") == "1.0"
    there = sorted(entry.name for entry in Path(old.import_path[0]).iterdir() if entry.name != "__pycache__")
    assert there == ["tuned_norms-1.0.dist-info", "tuned_norms.py"]
    beside = with_packages(current("new", now, []), {"tuned-norms": "1.0"})
    assert (beside.import_path, beside.facts) == (old.import_path, (("package:tuned-norms", "1.0"),))
    (shelf / "tuned_norms-1.0-py3-none-any.whl").unlink()
    assert rebuilt("good", at_release(now, "tuned-norms", "1.0"), now, []) == old
    with pytest.raises(CannotRebuild, match=r"pip cannot install tuned-norms==0\.9"):
        rebuilt("good", at_release(now, "tuned-norms", "0.9"), now, [])
    assert len(list(versions.iterdir())) == 1


def test_what_has_not_moved_needs_no_rebuilding(repository: Path) -> None:
    now = things_under_test([], plugins=[repository / "plugin.py"], root=repository)
    plugins = [str(repository / "plugin.py")]
    assert rebuilt("new", [found.item for found in now], now, plugins) == current("new", now, plugins)


def test_an_older_commit_lies_beside_this_one_with_its_modules_and_plug_ins(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [sys.path[0], str(repository / "src"), *sys.path[1:]])
    now = things_under_test([], plugins=[repository / "plugin.py"], root=repository)
    first = git(repository, "rev-parse", "HEAD~1")
    (repository / "src" / "norms.py").write_text("NUMBER = 3\n")
    before = git(repository, "status", "--porcelain"), git(repository, "worktree", "list")
    old = rebuilt("good", at_commit(now, "kernels", first), now, [str(repository / "plugin.py")])
    assert imported(old.import_path, "NUMBER", "norms") == "1"
    assert Path(old.plugins[0]).read_text() == "# 1\n"
    assert (git(repository, "status", "--porcelain"), git(repository, "worktree", "list")) == before


def test_what_nobody_has_any_more_is_said_in_a_sentence(repository: Path, tmp_path: Path) -> None:
    now = things_under_test([], plugins=[], root=repository)
    (item,) = [found.item for found in now]
    loose = tmp_path / "loose"
    loose.mkdir()
    for wanted, here, words in (
        ([RevisionItem("kernels", "path", commit=item.commit, dirty=True, diff_hash="0" * 64)], now, "not committed"),
        ([RevisionItem("kernels", "path", commit="0" * 40, dirty=False)], now, "cannot be checked out"),
        ([RevisionItem("others", "path", commit="0" * 40)], now, "is not now"),
        ([RevisionItem("torch", "package")], (UnderTest(RevisionItem("torch", "package", "2.13.0")),), "was not installed then"),
        ([RevisionItem("loose", "path", diff_hash="1" * 64)], (UnderTest(path_revision(loose), loose),), "no git repository"),
    ):
        with pytest.raises(CannotRebuild, match=words):
            rebuilt("good", wanted, here, [])


def test_a_commit_before_the_plug_in_cannot_be_measured(repository: Path) -> None:
    (repository / "later.py").write_text("# new\n")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message", "a plug-in")
    now = things_under_test([], plugins=[repository / "later.py"], root=repository)
    with pytest.raises(CannotRebuild, match=r"later\.py did not exist then"):
        rebuilt("good", at_commit(now, "kernels", git(repository, "rev-parse", "HEAD~1")), now, [str(repository / "later.py")])


def _version(folder: Path, name: str, *, kib: int, unused_s: float) -> Path:
    made = folder / name
    (made / "package").mkdir(parents=True)
    (made / "package" / "data").write_bytes(b"x" * 1024 * kib)
    used = time.time() - unused_s
    os.utime(made, (used, used))
    return made


def test_versions_beyond_the_bound_go_the_longest_unused_first_and_never_one_of_today(versions: Path) -> None:
    day = SPARED_S
    oldest, older, old, fresh, large = (
        _version(versions, name, kib=kib, unused_s=unused_s)
        for name, kib, unused_s in (
            ("oldest", 10, 9 * day), ("older", 10, 5 * day), ("old", 10, 2 * day), ("fresh", 10, 60.0), ("large", 90, 60.0)
        )
    )  # fmt: skip
    sweep(versions, 130 * 1024)
    assert set(versions.iterdir()) == {oldest, older, old, fresh, large}
    sweep(versions, 115 * 1024)
    assert set(versions.iterdir()) == {old, fresh, large}
    sweep(versions, 0)
    assert set(versions.iterdir()) == {fresh, large}


def test_a_version_that_is_used_again_is_not_the_longest_unused(repository: Path, versions: Path) -> None:
    now = things_under_test([], plugins=[], root=repository)
    first = git(repository, "rev-parse", "HEAD~1")
    wanted = at_commit(now, "kernels", first)
    rebuilt("good", wanted, now, [])
    (folder,) = versions.iterdir()
    os.utime(folder, (1.0, 1.0))
    rebuilt("good", wanted, now, [])
    sweep(versions, 0)
    assert list(versions.iterdir()) == [folder]
