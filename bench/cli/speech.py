"""The option `--lang`: in which language a command says what people read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from bench.cli.terminal import note
from bench.lang import LANGUAGES, language, speaking, spoken

HELP = "Headings, answers, method and glossary in this language: en, or zh-TW for Traditional Chinese. Numbers, statuses and verdicts stay."


def language_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """`--lang`: what the command prints from here on is in that language."""

    def speak(context: click.Context, _: click.Parameter, name: str) -> None:
        if name != "en":
            context.with_resource(speaking(language(name, plan=context.command.name == "plan")))

    return click.option(
        "--lang",
        type=click.Choice(["en", *LANGUAGES]),
        default="en",
        show_default=True,
        expose_value=False,
        callback=speak,
        help=HELP,
    )(function)


@contextmanager
def drawing() -> Iterator[None]:
    """Within it figures are drawn in the language that is spoken; in English, with a warning, where no font has its characters."""
    own = spoken()
    if own is not None:
        from bench.lang.fonts import FAMILIES, family

        if family(own.name) is None:
            note(
                f"figures are in English: no font for {own.name} is installed, such as {FAMILIES[own.name][0]} (Debian: fonts-noto-cjk)"
            )
            own = None
    with speaking(own):
        yield
