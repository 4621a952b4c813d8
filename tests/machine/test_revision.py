"""What is under test, told from real repositories."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import bench
from bench.errors import SelectionError
from bench.machine import harness_version, revision
from bench.records import RevisionItem

IDENTITY = ("-c", "user.name=Test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false")


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(folder), *IDENTITY, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    top = tmp_path / "kernels"
    (top / "suites").mkdir(parents=True)
    (top / "suites" / "a.yaml").write_text("schema: 1\n")
    (top / "kernel.py").write_text("fast = False\n")
    (top / ".gitignore").write_text("ignored/\n")
    git(top, "init", "--quiet")
    git(top, "add", ".")
    git(top, "commit", "--quiet", "-m", "first")
    return top


def only(items: tuple[RevisionItem, ...]) -> RevisionItem:
    assert len(items) == 1
    return items[0]


def test_by_default_the_repository_of_the_suite_is_under_test(repository: Path) -> None:
    item = only(revision((), root=repository / "suites" / "a.yaml"))
    assert item == RevisionItem("kernels", "path", commit=git(repository, "rev-parse", "HEAD"), dirty=False)


def test_plugins_of_the_same_repository_add_nothing_and_others_add_theirs(repository: Path, tmp_path: Path) -> None:
    alone = tmp_path / "alone.py"
    alone.write_text("x = 1\n")
    items = revision((), plugins=[repository / "kernel.py", alone], root=repository / "suites")
    assert [item.name for item in items] == ["kernels", "alone.py"]
    assert items[1].commit is None
    assert items[1].diff_hash is not None
    alone.write_text("x = 2\n")
    assert revision((), plugins=[alone], root=repository)[1].diff_hash != items[1].diff_hash


def test_a_plugin_counts_beside_what_is_under_test_and_where_git_ignores_it(repository: Path) -> None:
    ignored = repository / "ignored" / "mine.py"
    ignored.parent.mkdir(exist_ok=True)
    for under_test, plugin in ((("click",), repository / "kernel.py"), (("click",), ignored), ((), ignored)):
        plugin.write_text("x = 1\n")
        before = revision(under_test, plugins=[plugin], root=repository)
        plugin.write_text("x = 2\n")
        after = revision(under_test, plugins=[plugin], root=repository)
        assert before != after
        assert [item.name for item in after] == [item.name for item in before]
        assert after[-1].name == plugin.name


def test_two_plugins_of_one_name_are_two_items(tmp_path: Path) -> None:
    plugins = [tmp_path / folder / "mine.py" for folder in ("a", "b")]
    for plugin in plugins:
        plugin.parent.mkdir()
        plugin.write_text(str(plugin))
    assert [item.name for item in revision(("click",), plugins=plugins, root=tmp_path)] == ["click", "mine.py", "b/mine.py"]


def test_the_harness_names_its_own_commit_and_tells_two_edits_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "stepbench" / "bench"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setattr("bench.__file__", str(package / "__init__.py"))
    harness_version.cache_clear()

    def version() -> str:
        harness_version.cache_clear()
        return harness_version()

    try:
        assert version() == bench.__version__, "installed, not from a clone"
        git(package.parent, "init", "--quiet")
        assert version() == bench.__version__, "inside a repository that does not hold it"
        git(package.parent, "add", ".")
        git(package.parent, "commit", "--quiet", "-m", "one")
        commit = git(package.parent, "rev-parse", "HEAD")
        assert version() == f"{bench.__version__}+g{commit[:12]}"
        (package.parent / "README.md").write_text("words")
        git(package.parent, "add", ".")
        git(package.parent, "commit", "--quiet", "-m", "not the package")
        assert version() == f"{bench.__version__}+g{commit[:12]}", "another commit, the same package"
        (package / "__init__.py").write_text("x = 1")
        first = version()
        (package / "__init__.py").write_text("x = 2")
        assert first.startswith(f"{bench.__version__}+g{commit[:12]}.dirty.")
        assert version() != first
    finally:
        harness_version.cache_clear()


def test_a_changed_an_added_and_an_untracked_file_make_it_dirty_each_with_a_hash_of_its_own(repository: Path) -> None:
    clean = only(revision((), root=repository))
    (repository / "kernel.py").write_text("fast = True\n")
    changed = only(revision((), root=repository))
    git(repository, "add", "kernel.py")
    assert only(revision((), root=repository)) == changed
    (repository / "new.py").write_text("x = 1\n")
    untracked = only(revision((), root=repository))
    (repository / "new.py").write_text("x = 2\n")
    other = only(revision((), root=repository))
    assert [item.dirty for item in (clean, changed, untracked, other)] == [False, True, True, True]
    assert len({item.diff_hash for item in (clean, changed, untracked, other)}) == 4
    assert len({item.commit for item in (clean, changed, untracked, other)}) == 1


def test_ignored_files_and_what_runs_write_leave_it_clean(repository: Path) -> None:
    for name in ("ignored/x.py", "results/bench.db", "mine.db", "mine.db-wal", "reports/a.html", "r.html", "pkg/__pycache__/m.pyc"):
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).write_text("x")
    assert only(revision((), root=repository)).dirty is False


def test_a_path_looks_at_itself_alone(repository: Path) -> None:
    (repository / "suites" / "a.yaml").write_text("schema: 1\nname: b\n")
    kernel = only(revision(["./kernel.py"], root=repository))
    assert (kernel.name, kernel.dirty) == ("kernels/kernel.py", False)
    assert only(revision(["kernel.py"], root=repository / "suites" / "a.yaml")) == kernel
    assert only(revision(["a.yaml"], root=repository / "suites" / "a.yaml")).dirty is True


def test_a_clone_has_the_name_of_its_origin(repository: Path, tmp_path: Path) -> None:
    clone = tmp_path / "work-copy"
    git(tmp_path, "clone", "--quiet", str(repository), str(clone))
    assert only(revision((), root=clone)).name == "kernels"


def test_a_repository_without_a_commit_is_dirty_and_has_no_commit(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "a.py").write_text("x = 1\n")
    item = only(revision((), root=tmp_path))
    assert (item.commit, item.dirty) == (None, True)
    assert item.diff_hash is not None


def test_names_that_are_not_utf_8_and_links_that_lead_nowhere_are_part_of_the_hash(repository: Path) -> None:
    (repository / "gone").symlink_to("nowhere")
    with open(os.fsencode(repository) + b"/caf\xe9.py", "w") as file:
        file.write("x")
    assert only(revision((), root=repository)).dirty is True


def test_outside_git_and_without_git_it_still_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert only(revision((), root=tmp_path)) == RevisionItem(tmp_path.name, "path")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert only(revision((), root=tmp_path)) == RevisionItem(tmp_path.name, "path")


def test_a_run_started_by_a_git_hook_is_not_misled(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "--quiet")
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    assert only(revision((), root=repository)).commit is not None


def test_a_package_has_its_version_and_one_that_is_missing_has_none() -> None:
    click, missing = revision(["click", "no-such-package-here"])
    assert (click.kind, click.commit) == ("package", None)
    assert click.version is not None
    assert missing == RevisionItem("no-such-package-here", "package")


def test_a_package_installed_from_a_commit_says_which(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "flash_fake-1.2.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: flash-fake\nVersion: 1.2\n")
    (info / "direct_url.json").write_text('{"url": "https://example.org/f", "vcs_info": {"vcs": "git", "commit_id": "abc123"}}')
    monkeypatch.syspath_prepend(str(tmp_path))
    assert only(revision(["flash-fake"])) == RevisionItem("flash-fake", "package", "1.2", "abc123", False)


def test_a_package_installed_editable_has_the_commit_of_its_source(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    info = tmp_path / "kernels-0.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: kernels\nVersion: 0.1\n")
    (info / "direct_url.json").write_text(f'{{"url": "{repository.as_uri()}", "dir_info": {{"editable": true}}}}')
    monkeypatch.syspath_prepend(str(tmp_path))
    item = only(revision(["kernels"], root=tmp_path))
    assert (item.kind, item.version, item.commit, item.dirty) == ("package", "0.1", git(repository, "rev-parse", "HEAD"), False)


def test_a_path_that_is_not_there_is_an_error_that_says_where_paths_start(repository: Path) -> None:
    with pytest.raises(SelectionError, match=r"no file or folder './nowhere'"):
        revision(["./nowhere"], root=repository)
