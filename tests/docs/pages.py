"""What the documentation holds that can be held against the code: blocks, commands, tables and links of its pages."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
PAGES = (*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "README.zh-TW.md")
_FENCE = re.compile(r"^( *)```([^\n]*)\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block: the words after its fence, and its text."""

    page: Path
    words: tuple[str, ...]
    text: str

    def told(self, name: str) -> str | None:
        """The value of `name=value` after the fence."""
        return next((word.partition("=")[2] for word in self.words if word.startswith(f"{name}=")), None)


@dataclass(frozen=True)
class Command:
    """A call of bench as a page has it."""

    page: Path
    words: tuple[str, ...]
    """Without `bench` itself."""
    in_block: bool

    def __str__(self) -> str:
        return f"{self.page.name}: bench {' '.join(self.words)}"


def blocks(page: Path) -> list[Block]:
    """All fenced blocks, less their indentation."""
    found = []
    for match in _FENCE.finditer(page.read_text()):
        indent, words, text = match.groups()
        lines = [line.removeprefix(indent) for line in text.splitlines(keepends=True)]
        found.append(Block(page, tuple(words.split()), "".join(lines)))
    return found


def prose(page: Path) -> str:
    """The page without its blocks."""
    return _FENCE.sub("", page.read_text())


def codes(text: str) -> list[str]:
    """What stands between backticks."""
    return _CODE.findall(text)


def commands(page: Path) -> Iterator[Command]:
    """Every call of bench: lines of blocks without a language, and code in the text that begins so."""
    for block in blocks(page):
        if not block.words:
            for line in block.text.splitlines():
                yield from _command(page, line, in_block=True)
    for code in codes(prose(page)):
        yield from _command(page, code, in_block=False)


def _command(page: Path, text: str, *, in_block: bool) -> Iterator[Command]:
    match = re.match(r"(?:git bisect run )?bench (?=[a-z])(.*)", text.strip())
    if match is not None:
        # Several variants of one word, such as `export|import`, stand for themselves.
        yield Command(page, tuple(shlex.split(match[1], comments=True)), in_block)


def table_rows(page: Path) -> list[list[str]]:
    """The cells of every table line but heads and rules."""
    rows = [
        [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))]
        for line in prose(page).splitlines()
        if line.strip().startswith("|")
    ]
    rules = {place for place, row in enumerate(rows) if all(re.fullmatch(r":?-+:?", cell) for cell in row)}
    return [row for place, row in enumerate(rows) if place not in rules and place + 1 not in rules]
