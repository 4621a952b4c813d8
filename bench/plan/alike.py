"""What steps of one model have in common, made once: searches ask for the peaks of hundreds that differ in little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from bench.plan.dims import Dims
from bench.plan.residents import of_tokens
from bench.plan.shares import Sharding
from bench.plan.spec import TrainSpec
from bench.plan.tape import Tape
from bench.plan.terms import Term

if TYPE_CHECKING:
    from bench.plan.parts import Chain

NOT_IN_TAPES = frozenset({"checkpointing", "sharding", "offload", "optimizer", "world_size", "zero", "clip_norm"})
"""What no part of the model knows of: it is what is done with the parts."""
TOKENS = ("seq_len", "batch")
"""What nothing that lies on a GPU from step to step depends on, beside the terms of tokens."""
NOT_SHARED = frozenset({*TOKENS, "checkpointing"})
"""What no sharding knows of; but stage 3 fetches weights again for a layer that is computed again."""

_of_tapes = attrgetter(*(field.name for field in fields(TrainSpec) if field.name not in NOT_IN_TAPES))
_of_residents = attrgetter(*(field.name for field in fields(TrainSpec) if field.name not in NOT_SHARED))
_of_tokens = attrgetter(*TOKENS)


class Alike:
    """For steps of one model on one target; equal ones get the same tapes, with what these have replayed."""

    def __init__(self) -> None:
        self._tapes: dict[tuple[object, ...], Tape] = {}
        self._shardings: dict[tuple[object, ...], Sharding] = {}
        self._fitted: dict[tuple[object, ...], Sharding] = {}
        self._chains: dict[tuple[object, ...], Chain] = {}

    def tape(self, part: str, train: TrainSpec, make: Callable[[], Tape]) -> Tape:
        """That of a part of the model."""
        key = (part, *_of_tapes(train))
        if key not in self._tapes:
            self._tapes[key] = make()
        return self._tapes[key]

    def chain(self, train: TrainSpec, gone: tuple[bool, bool], make: Callable[[], Chain]) -> Chain:
        """All parts of the model, with what their tapes have replayed; `gone` says in which way."""
        key = (train.checkpointing, gone, *_of_tapes(train))
        if key not in self._chains:
            self._chains[key] = make()
        return self._chains[key]

    def sharding(self, train: TrainSpec, dims: Dims, make: Callable[[], Sharding]) -> Sharding:
        """How the step is shared, with the terms of its own tokens."""
        key = (train.checkpoint_every if train.sharding == "zero3" else 0, *_of_residents(train))
        exact = (*key, *_of_tokens(train))
        if exact not in self._fitted:
            if key not in self._shardings:
                self._shardings[key] = make()
            self._fitted[exact] = _fitted(self._shardings[key], train, dims)
        return self._fitted[exact]


def _fitted(known: Sharding, train: TrainSpec, dims: Dims) -> Sharding:
    """With the terms of other tokens."""
    own = {term.name: term.size_bytes for term in of_tokens(train, dims)}

    def fitted(terms: tuple[Term, ...]) -> tuple[Term, ...]:
        return tuple(replace(term, size_bytes=own[term.name]) if term.name in own else term for term in terms)

    updates = tuple(replace(moment, terms=fitted(moment.terms)) for moment in known.updates)
    return replace(known, residents=replace(known.residents, terms=fitted(known.residents.terms)), updates=updates)
