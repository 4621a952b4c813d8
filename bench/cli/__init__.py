"""The entry point: finds the command, runs it, and turns whatever happens into a message and an exit code.

Nothing but click is imported until a command is called. Exit codes: 0 done · 1 judged, and something is worse · 2 usage,
configuration or internal error · 3 could not judge, or no row is ok · 130 interrupted · 141 the reader of our output went away.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import click

from bench import __version__
from bench.errors import BenchError

OK = 0
USAGE = 2
INTERRUPTED = 130
PIPE_CLOSED = 141

COMMANDS: Mapping[str, tuple[str, str]] = {
    "run": ("bench.cli.run:run", "Measure suites: the plan first, then progress, then a summary."),
    "list": ("bench.cli.listing:list_", "What can be named in a suite, and what is installed."),
    "show": ("bench.cli.show:show", "The latest runs, a run as a table, or one result in full."),
    "rerun": ("bench.cli.rerun:rerun", "Measure one row again and compare."),
    "compare": ("bench.cli.compare:compare", "Hold one run against another: what is worse, better or the same."),
    "baseline": ("bench.cli.baseline:baseline", "Name runs that comparisons rest on."),
    "accept": ("bench.cli.baseline:accept", "Accept what is worse or missing, with a reason, until a day."),
    "night": ("bench.cli.night:night", "A nightly job: measure, judge, measure suspects again; silent where all is well."),
    "regress": ("bench.cli.regress:regress", "Judge a night by those before it: is anything slower, bigger or wrong."),
    "history": ("bench.cli.history:history", "A series over its runs, with its steps and what changed at each."),
    "bisect": ("bench.cli.bisect:bisect", "Which commit or release made a series worse."),
    "report": ("bench.cli.report:report", "Write the report of runs as HTML, Markdown, JSON, CSV or a mail."),
    "verify": ("bench.cli.verify:verify", "Recompute ratios and verdicts of a report from the trial medians inside it."),
    "claims": (
        "bench.cli.claims:claims",
        "Hold published claims against the rows here: reproduced, not reproduced, or not comparable.",
    ),
    "audit": ("bench.cli.audit:audit", "Run your own training script for some steps: what is really on, and what to switch on."),
    "plan": ("bench.cli.plan:plan", "What a training step will need of a GPU's memory, and what fits."),
    "selftest": ("bench.cli.selftest:selftest", "Prove our own numbers: known lengths, known bytes, other timers."),
    "doctor": ("bench.cli.doctor:doctor", "Is this machine fit to measure, and what to do where it is not."),
    "db": ("bench.cli.database:db", "Check, upgrade, export, publish, import, merge and thin out the results database."),
    "schema": ("bench.cli.schema:schema", "The JSON Schema of a suite file, for editors."),
}
"""Name to where it lives and its one line of help, so that `bench --help` imports no command."""


class _PipeClosed(Exception):
    """Not an OSError: click would turn that into exit code 1, which means `worse` here."""


class _Commands(click.Group):
    """Commands are imported when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_) for name, (_, help_) in COMMANDS.items()])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if word not in COMMANDS and not word.startswith("-"):
            near = get_close_matches(word, list(COMMANDS), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"No such command {word!r}.{hint} Commands: {', '.join(COMMANDS)}.", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise _PipeClosed from error


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 done; 1 judged and something is worse; 2 usage, configuration or internal error; "
    "3 could not judge, or no row is ok; 130 interrupted.",
)
@click.version_option(__version__, prog_name="bench")
def cli() -> None:
    """Benchmarks, with a results database, for the techniques that make LLM training fit and run fast.

    Start with `bench list`, then `bench run suites/attention.yaml`. Every command has --help.
    """


def _say(text: str) -> None:
    """To stderr, each line told apart from the program's output; secrets that an error text may hold are taken out."""
    from bench.cli.terminal import note
    from bench.machine.secrets import scrub

    note(scrub(text))


def _open_what_is_closed() -> None:
    # `bench … >&-`: a command that nobody listens to ends as it would otherwise, and not with Python's 1, which means `worse` here.
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - for as long as the process lives
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def _swallow_output() -> None:
    # Python flushes stdout once more at its end and would complain about the closed pipe then.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _answer(arguments: Sequence[str] | None) -> int:
    code = cli.main(args=None if arguments is None else list(arguments), prog_name="bench", standalone_mode=False)
    sys.stdout.flush()
    return code if isinstance(code, int) else OK


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line (this process's own unless given) and returns the exit code. Never raises for an error."""
    from bench.cli.terminal import speak_any_locale

    _open_what_is_closed()
    speak_any_locale()
    try:
        return _answer(arguments)
    except BenchError as error:
        _say(str(error))
    except click.ClickException as error:
        error.show()
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted")
        return INTERRUPTED
    except (BrokenPipeError, _PipeClosed):
        _swallow_output()
        return PIPE_CLOSED
    except Exception:  # noqa: BLE001 - the entry point: whatever is left is our own fault, shown whole, and must exit with 2
        _say(traceback.format_exc().rstrip())
        _say("this is a bug in bench: please report the lines above with the command")
    return USAGE
