"""Loads what lives outside bench/workloads: lone-file plug-ins, and the modules that entry points name."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

from bench.declare import Implementation, Workload
from bench.errors import PluginError
from bench.processes import flush_c_streams

ENTRY_POINT_GROUP = "bench.implementations"

RESERVED_NAMES = frozenset(
    {"workload", "pass", "dtype", "device", "cache", "timer", "world_size", "model", "tokens"}
    | {"schema", "name", "question", "subjects", "baseline", "under_test", "sweep", "exclude", "profiles", "protocol", "threads"}
    | {"defaults", "shorthands", "arms", "ladder", "leave_one_out", "pairs", "search", "memory_limit", "memory_limit_bytes"}
)
"""Names that a case or a suite gives a meaning to; no workload may use them for a parameter or a slot."""


@dataclass(frozen=True, slots=True)
class Declared:
    """What one module outside the built-in folders declares."""

    origin: str
    implementations: tuple[Implementation, ...] = ()
    workload: Workload | None = None


def own_implementations(module: ModuleType) -> list[Implementation]:
    """Those that the module itself declares, not those it imports."""
    found = (value for value in vars(module).values() if isinstance(value, Implementation))
    return [entry for entry in found if entry.builder.__module__ == module.__name__]


def declared_by(loaded: object, origin: str) -> Declared:
    """What an entry point's module declares: itself, or by importing it from other modules of its package."""
    if isinstance(loaded, Implementation):
        return Declared(origin, (loaded,))
    if not isinstance(loaded, ModuleType):
        raise PluginError(f"it names a {type(loaded).__name__}; it must name a module that declares implementations")
    package = loaded.__name__.split(".")[0]
    found = {id(value): value for value in vars(loaded).values() if isinstance(value, Implementation)}
    own = tuple(entry for entry in found.values() if entry.builder.__module__.split(".")[0] == package)
    workload = getattr(loaded, "WORKLOAD", None)
    if not own and workload is None:
        raise PluginError("it declares no implementation and no WORKLOAD")
    return Declared(origin, own, workload)


HEAVY = "torch"
"""What nothing that is declared may import: commands that only plan or judge would wait for it."""


@contextlib.contextmanager
def importing(origin: str, notices: list[str]) -> Iterator[None]:
    """Round the import of what others wrote: what that prints goes to stderr, and that it imports torch is told in `notices`."""
    had, started_s = HEAVY in sys.modules, time.perf_counter()
    with contextlib.redirect_stdout(sys.stderr):
        yield
    if HEAVY in sys.modules and not had:
        took_s = time.perf_counter() - started_s
        notices.append(
            f"{origin}: importing it imports {HEAVY} too, so every command that reads it takes {took_s:.1f} s longer: "
            "import torch, and packages that bring it along, inside the builder"
        )


@contextlib.contextmanager
def descriptor_to_stderr() -> Iterator[None]:
    """What C code and programs that are started within write to standard output goes to stderr, as `importing` does with Python's own."""
    try:
        kept = os.dup(1)
    except OSError:  # closed: there is no output that could be spoilt
        yield
        return
    sys.stdout.flush()
    try:
        os.dup2(2, 1)
        yield
    finally:
        flush_c_streams()
        os.dup2(kept, 1)
        os.close(kept)


def entry_points_found() -> list[tuple[str, str, Callable[[], object]]]:
    from importlib.metadata import entry_points

    found = sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda entry: (entry.name, entry.value))
    return [(entry.name, entry.value, entry.load) for entry in found]


def form_mistake(workload: object) -> str | None:
    """Why this is no workload at all; None where it is one."""
    if not isinstance(workload, Workload):
        return f"it must be an instance of bench.declare.Workload, not {type(workload).__name__}"
    lacking = [name for name in ("name", "version", "slots", "params") if not hasattr(workload, name)]
    return f"it lacks {', '.join(lacking)}" if lacking else None


def workload_mistake(workload: Workload) -> str | None:
    """Why a workload from outside cannot join the others; None where it can."""
    if mistake := form_mistake(workload):
        return mistake
    names = [*(param.name for param in workload.params), *workload.slots, *workload.dims]
    bad = sorted({name for name in names if name in RESERVED_NAMES or names.count(name) > 1})
    return f"names of parameters, slots and dimensions that are reserved or there twice: {', '.join(bad)}" if bad else None


def reason_of(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, PluginError):
        return text
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class _Uncached(SourceFileLoader):
    """Always compiles the source: a bytecode cache would litter the user's folder, and be stale after a quick edit."""

    def path_stats(self, path: str) -> Mapping[str, float]:
        raise OSError("no cache")  # the import system's own way to say so


def load_plugin(path: Path, notices: list[str]) -> Declared:
    """Imports a lone file under a name of its own, so that two files of the same name are two modules."""
    if not path.is_file():
        what = "is a folder; name one .py file" if path.is_dir() else "there is no such file"
        raise PluginError(f"{path}: {what}")
    digest = hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()[:12]
    name = f"bench_plugin_{re.sub(r'[^0-9A-Za-z_]', '_', path.stem)[:60]}_{digest}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_Uncached(name, str(path)))
    if path.suffix != ".py" or spec is None or spec.loader is None:
        raise PluginError(f"{path}: a plug-in is one Python file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with importing(str(path), notices), descriptor_to_stderr():
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - somebody else's code; what it raised is the message
        del sys.modules[name]
        raise PluginError(f"{path}{_line_of(error, path)}: {reason_of(error)}") from None
    workload = getattr(module, "WORKLOAD", None)
    own = tuple(own_implementations(module))
    if not own and workload is None:
        raise PluginError(f"{path}: it declares no implementation; decorate a builder with @implementation(workload=...)")
    return Declared(str(path), own, workload)


def _line_of(error: BaseException, path: Path) -> str:
    """`:12`, the last line of the plug-in itself on the way to the error; empty where there is none."""
    if isinstance(error, SyntaxError) and error.filename == str(path) and error.lineno:
        return f":{error.lineno}"
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(path)]
    return f":{lines[-1]}" if lines else ""
