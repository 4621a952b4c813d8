"""`bench doctor`: is this machine fit to measure, and what to do where it is not."""

from __future__ import annotations

import dataclasses

import click

from bench.cli.fitting import NARROWEST, folded, terminal_columns
from bench.cli.options import database_option, device_option, json_option
from bench.cli.terminal import counted, note, say, say_json
from bench.plaintext import plain

MARKS = {"ok": "  ok      ", "warn": "  warn    ", "problem": "  PROBLEM "}
CONTINUED = " " * 10


@click.command()
@device_option
@database_option
@json_option
def doctor(device: str, database: str, as_json: bool) -> int:
    """Is this machine fit to measure? Every finding with what to do.

    Looks at Python, torch against the driver, clocks and power, neighbours, threads, memory, disks, compilers, the worker, locks, the
    database, and what imports and what not. Changes nothing. Exit code 0: nothing is a problem (warnings may be); 1: something is.
    """
    from bench.run.doctor import examine, exit_code

    findings = examine(device, database, progress=(lambda _text: None) if as_json else note)
    if as_json:
        say_json({"exit_code": exit_code(findings), "findings": [dataclasses.asdict(finding) for finding in findings]})
        return exit_code(findings)
    area = ""
    for finding in findings:
        if finding.area != area:
            area = finding.area
            say(f"\n{area}")
        say(MARKS[str(finding.severity)] + f"\n{CONTINUED}".join(_lines(finding.what)))
        if finding.advice:
            say(f"{CONTINUED}→ " + f"\n{CONTINUED}  ".join(_lines(finding.advice)))
    counts = {mark: sum(str(finding.severity) == mark for finding in findings) for mark in MARKS}
    problems, warnings = counted(counts["problem"], "problem"), counted(counts["warn"], "warning")
    say(f"\n{problems}, {warnings}, {counts['ok']} in order")
    return exit_code(findings)


def _lines(text: str) -> list[str]:
    """The lines of `text`, folded where they go to a terminal."""
    room = terminal_columns()
    lines = plain(text, lines=True).splitlines()
    return lines if room is None else [part for line in lines for part in folded(line, max(room - len(CONTINUED) - 2, NARROWEST))]
