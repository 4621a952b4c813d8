"""Starts the probe once a process has imported torch; imports nothing that it does not have already, and leaves what else there is alone.

Another `sitecustomize` (an environment's, a distribution's) is run as if this one were not there. The probe's modules are loaded by path,
as a `bench` of their own that is in `sys.modules` only while they are loaded: a script may have a package of that name, and its
interpreter need not have ours. What fails here is written down for the command that started the script, and the script goes on.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

FOLDER = "BENCH_AUDIT_FOLDER"
STEPS = "BENCH_AUDIT_STEPS"
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(HERE))))
"""Where the package `bench` lies."""


def _run_the_other() -> None:
    """Whatever `sitecustomize` Python would have found without this folder."""
    import importlib.machinery
    import importlib.util

    sys.path[:] = [path for path in sys.path if os.path.abspath(path or ".") != HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules["sitecustomize"] = module
        spec.loader.exec_module(module)


class Watch:
    """A finder that finds nothing: it has functions called when modules of certain names have just been imported."""

    def __init__(self) -> None:
        self._calls: dict[str, Callable[[], None]] = {}
        self._busy: set[str] = set()

    def when_imported(self, name: str, call: Callable[[], None]) -> None:
        """Calls `call()` once `name` has been imported; at once where it is already there."""
        if name in sys.modules:
            _written_down(call)
        else:
            self._calls[name] = call

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        if name not in self._calls or name in self._busy:
            return None
        from importlib.util import find_spec

        self._busy.add(name)
        try:
            spec = find_spec(name)
        finally:
            self._busy.discard(name)
        if spec is not None and spec.loader is not None:
            self._call_after(name, spec.loader)
        return spec

    def _call_after(self, name: str, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            del loader.exec_module
            execute(module)
            call = self._calls.pop(name, None)
            if call is not None:
                _written_down(call)

        try:
            loader.exec_module = exec_module
        except AttributeError:
            return  # a loader that takes no attributes: its module is imported unseen


class _OnlyBench:
    """Finds the package `bench` in `ROOT`, and nothing else there."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, [ROOT]) if name == "bench" else None


def _take_ours() -> dict[str, Any]:
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name == "bench" or name.startswith("bench.")}


def _begin(watch: Watch) -> None:
    """Loads the probe and starts it. Called within the import of torch, which is complete by then."""
    import importlib

    if sys.version_info < (3, 11):  # noqa: UP036 - the script's interpreter, not ours
        raise RuntimeError("the script runs on Python {}.{}; the probe needs 3.11".format(*sys.version_info[:2]))
    theirs = _take_ours()
    finder = _OnlyBench()
    sys.meta_path.insert(0, finder)
    try:
        importlib.import_module("bench.worker.audit.begin").begin(os.environ[FOLDER], int(os.environ[STEPS]), watch.when_imported)
    finally:
        sys.meta_path.remove(finder)
        _take_ours()
        sys.modules.update(theirs)


def _written_down(call: Callable[[], None]) -> None:
    """Calls it. What it raises goes to a file for the command that started the script, and the import that led here goes on."""
    try:
        call()
    except Exception:  # noqa: BLE001 - the boundary: the script must run on, and the reason is written down
        import traceback

        path = os.path.join(os.environ[FOLDER], f"no-probe-{os.getpid()}.txt")
        try:
            with open(path, "w") as file:
                file.write(traceback.format_exc())
        except OSError:
            return  # nobody reads there any more


try:
    _run_the_other()
finally:  # what it raises is told by Python itself
    if os.environ.get(FOLDER) and os.environ.get(STEPS):
        _watch = Watch()
        sys.meta_path.insert(0, _watch)
        _watch.when_imported("torch", lambda: _begin(_watch))
