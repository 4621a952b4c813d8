"""Every command of the documentation is one that the command line takes, and the quick ones are run."""

from __future__ import annotations

import re

import click
import pytest

from bench.cli import cli, main
from tests.docs.pages import PAGES, ROOT, Command, blocks, codes, commands, prose

ALL = [command for page in PAGES for command in commands(page)]
QUICK = ("list", "schema", "plan")
EXAMPLES = ("squared_relu", "l40", "times.json", "by_length", "my_norm")
"""Words of commands that need what a page adds: those are performed in a copy, by the worked examples."""


def parsed(words: tuple[str, ...]) -> tuple[click.Command, list[click.Option]]:
    """The command that is meant and the options that were given. Raises click's errors for what there is not."""
    command: click.Command = cli
    rest = list(words)
    context = click.Context(command, info_name="bench")
    while isinstance(command, click.Group) and rest:
        found = command.get_command(context, rest[0])
        if found is None:
            raise click.UsageError(f"there is no command {rest[0]!r}")
        command, rest = found, rest[1:]
        context = click.Context(command, parent=context)
    values, _, order = command.make_parser(context).parse_args(rest)
    given = [one for one in order if isinstance(one, click.Option)]
    for option in given:
        value = values[option.name]
        for single in value if isinstance(value, list | tuple) else [value]:
            if isinstance(option.type, click.Choice):
                option.type.convert(single, option, context)
    return command, given


@pytest.mark.parametrize("command", ALL, ids=str)
def test_the_command_line_takes_every_command_of_the_documentation(command: Command) -> None:
    words = command.words
    # `bench db export|import` names several at once.
    variants = [
        (*words[:place], one, *words[place + 1 :]) for place, word in enumerate(words[:2]) for one in word.split("|") if "|" in word
    ]
    for variant in variants or [words]:
        parsed(variant)


def test_a_command_or_option_that_there_is_not_would_be_found() -> None:
    for words in (("ruun",), ("run", "--trails", "3"), ("db", "exprot"), ("report", "--format", "pdf"), ("run", "--trials")):
        with pytest.raises(click.UsageError):
            parsed(words)


def test_the_documentation_shows_every_command() -> None:
    shown = {command.words[0] for command in ALL}
    assert set(cli.list_commands(click.Context(cli))) <= shown


@pytest.mark.parametrize(
    "command",
    [
        command
        for command in dict.fromkeys(ALL)
        if command.in_block
        and (command.words[0] in QUICK or "--dry-run" in command.words)
        and not any(example in word for word in command.words for example in EXAMPLES)
        and command.words[0] != "db"
    ],
    ids=str,
)
def test_the_quick_commands_of_the_documentation_run(
    command: Command, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(list(command.words)) == 0, capsys.readouterr().err


def test_every_target_of_make_that_is_named_is_one() -> None:
    targets = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    calls = [line for page in PAGES for block in blocks(page) if not block.words for line in block.text.splitlines()]
    calls += [code for page in PAGES for code in codes(prose(page))]
    named = {
        word
        for call in calls
        if call.startswith("make ")
        for word in call.partition("#")[0].split()[1:]
        if re.fullmatch(r"[a-z][\w-]*", word)
    }
    assert {"bench", "nightly"} <= named
    assert named <= targets


def test_every_variable_of_the_environment_that_is_named_is_read_somewhere() -> None:
    sources = "\n".join(
        path.read_text()
        for folder in ("bench", "nightly", "slurm")
        for path in (ROOT / folder).rglob("*.*")
        if path.suffix in (".py", ".sh")
    )
    for page in PAGES:
        for name in set(re.findall(r"\bBENCH_\w+", page.read_text())):
            assert name in sources, f"{page.name}: {name}"
