"""`bench list`: what there is and what is installed, from package metadata alone."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.fitting import folded_table, terminal_columns
from bench.cli.options import examples, json_option, plugin_option
from bench.cli.terminal import note, say, say_json
from bench.plaintext import plain

if TYPE_CHECKING:
    from bench.catalogue import Catalogue

Row = dict[str, Any]


def _workloads(catalogue: Catalogue, suites: Path) -> list[Row]:
    rows = []
    for name, workload in catalogue.workloads.items():
        doc = (sys.modules[type(workload).__module__].__doc__ or "").strip().splitlines()
        rows.append(
            {
                "name": name,
                "version": workload.version,
                "slots": {slot: str(kind) for slot, kind in workload.slots.items()},
                "parameters": [param.name for param in workload.params],
                "dims": list(workload.dims),
                "passes": [str(pass_) for pass_ in workload.passes],
                "description": doc[0] if doc else "",
            }
        )
    return rows


def _implementations(catalogue: Catalogue, suites: Path) -> list[Row]:
    from bench.catalogue import availability

    passes: dict[str, set[str]] = {}
    for workload in catalogue.workloads.values():
        for slot in workload.slots:
            passes.setdefault(slot, set()).update(map(str, workload.passes))
    return [
        {
            "slot": slot,
            "name": name,
            "state": availability(found),
            "devices": list(found.devices),
            "dtypes": list(found.dtypes),
            "passes": [str(pass_) for pass_ in found.passes if slot not in passes or str(pass_) in passes[slot]],
            "requires": list(found.requires),
            "description": found.description,
        }
        for slot in catalogue.slots()
        for name, found in catalogue.implementations(slot).items()
    ]


def _suites(catalogue: Catalogue, suites: Path) -> list[Row]:
    from bench.errors import PluginError, SuiteError
    from bench.suite import load_suite

    rows: list[Row] = []
    for path in sorted(suites.glob("*.yaml")):
        try:
            suite = load_suite(path, catalogue)
        except (SuiteError, PluginError) as error:
            problems = [str(p) for p in error.problems] if isinstance(error, SuiteError) else [str(error)]
            rows.append({"file": str(path), "name": None, "question": None, "problems": problems})
            continue
        rows.append(
            {"file": str(path), "name": suite.name, "question": suite.question, "profiles": list(suite.profiles), "problems": []}
        )
    return rows


def _models(catalogue: Catalogue, suites: Path) -> list[Row]:
    return [{"name": name, "source": shape.source, **shape.dims()} for name, shape in catalogue.models.items()]


def _metrics(catalogue: Catalogue, suites: Path) -> list[Row]:
    from bench.metrics import METRICS

    return [
        {"name": m.name, "unit": m.unit, "better": m.better, "harness": m.harness, "description": m.description}
        for m in METRICS.values()
    ]


def _words(values: Sequence[Any]) -> str:
    return ", ".join(str(value) for value in values)


def _text_workloads(rows: Sequence[Row], room: int | None) -> str:
    cells = [(r["name"], str(r["version"]), _words(list(r["slots"])), _words(r["parameters"]), r["description"]) for r in rows]
    return folded_table(("workload", "version", "slots", "parameters", "what is computed"), cells, room)


def _text_implementations(rows: Sequence[Row], room: int | None) -> str:
    cells = [(r["slot"], r["name"], r["state"], _words(r["devices"]), _words(r["dtypes"]), r["description"]) for r in rows]
    return folded_table(("slot", "implementation", "state", "devices", "dtypes", "what it is"), cells, room)


def _text_suites(rows: Sequence[Row], room: int | None) -> str:
    cells = [
        (r["file"], _words(r["profiles"]), r["question"])
        if r["name"] is not None
        else (r["file"], "", f"cannot be used: {r['problems'][0]}")
        for r in rows
    ]
    return folded_table(("suite", "profiles", "question"), cells, room)


def _text_models(rows: Sequence[Row], room: int | None) -> str:
    heads = ("hidden_size", "intermediate_size", "layers", "heads", "kv_heads", "head_dim", "vocab_size")
    cells = [(r["name"], *(str(r[head]) for head in heads), r["source"]) for r in rows]
    return folded_table(("model", *heads, "source"), cells, room, right=range(1, 8))


def _text_metrics(rows: Sequence[Row], room: int | None) -> str:
    cells = [(r["name"], r["unit"], "harness" if r["harness"] else r["better"], r["description"]) for r in rows]
    return folded_table(("metric", "unit", "better", "what it says"), cells, room)


_KINDS: Mapping[str, tuple[Callable[[Catalogue, Path], list[Row]], Callable[[Sequence[Row], int | None], str]]] = {
    "workloads": (_workloads, _text_workloads),
    "implementations": (_implementations, _text_implementations),
    "suites": (_suites, _text_suites),
    "models": (_models, _text_models),
    "metrics": (_metrics, _text_metrics),
}


@click.command("list", epilog=examples("bench list suites", "bench list implementations --json"))
@click.argument("kind", required=False, type=click.Choice(list(_KINDS)))
@click.option(
    "--suites",
    "suites",
    default="suites",
    show_default=True,
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder in which suite files are looked for.",
)
@plugin_option
@json_option
def list_(kind: str | None, suites: Path, plugins: tuple[Path, ...], as_json: bool) -> int:
    """What can be named in a suite: all kinds, or one.

    `installed` is what package metadata says; whether a package imports is known after a run.
    """
    from bench.catalogue import load_catalogue

    catalogue = load_catalogue(plugins)
    chosen = [kind] if kind else list(_KINDS)
    found = {name: _KINDS[name][0](catalogue, suites) for name in chosen}
    if as_json:
        say_json(found[kind] if kind else found)
    else:
        room = terminal_columns()
        # Only suites lie where somebody stands; all else comes with the package.
        nothing = f"no suites in {plain(str(suites))}/: go to the folder of stepbench, or name one with --suites DIR"
        say("\n\n".join(_KINDS[name][1](rows, room) if rows else nothing for name, rows in found.items()))
    if "implementations" in chosen:
        for problem in catalogue.problems:
            note(plain(str(problem)))
    for notice in catalogue.notices:
        note(notice)
    return 0
