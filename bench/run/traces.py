"""Reads what a trial left in its directory: phases, replies, the launcher's account, and the log as it is stored.

A trial's directory is written by another process, which may have died in the middle of a line: everything here takes what is whole.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.errors import HarnessError
from bench.machine import scrub
from bench.machine.secrets import looks_secret
from bench.metrics import METRICS
from bench.records import Json, Measurement, Reply, Status, load, trial_folder

LOG_LIMIT_BYTES = 32 * 2**20
"""A trial that writes more is ended."""
_LOG_HEAD_BYTES = 16 * 2**10
_LOG_TAIL_BYTES = 48 * 2**10


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase and the moment when it began, in seconds of the monotonic clock."""

    name: str
    t: float


@dataclass(frozen=True, slots=True)
class RankFailure:
    """A rank that the launcher saw fail. A negative code names the signal."""

    rank: int
    returncode: int


def read_phases(directory: Path, rank: int | None = None) -> tuple[Phase, ...]:
    """The phases that were reached, in order; a last line cut short is left out."""
    path = directory / trial_folder.phases(rank)
    try:
        text = path.read_text()
    except FileNotFoundError:
        return ()
    entries = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return tuple(Phase(str(entry["phase"]), float(entry["t"])) for entry in entries)


def read_reply(directory: Path, rank: int | None = None) -> Reply | None:
    """The reply, or None where the trial died before it. Raises HarnessError on one that does not fit the record."""
    path = directory / trial_folder.reply(rank)
    try:
        # What is secret is looked for once: a reply has hundreds of texts, and a trial waits for ours.
        secrets = {name: value for name, value in os.environ.items() if looks_secret(name)}
        return load(Reply, _clean_strings(json.loads(path.read_bytes()), secrets, {}))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise HarnessError(f"{path} is not a reply: {error}") from error


def failed_ranks(directory: Path, world_size: int) -> tuple[int, ...]:
    """The ranks that have said by now that they did not do well."""
    return tuple(
        rank
        for rank in range(world_size)
        if (directory / trial_folder.reply(rank)).exists()
        and (reply := read_reply(directory, rank))
        and reply.status is not Status.OK
    )


def gone_ranks(directory: Path, world_size: int) -> tuple[int, ...]:
    """The ranks whose process has ended, in whatever way, without a reply."""
    return tuple(
        rank
        for rank in range(world_size)
        if not (directory / trial_folder.reply(rank)).exists() and _let_go_of(directory / trial_folder.stack(rank))
    )


