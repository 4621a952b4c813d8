"""Writes down which phase a trial has reached, so that a death or a time-out can say where it happened."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

PHASES = (
    "started",
    "handover",
    "import",
    "gate",
    "device_init",
    "inputs",
    "build",
    "first_call",
    "check",
    "timer",
    "warmup",
    "sampling",
    "phases",
    "memory",
    "saved",
    "findings",
    "attribution",
    "phase_peaks",
    "communication",
    "measured_check",
    "proof",
    "replied",
)
"""In their order. From `handover` on a failure is the subject's and becomes a status; before it, it is ours.

`gate` is the wait until the parent lets the trial take its device: a cost of the row before, not of this trial.
"""


class PhaseLog:
    """Appends `{"phase": name, "t": monotonic seconds}` lines, each with one write, so a killed process leaves whole lines."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self.current = ""

    def enter(self, phase: str) -> None:
        """The moment when `phase` begins; it lasts until the next one begins."""
        if phase not in PHASES:
            raise ValueError(f"unknown phase {phase!r}")
        self.current = phase
        os.write(self._file, (json.dumps({"phase": phase, "t": time.monotonic()}) + "\n").encode())

    def close(self) -> None:
        os.close(self._file)
