"""`bench audit`: runs somebody's own training for some steps and says what is really switched on in it, and what to switch on next."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.cli.options import database_option, database_words, json_option
from bench.cli.terminal import json_text, note, say, say_json

if TYPE_CHECKING:
    from bench.audit.session import Session
    from bench.audit.whole import Audit
    from bench.records import Result, Run
    from bench.store import Store

SHORT_ID = 13
STDERR = 2
TEXT, DATA = "audit.txt", "audit.json"


class _WithACommand(click.Command):
    """Its own options end where somebody's command begins, with or without `--`: that has options of the same names."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.allow_interspersed_args = bool({"--compare", "--show"} & set(args[: args.index("--")] if "--" in args else args))
        return super().parse_args(ctx, args)


@click.command(cls=_WithACommand)
@click.option("--steps", type=int, default=20, show_default=True, help="Updates of the weights, after which the script is ended.")
@click.option("--label", metavar="TEXT", help="A name for the audit; several of one name are one side of --compare.")
@click.option("--compare", "compared", is_flag=True, help="Hold audit B against audit A instead: ids, labels or latest.")
@click.option("--show", "shown", metavar="AUDIT", help="Tell a stored audit anew: an id, the beginning of one, a label or latest.")
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
    help=f"Write {TEXT} and {DATA} into this folder as well.",
)
@click.option("--no-store", is_flag=True, help="Do not write the audit into the database.")
@database_option
@json_option
@click.argument("words", nargs=-1, metavar="-- COMMAND…", type=click.UNPROCESSED)
def audit(
    steps: int,
    label: str | None,
    compared: bool,
    shown: str | None,
    output: Path | None,
    no_store: bool,
    database: str,
    as_json: bool,
    words: tuple[str, ...],
) -> int:
    """What is really switched on in your own training, and what should you switch on next?

    Runs COMMAND as it is (python, torchrun, accelerate launch, deepspeed), ends it after some updates, and tells what ran: attention
    kernels, Liger's pieces, dtypes, the optimizer and its states, checkpointing, quantized modules, sharding, the peak by cause. Each
    finding has its numbers; each advice the memory that the plan predicts for it, the speed that the database holds of this GPU, and the
    setting to paste.

    The script's output is its own: findings go to stderr, after it. With --json the JSON alone is on stdout, and the script's output on
    stderr. The exit status is the script's (128 and the signal's number where one ended it), and 0 where the audit ended it; findings do
    not change it. 2: the command could not be started.

    \b
    bench audit -- python train.py --bf16
    bench audit --steps 30 --label liger -- torchrun --nproc-per-node 2 train.py
    bench audit --compare before liger
    """
    if compared:
        return _compare(words, database, as_json=as_json)
    if shown is not None:
        return _show(shown, words, database, as_json=as_json)
    return _audit(words, steps, label, output, None if no_store else database, as_json=as_json)


def _audit(words: Sequence[str], steps: int, label: str | None, output: Path | None, database: str | None, *, as_json: bool) -> int:
    from bench.audit.session import audit_command
    from bench.audited import FEWEST_STEPS
    from bench.cli.report import demand_writable

    if not words:
        raise click.UsageError("say what to run after --, as in: bench audit -- python train.py")
    if steps < FEWEST_STEPS:
        raise click.UsageError(f"--steps must be at least {FEWEST_STEPS}: the first updates warm up and are profiled")
    if output is not None:
        demand_writable(output / TEXT)
    sys.stdout.flush()
    store = _opened(database) if database is not None else None
    try:
        session = audit_command(words, steps=steps, stdout=STDERR if as_json else None)
        for trouble in session.troubles:
            note(trouble)
        kept = _kept(session, store, label) if store is not None else None
        _tell(session.audit, kept, store, output, as_json=as_json)
    finally:
        if store is not None:
            store.close()
    return session.audit.status


def _opened(database: str) -> Store:
    """Before the script begins: what is wrong with the database is told before minutes are spent."""
    from bench.store import Store

    store = Store.open(database)
    for notice in store.notices:
        note(notice)
    return store


def _kept(session: Session, store: Store, label: str | None) -> tuple[Run, Result] | None:
    """The stored run and row; None, with a notice, where the database does not take it: findings and exit status are worth more."""
    from bench.audit.stored import store_audit
    from bench.errors import StoreError

    try:
        return store_audit(
            session.audit,
            store,
            label=label,
            started_at=session.started_at,
            finished_at=session.finished_at,
            duration_s=session.duration_s,
        )
    except StoreError as error:
        note(f"the audit is not stored: {error}")
        return None


def _tell(audit: Audit, kept: tuple[Run, Result] | None, store: Store | None, output: Path | None, *, as_json: bool) -> None:
    lines, data = told(audit, store, kept)
    if output is not None:
        for name, text in ((TEXT, "\n".join(lines)), (DATA, json_text(data))):
            try:
                (output / name).write_text(f"{text}\n", encoding="utf-8")
            except OSError as error:
                note(f"{output / name} cannot be written: {error.strerror or error}")
    if as_json:
        say_json(data)
        return
    after = []
    if kept is not None:
        run = kept[0].id[:SHORT_ID]
        after = [
            f"\naudit {kept[0].id}",
            f"  bench audit --show {run}{database_words()}           this text again",
            f"  bench audit --compare {run} OTHER{database_words()}  against another audit",
        ]
    click.echo("\n".join(["", *lines, *after]), err=True)


def told(audit: Audit, store: Store | None, kept: tuple[Run, Result] | None) -> tuple[list[str], dict[str, Any]]:
    """The text and the data of an audit, with advice from what `store` holds."""
    from bench.audit.advice import advise
    from bench.audit.findings import findings
    from bench.audit.told import audit_data, audit_lines

    found = findings(audit)
    advice = advise(audit, store) if audit.trained else None
    ids = {} if kept is None else {"run": kept[0].id, "result": kept[1].id, "label": kept[0].label}
    return audit_lines(audit, found, advice), {**ids, **audit_data(audit, found, advice)}


def _show(text: str, words: Sequence[str], database: str, *, as_json: bool) -> int:
    from bench.audit.stored import load_audit
    from bench.store import Store

    if words:
        raise click.UsageError("--show tells a stored audit and runs nothing: leave the command out")
    with Store.open(database, create=False, read_only=True) as store:
        run, result, audit = load_audit(store, text)
        lines, data = told(audit, store, (run, result))
    if as_json:
        say_json(data)
    else:
        say("\n".join(lines))
    return 0


def _compare(words: Sequence[str], database: str, *, as_json: bool) -> int:
    from bench.audit.compared import compare, find_side
    from bench.audit.told import compared_data, compared_lines
    from bench.store import Store

    if len(words) != 2:
        raise click.UsageError("--compare takes two audits, A and B: ids, labels or latest")
    with Store.open(database, create=False, read_only=True) as store:
        found = compare(*(find_side(store, word) for word in words))
    if as_json:
        say_json(compared_data(found))
    else:
        say("\n".join(compared_lines(found)))
    return 0
