"""Rebuilds what is under test as it was on an earlier day, beside what is installed now: only that moves, all else stays pinned.

The lock is the stored revision of a run. A package of it is installed alone (`pip --no-deps`) into a folder of its own, a path is checked
out from its repository at the commit; a worker that has these folders first on its path is the old version in today's environment. The
folders are kept and used again: `BENCH_VERSIONS_DIR`, else `stepbench/versions` in the user's cache folder. Whenever one is added, the
folder is swept: what was longest unused goes until the rest takes 20 GiB, but nothing that was used within a day.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import mkdtemp

import bench
from bench.errors import BenchError
from bench.machine import python, python_environment
from bench.machine.revision import UnderTest, git_variables, installed_from
from bench.records import RevisionItem, fingerprint

VERSIONS_DIR_VARIABLE = "BENCH_VERSIONS_DIR"
MOST_BYTES = 20 * 2**30
"""What rebuilt versions may take together."""
SPARED_S = 86_400.0
"""How long one that was used is safe, whatever they take: another process may be measuring with it, and a search comes back to it."""
INSTALL_TIMEOUT_S = 1800.0
CHECKOUT_TIMEOUT_S = 600.0
_MEASURING = ("worker", "records", "stats.py")
"""What of our own package takes the numbers: where it differs, two versions are not measured alike."""


class CannotRebuild(BenchError):
    """A version of what is under test is not to be had any more. The text is one sentence that says why."""


@dataclass(frozen=True, slots=True)
class Version:
    """What is under test at one of its revisions, ready to be measured."""

    name: str
    """Of the arm that measures it."""
    revision: tuple[RevisionItem, ...]
    import_path: tuple[str, ...] = ()
    """Folders that come first where its worker looks for modules."""
    plugins: tuple[str, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    """Facts of the environment that are other in this version than what is installed says."""


def current(name: str, now: Sequence[UnderTest], plugins: Sequence[str]) -> Version:
    """The version that lies here."""
    return Version(name, tuple(found.item for found in now), (), tuple(plugins))


def rebuilt(name: str, wanted: Sequence[RevisionItem], now: Sequence[UnderTest], plugins: Sequence[str]) -> Version:
    """The version `wanted`, as far as it differs from what lies here. Raises CannotRebuild."""
    here = {found.item.name: found for found in now}
    path: list[str] = []
    moved: list[tuple[Path, Path]] = []
    for item in wanted:
        found = here.get(item.name)
        if found is None:
            raise CannotRebuild(f"{item.name} was under test then and is not now")
        if item == found.item:
            continue
        if item.dirty:
            raise CannotRebuild(f"{item.name} had changes then that were not committed, and nobody has them")
        if found.source is not None:
            if item.commit is None:
                raise CannotRebuild(f"{item.name} lies in no git repository, so what it was then is gone")
            top, tree = _checked_out(found.source, item)
            moved.append((top, tree))
            path += _import_folders(top, tree)
        else:
            path.append(_installed(item))
    return Version(name, tuple(wanted), tuple(dict.fromkeys(path)), tuple(_moved_plugin(plugin, moved) for plugin in plugins))


def with_packages(version: Version, packages: Mapping[str, str]) -> Version:
    """The version with packages of the environment as they were, by name; for when these moved and not what is under test.

    Raises CannotRebuild.
    """
    path = [_installed(RevisionItem(name, "package", release)) for name, release in packages.items()]
    facts = tuple((f"package:{name}", release) for name, release in packages.items())
    return replace(version, import_path=tuple(dict.fromkeys((*path, *version.import_path))), facts=(*version.facts, *facts))


def at_commit(now: Sequence[UnderTest], name: str, commit: str) -> tuple[RevisionItem, ...]:
    """What lies here with one thing at another commit. Where that is the commit at hand and nothing is edited, just what lies here."""

    def moved(found: UnderTest) -> RevisionItem:
        if found.item.name != name or (found.item.commit == commit and not found.item.dirty):
            return found.item
        return replace(found.item, commit=commit, dirty=False, diff_hash=None)

    return tuple(map(moved, now))


def at_release(now: Sequence[UnderTest], name: str, version: str) -> tuple[RevisionItem, ...]:
    """What lies here with one package at another version."""
    return tuple(
        replace(found.item, version=version, commit=None, dirty=None, diff_hash=None)
        if found.item.name == name and found.item.version != version
        else found.item
        for found in now
    )


def versions_folder() -> Path:
    """Where rebuilt versions lie."""
    chosen = os.environ.get(VERSIONS_DIR_VARIABLE)
    if chosen:
        return Path(chosen)
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "stepbench" / "versions"


# --- packages ------------------------------------------------------------------------------------------------------------------


def _installed(item: RevisionItem) -> str:
    if item.version is None:
        raise CannotRebuild(f"{item.name} was not installed then")
    what = f"{item.name}=={item.version}"
    if item.commit is not None:
        direct = installed_from(item.name)
        if "vcs_info" not in direct:
            raise CannotRebuild(f"{item.name} was installed from commit {item.commit[:12]}, and now from elsewhere")
        what = f"{item.name} @ {direct['vcs_info'].get('vcs', 'git')}+{direct['url']}@{item.commit}"
    folder = versions_folder() / fingerprint([what, sys.version, sys.platform])[:16]

    def install(place: Path) -> None:
        command = python(
            "-m", "pip", "install", "--disable-pip-version-check", "--quiet", "--no-deps", "--target", str(place), what
        )
        _run(command, f"pip cannot install {what}", python_environment(), INSTALL_TIMEOUT_S)

    _kept(folder, install)
    return str(folder)


# --- paths ---------------------------------------------------------------------------------------------------------------------


def _checked_out(source: Path, item: RevisionItem) -> tuple[Path, Path]:
    """The top of the repository that holds `source`, and a tree of it at the item's commit."""
    commit = item.commit or ""
    start = source if source.is_dir() else source.parent
    said = _run(
        ["git", "-C", str(start), "rev-parse", "--show-toplevel"], f"{source} lies in no git repository any more", git_variables()
    )
    top = Path(said.strip()).resolve()
    folder = versions_folder() / fingerprint([str(top), commit])[:16]

    def check_out(place: Path) -> None:
        # A clone that borrows the objects: nothing is written into the repository itself.
        words = f"commit {commit[:12]} of {item.name} cannot be checked out"
        clone = ["git", "clone", "--quiet", "--shared", "--no-checkout", str(top), str(place)]
        _run(clone, words, git_variables(), CHECKOUT_TIMEOUT_S)
        _run(["git", "-C", str(place), "checkout", "--quiet", "--detach", commit], words, git_variables(), CHECKOUT_TIMEOUT_S)

    _kept(folder, check_out)
    _demand_same_measuring(top, folder, item)
    return top, folder


