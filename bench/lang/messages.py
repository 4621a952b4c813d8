"""Messages of a language, and finished English text turned into it and back.

Modules that compute sentences know of no language. A message of the catalogue is an English text with named placeholders, and what it is
called in the other language with the same ones; it is matched against text that is finished. `{x}` stands for any words, `{x:label}` for
words without commas or brackets, `{x:number}` for a number with its unit or an interval, `{x:ratio}` for a ratio, and `{x:said}` for
something that is said in the other language itself. A text that no message is of is cut at the joints of sentences, and every piece has to
be a message or a value.

Whatever is turned is read back at once, and stays English where that does not give the same text. So a page in another language loses
nothing, and `bench verify` can hold it against its data.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

LANGUAGES: Mapping[str, str] = {"zh-TW": "zh-Hant-TW"}
"""What users say, to the tag that HTML has for it."""
_PLACEHOLDER = re.compile(r"\{(\w+)(?::(\w+))?\}")
_UNIT = r"(?:×|%|s|ms|µs|ns|B|KiB|MiB|GiB|TiB|GB|TB|J|mJ|µJ|nat|[kMGT]?(?:FLOP|B|tokens)/s)"
_KINDS: Mapping[str | None, str] = {
    None: r"(?:(?!; |；|\. |。 ).)+?",
    "said": r".+?",
    "label": r"[^,;()–，；（）]+?",
    "ratio": r"(?:> )?[\d.]+×(?: \([\d.]+–[\d.]+\))?",
    "number": rf"(?:[<>] )?[-+−]?\d[^\s,;:()，；：（）]*(?: {_UNIT}(?![A-Za-z]))?(?: \([\d.e+-]+–[\d.e+-]+(?: {_UNIT})?\))?",
}
_VALUE = re.compile(rf"\S*|(?:[\w .+*=-]+ )?{_KINDS['number']}")
"""What may stand between messages untranslated: one word, or a name with its number."""
_NESTED = 6
"""Messages within messages; with the next two what a page of others may cost who reads it back."""
_MOST_PIECES = 24
_LONGEST_CHARS = 2000


class CatalogueError(ValueError):
    """A catalogue that does not fit together; says which message."""


@dataclass(frozen=True)
class _Rule:
    """One message, from one language to the other."""

    source: str
    kinds: Mapping[str, str | None]
    literal: str
    """The longest piece that always stands there: looked for first, since it is quick."""
    weight: int
    template: str
    nested: tuple[str, ...]

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """Compiled when it is first needed: a page needs few of the messages."""
        made, at = "", 0
        for found in _PLACEHOLDER.finditer(self.source):
            made += f"{re.escape(self.source[at : found.start()])}(?P<{found[1]}>{_KINDS[self.kinds[found[1]]]})"
            at = found.end()
        return re.compile(made + re.escape(self.source[at:]), re.DOTALL)


def placeholders(message: str) -> dict[str, str | None]:
    """Name to kind of what a message leaves open. Raises CatalogueError for a kind that is none, and for a name that comes twice."""
    found: dict[str, str | None] = {}
    for name, kind in _PLACEHOLDER.findall(message):
        if name in found or (kind or None) not in _KINDS:
            raise CatalogueError(f"{message!r}: placeholder {name!r} of kind {kind!r}")
        found[name] = kind or None
    return found


def literals(message: str) -> list[str]:
    """What of a message always stands there, piece by piece."""
    return _PLACEHOLDER.sub("\0", message).split("\0")


def _rule(source: str, target: str, kinds: Mapping[str, str | None]) -> _Rule:
    fixed = literals(source)
    nested = tuple(name for name, kind in kinds.items() if kind == "said")
    return _Rule(source, kinds, max(fixed, key=len), sum(map(len, fixed)), _PLACEHOLDER.sub(r"{\1}", target), nested)


class _Turn:
    """One direction."""

    def __init__(self, pairs: Sequence[tuple[str, str, Mapping[str, str | None]]], joints: Sequence[tuple[str, str]]) -> None:
        self._whole = {source: target for source, target, kinds in pairs if not kinds}
        rules = [_rule(source, target, kinds) for source, target, kinds in pairs if kinds]
        # The more of a text a message says itself, the surer it is meant.
        self._rules = sorted(rules, key=lambda rule: -rule.weight)
        self._joints = dict(joints)
        self._cut = re.compile("(" + "|".join(map(re.escape, self._joints)) + ")")
        self._known: dict[str, str | None] = {}

    def turned(self, text: str, depth: int = 0) -> str | None:
        """The text in the other language; None where no message is of it."""
        if text not in self._known:
            self._known[text] = None if depth > _NESTED or len(text) > _LONGEST_CHARS else self._found(text, depth)
        return self._known[text]

    def _found(self, text: str, depth: int) -> str | None:
        rules = [rule for rule in self._rules if rule.literal in text]
        message = self._message(text, depth, rules)
        return self._pieces(text, depth, rules) if message is None else message

    def _message(self, text: str, depth: int, rules: Sequence[_Rule]) -> str | None:
        if text in self._whole:
            return self._whole[text]
        for rule in rules:
            if rule.literal in text and (match := rule.pattern.fullmatch(text)) is not None:
                values = match.groupdict()
                for name in rule.nested:
                    values[name] = self._nested(values[name], depth + 1)
                if None not in values.values():
                    return rule.template.format_map(values)
        return None

    def _nested(self, text: str, depth: int) -> str | None:
        found = self.turned(text, depth)
        return text if found is None and _VALUE.fullmatch(text) else found

    def _pieces(self, text: str, depth: int, rules: Sequence[_Rule]) -> str | None:
        """The longest messages from the left; None where a piece is neither message nor value, or none is a message."""
        parts = self._cut.split(text)
        if not 1 < len(parts) <= 2 * _MOST_PIECES:
            return None
        said, at, messages = "", 0, 0
        while at < len(parts):
            for end in range(len(parts) if parts[at] else at, at, -2):
                found = self._message("".join(parts[at:end]), depth, rules) if end - at < len(parts) else None
                if found is not None:
                    messages += 1
                    break
            else:
                end, found = at + 1, parts[at] if _VALUE.fullmatch(parts[at]) else None
            if found is None:
                return None
            said += found + (self._joints[parts[end]] if end < len(parts) else "")
            at = end + 1
        return said if messages else None


class Language:
    """A language with all its messages."""

    def __init__(
        self,
        name: str,
        messages: Mapping[str, str],
        joints: Mapping[str, str],
        controls: Mapping[str, str] | None = None,
        once: Mapping[str, str] | None = None,
    ) -> None:
        """`controls` is what a page's script says; `once` what messages were called in former versions, to the English of each. Raises
        CatalogueError where a message has other placeholders in the two languages, or two messages are called the same.
        """
        self.name = name
        self.tag = LANGUAGES[name]
        self.messages = messages
        self.controls = controls or {}
        former = [(english, own) for own, english in (once or {}).items()]
        for english, own in (*messages.items(), *self.controls.items(), *former):
            if set(placeholders(own)) != set(placeholders(english)):
                raise CatalogueError(f"{english!r} has other placeholders in {name}")
        kinds = {english: placeholders(english) for english in messages}
        seen: dict[str, str] = {}
        for english, own in (*messages.items(), *former):
            if english not in kinds:
                raise CatalogueError(f"{own!r} was once said of {english!r}, which is no message")
            if own in seen:
                raise CatalogueError(f"{english!r} and {seen[own]!r} are called the same in {name}")
            seen[own] = english
        self._there = _Turn([(english, own, kinds[english]) for english, own in messages.items()], list(joints.items()))
        self._back = _Turn(
            [(_plain(own), english, kinds[english]) for english, own in (*messages.items(), *former)],
            [(own, english) for english, own in joints.items()],
        )

    def said(self, text: str) -> str:
        """`text` in this language, and as it is where it cannot be said, or could not be read back. Spaces around it stay."""
        core = text.strip()
        found = self._there.turned(core) if core else None
        if found is None or self._back.turned(found) != core:
            return text
        return text.replace(core, found, 1)

    def english(self, text: str) -> str:
        """What `said` has made this text of; the text itself where it is no message of this language."""
        core = text.strip()
        found = self._back.turned(core) if core else None
        return text if found is None else text.replace(core, found, 1)

    def renewed(self, text: str) -> str:
        """A text of this language in today's words, where a former version said it in others."""
        english = self.english(text)
        return text if english == text else self.said(english)


def _plain(message: str) -> str:
    """Kinds are told on the English side."""
    return _PLACEHOLDER.sub(r"{\1}", message)


@cache
def language(name: str, *, plan: bool = False) -> Language:
    """The language that users call so, with what is said on pages, or in a plan. Raises KeyError for one that is not in `LANGUAGES`."""
    # Imported here, since every command imports the words of the terminal, and few need a catalogue.
    import tomllib
    from importlib.resources import files

    LANGUAGES[name]
    found = tomllib.loads((files("bench.lang") / f"{name.replace('-', '_')}.toml").read_text(encoding="utf-8"))
    apart = {"joints", "controls", "once", *(() if plan else ("plan",))}
    messages = {english: own for part, said in found.items() if part not in apart for english, own in said.items()}
    return Language(name, messages, found["joints"], found["controls"], found["once"])
