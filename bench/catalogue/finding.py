"""Finds what can be named in a suite: built-ins first, then plug-in files, then entry points.

A built-in folder is imported when something asks for it; lone-file plug-ins are imported at once; entry points (the group
`bench.implementations`) only when a name is not found before them, or when everything is listed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import MappingProxyType

from bench.catalogue.built_in import folders, implementations_in, strays, useless_folders, workload_of
from bench.catalogue.installed import check_requirements
from bench.catalogue.names import shown, unknown
from bench.catalogue.outside import (
    Declared,
    declared_by,
    descriptor_to_stderr,
    entry_points_found,
    importing,
    load_plugin,
    reason_of,
    workload_mistake,
)
from bench.catalogue.shapes import ModelShape, read_models
from bench.declare import Implementation, Workload
from bench.errors import PluginError, Problem, SelectionError


@dataclass(slots=True)
class _Outside:
    """Everything that a group of outside modules declares, by name."""

    workloads: dict[str, Workload] = field(default_factory=dict)
    by_slot: dict[str, dict[str, Implementation]] = field(default_factory=dict)

    def slots(self) -> set[str]:
        return {slot for workload in self.workloads.values() for slot in workload.slots}


class _LazyWorkloads(Mapping[str, Workload]):
    """Imports one folder for one name, and all of them when iterated."""

    def __init__(self, find: Callable[[str], Workload | None], names: Callable[[], list[str]]) -> None:
        self._find = find
        self._names = names

    def __getitem__(self, name: str) -> Workload:
        workload = self._find(name)
        if workload is None:
            raise KeyError(name)
        return workload

    def __iter__(self) -> Iterator[str]:
        return iter(self._names())

    def __len__(self) -> int:
        return len(self._names())


class Catalogue:
    """All that can be named in a suite. Built-ins first, then plug-in files, then entry points; a name is never redefined."""

    def __init__(self, plugins: Sequence[Path] = ()) -> None:
        self._folders = folders()
        self.notices: list[str] = []
        """What is worth telling of what has been imported so far, a sentence each."""
        self._implementations: dict[str, dict[str, Implementation]] = {}
        self._plugins = _Outside()
        declared = [
            load_plugin(path, self.notices) for path in dict.fromkeys(Path(path).expanduser().resolve() for path in plugins)
        ]
        for entry in declared:
            self._admit_workload(entry, self._plugins)
        for entry in declared:
            self._admit_implementations(entry, self._plugins)
        self.workloads: Mapping[str, Workload] = _LazyWorkloads(self._find_workload, self._workload_names)

    @cached_property
    def models(self) -> Mapping[str, ModelShape]:
        """The named model shapes of models.yaml, in its order."""
        return read_models()

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Entry points and folders that cannot be used, each with its reason. They break nothing else."""
        return (*self._entry_points[1], *useless_folders(self.workloads.values()))

    def slots(self) -> tuple[str, ...]:
        """The names of all slots: built-in folders, then those of outside workloads."""
        outside = (self._plugins.slots() | self._entry_points[0].slots()) - set(self._folders)
        return (*self._folders, *sorted(outside))

    def workload(self, name: str) -> Workload:
        """The workload of that name; raises SelectionError with the nearest known one."""
        try:
            return self.workloads[name]
        except KeyError:
            raise SelectionError(unknown("workload", name, list(self.workloads))) from None

    def implementations(self, slot: str) -> Mapping[str, Implementation]:
        """All ways to fill a slot, by name; raises SelectionError for an unknown slot."""
        if slot not in self.slots():
            raise SelectionError(unknown("slot", slot, self.slots()))
        groups = (self._plugins, self._entry_points[0])
        outside = {name: found for group in groups for name, found in group.by_slot.get(slot, {}).items()}
        return MappingProxyType({**self._built_in(slot), **outside})

    def implementation(self, slot: str, name: str) -> Implementation:
        """One way to fill a slot; raises SelectionError with the nearest known name."""
        found = self._built_in(slot).get(name) or self._plugins.by_slot.get(slot, {}).get(name)
        if found is None:
            known = self.implementations(slot)
            if name not in known:
                elsewhere = self.elsewhere(name)
                message = unknown(f"implementation of {slot}", name, list(known), hint=elsewhere is None)
                raise SelectionError(f"{message}; {elsewhere}" if elsewhere else message)
            found = known[name]
        return found

    def elsewhere(self, name: str) -> str | None:
        """Where an implementation of that name is, in words, for who asked in another slot; None where there is none."""
        holders = []
        for slot in self.slots():
            # What is wrong with the folder of another slot is told where that is used.
            with contextlib.suppress(PluginError):
                if name in self.implementations(slot):
                    holders.append(slot)
        if holders:
            more = f" and {len(holders) - 3} slots more" if len(holders) > 3 else ""
            return f"{shown(name)} is one of {', '.join(holders[:3])}{more}"
        lost = next((folder / f"{name}.py" for folder in strays().values() if (folder / f"{name}.py").is_file()), None)
        return f"{lost} is in no slot, since its folder has no __init__.py" if lost else None

    @cached_property
    def _entry_points(self) -> tuple[_Outside, tuple[Problem, ...]]:
        """What installed packages add, loaded once. Whatever one of them does, the others stay usable."""
        group, problems, loaded = _Outside(), [], []
        for name, value, load in entry_points_found():
            try:
                with importing(f"entry point {name}", self.notices), descriptor_to_stderr():
                    loaded_object = load()
                declared = declared_by(loaded_object, f"entry point {name}")
                self._admit_workload(declared, group)
                loaded.append((name, declared))
            except (Exception, SystemExit) as error:  # noqa: BLE001 - somebody else's package; what it raised is the reason shown
                problems.append(Problem(reason_of(error), file=f"entry point {name} = {value}"))
        for name, declared in loaded:
            try:
                self._admit_implementations(declared, group)
            except PluginError as error:
                problems.append(Problem(str(error), file=f"entry point {name}"))
        return group, tuple(problems)

    def _built_in(self, slot: str) -> Mapping[str, Implementation]:
        if slot not in self._folders:
            return {}
        if slot not in self._implementations:
            self._implementations[slot] = implementations_in(self._folders[slot], self.notices)
        return self._implementations[slot]

    def _folder_workload(self, name: str) -> Workload | None:
        return workload_of(self._folders[name], self.notices) if name in self._folders else None

    def _find_workload(self, name: str) -> Workload | None:
        found = self._folder_workload(name) or self._plugins.workloads.get(name)
        return found or self._entry_points[0].workloads.get(name)

    def _workload_names(self) -> list[str]:
        built_in = [name for name in self._folders if self._folder_workload(name) is not None]
        return [*built_in, *self._plugins.workloads, *self._entry_points[0].workloads]

    def _admit_workload(self, declared: Declared, group: _Outside) -> None:
        workload = declared.workload
        if workload is None:
            return
        mistake = workload_mistake(workload)
        if mistake:
            raise PluginError(f"{declared.origin}: WORKLOAD: {mistake}")
        if workload.name in self._folders or workload.name in self._plugins.workloads or workload.name in group.workloads:
            raise PluginError(f"{declared.origin}: there is a workload named {workload.name!r} already; choose another name")
        group.workloads[workload.name] = workload

    def _admit_implementations(self, declared: Declared, group: _Outside) -> None:
        known = sorted({*self._folders, *self._plugins.slots(), *group.slots()})
        for entry in declared.implementations:
            if not entry.slot:
                raise PluginError(
                    f'{declared.origin}: {entry.name}: say which slot it fills: @implementation(workload="...", ...); '
                    f"known: {', '.join(known)}"
                )
            if entry.slot not in known:
                raise PluginError(f"{declared.origin}: {entry.name}: {unknown('workload', entry.slot, known)}")
            check_requirements(entry, declared.origin)
            taken = self._built_in(entry.slot).get(entry.name)
            for other in (self._plugins, group):
                taken = taken or other.by_slot.get(entry.slot, {}).get(entry.name)
            if taken:
                raise PluginError(
                    f"{declared.origin}: {entry.slot} has an implementation named {entry.name!r} already, in {taken.source}; "
                    "choose another name"
                )
            group.by_slot.setdefault(entry.slot, {})[entry.name] = entry


def load_catalogue(plugins: Sequence[Path] = ()) -> Catalogue:
    """The catalogue with these lone-file plug-ins. Raises PluginError for a file that cannot be loaded or declares nothing."""
    return Catalogue(plugins)
