"""Puts the parts of a step together: what is resident, what grows through forward and backward, and which moment is the highest.

A step is a chain: embedding, layers, last norm, loss. Going forward each part leaves what it saves; going backward each takes that away and
leaves gradients of weights. So at a part, what is alive is

    resident + what the parts before have saved + what this part does by itself (its tape's highest) + gradients of the parts behind

and of equal layers the first and the last are the highest ones of each kind. With accumulation the gradients of all weights are there
from the second micro-batch on, and new ones are added to them in place.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from bench.plan.alike import Alike
from bench.plan.buckets import EMBEDDING, END
from bench.plan.dims import Dims
from bench.plan.layer import INPUT, decoder_layer, dims_of, last_norm
from bench.plan.loss import loss
from bench.plan.residents import CUBLAS_BYTES, Residents, residents
from bench.plan.rounding import slack_bytes
from bench.plan.sharding import sharded
from bench.plan.shares import Leaves, Sharding
from bench.plan.sources import source_of
from bench.plan.spec import ModelSpec, TrainSpec
from bench.plan.tape import CHECKPOINT, GRADIENT, SAVED, Alive, Replay, Tape
from bench.plan.terms import Moment, Term

_SIZE = attrgetter("size")


def _in_its_phase(moment: Moment) -> Moment:
    """Its terms as of its phase."""
    return replace(
        moment, terms=tuple(term if term.phase == moment.phase else replace(term, phase=moment.phase) for term in moment.terms)
    )


@dataclass(frozen=True, slots=True)
class Target:
    """For what is predicted: kernels and habits of a CUDA device, or of another tool that counts."""

    cuda: bool = True
    """Whether kernels have CUDA's workspaces."""
    workspace_bytes: int = CUBLAS_BYTES
    """Of each handle of cuBLAS, a constant of the device."""
    in_place: bool = True
    """Whether autograd adds gradients in place; under a dispatcher's tracker it does not."""


