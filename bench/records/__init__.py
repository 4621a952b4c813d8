"""The nouns, frozen: what a suite expands to, what a trial answers, and where it was measured.

Everything here is plain data that crosses a process or a database boundary. `dump` and `load` turn any record into
JSON-ready data and back; keys are SHA-256 of canonical JSON, so two machines that never met agree on them.

Units: seconds, bytes, and counts. GiB and ms exist only in the report.
"""

from __future__ import annotations

from bench.records.answered import Check, Cost, Measurement, Proof, Reply
from bench.records.asked import Case, Protocol, Request, Trial
from bench.records.json_form import canonical_json, dump, fingerprint, load, load_json
from bench.records.kept import Environment, Result, RevisionItem, Run
from bench.records.words import (
    BISECT,
    CONFIRM,
    DEVICES,
    EXTERNAL,
    FIXED_AXES,
    HARDWARE,
    IMPORTED,
    IN_TURN,
    INTERPRETER,
    MANUAL,
    MEMORY_LIMIT_PARAM,
    METHOD_VERSION,
    NIGHTLY,
    NO_METHOD_OF_OURS,
    RECORD_VERSION,
    RERUN,
    Json,
    Pass,
    RunState,
    Scalar,
    Status,
    TrialKey,
    utc_now,
)

__all__ = [
    "BISECT",
    "CONFIRM",
    "DEVICES",
    "EXTERNAL",
    "FIXED_AXES",
    "HARDWARE",
    "IMPORTED",
    "INTERPRETER",
    "IN_TURN",
    "MANUAL",
    "MEMORY_LIMIT_PARAM",
    "METHOD_VERSION",
    "NIGHTLY",
    "NO_METHOD_OF_OURS",
    "RECORD_VERSION",
    "RERUN",
    "Case",
    "Check",
    "Cost",
    "Environment",
    "Json",
    "Measurement",
    "Pass",
    "Proof",
    "Protocol",
    "Reply",
    "Request",
    "Result",
    "RevisionItem",
    "Run",
    "RunState",
    "Scalar",
    "Status",
    "Trial",
    "TrialKey",
    "canonical_json",
    "dump",
    "fingerprint",
    "load",
    "load_json",
    "utc_now",
]
