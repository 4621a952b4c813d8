"""Measured results as files to be committed: whole rows to import, and a summary beside them, by device and suite.

Anybody may read them, so they say nothing of the machine's owner (anonymous.py), and they hold no digit that no clock has and no more
samples than show how they lay (light.py); what is the same in many rows lies side by side (columns.py).

`<folder>/<device>/<suite>.jsonl.xz` with `<suite>.summary.json.gz`. A repository must travel light, so all that lies in the folder may
take 3 MiB together; what would be more is refused before anything is written.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import SelectionError, StoreError
from bench.records import EXTERNAL, IMPORTED, Result, Run
from bench.store.anonymous import anonymous_result, anonymous_run
from bench.store.exchange import export_jsonl, replacing
from bench.store.importers.report import is_from_page
from bench.store.light import light_result
from bench.store.summary import write_summary

if TYPE_CHECKING:
    from bench.store.database import Store

LIMIT_BYTES = 3 * 2**20
_LONGEST_NAME = 60


@dataclass(frozen=True, slots=True)
class Published:
    """What was written, and how much of the limit all published files take now."""

    files: tuple[Path, ...]
    total_bytes: int


def file_word(name: str) -> str:
    """`name` as part of a file's name: letters, digits, `-` and `_`, at most 60 of them."""
    return "".join(char if char.isascii() and (char.isalnum() or char in "-_") else "_" for char in name)[:_LONGEST_NAME] or "suite"


def device_folder(model: str) -> str:
    """`NVIDIA H200` as `nvidia-h200`: lower case, one dash for everything between letters and digits."""
    words = "".join(char if char.isascii() and char.isalnum() else " " for char in model.lower()).split()
    return "-".join(words)[:_LONGEST_NAME].strip("-") or "device"


def publish(store: Store, runs: Sequence[Run], folder: Path) -> Published:
    """Writes the files of `runs`, in whatever order; those of one suite on one device share theirs, and replace what was there.

    Raises SelectionError for a run that was imported from another tool or a page, for an audit, and for a run without rows or with rows
    of several device models; StoreError above the limit and where `folder` cannot be written.
    """
    for run in runs:
        if run.reason == IMPORTED:
            whence = "came with a report page" if is_from_page(run) else f"was imported from {run.suite_file}"
            raise SelectionError(f"run {run.id} {whence}: only what was measured here is published")
        if run.reason == EXTERNAL:
            raise SelectionError(f"run {run.id} is an audit of somebody's own script: only what suites measured is published")
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((device_folder(_model(store, run)), file_word(run.suite)), []).append(run)
    with tempfile.TemporaryDirectory(prefix="stepbench-publish-") as temporary:
        made: dict[Path, Path] = {}
        for (device, suite), members in groups.items():
            rows, summary = Path(temporary) / f"{device}.{suite}.jsonl.xz", Path(temporary) / f"{device}.{suite}.summary.json.gz"
            oldest_first = store.runs(ids=[run.id for run in members])[::-1]
            ids = [run.id for run in oldest_first]
            shown = [light_result(anonymous_result(row)) for row in store.results(ids, include_excluded=True)]
            with type(store).open(Path(temporary) / f"{device}.{suite}.db") as copy:
                for run in oldest_first:
                    copy.add_run(anonymous_run(run))
                copy.add_results(shown)
                export_jsonl(copy, rows, ids, as_columns=True)
            write_summary(summary, [row for row in shown if row.excluded_reason is None])
            made[folder / device / f"{suite}.jsonl.xz"] = rows
            made[folder / device / f"{suite}.summary.json.gz"] = summary
        total = _total(folder, made)
        if total > LIMIT_BYTES:
            raise StoreError(
                f"{folder} would take {total / 2**20:.1f} MiB, and {LIMIT_BYTES / 2**20:g} MiB are the limit for all published files: "
                "publish fewer runs, or remove what is superseded. Nothing was written"
            )
        for target, source in made.items():
            with replacing(target) as out:
                out.write(source.read_bytes())
    return Published(tuple(made), total)


def _model(store: Store, run: Run) -> str:
    results: list[Result] = store.results([run.id])
    models = {str(hard.get("gpu_model") or hard.get("cpu_model")) for hard in (result.environment.hard for result in results)}
    if len(models) != 1:
        what = f"rows of several devices ({', '.join(sorted(models))})" if models else "no rows"
        raise SelectionError(f"run {run.id} has {what} and cannot be published")
    return models.pop()


def _total(folder: Path, made: Mapping[Path, Path]) -> int:
    """Bytes below `folder` once the new files have taken their places."""
    there = [path for path in folder.rglob("*") if path.is_file() and path not in made] if folder.is_dir() else []
    return sum(path.stat().st_size for path in (*there, *made.values()))