@dataclass(frozen=True, slots=True)
class _Part:
    name: str
    count: int
    forward: Replay
    backward: Replay
    accumulated: Replay
    """The backward where gradients are there already; the same as `backward` where there is one micro-batch only."""
    cached: tuple[Alive, ...]
    """Left by the forward until that of the whole model ends."""
    offloaded: int = 0
    """Bytes that each leaves in the host's memory."""


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A moment of which only the sum is known yet: most are not the highest, and need no terms."""

    name: str
    phase: str
    size: int
    terms: tuple[Term, ...]
    left: Sequence[Sequence[Alive]]
    alive: tuple[Alive, ...]


class Step:
    """All moments of one step on one GPU."""

    def __init__(self, model: ModelSpec, train: TrainSpec, target: Target, alike: Alike | None = None) -> None:
        """`alike`: shared with other steps of the model on the target."""
        if target.cuda:
            train.demand_kernels_of_cuda()
        self.model, self.train, self.target = model, train, target
        self.dims: Dims = dims_of(model, train)
        self._alike = alike or Alike()
        self.sharding: Sharding = self._alike.sharding(train, self.dims, self._sharding)
        self.residents: Residents = self.sharding.residents
        self._shares: dict[int, tuple[Alive, ...]] = {}
        self.layers: list[_Part] = self._layers()
        norm = self._alike.tape("last norm", train, lambda: last_norm(model, train, self.dims, cuda=target.cuda))
        self.norm = self._part("last norm", norm, 1)
        self.loss = self._part("loss", self._alike.tape("loss", train, lambda: loss(model, train, self.dims, cuda=target.cuda)), 1)

    def _sharding(self) -> Sharding:
        workspace_bytes = self.target.workspace_bytes if self.target.cuda else 0
        whole = residents(self.model, self.train, self.dims, workspace_bytes=workspace_bytes)
        return sharded(self.model, self.train, whole, cuda=self.target.cuda)

    def _layers(self) -> list[_Part]:
        """Equal layers share one part. Without checkpoints the first differs where the embedding is frozen."""
        every = {"none": 0, "every_second": 2}.get(self.train.checkpointing, 1)

        def made(index: int, first: bool) -> _Part:
            def decoder() -> Tape:
                return decoder_layer(self.model, self.train, self.dims, cuda=self.target.cuda, first=first)

            tape = self._alike.tape("first layer" if first else "layer", self.train, decoder)
            return self._checkpointed(tape) if every and index % every == 0 else self._part("layer", tape, self.model.layers)

        kinds = [made(index, False) for index in range(max(1, every))]
        layers = [kinds[index % len(kinds)] for index in range(self.model.layers)]
        if self.train.adaptation != "full" and not every:  # a checkpointed first layer is made to hand a gradient back
            layers[0] = made(0, True)
        return layers

    def _part(self, name: str, tape: Tape, count: int) -> _Part:
        place = self.target.in_place
        backward = tape.backward(in_place=place)
        accumulated = tape.backward(in_place=place, accumulated=True) if self._adds else backward
        return _Part(name, count, tape.forward(saving=True), backward, accumulated, ())

    def _checkpointed(self, tape: Tape) -> _Part:
        keeping, place = self.train.checkpointing == "selective", self.target.in_place
        forward = tape.forward(saving=False, keeping=keeping)
        kept = Alive(tape.source.name, tape.source.size, tape.source.formula, "checkpoint", CHECKPOINT)
        left, offloaded = (kept, *forward.left), 0
        if self.train.checkpointing == "full_offloaded":
            left, offloaded = (), kept.size
        cached = tuple(Alive(of.name, of.size, of.formula, of.part, SAVED) for of in tape.cached)
        backward = tape.backward(in_place=place, again=True, kept=keeping)
        accumulated = backward
        if self._adds:
            accumulated = tape.backward(in_place=place, again=True, kept=keeping, accumulated=True)
        return _Part("layer", self.model.layers, replace(forward, left=left), backward, accumulated, cached, offloaded)

    @property
    def _adds(self) -> bool:
        """Whether some backward lets go of each gradient of a weight at once: added to one that is there, or copied into a buffer."""
        return self.train.accumulation > 1 or self.sharding.leaves is Leaves.NOTHING

    @property
    def host_bytes(self) -> int:
        """Activations in the host's memory."""
        return sum(part.offloaded for part in self.layers)

    def moments(self) -> tuple[Moment, ...]:
        """The highest of each phase, in the order of the step."""
        highest: dict[str, _Candidate] = {}
        for candidate in self._candidates():
            if candidate.phase not in highest or candidate.size > highest[candidate.phase].size:
                highest[candidate.phase] = candidate
        found = {phase: self._moment(candidate) for phase, candidate in highest.items()}
        for moment in self.sharding.updates:
            if moment.phase not in found or moment.size_bytes > found[moment.phase].size_bytes:
                found[moment.phase] = moment
        return tuple(map(_in_its_phase, found.values()))

    def highest_bytes(self) -> int:
        """The peak, without the allocator's rounding."""
        update = max(moment.size_bytes for moment in self.sharding.updates)
        return max(update, *(candidate.size for candidate in self._candidates()))

    def _candidates(self) -> list[_Candidate]:
        found = [*self._micro_batch(accumulated=False)]
        if self.train.accumulation > 1:
            found += self._micro_batch(accumulated=True)
        return found

    def _micro_batch(self, *, accumulated: bool) -> Iterable[_Candidate]:
        where = ", gradients accumulated" if accumulated else ""
        resident = self.residents.terms + (self.residents.gradients if accumulated else ())
        chain, before = [*self.layers, self.norm], self._before() if accumulated else []
        yield from self._forward(resident, chain, where, before)
        saved = [part.forward.left for part in chain]
        yield self._candidate("loss" + where, "loss", resident, saved, self.loss.forward, [*self._shared(), *before], "loss")
        yield from self._backward(resident, chain, where, accumulated)

    def _forward(
        self, resident: tuple[Term, ...], chain: Sequence[_Part], where: str, before: Sequence[Alive]
    ) -> Iterable[_Candidate]:
        """At the layers that can be the highest: the last of each kind, and the last norm."""
        last = {id(part): index for index, part in enumerate(chain)}
        of_first = any(alive.name == INPUT for alive in chain[0].forward.left)
        held = Alive("embedding output", self.dims.size("x·h·t"), "x·h·t", "embedding", "temporary")
        gathered = {0} if "gather:first layer" in self.sharding.during else set()
        for index in sorted({*last.values(), *gathered, *self.sharding.layers_apart("forward")}):
            saved = [part.forward.left for part in chain[:index]] + [part.cached for part in chain[:index]]
            shared = [*self._shared(), *before, *([] if index == 0 or of_first else [held])]
            name = f"{chain[index].name} {index + 1}{where}"
            part = self._place(index)
            yield self._candidate(name, "forward", resident, saved, chain[index].forward, shared, part, index)
            yield from self._between("gather", f"weights of {name} gathered", "forward", resident, saved, part)

    def _backward(self, resident: tuple[Term, ...], chain: Sequence[_Part], where: str, accumulated: bool) -> Iterable[_Candidate]:
        parts = [*chain, self.loss]
        kinds: dict[int, list[int]] = {}
        for index, part in enumerate(parts):
            kinds.setdefault(id(part), []).append(index)
        ends = {place for places in kinds.values() for place in (places[0], places[-1])}
        for index in sorted(ends | self.sharding.layers_apart("backward")):
            part = parts[index]
            left = [other.forward.left for other in parts[:index]] + self._behind(parts[index + 1 :], accumulated)
            name = part.name if part.count == 1 else f"{part.name} {index + 1}"
            replay = part.accumulated if self._adds_at_once(accumulated) else part.backward
            place = self._place(index)
            yield self._candidate(f"backward of {name}{where}", "backward", resident, left, replay, self._shared(), place, index)
            if part is self.loss:
                kept = [*left, part.forward.left]
                yield from self._between("gather", f"weights of {name} gathered{where}", "backward", resident, kept, place)
            sent = [other.forward.left for other in parts[:index]] + self._behind(parts[index + 1 :], accumulated, sent=True)
            yield from self._between("scatter", f"gradients of {name} sent{where}", "backward", resident, sent, place)
        behind = self._behind(parts, accumulated)
        yield self._candidate(f"backward of the embedding{where}", "backward", resident, behind, self._embedding(), [], "embedding")
        sent = self._behind(parts, accumulated, sent=True)
        yield from self._between("scatter", f"gradients of the embedding sent{where}", "backward", resident, sent, "embedding")
        yield from self._sent(resident, parts, where, accumulated)

    def _sent(self, resident: tuple[Term, ...], parts: Sequence[_Part], where: str, accumulated: bool) -> Iterable[_Candidate]:
        """Moments within parts at which a bucket of gradients is sent."""
        for sent in self.sharding.sent:
            left: list[tuple[Alive, ...]] = []
            alive: tuple[Alive, ...] = ()
            if sent.place == END:
                name = "the last bucket sent"
            elif sent.place == EMBEDDING:
                name, alive = "bucket sent before the embedding's gradient", self._embedding().left
            else:
                part = parts[sent.place]
                name = f"bucket sent in the backward of {part.name} {sent.place + 1}"
                alive = (part.accumulated if self._adds_at_once(accumulated) else part.backward).arrived[sent.nth]
                left = [other.forward.left for other in parts[: sent.place]]
            terms, shared = (*resident, *sent.terms), tuple(self._shared() if sent.place >= 0 else ())
            size = sum(term.size_bytes for term in terms) + _bytes([*left, alive, shared])
            yield _Candidate(f"{name}{where}", "backward", size, terms, left, (*alive, *shared))

    def _place(self, index: int) -> str:
        """Of a part in the chain, as `Sharding.during` names it."""
        count = self.model.layers
        if index >= count:
            return "last norm" if index == count else "loss"
        return "last layer" if index == count - 1 else "first layer" if index == 0 else "layer"

    def _between(
        self, kind: str, name: str, phase: str, resident: tuple[Term, ...], left: Sequence[Sequence[Alive]], place: str
    ) -> Iterable[_Candidate]:
        """A moment at which no part is at work, if there is one in this place."""
        during = self.sharding.at(f"{kind}:{place}", *((f"{kind}:layer",) if place.endswith("layer") else ()))
        if during:
            terms = (*resident, *during)
            shared = self._shared()
            size = sum(term.size_bytes for term in terms) + _bytes([*left, shared])
            yield _Candidate(name, phase, size, terms, left, tuple(shared))

    def _behind(self, parts: Sequence[_Part], accumulated: bool, *, sent: bool = False) -> list[tuple[Alive, ...]]:
        """Gradients that whole parts have left; `sent`: where those of the part before them are being sent, and are counted there."""
        if self._adds_at_once(accumulated):
            return []
        if self.sharding.leaves is Leaves.WHOLE:
            return [part.backward.left for part in parts]
        ends = [part for part in parts if part.name != "layer"]
        waiting = ends if self.sharding.ends_wait or len(parts) == 1 else []
        # From the second micro-batch on shares are added to those that are there, which are resident.
        shares = [] if accumulated else [self._share(part) for part in parts if part.name == "layer" or not waiting]
        counted_there = sent and (not self.sharding.ends_wait or len(parts) > self.model.layers)
        return shares if counted_there else [*(part.backward.left for part in waiting), *shares]

    def _adds_at_once(self, accumulated: bool) -> bool:
        """Whether a gradient is gone as soon as it is made. Units of fully_shard hold theirs in each micro-batch anew."""
        leaves = self.sharding.leaves
        return leaves is Leaves.NOTHING or (accumulated and leaves is Leaves.WHOLE)

    def _share(self, part: _Part) -> tuple[Alive, ...]:
        """What is left of a unit's gradients once they are shared out."""
        if id(part) not in self._shares:
            share, of = self.sharding.share
            self._shares[id(part)] = tuple(
                replace(alive, size=-(-alive.size * share // of), formula=f"({alive.formula})·{share}/{of}")
                for alive in part.backward.left
            )
        return self._shares[id(part)]

    def _embedding(self) -> Replay:
        outer = Alive("gradient of embedding output", self.dims.size("x·h·t"), "x·h·t", "embedding", "temporary")
        if self.train.adaptation != "full":
            return Replay(outer.size, (outer,), ())
        of_weight = Alive("gradient of embedding", self.dims.size("w·V·h"), "w·V·h", "embedding", GRADIENT)
        made = [outer, of_weight]
        if self.model.tied_embeddings and not self.target.in_place:
            made = [of_weight, Alive("sum of both gradients of the embedding", of_weight.size, "w·V·h", "embedding", "temporary")]
            made += [outer] * (outer.size > of_weight.size)
        return Replay(sum(alive.size for alive in made), tuple(made), (of_weight,))

    def _shared(self) -> list[Alive]:
        """What all layers share: angles of the rotation."""
        return [Alive("cos and sin of positions", self.dims.size("2·x·d·s"), "2·x·d·s", "rope", SAVED)]

    def _before(self) -> list[Alive]:
        """What the micro-batch before has left until its loss is let go of: a frozen embedding's output is a leaf, with a gradient."""
        if self.train.adaptation == "full" or self.train.checkpointing == "none":
            return []
        names = ("embedding output of the micro-batch before", "its gradient")
        return [Alive(name, self.dims.size("x·h·t"), "x·h·t", "embedding", "temporary") for name in names]

    def _candidate(
        self,
        name: str,
        phase: str,
        resident: tuple[Term, ...],
        left: Sequence[Sequence[Alive]],
        replay: Replay,
        shared: Sequence[Alive],
        place: str,
        index: int | None = None,
    ) -> _Candidate:
        kinds = (f"{phase}:{index}", f"{phase}:{place}", *((f"{phase}:layer",) if place.endswith("layer") else ()))
        during = self.sharding.at(*kinds, "last" if place == "embedding" else phase)
        size = sum(term.size_bytes for term in (*resident, *during)) + replay.highest
        size += _bytes([*left, shared])
        return _Candidate(name, phase, size, (*resident, *during), left, (*replay.at_highest, *shared))

    def _moment(self, of: _Candidate) -> Moment:
        counts = _sum([*of.left, of.alive])
        terms = [*of.terms, *(self._term(alive, count, of.phase) for alive, count in counts.items())]
        if self.target.cuda:
            slack = sum(slack_bytes(alive.size) * count for alive, count in counts.items())
            terms.append(
                Term("rounding", of.phase, "allocator_slack", slack, "up to 512 bytes each", "c10/cuda/CUDACachingAllocator")
            )
        return Moment(of.name, of.phase, tuple(replace(term, phase=of.phase) for term in terms if term.size_bytes))

    def _term(self, alive: Alive, count: int, phase: str) -> Term:
        formula = alive.formula if count == 1 else f"{count}·({alive.formula})"
        return Term(
            f"{alive.part}: {alive.name}", phase, self._category(alive, phase), alive.size * count, formula, source_of(alive.part)
        )

    def _category(self, alive: Alive, phase: str) -> str:
        """As a measured peak is split: what the loss's backward makes is a temporary, and what a checkpointed layer computes again is too.

        The last weight's gradient, where it is the embedding's too and no cast of it, becomes one with the embedding's part of it only.
        """
        if alive.kind == CHECKPOINT:
            return "checkpoints"
        waits = self.model.tied_embeddings and not self.train.numerics.autocast
        if alive.kind == GRADIENT and alive.part == "loss" and waits:
            return "temporaries" if self.train.linear_cross_entropy == "eager" else "loss"
        if alive.kind == GRADIENT:
            return "gradients"
        if alive.part == "loss" and (phase == "loss" or alive.kind == SAVED):
            return "loss"
        return "saved_activations" if alive.kind == SAVED else "temporaries"


def _bytes(groups: Sequence[Sequence[Alive]]) -> int:
    """Of all that is in them. Equal layers leave the same group, which is summed once."""
    known: dict[int, int] = {}
    total = 0
    for group in groups:
        key = id(group)
        if key not in known:
            known[key] = sum(map(_SIZE, group))
        total += known[key]
    return total


def _sum(groups: Iterable[Sequence[Alive]]) -> dict[Alive, int]:
    """How often each occurs."""
    counts: dict[Alive, int] = {}
    for group in groups:
        for alive in group:
            counts[alive] = counts.get(alive, 0) + 1
    return counts
