"""Checks what a suite says against its form and the catalogue, and collects every mistake."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from bench.catalogue import Catalogue, ModelShape, nearest
from bench.catalogue.configured import config_file, varied_by
from bench.catalogue.names import listed, shown
from bench.declare import Workload
from bench.errors import Problem, SelectionError, SuiteError
from bench.suite.axes import Axis, BadValue, dimension_axis, selection_axes, sweep_axes, unknown_word
from bench.suite.check_arms import ArmChecker, Shorthands
from bench.suite.model import ProtocolForm, Search, Suite, SuiteForm
from bench.suite.overlay import MAPPINGS, WHOLES
from bench.suite.source import SETTING, Key, Source, dotted

OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gt": lambda value, limit: value > limit,
    "ge": lambda value, limit: value >= limit,
    "lt": lambda value, limit: value < limit,
    "le": lambda value, limit: value <= limit,
    "ne": lambda value, other: value != other,
    "in": lambda value, others: value in others,
}
"""What a rule may ask of an axis."""

MAX_PROBLEMS = 50

_ORDERING = ("gt", "ge", "lt", "le")

_WORDS = {
    "string_type": "must be text",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "list_type": "must be a list",
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "too_short": "must not be empty",
    "too_long": "must have at most {max_length} entries",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters",
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "literal_error": "must be {expected}",
    "value_error": "{error}",
}


class Checker:
    """One pass over one source. `suite` is None where there are problems."""

    def __init__(
        self, source: Source, catalogue: Catalogue, *, complete: bool = True, shorthands: Shorthands | None = None
    ) -> None:
        """`complete` False: axes and subjects may be missing, because a profile or a setting may give them.

        `shorthands`: what those of a stored suite stood for.
        """
        self.source = source
        self.catalogue = catalogue
        self.complete = complete
        self.problems: list[Problem] = []
        self._shorthands = shorthands or {}
        self._malformed: set[str] = set()
        """Keys of the suite in which something has the wrong form."""
        self._said: dict[str, Any] = {key: _as_list(key, value) for key, value in source.data.items()}
        self.suite = self._check()

    def _check(self) -> Suite | None:
        form = self._form()
        workload = self._workload()
        if workload is None:
            return None
        arms = ArmChecker(self._said, workload, self.catalogue, self._add, self._shorthands, self.source.place)
        arms.check(self._malformed, complete=self.complete)
        sweep = self._sweep(workload)
        exclude = self._exclude(workload)
        if form is not None and form.search is not None:
            self._search(form.search, workload, sweep, exclude)
        if self.problems or form is None:
            return None
        return Suite(
            schema=form.schema_version,
            name=form.name,
            question=form.question,
            workload=form.workload,
            defaults=arms.data["defaults"],
            shorthands=arms.data["shorthands"],
            subjects={slot: tuple(dict.fromkeys(names)) for slot, names in (form.subjects or {}).items()},
            arms=tuple(form.arms or ()),
            ladder=tuple(form.ladder or ()),
            leave_one_out=form.leave_one_out or {},
            pairs=form.pairs or {},
            baseline=arms.baseline,
            under_test=tuple(form.under_test),
            sweep=sweep,
            search=form.search,
            exclude=tuple(exclude),
            profiles=form.profiles,
            protocol=form.protocol.protocol(trials=None if form.search is None else 1),
            threads=form.threads,
            file=self.source.file,
            places={key: self.source.place((key,)) for key in ("sweep", "exclude")},
        )

    def _add(self, key: Key, message: str, suggestion: str | None = None) -> None:
        self.problems.append(self.source.problem(key, message, suggestion))

    def _form(self) -> SuiteForm | None:
        try:
            return SuiteForm.model_validate(self._said)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                self._form_problem(detail)
            return None

    def _form_problem(self, detail: Any) -> None:
        key: Key = tuple(detail["loc"])
        self._malformed.update(map(str, key[:1]))
        if detail["type"] == "missing":
            place = self.source.place(key[:-1])
            line = place.line if len(key) > 1 else None
            self.problems.append(Problem("is missing", self.source.file, line, dotted(key)))
            return
        if detail["type"] == "extra_forbidden":
            known = list(ProtocolForm.model_fields)
            if key[0] == "search":
                known = [field.alias or name for name, field in Search.model_fields.items()]
            elif len(key) == 1:
                known = [field.alias or name for name, field in SuiteForm.model_fields.items()]
            word = str(key[-1])
            self._add(key, f"unknown key; known: {listed(known)}", nearest(word, known))
            return
        words = _WORDS.get(detail["type"])
        message = words.format(**detail.get("ctx", {})) if words else detail["msg"][:1].lower() + detail["msg"][1:]
        named = not isinstance(detail["input"], dict | list) and detail["type"] not in {"value_error", "string_too_long"}
        self._add(key, f"{message}, not {shown(detail['input'])}" if named else message)

    def _workload(self) -> Workload | None:
        name = self._said.get("workload")
        if not isinstance(name, str):
            return None
        workload = self.catalogue.workloads.get(name)
        if workload is None:
            bad = unknown_word("workload", name, list(self.catalogue.workloads))
            self._add(("workload",), str(bad), bad.suggestion)
        return workload

    def _sweep(self, workload: Workload) -> dict[str, tuple[Any, ...]]:
        sweep = self._said.get("sweep")
        if not isinstance(sweep, dict):
            return {}
        axes = sweep_axes(workload, self.catalogue)
        found: dict[str, tuple[Any, ...]] = {}
        for name, said in sweep.items():
            key: Key = ("sweep", name)
            if name not in axes:
                self._unknown_axis(key, name, workload, axes)
                continue
            values = said if isinstance(said, list) else [said]
            if not values:
                self._add(key, "is empty; give at least one value, or leave the axis out")
            kept: dict[str, Any] = {}
            for index, value in enumerate(values):
                where = (*key, index) if isinstance(said, list) else key
                kept.update((repr(entry), entry) for entry in self._values(where, axes[name], value, workload, axes))
            found[name] = tuple(kept.values())
        missing = [
            axis.name for axis in axes.values() if axis.required and axis.name not in sweep and not self._searched(axis, workload)
        ]
        if missing and self.complete:
            self._add(("sweep",), f"says nothing about {', '.join(missing)}, and {workload.name} has no default for that")
        return found

    def _unknown_axis(self, key: Key, name: str, workload: Workload, axes: Mapping[str, Axis]) -> None:
        if name == "model":
            self._add(key, f"{workload.name} takes no model; its axes: {listed(list(axes))}")
            return
        if name == "dtype":
            self._add(key, f"the dtype of {workload.name} follows from the slot {workload.dtype_slot}; leave it out")
            return
        shown_key = self.source.place(key).key
        layered = not shown_key.startswith("sweep")
        known = [*axes, *workload.slots, *workload.shorthands, *MAPPINGS, *WHOLES] if layered else list(axes)
        bad = unknown_word("axis", name, list(axes))
        self._add(key, str(bad), nearest(name, known))

    def _searched(self, axis: Axis, workload: Workload) -> bool:
        """Whether the suite searches this axis, or may mean to with a name that cannot be searched."""
        search = self._said.get("search")
        if not isinstance(search, dict):
            return False
        return search.get("axis") == axis.name if search.get("axis") in searchable(workload) else axis.type is int

    def _search(self, search: Search, workload: Workload, sweep: Mapping[str, Any], exclude: Sequence[Mapping[str, Any]]) -> None:
        known = sweep_axes(workload, self.catalogue)
        axes = {name: known.get(name) or dimension_axis(name) for name in searchable(workload)}
        name = search.axis
        if name not in axes:
            bad = unknown_word("whole number to search", name, list(axes))
            self._add(("search", "axis"), str(bad), bad.suggestion)
            return
        for key, value in (("from", search.start), ("to", search.stop)):
            try:
                axes[name].convert(value)
            except BadValue as error:
                self._add(("search", key), str(error))
        if name in sweep:
            self._add(("sweep", name), f"{name} is searched, so the sweep says nothing about it")
        if name in ("seq_len", "batch") and any(isinstance(batch, dict) for batch in sweep.get("batch", ())):
            self._add(
                ("sweep", "batch"), f"{{tokens: N}} ties the batch to seq_len, and {name} is searched; give the batch as a number"
            )
        for index, rule in enumerate(exclude):
            if name in rule:
                self._add(("exclude", index, name), f"{name} is searched, so no rule can name it; search.to ends the search")

    def _values(self, key: Key, axis: Axis, value: Any, workload: Workload, axes: Mapping[str, Axis]) -> list[Any]:
        """The typed values that one entry of an axis stands for; none, and a problem, where it is wrong."""
        try:
            if isinstance(value, dict) and axis.name == "batch" and "seq_len" in axes:
                return self._tokens(key, value)
            if isinstance(value, dict) and axis.name == "model":
                return self._varied_model(key, value, workload)
            if axis.name == "model" and isinstance(value, str) and value not in self.catalogue.models:
                if (file := config_file(value)) is None:
                    if "/" in value:
                        raise BadValue(
                            f"unknown model {shown(value)}: no config.json is there; name the file, or the folder that holds it"
                        )
                    raise unknown_word("model", value, list(self.catalogue.models))
                varied = varied_by(file, workload.dims)
                return [varied if len(varied) > 1 else varied["from"]]
            return [axis.convert(value)]
        except BadValue as error:
            self._add(key, str(error), error.suggestion)
            return []
        except SelectionError as error:
            self._add(key, str(error))
            return []

    def _tokens(self, key: Key, value: Mapping[str, Any]) -> list[Any]:
        if set(value) != {"tokens"}:
            raise BadValue("a derived batch is written {tokens: N}; the batch is then N / seq_len")
        tokens = value["tokens"] if isinstance(value["tokens"], list) else [value["tokens"]]
        if not tokens:
            raise BadValue("tokens is empty")
        axis = Axis("tokens", int, minimum=1)
        return [{"tokens": axis.convert(number)} for number in tokens]

    def _varied_model(self, key: Key, value: Mapping[str, Any], workload: Workload) -> list[Any]:
        name = value.get("from")
        if not isinstance(name, str):
            raise BadValue("a varied model is written {from: NAME, FIELD: [VALUES]}")
        if name not in self.catalogue.models:
            raise unknown_word("model", name, list(self.catalogue.models))
        varied: dict[str, Any] = {"from": name}
        for field, said in value.items():
            if field == "from":
                continue
            if field not in workload.dims:
                known = list(workload.dims)
                message = f"{workload.name} does not depend on {shown(field)}; it takes {listed(known)} of a model"
                self._add((*key, field), message, nearest(field, known))
                continue
            numbers = said if isinstance(said, list) else [said]
            if not numbers:
                self._add((*key, field), "is empty; give at least one value")
            kept = []
            for number in numbers:
                try:
                    kept.append(dimension_axis(field).convert(number))
                except BadValue as error:
                    self._add((*key, field), str(error))
            varied[field] = list(dict.fromkeys(kept))
        return [varied] if len(varied) > 1 else [name]

    def _exclude(self, workload: Workload) -> list[dict[str, Any]]:
        rules = self._said.get("exclude")
        if not isinstance(rules, list):
            return []
        axes = selection_axes(workload, self.catalogue)
        found = []
        for index, rule in enumerate(rules):
            key: Key = ("exclude", index)
            if not isinstance(rule, dict):
                continue
            if not rule:
                self._add(key, "an empty rule would exclude everything")
            typed = {}
            for name, condition in rule.items():
                if name not in axes:
                    bad = unknown_word("axis", name, list(axes))
                    self._add((*key, name), str(bad), bad.suggestion)
                    continue
                with contextlib.suppress(_Reported):
                    typed[name] = self._condition((*key, name), axes[name], condition)
            found.append(typed)
        return found

    def _condition(self, key: Key, axis: Axis, condition: Any) -> Any:
        if not isinstance(condition, dict):
            return self._operand(key, axis, condition, many=isinstance(condition, list))
        if not condition:
            self._add(key, f"says nothing; operators: {listed(list(OPERATORS))}")
        typed = {}
        for operator, operand in condition.items():
            where = (*key, operator)
            if operator not in OPERATORS:
                bad = unknown_word("operator", operator, list(OPERATORS))
                self._add(where, str(bad), bad.suggestion)
            elif operator in _ORDERING and axis.type in (str, bool):
                self._add(where, f"{axis.name} has no order, so {operator} says nothing about it")
            elif operator == "in" and not isinstance(operand, list):
                self._add(where, "takes a list")
            else:
                loose = Axis(axis.name, axis.type) if operator in _ORDERING else axis
                typed[operator] = self._operand(where, loose, operand, many=operator == "in")
        return typed

    def _operand(self, key: Key, axis: Axis, operand: Any, *, many: bool) -> Any:
        if many and not operand:
            self._add(key, "is empty")
            raise _Reported
        values = []
        for index, value in enumerate(operand if many else [operand]):
            try:
                values.append(axis.convert(value))
            except BadValue as error:
                self._add((*key, index) if many else key, str(error), error.suggestion)
        if not values:
            raise _Reported
        return values if many else values[0]


class _Reported(Exception):
    """A condition whose mistake is already among the problems."""


SEARCHED_DIMS = ("layers",)
"""Fields of a model shape that any whole number makes a model of, so that they can be searched."""


def searchable(workload: Workload) -> list[str]:
    """What can be searched: parameters that are whole numbers in every case, and the number of a model's layers."""
    params = [param.name for param in workload.params if param.type is int and param.only_where is None]
    return [*params, *(name for name in SEARCHED_DIMS if name in workload.dims)]


def collected(problems: Sequence[Problem]) -> SuiteError:
    """One error with each problem once, at most `MAX_PROBLEMS`: what was just typed first, then in the order of the file's lines."""
    once = sorted(dict.fromkeys(problems), key=lambda problem: (problem.file != SETTING, problem.line or 0))
    if len(once) > MAX_PROBLEMS:
        once = [*once[:MAX_PROBLEMS], Problem(f"and {len(once) - MAX_PROBLEMS} more", once[0].file)]
    return SuiteError(once)


def shape_dims(shape: ModelShape, workload: Workload) -> dict[str, Any]:
    """The dimensions that the workload takes of a shape. Raises BadValue where the shape has none of that name."""
    dims = shape.dims()
    for name in workload.dims:
        if name not in dims:
            raise BadValue(f"{workload.name} needs {name}, which model shapes do not have")
    return {name: dims[name] for name in workload.dims}


def _as_list(key: str, value: Any) -> Any:
    """Where the form takes a list, one word alone stands for a list of one."""
    if key == "subjects" and isinstance(value, dict):
        return {slot: [names] if isinstance(names, str) else names for slot, names in value.items()}
    if key == "under_test" and isinstance(value, str):
        return [value]
    return value
