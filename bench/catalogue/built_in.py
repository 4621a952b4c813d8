"""The folders of bench/workloads: their workloads, the implementations in their files, and what is wrong with either, in one sentence.

A kernel's file goes into a folder of this package, so a mistake in it is its author's and no bug of ours: it is told as a plug-in's is.
"""

from __future__ import annotations

import importlib
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

import bench.workloads
from bench.catalogue.installed import check_requirements
from bench.catalogue.names import nearest
from bench.catalogue.outside import form_mistake, importing, own_implementations, reason_of
from bench.declare import Implementation, Workload
from bench.errors import PluginError, Problem


def folders() -> dict[str, Path]:
    """By slot, the folder with its ways."""
    return {path.parent.name: path.parent for path in sorted(_root().glob("[!_]*/__init__.py"))}


def implementations_in(folder: Path, notices: list[str]) -> dict[str, Implementation]:
    """What the files of a slot's folder declare, by name. Raises PluginError, with file and line, where one of them is not right."""
    slot = folder.name
    found: dict[str, Implementation] = {}
    for file in sorted(folder.glob("[!_]*.py")):
        own = own_implementations(_imported(f"bench.workloads.{slot}.{file.stem}", file, notices))
        if not own:
            advice = "decorate a builder with @implementation(...), or let the file's name begin with _ if others only import it"
            raise PluginError(f"{file}: it declares no implementation; {advice}")
        for entry in own:
            where = f"{file}:{entry.builder.__code__.co_firstlineno}"
            if entry.slot != slot:
                told = f"it lies in the folder of {slot} and says workload={entry.slot!r}: leave that out, or move the file"
                raise PluginError(f"{where}: {entry.name}: {told}")
            if entry.name in found:
                told = f"{slot} has an implementation named {entry.name!r} already, in {found[entry.name].source}"
                raise PluginError(f"{where}: {told}; choose another name")
            if entry.requires:
                check_requirements(entry, where)
            found[entry.name] = entry
    return found


def workload_of(folder: Path, notices: list[str]) -> Workload | None:
    """The workload of a folder; None where it is only a slot of others. Raises PluginError where its file is not right."""
    file = folder / "__init__.py"
    workload: Workload | None = getattr(_imported(f"bench.workloads.{folder.name}", file, notices), "WORKLOAD", None)
    if workload is None:
        return None
    if mistake := form_mistake(workload):
        raise PluginError(f"{file}: WORKLOAD: {mistake}")
    if workload.name != folder.name:
        raise PluginError(f"{file}: WORKLOAD is named {workload.name!r}, and its folder {folder.name!r}: give both one name")
    return workload


def strays() -> dict[str, Path]:
    """By name, the folders with Python files that are no package, so that nothing looks into them."""
    return {
        folder.name: folder
        for folder in sorted(_root().iterdir())
        if folder.is_dir() and folder.name[0] not in "_." and not (folder / "__init__.py").exists() and any(folder.glob("*.py"))
    }


def useless_folders(workloads: Iterable[Workload]) -> Iterator[Problem]:
    """Folders that nothing can use. `workloads`: all that there are."""
    used = {name for workload in workloads for name in (workload.name, *workload.slots)}
    known = sorted(folders().keys() & used)
    for name, folder in strays().items():
        yield Problem("it has no __init__.py, so its files are no implementations", str(folder), suggestion=nearest(name, known))
    for name, folder in folders().items():
        if name not in used:
            message = "it declares no WORKLOAD, and none has a slot of this name: nothing can use its files"
            yield Problem(message, str(folder), suggestion=nearest(name, known))


def _root() -> Path:
    return Path(bench.workloads.__path__[0])


def _imported(name: str, file: Path, notices: list[str]) -> ModuleType:
    try:
        with importing(str(file), notices):
            return importlib.import_module(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - what somebody has just written; what it raised is the message
        raise PluginError(f"{_place_of(error) or file}: {reason_of(error)}") from None


def _place_of(error: BaseException) -> str | None:
    """`FILE:12`, the last place in any of the folders on the way to the error; None where there is none."""
    root = str(_root())
    if isinstance(error, SyntaxError) and (error.filename or "").startswith(root):
        return f"{error.filename}:{error.lineno}"
    places = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(root)]
    return f"{places[-1].filename}:{places[-1].lineno}" if places else None
