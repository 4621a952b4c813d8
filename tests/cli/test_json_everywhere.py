"""`--json`: every command that a program may read has it, and it says what `--format json` says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from bench.cli import cli
from tests.cli.conftest import Bench, Filled

OF_ITSELF = {"schema", "db export"}
"""What they print is for programs already: JSON, and JSON Lines."""


def _commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from _commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def test_every_command_has_it() -> None:
    without = {name for name, command in _commands(cli) if not any("--json" in option.opts for option in command.params)}
    assert without == OF_ITSELF


@pytest.mark.parametrize("command", [["report"], ["compare", "latest", "latest"], ["regress"], ["claims"]])
def test_another_format_beside_it_is_refused(bench: Bench, filled: Filled, command: list[str]) -> None:
    said = bench(*command, "--json", "--format", "markdown", "--db", filled.path)
    assert (said.code, said.out) == (2, "")
    assert "--json says --format json, and --format says markdown: leave one out" in said.err


def test_a_report_goes_to_the_standard_output_or_to_the_file_that_is_named(bench: Bench, filled: Filled, tmp_path: Path) -> None:
    said = bench("report", "--json", "--db", filled.path)
    assert said.code == 0
    assert [run["id"] for run in json.loads(said.out)["runs"]] == [filled.run.id]
    written = tmp_path / "rows.txt"
    told = bench("report", "--json", "--format", "json", "-o", written, "--db", filled.path)
    assert (told.code, told.out.strip()) == (0, str(written))
    assert written.read_text() == said.out


def test_what_is_decided_is_told_as_it_is_stored(bench: Bench, filled: Filled) -> None:
    made = bench("baseline", "set", "release", "latest", "--reason", "v1", "--author", "ci", "--json", "--db", filled.path)
    (listed,) = json.loads(bench("baseline", "list", "--json", "--db", filled.path).out)
    assert json.loads(made.out) == listed
    gone = json.loads(
        bench("baseline", "remove", "release", "--reason", "old", "--author", "ci", "--json", "--db", filled.path).out
    )
    assert (gone["name"], gone["run_id"], gone["reason"]) == ("release", None, "old")
    upgraded = json.loads(bench("db", "upgrade", "--json", "--db", filled.path).out)
    assert upgraded["before"] == upgraded["after"]
    assert upgraded["backup"] is None
