"""Checks the subjects that a suite names, in each way of writing them, and says what its shorthands and its baseline stand for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from bench.catalogue import Catalogue, nearest
from bench.catalogue.names import listed, shown, unknown
from bench.declare import Workload
from bench.suite.arms import COMBINED, MAX_ARMS, NAME, Arm, arms_of, clashes, composed
from bench.suite.axes import BadValue, unknown_word
from bench.suite.model import MAX_NAME
from bench.suite.source import SETTING, Key, Place

Add = Callable[[Key, str, str | None], None]
Shorthands = Mapping[str, Mapping[str, str]]


class ArmChecker:
    """One pass over all that names subjects. `data` is what `arms_of` needs; it is whole where no problem was added."""

    def __init__(
        self,
        said: Mapping[str, Any],
        workload: Workload,
        catalogue: Catalogue,
        add: Add,
        known: Shorthands,
        place: Callable[[Key], Place],
    ) -> None:
        """`said` is the suite as written, a lone name in `subjects` as a list; `known` are shorthands whose meaning was settled before.

        `place` says where a key was written.
        """
        self._place = place
        self._said = said
        self._workload = workload
        self._catalogue = catalogue
        self._problems = 0
        self._add_problem = add
        self._known = known
        self._names: dict[str, tuple[str, ...]] = {}
        self._shorthands: dict[str, dict[str, str]] = {}
        self.data: dict[str, Any] = {}
        self.baseline: dict[str, str] | None = None

    def _add(self, key: Key, message: str, suggestion: str | None = None) -> None:
        self._problems += 1
        self._add_problem(key, message, suggestion)

    def check(self, malformed: Collection[str], *, complete: bool) -> None:
        """Adds every problem of meaning; `malformed` are keys of the suite whose form is wrong already.

        `complete` False: nothing may be named yet, because a profile or a setting may do so.
        """
        written = [key for key in ("subjects", *COMBINED) if self._said.get(key) is not None]
        if not written and complete:
            known = f"subjects, or {', '.join(COMBINED)}"
            self._add(("subjects",), f"is missing: say what is compared ({known})")
        if "subjects" in written and len(written) > 1:
            other = written[1]
            message = f"subjects cannot stand beside {other}, which says what is compared; change defaults, or take it away ({other}: null)"
            self._add(self._first("subjects"), message)
        self._entry(("defaults",), self._said.get("defaults"))
        self._entry(("subjects",), self._said.get("subjects"), many=True)
        for key in ("arms", "ladder"):
            entries = self._said.get(key)
            for index, entry in enumerate(entries if isinstance(entries, list) else ()):
                self._entry((key, index), entry, many=key == "arms", named=True)
        for key in ("leave_one_out", "pairs"):
            parts = self._said.get(key)
            for name, part in parts.items() if isinstance(parts, dict) else ():
                self._entry((key, name), part)
        if self._problems or not {"defaults", "subjects", *COMBINED}.isdisjoint(malformed):
            self._baseline(None)
            return
        self.data = self._settled()
        self._contradictions()
        arms = () if self._problems else self._arms()
        self._baseline(arms)

    def _first(self, key: str) -> Key:
        """The place of the first slot under `key`, which is where a profile or a setting wrote it."""
        inner = self._said[key]
        return (key, next(iter(inner))) if isinstance(inner, dict) and inner else (key,)

    def _implementations(self, slot: str) -> tuple[str, ...]:
        if slot not in self._names:
            self._names[slot] = tuple(self._catalogue.implementations(slot))
        return self._names[slot]

    def _entry(self, key: Key, entry: Any, *, many: bool = False, named: bool = False) -> None:
        """Words to names: `many`: a list of names is taken; `named`: the entry may have a name of its own."""
        for word, names in entry.items() if isinstance(entry, dict) else ():
            where = (*key, word)
            if word == NAME and named:
                self._own_name(where, names)
                continue
            if isinstance(names, list) and not many:
                self._add(where, "takes one implementation, not a list")
                continue
            if isinstance(names, list) and not names:
                if key[0] != "subjects":  # the form says so of subjects
                    self._add(where, "must not be empty")
                continue
            for index, name in enumerate(names if isinstance(names, list) else [names]):
                self._name((*where, index) if isinstance(names, list) else where, word, name)

    def _own_name(self, key: Key, name: Any) -> None:
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > MAX_NAME:
            self._add(key, f"must be text that can be read, of at most {MAX_NAME} characters, not {shown(name)}")

    def _name(self, key: Key, word: str, name: Any) -> None:
        if word in self._workload.slots:
            known = self._implementations(word)
            if not isinstance(name, str):
                self._not_text(key, name)
            elif name not in known and (name or key[0] != "subjects"):  # the form says so of an empty one there
                bad = unknown_word("implementation", name, list(known))
                elsewhere = self._catalogue.elsewhere(name) if name else None
                self._add(key, f"{bad}; {elsewhere}" if elsewhere else str(bad), None if elsewhere else bad.suggestion)
        elif word in self._workload.shorthands:
            if isinstance(name, str):
                self._shorthand(key, word, name)
            else:
                self._not_text(key, name)
        elif key[-1] in (word, 0):  # once for a list
            words = [*self._workload.slots, *self._workload.shorthands]
            bad = unknown_word(f"slot of {self._workload.name}", word, words)
            self._add(key if key[-1] == word else key[:-1], str(bad), bad.suggestion)

    def _not_text(self, key: Key, name: Any) -> None:
        if key[0] not in ("subjects", "defaults", "baseline"):  # the form says so of these
            self._add(key, f"must be text, not {shown(name)}")

    def _shorthand(self, key: Key, word: str, name: str) -> None:
        text = f"{word}={name}"
        group = self._workload.shorthands[word]
        filled = dict(self._known.get(text) or {slot: name for slot in group if name in self._implementations(slot)})
        if not filled:
            known = list(dict.fromkeys(found for slot in group for found in self._implementations(slot)))
            message = unknown("implementation", name, known, hint=False)
            elsewhere = self._catalogue.elsewhere(name)
            message = f"{message}; {elsewhere}" if elsewhere else message
            suggestion = None if elsewhere else nearest(name, known)
            self._add(key, f"no slot of {word} ({', '.join(group)}) has it: {message}", suggestion)
        self._shorthands[text] = filled

    def _settled(self) -> dict[str, Any]:
        """What `arms_of` needs, with the suite's defaults over those of the workload."""
        said = self._said.get("defaults") or {}
        laid = arms_of({"defaults": self._workload.defaults, "shorthands": self._shorthands, "arms": [said]})[0].subject
        data = {key: self._said[key] for key in ("subjects", *COMBINED) if self._said.get(key)}
        defaults = {slot: laid[slot] for slot in self._workload.slots if slot in laid}
        return {"defaults": defaults, "shorthands": self._shorthands, **data}

    def _contradictions(self) -> None:
        for one, two in clashes(self.data.get("leave_one_out", {}), self.data):
            self._add(("leave_one_out", two), f"fills a slot that {one} fills in another way, so they are never together")
        names = [part.get(NAME) for part in self.data.get("ladder", ())]
        for index, name in enumerate(names):
            if name is not None and name in names[:index]:
                self._add(("ladder", index, NAME), f"there is a step named {shown(name)} already")

    def _arms(self) -> tuple[Arm, ...]:
        arms = arms_of(self.data)
        if len(arms) > MAX_ARMS:
            self._add((arms[0].places[0].key,), f"makes more than {MAX_ARMS} subjects")
            return ()
        lacking: dict[tuple[Key, str], None] = {}
        labels: dict[str, Arm] = {}
        for arm in arms:
            place = arm.places[0]
            key: Key = (place.key, place.position) if place.key == "arms" else (place.key,)
            lacking.update(((key, slot), None) for slot in self._workload.slots if slot not in arm.subject)
            if labels.setdefault(arm.label, arm) is not arm:
                self._add((*key, NAME) if place.key == "arms" else key, f"two arms would be called {shown(arm.label)}")
        for key, slot in lacking:
            missing = "has no subjects" if key == ("subjects",) else "is not filled, and has no default"
            self._add(key, f"the slot {slot} of {self._workload.name} {missing}")
        return arms

    def _baseline(self, arms: tuple[Arm, ...] | None) -> None:
        """`arms` None: they are not known, since something is wrong with them."""
        baseline, subjects = self._said.get("baseline"), self._said.get("subjects")
        if not isinstance(baseline, dict):
            return
        before = self._problems
        for word, name in baseline.items():
            names = subjects.get(word) if isinstance(subjects, dict) else None
            if word not in self._workload.slots or not isinstance(names, list):
                self._name(("baseline", word), word, name)
            elif isinstance(name, str) and name not in names:
                self._no_subject(word, name, names)
        if self._problems > before or not all(isinstance(name, str) for name in baseline.values()):
            return
        defaults = self.data.get("defaults", self._workload.defaults)
        full = arms_of({"defaults": defaults, "shorthands": self._shorthands, "arms": [baseline]})[0].subject
        missing = [slot for slot in self._workload.slots if slot not in full]
        for slot in missing:
            self._add(("baseline",), f"the slot {slot} is missing: a baseline names one implementation for each slot")
        if not missing and arms and all(arm.subject != full for arm in arms):
            words = composed(full, self.data)
            self._add(("baseline",), f"{words} is none of the arms ({listed([arm.label for arm in arms])}); name one of them")
        self.baseline = {slot: full[slot] for slot in self._workload.slots if slot in full}

    def _no_subject(self, word: str, name: str, names: Collection[Any]) -> None:
        known = self._implementations(word)
        valid = [found for found in names if found in known]
        if name in known and len(valid) < len(names):
            return  # a name that is wrong among the subjects is told already, and may have been meant for this one
        key: Key = ("baseline", word)
        taken = self._place(("subjects", word)).file == SETTING != self._place(key).file
        told = (
            f"add --set baseline.{word}={valid[0]}, or --set baseline=null for none"
            if taken and valid
            else "name one of them, or no baseline"
        )
        self._add(
            key, f"{shown(name)} is not among the subjects ({listed(valid)}); {told}", None if taken else nearest(name, valid)
        )


def dtype_of(workload: Workload, catalogue: Catalogue, subject: Mapping[str, str]) -> str | None:
    """The dtype that the subject's implementation decides; None where the suite says it. Raises BadValue where it declares several."""
    if workload.dtype_slot is None:
        return None
    found = catalogue.implementation(workload.dtype_slot, subject[workload.dtype_slot])
    if len(found.dtypes) != 1:
        several = ", ".join(found.dtypes)
        raise BadValue(f"{found.name} decides the dtype of its case, so it must declare one dtype; it declares {several}")
    return found.dtypes[0]
