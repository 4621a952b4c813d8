"""`bench guide`: what to switch on by length and what fits by memory, measured where there are rows and predicted where there are none."""

from __future__ import annotations

import gzip
import json
import shlex
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bench.cli.options import database_option, database_words, json_option
from bench.cli.speech import language_option
from bench.cli.terminal import note, say, say_json
from bench.errors import SelectionError, StoreError
from bench.lang import LANGUAGES, language, speaking, spoken

if TYPE_CHECKING:
    from bench.report.answers.by_length import Lengths
    from bench.report.answers.by_memory import Cards
    from bench.report.answers.trained import Step, Trained

MODELS = ("llama-3-8b", "llama-3.2-1b")
"""The first is told by length, all by memory."""
LENGTHS = (2048, 8192, 32768, 65536)
CARDS_LENGTH = 2048
GPU = "h200"


@click.command()
@click.option(
    "--published", metavar="DIR", type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Rows of these published files (results/published) instead of a database's.",
)  # fmt: skip
@click.option("--gpu", metavar="NAME", default=GPU, show_default=True, help="The GPU whose rows count, as `bench plan` calls it.")
@click.option(
    "--write", multiple=True, metavar="PAGE", type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Put the tables between the marks of this page, and an example where it has marks for one; NAME.zh-TW.md gets them in that "
    "language. Can be repeated.",
)  # fmt: skip
@language_option
@database_option
@json_option
def guide(published: Path | None, gpu: str, write: tuple[Path, ...], database: str, as_json: bool) -> int:
    """What should I switch on to train an 8B model at 2k to 64k tokens, and what fits on 24, 48, 80 and 141 GB?

    Markdown. A cell is measured, with its number of trials and its run, or it is predicted by the memory model and marked so.

    \b
    bench guide --published results/published
    bench guide --gpu h100 --db results/bench.db
    """
    from bench.cli.excerpt import example, has_mark

    with_example = [page for page in write if has_mark(page)]
    with _rows(published, database, with_example=bool(with_example)) as location:
        lengths, cards = _tables(location, gpu)
        shown = example(location) if with_example else None
    again = _again(published, gpu)
    if as_json:
        from bench.report.outputs.guide_data import guide_data

        say_json(guide_data(lengths, cards))
    for page in write:
        _write(page, lengths, cards, again, shown if page in with_example else None)
        note(f"tables: {page}")
    if not write and not as_json:
        own = spoken()
        say(_told(lengths, cards, again, None if own is None else own.name).rstrip("\n"))
    return 0


def _again(published: Path | None, gpu: str) -> str:
    """The command that makes these tables, as it was asked for; a folder below this one is named from here, so that pages can be shared."""
    if published is None:
        rows = database_words()
    else:
        inside = published.is_relative_to(Path.cwd())
        rows = f" --published {shlex.quote(str(published.relative_to(Path.cwd()) if inside else published))}"
    return f"bench guide{rows}" + ("" if gpu == GPU else f" --gpu {shlex.quote(gpu)}")


def _write(page: Path, lengths: Lengths, cards: Cards, again: str, example: str | None) -> None:
    from bench.cli import excerpt
    from bench.report.outputs.guide import written_into

    name = next((name for name in LANGUAGES if page.name.endswith(f".{name}.md")), None)
    try:
        text = written_into(page.read_text(encoding="utf-8"), _told(lengths, cards, again, name))
        if example is not None:
            text = written_into(text, example, (excerpt.BEGIN, excerpt.END))
        page.write_text(text, encoding="utf-8")
    except (OSError, UnicodeError) as error:
        raise SelectionError(f"{page} cannot be read and written again: {error}") from error


def _told(lengths: Lengths, cards: Cards, again: str, name: str | None) -> str:
    """Both tables in the language that is called so, in English for None: with the words of plans, which `--lang` has for them alone."""
    from bench.report.outputs.guide import guide as told

    with speaking(None if name is None else language(name, plan=True)):
        return told(lengths, cards, again)


@contextmanager
def _rows(published: Path | None, database: str, *, with_example: bool) -> Iterator[str]:
    """Where the rows lie: the database, or one in its stead that holds the published training steps, and those of an example."""
    if published is None:
        yield database
        return
    from bench.cli.excerpt import SUITE
    from bench.store import Store

    examples = {SUITE} if with_example else set()
    files = sorted(path for path in published.rglob("*.jsonl.?z") if path.name.partition(".")[0] in examples or _has_steps(path))
    if not files:
        raise SelectionError(f"{published} holds no published training steps (*.jsonl.xz)")
    with tempfile.TemporaryDirectory(prefix="stepbench-guide-") as folder:
        path = Path(folder) / "published.db"
        with Store.open(path) as store:
            for file in files:
                store.import_file(file)
        yield str(path)


def _has_steps(path: Path) -> bool:
    """Told by the summary beside it, which is read in no time; without one it is taken to have some."""
    from bench.plan.stored import WORKLOAD

    summary = path.with_name(f"{path.name.partition('.')[0]}.summary.json.gz")
    if not summary.is_file():
        return True
    return any(row["case"]["workload"] == WORKLOAD for row in json.loads(gzip.decompress(summary.read_bytes())))


def _tables(database: str, gpu: str) -> tuple[Lengths, Cards]:
    from bench.report.answers.by_length import by_length
    from bench.report.answers.by_memory import by_memory
    from bench.store.steps import measured_steps

    found, steps = _trained(database, gpu), measured_steps(database)
    return by_length(MODELS[0], gpu, LENGTHS, found, steps), by_memory(MODELS, CARDS_LENGTH, gpu, found, steps)


def _trained(database: str, gpu: str) -> dict[Step, Trained]:
    """Of all runs of training steps on that GPU. Raises StoreError for a database that cannot be read."""
    from bench.plan.costs import same_gpu
    from bench.plan.stored import WORKLOAD
    from bench.report.answers.trained import TIME, TOTAL, trained
    from bench.report.numbers.summary import summarize
    from bench.store import Store

    try:
        store = Store.open(database, create=False, read_only=True)
    except StoreError as error:
        raise StoreError(f"{error}\nWithout a database of one's own: bench guide --published results/published") from error
    with store:
        runs = [run for run in store.runs() if run.suite_data.get("workload") == WORKLOAD]
        # Excluded rows too: they tell who else was on the GPU.
        steps = [
            (run, case)
            for run in runs
            for case in summarize(run, store.results([run.id], include_excluded=True, metrics=[TIME, TOTAL]))
        ]
    return trained(
        (run, case) for run, case in steps if case.counted and same_gpu(gpu, str(case.counted[0].environment.hard.get("gpu_model")))
    )
