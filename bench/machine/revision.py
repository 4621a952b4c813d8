"""What is under test: the version and commit of packages and paths, the x axis of every history."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlparse

import bench
from bench.errors import SelectionError
from bench.records import Json, RevisionItem

GIT_TIMEOUT_S = 30.0

# What runs themselves leave in a repository that does not ignore it: a second look during the same run must see the same tree.
_OUR_OUTPUT = re.compile(r"(^|/)(results|reports|__pycache__)/|\.(db|sqlite3?)(-wal|-shm|-journal)?$|\.(html|jsonl|jsonl\.gz|log)$")

# A git hook that starts a run sets these for its own repository; they would answer for every other one.
_GIT_STATE = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX")


def git_variables() -> dict[str, str]:
    """The environment in which git answers for the repository that it is asked about, in English, and takes no locks to look."""
    variables = {name: value for name, value in os.environ.items() if name not in _GIT_STATE}
    return {**variables, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


def _git(folder: Path, *arguments: str) -> bytes | None:
    """What git prints, or None where git is absent, refuses, or `folder` lies in no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments],
            env=git_variables(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def commits_between(source: Path, old: str, new: str, *, most: int) -> tuple[list[str], int]:
    """Commits that touched `source` after `old` up to `new`, newest first: of at most `most` a line each, and how many there are.

    Of what git does not know there are none.
    """
    folder = source if source.is_dir() else source.parent
    listed = _git(folder, "log", "--format=%h %s", f"{old}..{new}", "--", str(source)) or b""
    lines = listed.decode(errors="replace").splitlines()
    return lines[:most], len(lines)


def _file_digest(path: Path) -> bytes:
    if path.is_symlink():
        return hashlib.sha256(os.readlink(path).encode(errors="surrogateescape")).digest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _files_hash(files: Iterable[tuple[str, Path]], start: bytes = b"") -> str:
    """SHA-256 over `start` and the names and contents of `files`, whatever their order."""
    digest = hashlib.sha256(start)
    for name, path in sorted(files):
        digest.update(name.encode(errors="surrogateescape") + b"\0")
        # A file that vanishes or cannot be read while we look is a difference as well.
        digest.update(_file_digest(path) if path.is_symlink() or (path.is_file() and os.access(path, os.R_OK)) else b"unreadable")
    return digest.hexdigest()


def _top_name(top: Path) -> str:
    """The repository's name: the end of its origin's address, which every clone shares, or else its folder's name."""
    origin = (_git(top, "remote", "get-url", "origin") or b"").decode(errors="replace").strip()
    last = re.split(r"[/:]", origin.rstrip("/"))[-1].removesuffix(".git")
    return last or top.name


def _outside_git(path: Path, name: str) -> RevisionItem:
    if path.is_file():
        files = [(path.name, path)]
    else:
        files = [
            (str(file.relative_to(path)), file) for file in path.rglob("*") if file.is_file() and "__pycache__" not in file.parts
        ]
    return RevisionItem(name=name, kind="path", diff_hash=_files_hash(files))


def path_revision(path: Path) -> RevisionItem:
    """Commit and dirtiness of a file, a folder or a whole repository; outside git only a hash of its contents.

    `dirty` and `diff_hash` look at `path` alone, untracked files included; ignored ones and what runs write are not.
    """
    path = path.resolve()
    folder = path if path.is_dir() else path.parent
    answer = _git(folder, "rev-parse", "--show-toplevel")
    if answer is None:
        return _outside_git(path, path.name)
    top = Path(os.fsdecode(answer.rstrip(b"\n"))).resolve()
    inside = path.relative_to(top).as_posix()
    name = _top_name(top) if inside == "." else f"{_top_name(top)}/{inside}"
    head = _git(top, "rev-parse", "--verify", "--quiet", "HEAD")
    listed = _git(top, "ls-files", "--others", "--exclude-standard", "-z", "--", inside) or b""
    if head is None:
        listed += _git(top, "ls-files", "-z", "--", inside) or b""
    names = [os.fsdecode(entry) for entry in listed.split(b"\0") if entry]
    untracked = [(entry, top / entry) for entry in names if not _OUR_OUTPUT.search(entry)]
    diff = b""
    if head is not None:
        difference = _git(
            top, "diff", "HEAD", "--binary", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--", inside
        )
        if difference is None:
            return RevisionItem(name=name, kind="path", commit=head.decode().strip())
        diff = difference
    dirty = bool(diff or untracked)
    return RevisionItem(
        name=name,
        kind="path",
        commit=head.decode().strip() if head is not None else None,
        dirty=dirty,
        diff_hash=_files_hash(untracked, diff) if dirty else None,
    )


def _package_under_test(name: str) -> UnderTest | None:
    try:
        distribution = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    direct = installed_from(name)
    commit = direct.get("vcs_info", {}).get("commit_id")
    if commit:
        return UnderTest(RevisionItem(name=name, kind="package", version=distribution.version, commit=commit, dirty=False))
    address = urlparse(direct.get("url", ""))
    if direct.get("dir_info", {}).get("editable") and address.scheme == "file":
        folder = Path(unquote(address.path))
        source = path_revision(folder)
        item = RevisionItem(name, "package", distribution.version, source.commit, source.dirty, source.diff_hash)
        return UnderTest(item, folder.resolve())
    return UnderTest(RevisionItem(name=name, kind="package", version=distribution.version))


def installed_from(name: str) -> dict[str, Json]:
    """What the installer noted of where an installed package came from (PEP 610); nothing for one from an index."""
    try:
        found = json.loads(importlib.metadata.distribution(name).read_text("direct_url.json") or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _repository_of(path: Path) -> Path:
    """The top of the repository that holds `path`, or `path` itself outside git."""
    answer = _git(path if path.is_dir() else path.parent, "rev-parse", "--show-toplevel")
    return path if answer is None else Path(os.fsdecode(answer.rstrip(b"\n")))


@dataclass(frozen=True, slots=True)
class UnderTest:
    """One thing under test, and where it lies."""

    item: RevisionItem
    source: Path | None = None
    """The path under test, or the folder that an editable package is installed from; None for any other package."""


def revision(under_test: Sequence[str], *, plugins: Sequence[Path] = (), root: Path | None = None) -> tuple[RevisionItem, ...]:
    """What is under test, one item an entry. Arguments and errors as of `things_under_test`."""
    return tuple(found.item for found in things_under_test(under_test, plugins=plugins, root=root))


def things_under_test(
    under_test: Sequence[str], *, plugins: Sequence[Path] = (), root: Path | None = None
) -> tuple[UnderTest, ...]:
    """What is under test with where it lies, one an entry.

    Args:
        under_test: names of installed packages, or paths; relative ones start at the suite's folder or else at its repository.
        plugins: lone-file plug-ins. Their contents always count, whether git knows them or not: as an item each, or, where
            `under_test` is empty and git tracks them, within their repository's.
        root: the suite file or its folder; where `under_test` is empty its repository is under test.

    Raises SelectionError for an entry that is neither a path nor an installed package but looks like a path; a package that is
    not installed is an item without a version, because its rows will say `unavailable`.
    """
    base = (root or Path.cwd()).resolve()
    items: dict[str, UnderTest] = {}
    if not under_test:
        sources = [_repository_of(base), *(_repository_of(plugin.resolve()) for plugin in plugins)]
        for source in dict.fromkeys(sources):
            if source.is_file() and source in {plugin.resolve() for plugin in plugins}:
                continue  # a plug-in outside git: its contents are an item below
            # A whole folder that is no repository may be somebody's home: nobody asked to read all of it.
            loose = source.is_dir() and _git(source, "rev-parse", "--show-toplevel") is None
            item = RevisionItem(name=source.name, kind="path") if loose else path_revision(source)
            items.setdefault(item.name, UnderTest(item, source))
        # What git tracks is in its repository's item; the rest git would not tell us of.
        loose_plugins = [plugin for plugin in plugins if not _tracked(plugin.resolve())]
        return (*items.values(), *_plugin_items(loose_plugins, set(items)))
    folder = base if base.is_dir() else base.parent
    starts = (folder, _repository_of(folder))
    for entry in dict.fromkeys(under_test):
        found = _package_under_test(entry) if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", entry) else None
        if found is None:
            paths = (start / Path(entry).expanduser() for start in starts)
            found = next((UnderTest(path_revision(path), path.resolve()) for path in paths if path.exists()), None)
        if found is None and ("/" in entry or entry.startswith((".", "~"))):
            raise SelectionError(
                f"under_test: there is no file or folder {entry!r} (relative paths start at the suite's folder or at its repository)"
            )
        items[entry] = found or UnderTest(RevisionItem(name=entry, kind="package"))
    return (*items.values(), *_plugin_items(plugins, set(items)))


def _tracked(path: Path) -> bool:
    return _git(path.parent, "ls-files", "--error-unmatch", "--", path.name) is not None


def _plugin_items(plugins: Sequence[Path], taken: set[str]) -> list[UnderTest]:
    """The contents of each plug-in: it is measured whatever else is under test. Of equal names the later ones get their folder's."""
    found = []
    for plugin in dict.fromkeys(plugin.resolve() for plugin in plugins):
        name = plugin.name
        if name in taken:
            name = f"{plugin.parent.name}/{plugin.name}"
        taken.add(name)
        found.append(UnderTest(_outside_git(plugin, name), plugin))
    return found


@cache
def harness_version() -> str:
    """Our own version, with the commit and the state of the sources where they lie in a repository of their own.

    `0.1.0` where installed, `0.1.0+g1a2b3c4d5e6f` from a clone, `0.1.0+g1a2b3c4d5e6f.dirty.0f1e2d3c` where the package has been edited:
    the last part tells two edits apart. The commit is the last one that touched the package. Read once in a process.
    """
    package = Path(bench.__file__).resolve().parent
    if not _tracked(package / "__init__.py"):
        return bench.__version__  # installed, perhaps inside somebody else's repository
    state = path_revision(package)
    commit = (_git(package, "log", "-1", "--format=%H", "--", ".") or b"").decode().strip() or state.commit
    if commit is None:
        return bench.__version__
    dirty = f".dirty.{state.diff_hash[:8]}" if state.dirty and state.diff_hash else ""
    return f"{bench.__version__}+g{commit[:12]}{dirty}"