def _let_go_of(path: Path) -> bool:
    """Whether the file is there and its process no longer holds it locked."""
    try:
        with path.open("r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False  # not there yet, or held
    return True


def _clean_strings(data: Json, secrets: Mapping[str, str], known: dict[str, str]) -> Json:
    """Every text in it fit to be stored: messages of libraries may hold a secret, a NUL, or half a character.

    `known` keeps what was cleaned already: most texts are names that come again and again.
    """

    def clean(text: str) -> str:
        if text not in known:
            known[text] = _clean(text.encode(errors="replace"), secrets)
        return known[text]

    if isinstance(data, str):
        return clean(data)
    if isinstance(data, list):
        return [_clean_strings(item, secrets, known) if isinstance(item, str | list | dict) else item for item in data]
    if isinstance(data, dict):
        return {clean(key): _clean_strings(value, secrets, known) for key, value in data.items()}
    return data


def read_failures(directory: Path) -> tuple[RankFailure, ...]:
    """The ranks that failed, the first first."""
    try:
        data = json.loads((directory / trial_folder.LAUNCH).read_text())
    except FileNotFoundError:
        return ()
    return tuple(RankFailure(int(entry["rank"]), int(entry["returncode"])) for entry in data["failures"])


def read_harness_error(directory: Path) -> str | None:
    """The traceback of our own failure in the trial's process, or None."""
    try:
        return (directory / trial_folder.HARNESS_ERROR).read_text()
    except FileNotFoundError:
        return None


def _logs(directory: Path) -> dict[int | None, Path]:
    """The files that there are: the trial's own, and those of its ranks."""
    ranks = {int(path.suffix[1:]): path for path in directory.glob(f"{trial_folder.log()}.*") if path.suffix[1:].isdecimal()}
    own: dict[int | None, Path] = {None: shared} if (shared := directory / trial_folder.log()).exists() else {}
    return own | dict(sorted(ranks.items()))


def log_bytes(directory: Path) -> int:
    """The log's size now, those of all ranks together."""
    return sum(path.stat().st_size for path in _logs(directory).values())


def stored_log(directory: Path) -> str:
    """The log as it is stored: first 16 KiB and last 48 KiB, valid UTF-8, without NULs and without secrets.

    Of several ranks each has a share of that, below a line that names it; what none of them wrote, the launcher did, comes first.
    """
    logs = {rank: path for rank, path in _logs(directory).items() if path.stat().st_size}
    texts = {rank: _ends(path, len(logs)) for rank, path in logs.items()}
    return "".join(text if rank is None else f"[rank {rank}]\n{text}" for rank, text in texts.items())


def _ends(path: Path, shares: int) -> str:
    """Head and tail of one file, of which there are that many."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(0)
        head_bytes, tail_bytes = _LOG_HEAD_BYTES // shares, _LOG_TAIL_BYTES // shares
        if size <= head_bytes + tail_bytes:
            return _clean(file.read())
        head = file.read(head_bytes)
        file.seek(size - tail_bytes)
        tail = file.read(tail_bytes)
    # At line ends where there are any, so that no secret is cut in two and so missed.
    head = head[: head.rfind(b"\n") + 1] or head
    tail = tail[tail.find(b"\n") + 1 :] or tail
    cut = size - len(head) - len(tail)
    return f"{_clean(head)}\n[... {cut} bytes left out ...]\n{_clean(tail)}"


def _clean(data: bytes, secrets: Mapping[str, str] | None = None) -> str:
    return scrub(data.decode(errors="replace").replace("\0", "\N{REPLACEMENT CHARACTER}"), variables=secrets)


def spans(phases: Sequence[Phase], ended: float) -> dict[str, float]:
    """Seconds spent in each phase: from its beginning to that of the next one (the last: to `ended`). Repeated phases add up."""
    durations: dict[str, float] = {}
    for phase, following in zip(phases, [*(phase.t for phase in phases[1:]), ended], strict=True):
        durations[phase.name] = durations.get(phase.name, 0.0) + max(0.0, following - phase.t)
    return durations


_PHASES_OF: dict[str, tuple[str, ...]] = {
    "import_s": ("handover", "import"),
    "device_init_s": ("device_init",),
    "inputs_s": ("inputs",),
    "build_s": ("build",),
    "check_s": ("check", "measured_check"),
    "timer_s": ("timer",),
    "warmup_s": ("warmup",),
    "sampling_s": ("sampling",),
    "memory_s": ("memory", "saved", "attribution", "phase_peaks"),
    "proof_s": ("proof",),
    "exit_s": ("replied",),
}


def cost_measurements(
    phases: Sequence[Phase], *, requested: float, ended: float, already: Sequence[Measurement]
) -> tuple[Measurement, ...]:
    """What the trial cost by phase, as measurements; those that the worker gave itself are kept and not repeated.

    `requested` and `ended` are the parent's moments on the same monotonic clock. overhead_s is the whole less what the subject
    itself needs: device_init_s, import_s, build_s, compile_*_s, warmup_s and sampling_s; and less its wait at the gate, which is for
    the row of the trial before.
    """
    if not phases:
        return ()
    durations = spans(phases, ended)
    values = {"fork_s": max(0.0, phases[0].t - requested)}
    for metric, names in _PHASES_OF.items():
        if any(name in durations for name in names):
            values[metric] = sum(durations.get(name, 0.0) for name in names)
    given = {m.metric: m.samples[0] for m in already if m.scope == "trial"}
    known = {**values, **given}
    subjects = ("device_init_s", "import_s", "build_s", "compile_cold_s", "compile_warm_s", "warmup_s", "sampling_s")
    others_s = durations.get("gate", 0.0)
    values["overhead_s"] = max(0.0, ended - requested - others_s - sum(known.get(name, 0.0) for name in subjects))
    return tuple(Measurement(name, METRICS[name].unit, (value,)) for name, value in values.items() if name not in given)
