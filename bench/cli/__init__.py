"""The entry point: finds the command, runs it, and turns whatever happens into a message and an exit code.

Nothing but click is imported until a command is called. Exit codes: 0 done · 1 judged, and something is worse · 2 usage,
configuration or internal error · 3 could not judge, or no row is ok · 130 interrupted · 141 the reader of our output went away.
"""

from __future__ import annotations

import errno
import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from typing import Any

import click

from bench import __version__
from bench.errors import BenchError

OK = 0
USAGE = 2
INTERRUPTED = 130
PIPE_CLOSED = 141
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""What the system says where a disk, a quota or the limit on a file's size takes no more."""

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
    "guide": ("bench.cli.guide:guide", "What to switch on at each length, and what fits on each GPU: measured, else predicted."),
    "selftest": ("bench.cli.selftest:selftest", "Prove our own numbers: known lengths, known bytes, other timers."),
    "doctor": ("bench.cli.doctor:doctor", "Is this machine fit to measure, and what to do where it is not."),
    "db": ("bench.cli.database:db", "Check, upgrade, export, publish, import, merge and thin out the results database."),
    "schema": ("bench.cli.schema:schema", "The JSON Schema of a suite file, for editors."),
}
"""Name to where it lives and its one line of help, so that `bench --help` imports no command."""


class _PipeClosed(Exception):
    """Not an OSError: click would turn that into exit code 1, which means `worse` here."""


@contextmanager
def _our_codes() -> Iterator[None]:
    """A pipe that was closed under us, past click."""
    try:
        yield
    except BrokenPipeError as error:
        raise _PipeClosed from error


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

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        # `bench --help` and `bench --version` print from in here.
        with _our_codes():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _our_codes():
            return super().invoke(ctx)


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="Exit codes: 0 done; 1 judged and something is worse; 2 usage, configuration or internal error; "
    "3 could not judge, or no row is ok; 130 interrupted.",
)
@click.version_option(__version__, prog_name="bench")
def cli() -> None:
    """Benchmarks, with a results database, for the techniques that make LLM training fit and run fast.

    Start with `bench doctor` and `bench list`, then `bench run attention --profile quick` (without a GPU: --profile cpu). Every command has
    --help.
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
    """What could not be written must not be tried once more: Python flushes at its end, complains, and exits with 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _answer(arguments: Sequence[str] | None) -> int:
    from bench.cli.terminal import standard_output

    code = cli.main(args=None if arguments is None else list(arguments), prog_name="bench", standalone_mode=False)
    with standard_output():
        pass
    return code if isinstance(code, int) else OK


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line (this process's own unless given) and returns the exit code. Never raises for an error."""
    _open_what_is_closed()
    try:
        from bench.cli.terminal import speak_any_locale

        speak_any_locale()
        return _code(arguments)
    except KeyboardInterrupt:
        # Before the command was found: what says so elsewhere may be half imported.
        with suppress(OSError):
            sys.stderr.write("bench: interrupted\n")
        return INTERRUPTED
    except BrokenPipeError:
        return PIPE_CLOSED
    except OSError:
        # Not even stderr takes the message. Python's own 1 would mean `worse`.
        return USAGE
    finally:
        _swallow_output()


def _code(arguments: Sequence[str] | None) -> int:
    """The exit code, with whatever happened told on stderr. Raises OSError where that takes nothing."""
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
        return PIPE_CLOSED
    except Exception as error:  # noqa: BLE001 - the entry point: whatever is left is told, and must exit with 2
        if isinstance(error, OSError) and error.errno in FULL:
            where = f" to {error.filename}" if error.filename else ""
            _say(f"nothing more can be written{where} ({error.strerror}): free some space, or write elsewhere")
            return USAGE
        _say(traceback.format_exc().rstrip())
        _say("this is a bug in bench: please report the lines above with the command")
    return USAGE
