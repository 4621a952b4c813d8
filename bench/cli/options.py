"""The options that several commands share, so that they are spelled and explained once."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import click

DEFAULT_DATABASE = "results/bench.db"
MOST_TRIALS = 10_000
"""As many as a suite may ask for."""
SHORT_ID = 13
"""Digits of an id that carry its time: enough to be unique among the runs of one person."""

_DURATION = re.compile(r"(?:(?P<h>\d+(?:\.\d+)?)h)?(?:(?P<m>\d+(?:\.\d+)?)m(?:in)?)?(?:(?P<s>\d+(?:\.\d+)?)s)?", re.IGNORECASE)

F = TypeVar("F", bound=Callable[..., Any])
Asked = TypeVar("Asked", str, str | None)


def parse_duration(text: str) -> float:
    """Seconds of `90s`, `20m`, `1h30m`; raises ValueError for anything else, a bare number included."""
    match = _DURATION.fullmatch(text.strip().replace(" ", ""))
    parts = {} if match is None else {unit: float(number) for unit, number in match.groupdict().items() if number}
    if not parts:
        raise ValueError(f"{text!r} is no duration; write 90s, 20m or 1h30m")
    total_s = parts.get("h", 0.0) * 3600 + parts.get("m", 0.0) * 60 + parts.get("s", 0.0)
    if total_s <= 0:
        raise ValueError("a duration must be longer than nothing")
    return total_s


def spell_duration(seconds: float) -> str:
    """`45 s`, `12 min`, `1 h 05 min`: for people, so rounded."""
    if seconds < 99.5:
        return f"{max(seconds, 0):.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60:02d} min"


def duration(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """A click callback: the text of an option as seconds."""
    try:
        return None if value is None else parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from None


def examples(*commands: str) -> str:
    """The end of a command's help: what people type, a line each."""
    return "\n".join(["\b", "Examples:", *(f"  {command}" for command in commands)])


def database_option(function: F) -> F:
    """`--db`."""
    return click.option(
        "--db",
        "database",
        metavar="URL",
        envvar="BENCH_DB",
        default=DEFAULT_DATABASE,
        show_default=True,
        show_envvar=True,
        help="The results database: a path (SQLite) or an SQLAlchemy URL.",
    )(function)


def database_words() -> str:
    """` --db URL` for a command that we print, where it was typed for this one; else nothing. Without passwords, quoted for a shell."""
    context = click.get_current_context(silent=True)
    if context is None or context.get_parameter_source("database") is not click.core.ParameterSource.COMMANDLINE:
        return ""
    from bench.machine import scrub
    from bench.plaintext import plain

    return f" --db {shlex.quote(plain(scrub(str(context.params['database']))))}"


def json_option(function: F) -> F:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON for programs (seconds, bytes, UTC) and nothing else.")(
        function
    )


def asked_format(
    format_: Asked, *, as_json: bool, output: Path | None = None, endings: Mapping[str, str] = MappingProxyType({})
) -> Asked | str:
    """The format of a command that has both `--format` and `--json`, which says `--format json`. Raises UsageError where they differ.

    Where neither was typed the ending of `output` says it, if it is one of `endings`.
    """
    typed = click.get_current_context().get_parameter_source("format_") is click.core.ParameterSource.COMMANDLINE
    if as_json and typed and format_ != "json":
        raise click.UsageError(f"--json says --format json, and --format says {format_}: leave one out")
    if not typed and not as_json and output is not None:
        return endings.get(output.suffix.lower(), format_)
    return "json" if as_json else format_


def plugin_option(function: F) -> F:
    """`--plugin`."""
    return click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="A lone Python file that declares implementations. Can be repeated.",
    )(function)


device_option = click.option(
    "--device",
    metavar="D",
    default="auto",
    show_default=True,
    help="auto, cuda, cuda:N or cpu; auto is the first GPU, else the CPU.",
)
no_wait_option = click.option("--no-wait", is_flag=True, help="Fail where another run holds the device, instead of waiting for it.")
pairs_option = click.option(
    "--pairs",
    type=click.IntRange(3, 64),
    default=8,
    show_default=True,
    metavar="N",
    help="Processes of each version for a suspect.",
)
every_option = click.option(
    "--every", metavar="TIME", callback=duration, default="24h", show_default=True, help="How far apart nights are meant to be."
)
