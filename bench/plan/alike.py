"""What steps of one model have in common, made once: searches ask for the peaks of hundreds that differ in little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from operator import attrgetter

from bench.plan.dims import Dims
from bench.plan.residents import of_tokens
from bench.plan.shares import Sharding
from bench.plan.spec import TrainSpec
from bench.plan.tape import Tape
from bench.plan.terms import Term

NOT_IN_TAPES = frozenset({"checkpointing", "sharding", "offload", "optimizer", "world_size", "zero", "clip_norm"})
"""What no part of the model knows of: it is what is done with the parts."""
NOT_RESIDENT = frozenset({"seq_len", "batch"})
"""What nothing that lies on a GPU from step to step depends on, beside the terms of tokens."""

_of_tapes = attrgetter(*(field.name for field in fields(TrainSpec) if field.name not in NOT_IN_TAPES))
_of_residents = attrgetter(*(field.name for field in fields(TrainSpec) if field.name not in NOT_RESIDENT))


class Alike:
    """For steps of one model on one target; equal ones get the same tapes, with what these have replayed."""

    def __init__(self) -> None:
        self._tapes: dict[tuple[object, ...], Tape] = {}
        self._shardings: dict[tuple[object, ...], Sharding] = {}

    def tape(self, part: str, train: TrainSpec, make: Callable[[], Tape]) -> Tape:
        """That of a part of the model."""
        key = (part, *_of_tapes(train))
        if key not in self._tapes:
            self._tapes[key] = make()
        return self._tapes[key]

    def sharding(self, train: TrainSpec, dims: Dims, make: Callable[[], Sharding]) -> Sharding:
        """How the step is shared, with the terms of its own tokens."""
        key = _of_residents(train)
        if key not in self._shardings:
            self._shardings[key] = make()
            return self._shardings[key]
        known, own = self._shardings[key], {term.name: term.size_bytes for term in of_tokens(train, dims)}

        def fitted(terms: tuple[Term, ...]) -> tuple[Term, ...]:
            return tuple(replace(term, size_bytes=own[term.name]) if term.name in own else term for term in terms)

        updates = tuple(replace(moment, terms=fitted(moment.terms)) for moment in known.updates)
        return replace(known, residents=replace(known.residents, terms=fitted(known.residents.terms)), updates=updates)
