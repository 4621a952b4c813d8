"""Where the probe begins, once a process has imported torch."""

from __future__ import annotations

from pathlib import Path

from bench.worker.audit.probe import Probe
from bench.worker.audit.watch import WhenImported, watch


def begin(folder: str, steps: int, when_imported: WhenImported) -> None:
    """Watches this process until it ends, or ends it after `steps` updates; reports into `folder`."""
    watch(Probe(Path(folder), steps), when_imported)
