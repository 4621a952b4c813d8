"""Takes out of runs and rows who measured where, before anything is rendered of them: every format is then made of the same clean records.

What goes, and what stands there instead: names of users (`user-1`), hosts (`host-1`), labels of runs (`label-1`), e-mail addresses
(`address-1`), UUIDs (`gpu-1` for a GPU, `run-1` and `result-1` for ours, else `id-1`), each numbered by first appearance, so that equal
things stay equal; folders, of which only the last part stays; and whatever `bench.store.anonymous` takes out of what is published, such as
secrets and the names of others' processes. Users and hosts are this machine's, the owners of home folders that the records speak of, and
what stands before and behind the @ of an address. Numbers stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace

from bench.machine.secrets import scrub
from bench.metrics import METRICS
from bench.records import (
    Case,
    Check,
    Cost,
    Environment,
    Json,
    Measurement,
    Pass,
    Proof,
    Result,
    RevisionItem,
    Run,
    RunState,
    Status,
    Trial,
    dump,
    load,
)
from bench.store.anonymous import anonymous_result, anonymous_run
from bench.store.public_text import NOBODY, SHORTEST_NAME, Owner, short_paths

_HEX = r"[0-9a-fA-F]"
_UUID = re.compile(rf"(?<![0-9A-Za-z])((?:GPU|MIG)-)?({_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}})(?![0-9A-Za-z])")
_GPU_WORD = re.compile(rf"(?<![0-9A-Za-z])gpu-{_HEX}{{12}}(?![0-9A-Za-z])")
"""How a published row names a GPU."""
_ADDRESS = re.compile(r"(?<![\w.+-])([\w.+-]{1,64})@([A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8})(?![\w-])")
"""Its host has a dot: a model's weights are named `name@hash`."""
_ORDINARY = NOBODY | frozenset(
    (
        *("cpu", "git", "github", "github.com", "info", "support", "noreply"),
        *(str(word) for kind in (Status, Pass, RunState) for word in kind),
        *(name for metric in METRICS.values() for name in (metric.name, metric.unit)),
    )
)
"""Names that tell nobody, and words that mean something in a record."""
_KEYS = frozenset(
    one.name
    for record in (Run, Result, Trial, Case, Environment, Measurement, Check, Proof, Cost, RevisionItem)
    for one in fields(record)
) | {"pass"}
"""Keys of a record, which stay whoever is called like one."""


@dataclass(slots=True)
class _Words:
    """What stands for what: a word with a number by first appearance, the same for the same thing."""

    given: dict[tuple[str, str], str] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def word(self, kind: str, thing: str) -> str:
        key = kind, thing.lower()
        if key not in self.given:
            self.counts[kind] = self.counts.get(kind, 0) + 1
            self.given[key] = f"{kind}-{self.counts[kind]}"
        return self.given[key]


def redacted(runs: Sequence[Run], results: Sequence[Result]) -> tuple[list[Run], list[Result]]:
    """The same runs and rows, fit to be shown to strangers."""
    words = _Words()
    for run in runs:
        words.given["id", run.id.lower()] = words.word("run", run.id)
    for result in results:
        words.given["id", result.id.lower()] = words.word("result", result.id)
    run_data = [dump(run) for run in runs]
    result_data = [dump(result) for result in results]
    text = _cleaner(words, _names([*run_data, *result_data], words))
    labels = [run.label for run in runs if run.label]
    for label in labels:
        words.word("label", label)
    return (
        [_run(run, data, text, labels, words) for run, data in zip(runs, run_data, strict=True)],
        [_result(result, data, text, labels, words) for result, data in zip(results, result_data, strict=True)],
    )


def _run(run: Run, data: Json, text: Callable[[str], str], labels: Sequence[str], words: _Words) -> Run:
    made = anonymous_run(load(Run, _texts(_unlabelled(data, labels, words), text)))
    label = None if run.label is None else words.word("label", run.label)
    return replace(made, label=label)


def _result(result: Result, data: Json, text: Callable[[str], str], labels: Sequence[str], words: _Words) -> Result:
    made = anonymous_result(load(Result, _texts(_unlabelled(data, labels, words), text)))
    conditions = dict(made.conditions)
    if isinstance(gpu := result.conditions.get("gpu_uuid"), str):
        conditions["gpu_uuid"] = words.word("gpu", gpu)
    return replace(made, conditions=conditions)


def _unlabelled(data: Json, labels: Sequence[str], words: _Words) -> Json:
    """A label may be any word, so it is looked for in commands alone; before names and folders go, which a label may hold."""
    command = data["command"]
    for label in sorted(labels, key=lambda label: (-len(label), label)):
        command = re.sub(rf"(?<![\w-]){re.escape(label)}(?![\w-])", words.word("label", label), command)
    return {**data, "command": command}


def _names(data: Sequence[Json], words: _Words) -> list[tuple[re.Pattern[str], str]]:
    """Patterns of names, the longest first, with the words for them."""
    owner = Owner.of([])
    users: dict[str, None] = dict.fromkeys(owner.names)
    hosts: dict[str, None] = dict.fromkeys(owner.hosts)
    for text in dict.fromkeys(_strings(data)):
        if "home" in text or "Users" in text or "~" in text:
            users |= dict.fromkeys(name for name in Owner.of(text).names if name not in users)
        for found in _ADDRESS.finditer(text) if "@" in text else ():
            users[found[1]] = None
            hosts |= dict.fromkeys((found[2], *((found[2].split(".")[0],) if found[2].count(".") > 1 else ())))
    kinds = dict.fromkeys(hosts, "host") | dict.fromkeys(users, "user")
    made = []
    for name in sorted(kinds, key=lambda name: (-len(name), name)):
        if len(name) >= SHORTEST_NAME and name.lower() not in _ORDINARY:
            # A host is the same with and without its domain.
            word = words.word("user", name) if kinds[name] == "user" else words.word("host", name.split(".")[0])
            made.append((re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", re.IGNORECASE), word))
    return made


def _cleaner(words: _Words, names: Sequence[tuple[re.Pattern[str], str]]) -> Callable[[str], str]:
    known: dict[str, str] = {}

    def clean(text: str) -> str:
        if text not in known:
            known[text] = _clean(text, words, names)
        return known[text]

    return clean


def _clean(text: str, words: _Words, names: Sequence[tuple[re.Pattern[str], str]]) -> str:
    text = short_paths(scrub(text))
    text = _ADDRESS.sub(lambda found: words.word("address", found[0]), text)
    text = _UUID.sub(lambda found: words.word("gpu" if found[1] else "id", found[0] if found[1] else found[2]), text)
    text = _GPU_WORD.sub(lambda found: words.word("gpu", found[0]), text)
    for pattern, instead in names:
        text = pattern.sub(instead, text)
    return text


def _strings(data: Json) -> Iterator[str]:
    if isinstance(data, str):
        yield data
    elif isinstance(data, Mapping):
        yield from (text for key, value in data.items() for text in (key, *_strings(value)))
    elif isinstance(data, list):
        yield from (text for value in data for text in _strings(value))


def _texts(data: Json, text: Callable[[str], str]) -> Json:
    """The same data with every text in it cleaned, keys included."""
    if isinstance(data, str):
        return text(data)
    if isinstance(data, Mapping):
        return {key if key in _KEYS else text(key): _texts(value, text) for key, value in data.items()}
    return [_texts(value, text) for value in data] if isinstance(data, list) else data
