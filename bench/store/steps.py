"""Measured training steps as `bench plan` orders ways by them: read quickly, since whoever plans waits for half a second only.

An SQLite file is read by sqlite3 itself, without models of tables; a server through the store.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import fields
from pathlib import Path
from statistics import median
from typing import Any

from bench.errors import StoreError
from bench.plan.costs import WAYS, MeasuredStep
from bench.plan.predict import OFFLOAD_OF_SLOT
from bench.plan.spec import ModelSpec, PlanError
from bench.plan.weights import parameters
from bench.records import MEMORY_LIMIT_PARAM
from bench.store.thinning import samples_before

LEAST_SAMPLES = 3
"""A row with fewer was measured for its memory: its first step's time says little."""
_OF_STEPS = "c.workload = 'train_step' AND c.pass_ = 'step' AND c.device = 'cuda'"
# CROSS JOIN keeps SQLite to this order: cases of steps are few, measurements are many.
_TRIALS = f"""
SELECT r.case_key, r.run_id, r.started_at, r.cost_tokens, m.median, e.value, c.world_size, m.n, m.note
FROM case_ AS c CROSS JOIN result AS r CROSS JOIN measurement AS m CROSS JOIN environment_item AS e
WHERE {_OF_STEPS} AND r.case_key = c.key AND r.status = 'ok' AND r.excluded_reason IS NULL AND r.cost_tokens IS NOT NULL
AND m.result_id = r.id AND m.metric = 'time_s' AND m.scope = 'trial' AND m.median > 0
AND e.environment_id = r.environment_id AND e.side = 'hard' AND e.name = 'gpu_model'"""
_PARAMS = f"SELECT p.case_key, p.name, p.value FROM case_ AS c CROSS JOIN case_param AS p WHERE {_OF_STEPS} AND p.case_key = c.key"
_SUBJECTS = (
    f"SELECT s.case_key, s.slot, s.implementation FROM case_ AS c CROSS JOIN subject AS s WHERE {_OF_STEPS} AND s.case_key = c.key"
)
_PLAIN: Mapping[str, tuple[Any, ...]] = {"packing": ("full", None), MEMORY_LIMIT_PARAM: (None,), "zero_options": ("defaults", None)}
"""Parameters that a step must not have set otherwise to stand for what is planned."""

Query = Callable[[str], Iterable[Sequence[Any]]]


def measured_steps(database: str) -> tuple[MeasuredStep, ...]:
    """Of all runs that the database has, imported ones too. `database`: a path or URL. Raises StoreError where it cannot be read."""
    if "://" in database:
        from sqlalchemy import text

        from bench.store.database import Store

        with Store.open(database, create=False, read_only=True) as store, store.reading() as connection:
            return _steps(lambda query: connection.execute(text(query)))
    path = Path(os.path.realpath(Path(database).expanduser()))
    if not path.is_file():
        raise StoreError(f"there is no database {path}")
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    try:
        # Not mode=ro where it can be helped: the last reader to close would leave the log behind.
        with closing(sqlite3.connect(path.as_uri() + ("?mode=rw" if writable else "?mode=ro"), uri=True, timeout=5)) as connection:
            connection.execute("PRAGMA query_only=ON")
            return _steps(connection.execute)
    except (sqlite3.Error, ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"measured steps of {path} cannot be read ({error}): `bench db check` says which rows do not read"
        ) from error


def _steps(query: Query) -> tuple[MeasuredStep, ...]:
    trials: dict[tuple[str, str], list[Sequence[Any]]] = defaultdict(list)
    for row in query(_TRIALS):
        if (samples_before(row[8]) or row[7]) >= LEAST_SAMPLES:
            trials[row[0], json.loads(row[5])].append(row)
    if not trials:
        return ()
    params: dict[str, dict[str, Any]] = defaultdict(dict)
    for case_key, name, value in query(_PARAMS):
        params[case_key][name] = json.loads(value)
    subjects: dict[str, dict[str, str]] = defaultdict(dict)
    for case_key, slot, implementation in query(_SUBJECTS):
        subjects[case_key][slot] = implementation
    found = (_step(rows, gpu, params[case_key], subjects[case_key]) for (case_key, gpu), rows in trials.items())
    return tuple(step for step in found if step is not None)


def _step(rows: Sequence[Sequence[Any]], gpu: str, params: Mapping[str, Any], subject: Mapping[str, str]) -> MeasuredStep | None:
    """None for what the memory model does not plan, or for parameters that change the time of a step otherwise than its ways do."""
    ways = {name: subject.get(name) for name in WAYS if name != "offload"}
    offload = OFFLOAD_OF_SLOT.get(subject.get("offloading", "none"))
    if offload is None or None in ways.values() or any(params.get(name) not in usual for name, usual in _PLAIN.items()):
        return None
    try:
        sizes = {entry.name: params[entry.name] for entry in fields(ModelSpec) if entry.name in params}
        model = ModelSpec(**{"name": str(params["model"]), **sizes})
    except (PlanError, KeyError, TypeError):
        return None
    latest = max(rows, key=lambda row: str(row[2]))
    return MeasuredStep(
        ways={name: str(value) for name, value in ways.items()} | {"offload": offload},
        model=model.name,
        parameters=parameters(model),
        gpu=gpu,
        seq_len=int(params["seq_len"]),
        batch=int(params["batch"]),
        accumulation=int(params.get("accumulation") or 1),
        dropout=float(params.get("dropout") or 0),
        world_size=int(rows[0][6]),
        tokens_per_s=median(row[3] / row[4] for row in rows),
        trials=len(rows),
        run_id=str(latest[1]),
    )
