"""`bench schema`."""

from __future__ import annotations

import click

from bench.cli.terminal import say_json


@click.command()
def schema() -> None:
    """Print the JSON Schema of a suite file.

    Save it and point an editor's YAML support to it for completion: bench schema > suite.schema.json
    """
    from bench.suite import json_schema

    say_json(json_schema())
