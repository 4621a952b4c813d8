"""`bench selftest`: our own numbers proved, as a table of what was expected and what was measured."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from bench.cli.fitting import folded_table, terminal_columns
from bench.cli.options import database_option, device_option, json_option
from bench.cli.terminal import note, say, say_json
from bench.plaintext import plain

if TYPE_CHECKING:
    from bench.run.selftest import Judgement, Report

WORDS = {"pass": "pass", "miss": "MISS", "cannot_tell": "can't tell here"}


def _number(value: float | None, unit: str) -> str:
    from bench.report.numbers.units import TIME, digits, scaled

    if value is None:
        return ""
    if unit == "s":
        scale, name = next(((scale, name) for scale, name in TIME if abs(value) >= scale), TIME[-1])
        return f"{value / scale:.4g} {name}"
    if unit == "byte":
        return f"{value:.0f} B"
    if unit == "share":
        return f"{value * 100:.2f} %"
    return f"{value:.4f}" if unit == "ratio" else scaled(value, ((1.0, unit),)) if unit else digits(value)


def _measured(line: Judgement) -> str:
    text = _number(line.measured, line.unit)
    if line.low is not None and line.high is not None:
        text += f" ({_number(line.low, line.unit)} – {_number(line.high, line.unit)})"
    if line.unit == "share" and "spread_within" in line.beside:
        text += f" (within one: {_number(line.beside['spread_within'], 'share')}, of {line.beside['processes']:.0f})"
    return text


def _text(report: Report) -> str:
    rows = [
        (line.part, line.what, _number(line.expected, line.unit), _measured(line), line.tolerance, WORDS[str(line.verdict)])
        for line in report.judgements
    ]
    heads = ("part", "what", "expected", "measured", "tolerance", "verdict")
    body = folded_table(heads, rows, terminal_columns(), right=(2,))
    reasons = [f"{line.part}, {line.what}: {line.reason}" for line in report.judgements if line.reason]
    return body + "".join(f"\n  {plain(text, lines=True)}" for text in ([""] if reasons else []) + reasons)


def _data(report: Report) -> dict[str, Any]:
    return {
        "device": report.device,
        "exit_code": report.exit_code,
        "duration_s": report.duration_s,
        "judgements": [dataclasses.asdict(line) for line in report.judgements],
    }


@click.command()
@device_option
@click.option("--no-wait", is_flag=True, help="Fail where a run holds the device, instead of waiting for it.")
@click.option(
    "--aa",
    "equal_runs",
    multiple=True,
    metavar="RUN",
    help="Measure nothing: count the false alarms of judging on stored runs of one revision (12 trials or more). Can be repeated.",
)
@database_option
@json_option
def selftest(device: str, no_wait: bool, equal_runs: tuple[str, ...], database: str, as_json: bool) -> int:
    """Prove our own numbers: measure what is known beforehand, through the same path as every run.

    Calls that do nothing, busy waits of known length, a known allocation, an injected slow-down of 2, 5 and 10 %, other timers on the
    same call, and the spread between processes. At most 60 s on a CPU, 150 s on a GPU. Exit code 0: all within tolerance; 1: a miss;
    3: something could not be judged here, and the table says why.

    With --aa the verdicts are proved instead: processes of equal runs are dealt to two sides and compared, and so are the runs with each
    other. Every row that comes out better or worse is a false alarm; exit code 1 where there are more than 10 in 1 000, beyond chance. From
    forty processes of a series on, whole nights are drawn from them; there more than 1 in 1 000 is too many, and more than 5 on a CPU.
    """
    if equal_runs:
        from bench.cli.alarms import show_alarms

        return show_alarms(equal_runs, database, as_json=as_json)
    from bench.machine import find_device
    from bench.run.selftest import selftest as prove

    chosen = find_device(device)
    if not as_json:
        say(f"device: {plain(chosen.name)}" + (f" ({chosen.torch_name})" if chosen.kind == "cuda" else ""))
    report = prove(chosen, wait=not no_wait, progress=note)
    if as_json:
        say_json(_data(report))
    else:
        say(f"\n{_text(report)}\n")
        counts = {word: sum(str(line.verdict) == key for line in report.judgements) for key, word in WORDS.items()}
        said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        say(f"{said}, in {report.duration_s:.0f} s")
    return report.exit_code
