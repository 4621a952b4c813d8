"""Takes folders and the owner's names out of a text that is to be published.

It would rather take too much: a folder's name that is lost from a log costs little, an owner's name that is published stays so.
"""

from __future__ import annotations

import os
import platform
import pwd
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

import bench
from bench.records import Json

SHORTEST_NAME = 3
NOBODY = frozenset(
    (
        "root",
        "user",
        "host",
        "localhost",
        "admin",
        "ubuntu",
        "runner",
        "test",
        "bench",
        "stepbench",
        "torch",
        "python",
        "cuda",
        "nvidia",
    )
)
"""Names that tell nobody, or that every row has in it."""

_ROOT = r"(?:/+(?=[^\s/])|~[\w.-]*/|(?:\./)*\.\./)"
_STEM = r"[^\s/:'\"`<>|,;=]+"
# A folder's name may hold spaces; a word after the path's end has no slash right behind it, is no option and follows no suffix.
_SPACED = r"[^\s/:'\"`<>|,;=]*(?<!\.py)(?<!\.so)(?<!\.yaml)(?: (?!-)[^\s/:'\"`<>|,;=]+){1,3}(?=/)"
_PATH = re.compile(
    rf"(?P<quote>['\"`])(?P<quoted>{_ROOT}[^'\"`\n]*)(?P=quote)"
    r"|(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]{0,30})://(?P<address>[^\s'\"`<>]*)"
    rf"|(?:(?<![\w.)\]}}~*/])|(?<=\s-[A-Za-z]))(?P<plain>{_ROOT}(?:(?:{_SPACED}|{_STEM})?/+)*(?:{_STEM})?)"
)
_HOME_FOLDERS = ("home", "Users")
_HOME = re.compile(rf"(?<!\w)(?:home|Users)/+{_STEM}(?:/+{_STEM})*/*")
_OWNER = re.compile(r"\b(?:home|Users)/+([A-Za-z_][\w.-]*)|~([A-Za-z_][\w.-]*)/")
_PUBLIC_SCHEMES = ("http", "https")
_PACKAGES = ("site-packages", "dist-packages")
_OWN_FOLDERS = ("bench", "suites", "tests")


@dataclass(frozen=True, slots=True)
class Owner:
    """Who must not be found in a text: names, the longest first, and home folders."""

    names: tuple[str, ...]
    homes: tuple[str, ...]
    hosts: tuple[str, ...]

    @classmethod
    def of(cls, data: Json) -> Owner:
        """This process's user and host, and the owners of home folders that `data` speaks of."""
        names = {*_user_names(), *(name.rstrip(".") for found in _OWNER.findall(repr(data)) for name in found)}
        host = platform.node()
        home = os.path.expanduser("~").rstrip("/")
        return cls(_telling(names), _telling({home}) if home.startswith("/") else (), _telling({host, host.split(".")[0]}))

    def nameless(self, text: str) -> str:
        """`text` with `~`, `user` and `host` in their places."""
        for words, instead in ((self.homes, "~"), (self.hosts, "host"), (self.names, "user")):
            for word in words:
                if word.lower() in text.lower():
                    text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(word)}(?![A-Za-z0-9])", instead, text, flags=re.IGNORECASE)
        return text


def _user_names() -> Iterator[str]:
    yield from (os.environ[name] for name in ("USER", "LOGNAME") if name in os.environ)
    try:
        yield pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return  # a container's user may have no name


def _telling(names: set[str]) -> tuple[str, ...]:
    found = {name for name in names if len(name) >= SHORTEST_NAME and name.lower() not in NOBODY}
    return tuple(sorted(found, key=lambda name: (-len(name), name)))


@lru_cache(maxsize=4096)
def short_paths(text: str) -> str:
    """Absolute, home and upward paths cut to the file's name, or to its part below installed packages or this repository's folders."""
    return _HOME.sub(lambda found: _cut("/" + found.group()), _PATH.sub(_cut_match, text))


def path_name(path: str) -> str:
    """`short_paths` of a text that is one path, whatever characters it holds; a path that leads inward stays."""
    if re.match(_ROOT, path):
        return _cut(path)
    return short_paths(path)


def short_command(command: str, text: Callable[[str], str]) -> str:
    """A command with each word cleaned by `text`; a word, or what an option is set to, may be a path with spaces."""
    try:
        words = shlex.split(command)
    except ValueError:
        return text(command)
    return shlex.join(text(_word(word)) for word in words)


def _word(word: str) -> str:
    start, equals, value = word.partition("=")
    if equals and re.match(_ROOT, value):
        return f"{start}={_cut(value)}"
    return _cut(word) if re.match(_ROOT, word) else word


def _cut_match(found: re.Match[str]) -> str:
    if quoted := found["quoted"]:
        return f"{found['quote']}{_cut(quoted)}{found['quote']}"
    if scheme := found["scheme"]:
        address = found["address"]
        if scheme.lower() in _PUBLIC_SCHEMES and "@" not in address:
            return found.group()
        return f"{scheme}://{_cut('/' + address)}"
    return _cut(found["plain"])


def _cut(path: str) -> str:
    parts = [part for part in PurePosixPath(path).parts if not part.startswith("/")]
    if not parts or (len(parts) == 1 and path.startswith("~")):
        return "~" if path.startswith("~") else "/"
    if len(parts) > 1 and parts[-2] in _HOME_FOLDERS:
        return "~"
    for number in range(len(parts) - 1, 0, -1):
        if parts[number - 1] in _PACKAGES:
            return "/".join(parts[number:])
    for number, part in enumerate(parts):
        if part in _OWN_FOLDERS and _is_ours(parts[number:]):
            return "/".join(parts[number:])
    return parts[-1]


def _is_ours(parts: list[str]) -> bool:
    """Whether this repository holds such a file: a folder of somebody else may be called `tests` too."""
    return ".." not in parts and os.path.exists(Path(bench.__file__).resolve().parent.parent.joinpath(*parts))