def _demand_same_measuring(top: Path, tree: Path, item: RevisionItem) -> None:
    """Where the repository under test is our own, only the rest of it may differ."""
    package = Path(bench.__file__).resolve().parent
    if not package.is_relative_to(top):
        return
    for part in _MEASURING:
        ours, theirs = package / part, tree / package.relative_to(top) / part
        if _contents(ours) != _contents(theirs):
            raise CannotRebuild(
                f"at commit {(item.commit or '')[:12]} of {item.name} bench itself measured in another way ({part})"
            )


def _contents(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(path.rglob("*.py"))
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def _import_folders(top: Path, tree: Path) -> Iterator[str]:
    """The folders of the tree that stand for those of the repository in which Python finds modules today."""
    # Without the script's own folder, which a worker does not look into.
    found = [Path(entry) for entry in (sys.path if sys.flags.safe_path else sys.path[1:]) if entry]
    # An editable installation may map packages one by one, in a module that setuptools writes.
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable___"):
            found += [Path(package).parent for package in getattr(module, "MAPPING", {}).values()]
    found += [Path(bench.__file__).parent.parent]
    for folder in dict.fromkeys(entry.resolve() for entry in found):
        if folder.is_relative_to(top) and (there := tree / folder.relative_to(top)).is_dir():
            yield str(there)


def _moved_plugin(plugin: str, moved: Sequence[tuple[Path, Path]]) -> str:
    path = Path(plugin).resolve()
    for top, tree in moved:
        if path.is_relative_to(top):
            there = tree / path.relative_to(top)
            if not there.is_file():
                raise CannotRebuild(f"the plug-in {path.name} did not exist then")
            return str(there)
    return plugin


# --- both ----------------------------------------------------------------------------------------------------------------------


def _kept(folder: Path, make: Callable[[Path], None]) -> None:
    """Makes `folder` in one step unless it is there: another process may be at it, and a broken-off one must leave nothing."""
    if folder.is_dir():
        os.utime(folder)  # the time of its last use
        return
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        place = Path(mkdtemp(prefix=f"{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise CannotRebuild(
            f"{folder.parent} takes no versions ({error}); set {VERSIONS_DIR_VARIABLE} to a folder that does"
        ) from error
    try:
        make(place)
        try:
            place.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was quicker, and its version is as good
                raise
    finally:
        shutil.rmtree(place, ignore_errors=True)
    os.utime(folder)
    sweep(folder.parent, MOST_BYTES)


def sweep(folder: Path, most_bytes: int) -> None:
    """Removes versions, the longest unused first, until the others take at most so much. What was used within a day stays.

    What a broken-off installation left is a folder beside them, and goes the same way.
    """
    spared = time.time() - SPARED_S
    found = sorted((entry.stat().st_mtime, entry) for entry in folder.iterdir() if entry.is_dir() and not entry.is_symlink())
    sizes = {entry: _bytes(entry) for _, entry in found}
    for used, entry in found:
        if used >= spared or sum(sizes.values()) <= most_bytes:
            break
        # Under another name first: whoever looks for it meanwhile finds the whole of it or nothing.
        going = entry.with_name(f"{entry.name}-{os.getpid()}-going")
        try:
            entry.rename(going)
        except FileNotFoundError:  # another process swept it
            pass
        except PermissionError:  # another user's, who sweeps it himself
            continue
        shutil.rmtree(going, ignore_errors=True)
        del sizes[entry]


def _bytes(folder: Path) -> int:
    """What the files in a folder take; of one that is swept meanwhile, what is left of it."""
    total = 0
    for here, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += (Path(here) / name).lstat().st_size
    return total


def _run(command: Sequence[str], words: str, variables: dict[str, str], timeout_s: float = 60.0) -> str:
    try:
        done = subprocess.run(
            command, env=variables, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout_s, check=False,
            errors="replace",
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRebuild(f"{words}: {error}") from error
    if done.returncode != 0:
        lines = [line for line in (done.stderr or done.stdout).strip().splitlines() if line.strip()]
        raise CannotRebuild(f"{words}: {lines[-1].strip() if lines else f'exit code {done.returncode}'}")
    return done.stdout
