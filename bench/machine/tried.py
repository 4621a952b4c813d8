"""Which packages import and what torch says of itself: one process that has imported torch tries each in a fork, several at a time."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bench.machine.environment import installed_version
from bench.machine.interpreter import python, python_environment
from bench.machine.secrets import scrub

START_S = 60.0
IMPORT_S = 60.0
TORCH_S = 180.0
"""For its own import, and as much for what it is asked; a process that is silent for longer than both is ended."""
LONGEST_WORDS = 400


@dataclass(frozen=True, slots=True)
class Import:
    """One package tried: `seconds` where it imports, once torch has been, else `words`, the library's own."""

    package: str
    version: str
    seconds: float | None
    words: str | None


@dataclass(frozen=True, slots=True)
class Tried:
    """`torch`: what `bench.worker.examine` says, or why it says nothing; an import for each package, in their order."""

    torch: dict[str, Any] | str
    imports: tuple[Import, ...]


def try_all(
    packages: Sequence[tuple[str, str]],
    *,
    import_s: float = IMPORT_S,
    torch_s: float | None = TORCH_S,
    heard: Callable[[str, int, int], None] = lambda _name, _done, _of: None,
) -> Tried:
    """Tries packages, each with the module that it is imported by: one that hangs or crashes says so and hides no other.

    Without `torch_s` packages are tried in a bare Python. `heard` gets each name as it has answered, how many have, and of how many.
    """
    by_module = {module: package for package, module in packages}
    request = {
        "modules": list(by_module),
        "at_a_time": min(4, len(os.sched_getaffinity(0))),
        "import_s": import_s,
        "torch_s": torch_s,
    }
    asked = len(by_module) + (torch_s is not None)
    silence_s = START_S + import_s + 2 * (torch_s or 0.0)
    answers: dict[str, dict[str, Any]] = {}
    # As trials count GPUs.
    environment = {"KINETO_LOG_LEVEL": "99", **python_environment(), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(
            python("-m", "bench.worker.tries", json.dumps(request)), env=environment, stdout=subprocess.PIPE, stderr=log, text=True
        ) as process,
    ):
        assert process.stdout is not None
        try:
            for line in _lines(process, silence_s):
                found = json.loads(line)
                answers[found["name"]] = found
                heard(by_module.get(found["name"], "torch"), len(answers), asked)
                if len(answers) == asked:
                    # Left alone, an interpreter that holds torch takes a second to end.
                    break
        finally:
            process.kill()
        process.wait()
        log.seek(0)
        silent = _why(process.returncode, log.read().decode(errors="replace"), silence_s)
    said = answers.get("", {"words": silent})
    torch: dict[str, Any] | str = said["facts"] if "facts" in said else _short(said["words"])
    return Tried(torch, tuple(_import(package, answers.get(module, {"words": silent})) for package, module in packages))


def _lines(process: subprocess.Popen[str], silence_s: float) -> Any:
    """What it prints; it is killed where it says nothing for so long."""
    while True:
        watch = threading.Timer(silence_s, process.kill)
        watch.start()
        try:
            line = process.stdout.readline()  # type: ignore[union-attr]
        finally:
            watch.cancel()
        if not line:
            return
        yield line


def _why(status: int, log: str, silence_s: float) -> str:
    """Why the process that should have tried gave no answer."""
    lines = [line for line in log.strip().splitlines() if line]
    if lines:
        return lines[-1]
    return f"no answer within {silence_s:g} s" if status == -9 else f"ended with status {status} without a word"


def _import(package: str, said: dict[str, Any]) -> Import:
    version = installed_version(package) or "?"
    return Import(package, version, said.get("seconds"), None if "seconds" in said else _short(said["words"]))


def _short(words: str) -> str:
    return scrub(words)[:LONGEST_WORDS]
