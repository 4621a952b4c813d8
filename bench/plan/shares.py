"""What a way of sharing a step tells its moments: what lies on each GPU, which buffers come on top when, what stays of gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from bench.plan.residents import Residents
from bench.plan.terms import Moment, Term


class Leaves(Enum):
    """What the backward of a part leaves of its weights' gradients until the update."""

    WHOLE = "whole"
    NOTHING = "nothing"
    """Each goes into a buffer as it comes, which is counted apart."""
    SHARES = "shares"
    """A unit's gradients stay whole until all of them are there; then a share of them is left."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A moment in a backward at which a buffer of gradients is sent: when the `nth` gradient of a place has come (`buckets.py`)."""

    place: int
    nth: int
    terms: tuple[Term, ...]
    """All buffers that are there then."""
    size_bytes: int = field(init=False)
    """Of them, summed once: searches ask for it again and again."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size_bytes", sum(term.size_bytes for term in self.terms))


@dataclass(frozen=True, slots=True)
class Sharding:
    """How one step is shared, as one of the GPUs sees it: the one that needs most."""

    residents: Residents
    updates: tuple[Moment, ...]
    """From the end of the backward on."""
    during: Mapping[str, tuple[Term, ...]]
    """Buffers by moment: a phase, a phase and a part (`backward:loss`), or one of the moments between parts: before a part, when what it
    needs is gathered (`gather:`), and after its backward, when its gradients are sent (`scatter:`). A single layer is a number."""
    leaves: Leaves
    share: tuple[int, int] = (1, 1)
    """Under SHARES: what is left of a byte of whole gradients, as a fraction."""
    ends_wait: bool = False
    """Under SHARES: whether what is not in a layer is one unit, whose gradients wait for the embedding's."""
    sent: tuple[Sent, ...] = ()
    """Under NOTHING."""

    def at(self, *moments: str) -> tuple[Term, ...]:
        """Buffers of the first of these moments that has any of its own."""
        return next((self.during[moment] for moment in moments if moment in self.during), ())

    def layers_apart(self, phase: str) -> set[int]:
        """Layers that have buffers of their own in a phase."""
        numbers = (moment.partition(":")[2] for moment in self.during if moment.startswith(f"{phase}:"))
        return {int(number) for number in numbers if number.isdecimal()}


def one_of(ranks: int, formula: str) -> str:
    """The formula of one rank's share."""
    return formula if ranks == 1 else f"({formula})/{ranks}"


def shared_out(terms: tuple[Term, ...], ranks: int, category: str) -> tuple[Term, ...]:
    """Terms of a category divided among ranks."""
    return tuple(
        replace(term, size_bytes=-(-term.size_bytes // ranks), formula=one_of(ranks, term.formula))
        if term.category == category
        else term
        for term in terms
    )


def moved_out(terms: tuple[Term, ...], category: str) -> tuple[Term, ...]:
    """Without those of a category."""
    return tuple(term for term in terms if term.category != category)


def moments_of(moments: Mapping[str, tuple[Term, ...]], phase: str = "optimizer") -> tuple[Moment, ...]:
    """Moments of a phase that no part of the model is at work in, by name."""
    return tuple(
        Moment(name, phase, tuple(replace(term, phase=phase) for term in terms if term.size_bytes))
        for name, terms in moments.items()
    )
